"""Signals that ask a program to end."""

from __future__ import annotations

import signal
import threading

import pytest

from aaams_stream.run.interrupt import handling, noting_ctrl_c


def test_ctrl_c_is_noted_once_and_goes_through_the_second_time():
    before = signal.getsignal(signal.SIGINT)
    with noting_ctrl_c() as ctrl_c:
        assert not ctrl_c.pressed
        signal.raise_signal(signal.SIGINT)
        assert ctrl_c.pressed
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_noted_in_one_run_is_not_in_the_next():
    with noting_ctrl_c():
        signal.raise_signal(signal.SIGINT)
    with noting_ctrl_c() as ctrl_c:
        assert not ctrl_c.pressed


def test_handler_is_put_back_after_an_error():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), handling(signal.SIGTERM, signal.default_int_handler):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_handlers_stay_as_they_are_in_other_threads():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with noting_ctrl_c() as ctrl_c:
            seen.append((signal.getsignal(signal.SIGINT), ctrl_c.pressed))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]

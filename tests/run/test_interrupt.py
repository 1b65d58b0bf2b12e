"""Signals that ask a program to end."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from aaams_stream.run.interrupt import Stopped, handling, noting_stop, raising_stop

POLITE = [signal.SIGTERM] + [signal.SIGHUP] * hasattr(signal, "SIGHUP")
ALL = [signal.SIGINT, *POLITE]


def handlers():
    return [signal.getsignal(number) for number in ALL]


@pytest.mark.parametrize("number", ALL)
def test_a_signal_is_noted_and_a_later_ctrl_c_goes_through(number):
    before = handlers()
    with noting_stop() as stop:
        assert not stop.asked
        signal.raise_signal(number)
        assert (stop.asked, stop.number) == (True, number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert handlers() == before


def test_signals_other_than_ctrl_c_are_noted_however_often_they_come():
    """A terminal that closes sends SIGHUP twice, and a service manager may send both."""
    with noting_stop() as stop:
        for number in POLITE * 3:
            signal.raise_signal(number)
        assert stop.number == POLITE[0]


def test_what_was_noted_in_one_run_is_not_in_the_next():
    with noting_stop():
        signal.raise_signal(signal.SIGINT)
    with noting_stop() as stop:
        assert not stop.asked


@pytest.mark.parametrize("number", POLITE)
def test_a_signal_raises_once_with_the_code_a_shell_expects(number):
    before = handlers()
    with raising_stop():
        with pytest.raises(Stopped) as stopped:
            signal.raise_signal(number)
        signal.raise_signal(number)  # while everything is tidied up
    assert stopped.value.code == 128 + number
    assert handlers() == before


def test_a_run_within_a_command_notes_what_the_command_would_raise():
    with raising_stop():
        with noting_stop() as stop:
            signal.raise_signal(signal.SIGTERM)
            assert stop.asked
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("number", POLITE)
@pytest.mark.parametrize("taken", [signal.SIG_IGN, lambda number, frame: None])
def test_a_signal_that_is_ignored_or_handled_by_others_stays_so(number, taken):
    """As after `nohup`, or in a server that has a word of its own for SIGTERM."""
    with handling(number, taken), noting_stop() as stop, raising_stop():
        signal.raise_signal(number)
        assert not stop.asked
        assert signal.getsignal(number) is taken


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_output_to_a_terminal_that_has_gone_is_let_go_of(monkeypatch):
    """What is printed after SIGHUP would fail, and with it the chunk at hand."""
    terminal, child = os.openpty()
    os.close(terminal)
    kept = os.dup(2)
    os.dup2(child, 2)
    os.close(child)
    try:
        with noting_stop():
            signal.raise_signal(signal.SIGHUP)
            assert os.write(2, b"finishing the chunk at hand\n") > 0
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def test_handler_is_put_back_after_an_error():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), handling(signal.SIGTERM, signal.default_int_handler):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_handlers_stay_as_they_are_in_other_threads():
    before = handlers()
    seen = []

    def work():
        with raising_stop(), noting_stop() as stop:
            seen.append((handlers(), stop.asked))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]


def test_a_signal_ends_what_is_waited_for_and_what_comes_after_it():
    def items():
        yield 0
        signal.raise_signal(signal.SIGTERM)  # while the second is awaited
        yield 1

    with noting_stop() as stop:
        assert list(stop.ending(items())) == [0]
        assert stop.number == signal.SIGTERM

    with noting_stop() as stop:
        for item in stop.ending(iter([0, 1])):
            signal.raise_signal(signal.SIGINT)  # while the first is worked with
            assert item == 0
        assert stop.asked

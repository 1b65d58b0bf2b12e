"""When the frames of a file are due; the test tells the time."""

from __future__ import annotations

import threading

from aaams_stream.live.clock import SYSTEM_CLOCK, PresentationTimes


def test_times_let_the_first_frame_begin_at_once_wherever_the_file_begins():
    times = PresentationTimes()
    assert times.seconds_until(7.5, now=100.0) == 0
    assert times.seconds_until(8.0, now=100.0) == 0.5
    assert times.seconds_until(8.0, now=100.25) == 0.25
    assert times.seconds_until(8.0, now=100.5) == 0


def test_times_catch_up_with_a_small_delay():
    times = PresentationTimes()
    times.seconds_until(0.0, now=100.0)
    assert times.seconds_until(1.0, now=101.5) == 0
    assert times.seconds_until(2.0, now=101.5) == 0.5


def test_times_begin_anew_after_a_long_delay():
    times = PresentationTimes()
    times.seconds_until(0.0, now=100.0)
    assert times.seconds_until(1.0, now=103.0) == 0
    assert times.seconds_until(2.0, now=103.0) == 1


def test_times_go_on_from_where_they_are_restarted():
    times = PresentationTimes()
    times.seconds_until(0.0, now=100.0)
    times.restart(1.0, now=150.0)
    assert times.seconds_until(1.25, now=150.0) == 0.25


def test_system_clock_waits_no_longer_than_it_is_told_and_never_runs_backwards():
    before = SYSTEM_CLOCK.now()
    changed = threading.Condition()
    with changed:
        SYSTEM_CLOCK.wait(changed, 0.001)
    assert SYSTEM_CLOCK.now() >= before

"""How far a run has come, told by a clock of the test's own."""

from __future__ import annotations

import pytest

from aaams_stream.run.progress import Tally


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def count(tally, clock, steps):
    """Count a frame after each of the given seconds, each of one segment more than the last."""
    for segments, seconds in enumerate(steps, 1):
        clock.now += seconds
        tally.add(segments, 0.5)


def test_tally_tells_no_pace_before_the_third_frame():
    clock, told = Clock(), []
    count(Tally(0, 10, told.append, clock), clock, [30.0, 5.0, 0.5])
    assert [at.fps for at in told] == [None, None, pytest.approx(2.0)]
    assert [at.seconds_left for at in told] == [None, None, pytest.approx(7 * 0.5)]
    assert [at.frames for at in told] == [1, 2, 3]


def test_tally_follows_the_pace_slowly():
    clock, told = Clock(), []
    count(Tally(0, None, told.append, clock), clock, [1.0, 1.0, 1.0, 2.0])
    assert told[-1].fps == pytest.approx(1 / 1.1)
    assert told[-1].seconds_left is None


def test_tally_has_nothing_left_when_the_estimate_is_reached_or_passed():
    clock, told = Clock(), []
    count(Tally(0, 1, told.append, clock), clock, [1.0, 1.0, 1.0])
    assert [at.seconds_left for at in told] == [0.0, 0.0, 0.0]


def test_tally_of_a_resumed_run_counts_its_own_frames():
    clock, told = Clock(), []
    tally = Tally(16, 37, told.append, clock)
    clock.now += 1000  # the compiler
    tally.start()
    count(tally, clock, [0.5, 0.5, 0.5, 0.5])
    assert [at.frames for at in told] == [17, 18, 19, 20]
    assert (tally.resumed_from, tally.fps) == (16, pytest.approx(2.0))
    assert tally.segments == (1 + 2 + 3 + 4) / 4
    assert (told[-1].segments, told[-1].warm, told[-1].stopping) == (4, 0.5, False)


def test_tally_of_nothing_is_zero():
    tally = Tally(3, None, clock=Clock())
    assert (tally.fps, tally.segments) == (0.0, 0.0)

"""How far a run has come, told by a clock of the test's own."""

from __future__ import annotations

import pytest

from aaams_stream.params import Params
from aaams_stream.run.progress import Tally, missed_count


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


@pytest.mark.parametrize(
    ("found", "scale", "said"),
    [
        (539, 0.75, "600 segments a frame were wanted, and 539 found"),
        (539, 0.75, "stream.scale=1 may show more"),
        (539, 1.0, "at its size"),
        (541, 0.75, None),
        (0, 0.75, None),  # no frame was segmented
    ],
)
def test_missed_count_tells_those_who_asked_for_more_than_there_are(found, scale, said):
    params = Params().updated({"stream": {"segments": 600, "scale": scale}})
    told = missed_count(params, found)
    assert len(told) == (said is not None)
    assert said is None or said in told[0]
    assert ("scale" in "".join(told)) == (said is not None and scale < 1)


@pytest.mark.parametrize("segments", [0, Params().stream.segments])
def test_missed_count_says_nothing_where_nobody_asked(segments):
    assert missed_count(Params().updated({"stream": {"segments": segments}}), 3.0) == ()

"""Where the time of a frame goes."""

from __future__ import annotations

from aaams_stream.core.stopwatch import no_clock, stopwatch


def test_stopwatch_adds_the_time_since_its_last_call_to_a_stage():
    moments = iter([10.0, 12.0, 12.5, 15.5, 15.5])
    seconds: dict[str, float] = {}
    clock = stopwatch(seconds, lambda: next(moments))
    assert seconds == {}
    clock("merge")
    clock("shift")
    clock("merge")
    clock("idle")
    assert seconds == {"merge": 5.0, "shift": 0.5, "idle": 0.0}


def test_stopwatch_goes_on_from_what_a_stage_took_before():
    moments = iter([1.0, 2.0])
    seconds = {"merge": 4.0}
    stopwatch(seconds, lambda: next(moments))("merge")
    assert seconds == {"merge": 5.0}


def test_stopwatches_run_beside_each_other():
    moments = iter([0.0, 1.0, 3.0, 7.0])
    one: dict[str, float] = {}
    two: dict[str, float] = {}
    first, second = (stopwatch(seconds, lambda: next(moments)) for seconds in (one, two))
    first("a")
    second("a")
    assert (one, two) == ({"a": 3.0}, {"a": 6.0})


def test_no_clock_takes_any_stage():
    no_clock("anything")

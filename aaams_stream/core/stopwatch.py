"""Where the time of a frame goes."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[str], None]


def stopwatch(seconds: dict[str, float], now: Callable[[], float] = time.perf_counter) -> Clock:
    """Return a function that adds the time since its last call to a named stage."""
    last = now()

    def clock(stage: str) -> None:
        nonlocal last
        moment = now()
        seconds[stage] = seconds.get(stage, 0.0) + moment - last
        last = moment

    return clock


def no_clock(stage: str) -> None:
    """Time nothing."""

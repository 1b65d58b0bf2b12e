"""The loop's time: a clock that tests may replace, and when the frames of a file are due."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading

_LATE = 0.5  # seconds behind its times after which a file's times begin anew


class Clock(Protocol):
    """Tells the time, and waits for it."""

    def now(self) -> float:
        """Return seconds that never run backwards."""

    def wait(self, changed: threading.Condition, seconds: float) -> None:
        """Wait on a condition that is held, for so long or until someone notifies it."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return seconds since some moment in the past."""
        return time.monotonic()

    def wait(self, changed: threading.Condition, seconds: float) -> None:
        """Wait on a condition that is held, for so long or until someone notifies it."""
        changed.wait(seconds)


SYSTEM_CLOCK = SystemClock()


class PresentationTimes:
    """When the frames of a file are due. Knows no clock: the caller tells the time."""

    def __init__(self) -> None:
        self._begin: float | None = None  # when the file's time 0 is due

    def seconds_until(self, at: float, now: float) -> float:
        """Return how long the frame of time `at` must wait; far behind, the file starts from it."""
        if self._begin is None or now - (self._begin + at) > _LATE:
            self.restart(at, now)
            return 0.0
        return max(0.0, self._begin + at - now)

    def restart(self, at: float, now: float) -> None:
        """Let the file go on from the frame of time `at`."""
        self._begin = now - at

"""A clock that a test moves by hand: nothing here depends on how fast a machine is."""

from __future__ import annotations

import threading

PATIENCE = 300.0  # seconds after which a test that hangs fails


class HandClock:
    """Stands still until told to move; whoever waits for a time is woken when it has come."""

    def __init__(self) -> None:
        self._now = 0.0
        self._awaited: dict[threading.Condition, float] = {}  # when each is due
        self._changed = threading.Condition()

    def now(self) -> float:
        return self._now

    def wait(self, changed: threading.Condition, seconds: float) -> None:
        with self._changed:
            self._awaited[changed] = self._now + seconds
            self._changed.notify_all()
        changed.wait()
        with self._changed:
            self._awaited.pop(changed, None)

    def advance(self, seconds: float) -> None:
        """Move on by so much."""
        with self._changed:
            self._now += seconds
            waiting, self._awaited = list(self._awaited), {}
        for changed in waiting:
            with changed:
                changed.notify_all()

    def advance_to_next(self) -> None:
        """Wait until someone waits for a time, and move on to it."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._awaited, PATIENCE), "nobody waits"
            seconds = min(self._awaited.values()) - self._now
        self.advance(seconds)

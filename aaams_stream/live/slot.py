"""From the reader to the compute thread: room for one frame, and a gate that pauses close."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aaams_stream.live.clock import Clock, PresentationTimes
    from aaams_stream.model import Frame


class Captured(NamedTuple):
    """A frame, and when it came in by the loop's clock."""

    frame: Frame
    at: float


class FrameSlot:
    """Holds one frame until it is taken; a newer one takes the place of one not yet taken.

    A frame whose place is taken counts as dropped, unless nobody takes any: before `open`, and in
    a pause, during which each step lets one frame through. Neither side waits for the other, but
    for a file, which waits while nobody takes and so loses nothing.
    """

    def __init__(self, clock: Clock) -> None:
        self.dropped = 0
        self.since = clock.now()  # when the last frame came, or frames began to be waited for
        self._clock = clock
        self._changed = threading.Condition()
        # what follows changes only while _changed is held
        self._waiting: Captured | None = None
        self._open = False
        self._paused = False
        self._steps = 0
        self._ended: str | None = None
        self._closed = False

    @property
    def paused(self) -> bool:
        """Whether frames wait for a step."""
        return self._paused

    @property
    def ended(self) -> str:
        """How the source ended; empty until then."""
        return self._ended or ""

    @property
    def closed(self) -> bool:
        """Whether both sides shall stop."""
        return self._closed

    def open(self) -> None:
        """Begin: from here on frames that are not taken in time are dropped."""
        with self._changed:
            self._open = True
            self.since = self._clock.now()
            self._changed.notify_all()

    def pause(self) -> None:
        """Let no frame through."""
        with self._changed:
            self._paused = True
            self._changed.notify_all()

    def step(self) -> None:
        """Pause, and let one more frame through."""
        with self._changed:
            self._paused = True
            self._steps += 1
            self._changed.notify_all()

    def resume(self) -> None:
        """Let every frame through again."""
        with self._changed:
            self._paused, self._steps = False, 0
            self.since = self._clock.now()
            self._changed.notify_all()

    def offer(self, frame: Frame) -> bool:
        """Leave a frame in the place of the one before; False once the slot is closed."""
        with self._changed:
            self.dropped += self._waiting is not None and self._flows()
            self.since = self._clock.now()
            self._waiting = Captured(frame, self.since)
            self._changed.notify_all()
            return not self._closed

    def offer_when_due(self, frame: Frame, times: PresentationTimes) -> bool:
        """Leave a file's frame at its time, or as there is room while nobody takes any.

        False once the slot is closed.
        """
        at = float(frame.time)
        with self._changed:
            while self._flows() and not self._closed:
                seconds = times.seconds_until(at, self._clock.now())
                if not seconds:
                    return self.offer(frame)
                self._clock.wait(self._changed, seconds)
            self._changed.wait_for(lambda: self._closed or self._waiting is None)
            times.restart(at, self._clock.now())
            return self.offer(frame)

    def end(self, ended: str) -> None:
        """Say that no frame follows, and why."""
        with self._changed:
            self._ended = ended
            self._changed.notify_all()

    def take(self) -> Captured | None:
        """Wait for a frame and return it; None if none will come."""
        with self._changed:
            self._changed.wait_for(self._has_news)
            taken = self._waiting
            if self._closed or taken is None:
                return None
            self._waiting = None
            self._changed.notify_all()
            if self._paused:
                self._steps -= 1
                return taken._replace(at=self._clock.now())  # it was waited for
            return taken

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _flows(self) -> bool:
        return self._open and not self._paused

    def _has_news(self) -> bool:
        if self._waiting is None:
            return self._closed or self._ended is not None
        return self._closed or not self._paused or self._steps > 0

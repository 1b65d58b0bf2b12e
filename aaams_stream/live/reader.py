"""The reader's thread: frames of a source into the slot, each at its time."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from aaams_stream.live.clock import PresentationTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aaams_stream.live.slot import FrameSlot
    from aaams_stream.model import Frame


class FrameSource(Protocol):
    """What the loop needs of a `source.Source`; programs and tests may bring their own."""

    description: str
    spec: str
    width: int
    height: int
    rate: Fraction
    time_base: Fraction
    live: bool
    remote: bool
    ended: str

    def __iter__(self) -> Iterator[Frame]:
        """Yield the frames, once."""

    def stop(self) -> None:
        """Let an iteration that waits come to its end."""

    def close(self) -> None:
        """Give back what is open."""


class Reader:
    """Reads `source` to its end, or again and again if it can be reopened.

    interval: seconds from one wanted frame to the next; those between are left out (0: none).
    Frames of a camera are handed on as they come, those of a file at their presentation times.
    """

    def __init__(
        self,
        source: FrameSource,
        slot: FrameSlot,
        *,
        interval: Fraction,
        reopen: Callable[[], FrameSource] | None,
    ) -> None:
        self._source = source
        self._slot = slot
        self._interval = interval
        self._reopen = reopen
        self._next_time = Fraction(0)  # of the next wanted frame
        self._times = None if source.live else PresentationTimes()

    def run(self) -> None:
        """Hand frames on until the source ends or the slot is closed."""
        shift = Fraction(0)
        while True:
            last = shift
            for frame in self._source:
                frame = dataclasses.replace(frame, time=frame.time + shift)
                last = frame.time
                if self._slot.closed or (self._wants(frame) and not self._hand_on(frame)):
                    return
            if self._slot.closed:
                return
            if self._reopen is None:
                self._slot.end(self._source.ended)
                return
            self._source.close()
            self._source = self._reopen()
            if self._slot.closed:  # while it was being opened, which nobody waits for
                self._source.close()
                return
            shift = last + 1 / self._source.rate

    def stop(self) -> None:
        """Wake an iteration that waits for input."""
        self._source.stop()

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _wants(self, frame: Frame) -> bool:
        if frame.time < self._next_time:
            return False
        if self._interval:  # in step with the wanted rate, whatever the source's
            self._next_time = max(self._next_time + self._interval, frame.time)
        return True

    def _hand_on(self, frame: Frame) -> bool:
        if self._times is None:
            return self._slot.offer(frame)
        return self._slot.offer_when_due(frame, self._times)

"""Frames that were shown, as they were sent: to go back to, as far as a bounded memory reaches."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aaams_stream.live.wire import Encoded

MOST_BYTES = 96 << 20  # about a minute and a half of 640x480


class Past:
    """Keeps frames in the order in which they are given, the oldest giving way."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._frames: list[Encoded] = []
        self._bytes = 0

    def keep(self, kept: Encoded) -> None:
        """Take one more frame, or the last one again where what is followed has changed."""
        if self._frames and self._frames[-1].number >= kept.number:
            self._bytes -= len(self._frames.pop().body)
        self._frames.append(kept)
        self._bytes += len(kept.body)
        gone = 0
        while self._bytes > self._most and gone < len(self._frames) - 1:
            self._bytes -= len(self._frames[gone].body)
            gone += 1
        del self._frames[:gone]

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers of the first and the last frame there is; 0, 0 where there is none."""
        return (self._frames[0].number, self._frames[-1].number) if self._frames else (0, 0)

    def at(self, number: int) -> Encoded | None:
        """Return the frame of that number, or the next one there is."""
        place = bisect.bisect_left(self._frames, number, key=lambda kept: kept.number)
        return self._frames[min(place, len(self._frames) - 1)] if self._frames else None

"""Places at which a reading can begin, and how to know that it began at the right one.

A seek is a request: containers land early, late, or beside it, and no count of packets numbers the
frames of a damaged file. So frames are marked while they are read from the beginning: a little
after a keyframe, a mark keeps the place of that keyframe and the number, time and checksum of a
frame. A later reading seeks there and counts on only from a frame that it knows again.
"""

from __future__ import annotations

import zlib
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SETTLED = 2  # pictures after a keyframe on which what lies before it has no hold, in bwdif either
_MOST = 4096  # marks that are kept; beyond, every second goes
_LAYOUT = np.dtype(
    [
        ("frame", np.int64),
        ("seconds", np.float64),
        ("checksum", np.uint32),
        ("place", np.int64, (2,)),
        ("damage", np.int64, (2,)),
        ("filtered", np.bool_),
        ("size", np.int64, (2,)),
        ("changes", np.int64),
        ("first_change", np.int64, (3,)),
    ]
)


class Entry(NamedTuple):
    """A keyframe, where decoding can begin, and what its reader remembers at that moment."""

    place: tuple[int, int]  # what to seek, and about which byte: times repeat in joined files
    damage: tuple[int, int] = (0, 0)  # what had not decoded until then, as the reader counts it
    filtered: bool = False  # whether pictures went through the deinterlacer


class Sizes(NamedTuple):
    """How the size of the pictures has changed."""

    last: tuple[int, int]
    changes: int = 0
    first_change: tuple[int, int, int] = (0, 0, 0)  # frame, width, height


class Mark(NamedTuple):
    """A frame of an earlier reading, how it is known again, and what was known by then."""

    frame: int
    seconds: float
    checksum: int
    entry: Entry  # from which it was decoded
    sizes: Sizes


class Marks:
    """The marks of one reading, in order, at most a few thousand however long it is."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []
        self._stride = 1  # entries from one mark to the next
        self._passed = 0
        self._seen: Entry | None = None

    def offer(self, frame: int, entry: Entry | None) -> bool:
        """Say whether `frame`, the next that is handed out, should be marked."""
        if entry is None or entry is self._seen:
            return False
        if self._marks and frame <= self._marks[-1].frame:
            return False
        self._seen = entry
        self._passed += 1
        return self._passed >= self._stride

    def add(self, mark: Mark) -> None:
        """Keep one more."""
        self._passed = 0
        self._marks.append(mark)
        if len(self._marks) > _MOST:
            self._marks = self._marks[::2]  # a new list: another thread may be reading the old one
            self._stride *= 2

    def before(self, frame: int) -> list[Mark]:
        """Return the marks of frames below `frame`."""
        return [mark for mark in self._marks if mark.frame < frame]

    def to_array(self, frame: int) -> NDArray[Any]:
        """Return the marks of frames below `frame` as one array; safe from any thread."""
        rows = [(*mark[:3], *mark.entry, *mark.sizes) for mark in self.before(frame)]
        return np.array(rows, dtype=_LAYOUT)

    @classmethod
    def from_array(cls, rows: NDArray[Any] | None) -> Marks:
        """Return what `to_array` took apart; nothing of an array that another version wrote."""
        marks = cls()
        if rows is not None and rows.dtype == _LAYOUT:
            marks._marks = [_mark(row) for row in rows.tolist()]
        return marks


def checksum(time: Fraction, rgb: NDArray[np.uint8]) -> int:
    """Return a number by which a frame is known again."""
    return zlib.crc32(np.ascontiguousarray(rgb).data, zlib.crc32(str(time).encode()))


def _mark(row: tuple[Any, ...]) -> Mark:
    frame, seconds, check, place, damage, filtered, size, changes, first = row
    entry = Entry(tuple(place.tolist()), tuple(damage.tolist()), filtered)
    sizes = Sizes(tuple(size.tolist()), changes, tuple(first.tolist()))
    return Mark(frame, seconds, check, entry, sizes)

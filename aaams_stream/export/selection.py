"""What of a volume is exported: by area, by life, by time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.pool import rows_of
from aaams_stream.errors import ConfigError

if TYPE_CHECKING:
    from aaams_stream.store import Volume


@dataclass(frozen=True, slots=True)
class Selection:
    """Bounds on what is exported; the defaults let everything through."""

    min_area: int = 0  # pixels a segment has in a frame
    max_area: int | None = None
    min_life: int = 0  # frames an identity is seen in, over the whole volume
    start: float | None = None  # seconds from the first frame
    duration: float | None = None

    def __post_init__(self) -> None:
        for name in ("min_area", "max_area", "min_life", "start", "duration"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ConfigError(f"{name.replace('_', ' ')} must be >= 0, got {value}")


class Chosen:
    """A volume seen through a selection, frame by frame."""

    def __init__(
        self, volume: Volume, selection: Selection, pictures: Sequence[str] | None = None
    ) -> None:
        self.volume = volume
        self._pictures = pictures
        self.selection = selection
        self.frames = _frames(volume, selection)
        tracks = volume.tracks
        self._alive = tracks["id"][tracks["frames"] >= selection.min_life]

    def keep(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows of the segment table pass."""
        passed = np.isin(rows["id"], self._alive) & (rows["area"] >= self.selection.min_area)
        if self.selection.max_area is not None:
            passed &= rows["area"] <= self.selection.max_area
        return np.asarray(passed)

    def segments(self, t: int) -> NDArray[Any]:
        """Return the rows of frame `t` that pass."""
        rows = self.volume.segments(t)
        return np.asarray(rows[self.keep(rows)])

    def ids(self, t: int) -> NDArray[np.uint32]:
        """Return the ids of frame `t`, 0 where a segment does not pass."""
        rows = self.volume.segments(t)
        names = np.where(self.keep(rows), rows["id"], 0).astype(np.uint32)
        return np.asarray(np.append(names, np.uint32(0))[self._rows_of(rows, t)])

    def labels(self, t: int) -> NDArray[np.int32]:
        """Return for each pixel the row of `segments(t)` it belongs to, or -1."""
        rows = self.volume.segments(t)
        keep = self.keep(rows)
        number = np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)
        return np.asarray(np.append(number, np.int32(-1))[self._rows_of(rows, t)])

    def _rows_of(self, rows: NDArray[Any], t: int) -> NDArray[np.int32]:
        """Return the row of each pixel's id, -1 where a view leaves it out."""
        return rows_of(self.volume.ids[t], np.append(np.uint32(0), rows["id"])) - np.int32(1)

    def picture_name(self, t: int) -> str:
        """Return the name of the image that frame `t` was, or one that counts frames."""
        return f"{t:05d}.jpg" if self._pictures is None else self._pictures[t]

    def names(self) -> NDArray[np.uint32]:
        """Return every id that passes in any frame, in order."""
        found = [self.segments(t)["id"] for t in self.frames]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.uint32)

    def rows(self, table: str) -> NDArray[Any]:
        """Return all rows of a table that pass; both ends of a pair must."""
        if table == "tracks":
            tracks = self.volume.tracks
            return np.asarray(tracks[np.isin(tracks["id"], self.names())])
        rows = self.volume.table(table)
        inside = (rows["frame"] >= self.frames.start) & (rows["frame"] < self.frames.stop)
        rows = rows[inside]
        if table == "segments":
            return np.asarray(rows[self.keep(rows)])
        if table == "adjacency":
            seen = self.rows("segments")
            known = _keys(seen["frame"], seen["id"])
            ends = (
                np.isin(_keys(rows["frame"], rows[name]), known) for name in ("first", "second")
            )
            return np.asarray(rows[np.logical_and(*ends)])
        return np.asarray(rows)

    def __iter__(self) -> Iterator[int]:
        return iter(self.frames)


def _keys(frame: NDArray[Any], name: NDArray[Any]) -> NDArray[np.uint64]:
    return np.asarray(frame.astype(np.uint64) << np.uint64(32) | name)


def _frames(volume: Volume, selection: Selection) -> range:
    times = volume.times
    if not len(times):
        return range(0)
    since = times - times[0]
    first = selection.start or 0.0
    last = np.inf if selection.duration is None else first + selection.duration
    inside = np.flatnonzero((since >= first - 1e-9) & (since < last - 1e-9))
    if not inside.size:
        raise ConfigError(
            f"{volume.path}: no frame between {first:g} s and {last:g} s; it lasts {since[-1]:g} s"
        )
    return range(int(inside[0]), int(inside[-1]) + 1)

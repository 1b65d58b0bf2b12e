"""Sums over the tables of one scene, from which the tree over its tracks is built."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import level_sums as kernels
from aaams_stream.kernels.level_sums import Rows, Series
from aaams_stream.kernels.levels import Groups, Links
from aaams_stream.kernels.records import Pairs

# Columns that are read, besides the frame.
SEGMENTS_NEEDED = (*("id", "area", "centroid", "colour", "colour_spread", "perimeter", "motion"),)
ADJACENCY_NEEDED = ("first", "second", "length", "contrast")
_AT_ONCE = 1 << 16  # rows that are made room for at a time, or one frame
_SUMS = 12  # of a track: see `kernels.gather_segments`


class SceneSums:
    """Sums over the tracks of one scene; row i of all arrays is id `base` + i.

    Memory grows with tracks, and with pairs of them that touch, not with frames: motion is kept at
    so many moments of time at most, each as long as need be.
    """

    def __init__(self, shape: tuple[int, int], moments: int, motion_unit: float) -> None:
        self.size = 0.5 * max(shape)
        self.unit_sq = motion_unit**2 * shape[0] * shape[1]
        self.moments = moments
        self.base = 0
        self.begin = 0  # frame
        self.end = 0  # one past the last frame
        self.tracks = 0
        self.sums = np.zeros((0, _SUMS))
        self.span = np.zeros((0, 2), np.int64)
        none = np.zeros(0, np.int32)
        self.series = Series(none, none, none, none, np.zeros((0, 3)))
        self.state = np.array([1, 0], np.int64)  # frames per entry of a series; entries
        self.pairs = Pairs(none, none, none, np.zeros((0, 2)))
        self.pair_count = 0

    @property
    def stride(self) -> int:
        """How many frames are one moment of time."""
        return int(self.state[0])

    def add(self, segments: NDArray[Any], adjacency: NDArray[Any]) -> None:
        """Take the rows of whole frames."""
        starts = np.flatnonzero(np.diff(segments["frame"].astype(np.int64), prepend=-1))
        frames = np.append(starts, len(segments)).tolist()  # where they begin, and the end
        start = 0
        for begin, end in itertools.pairwise(frames):
            if end - start > _AT_ONCE and begin > start:
                self._add_segments(segments[start:begin])
                start = begin
        if len(segments):
            self._add_segments(segments[start:])
        for start in range(0, len(adjacency), _AT_ONCE):
            self._add_contacts(adjacency[start : start + _AT_ONCE])

    def _add_segments(self, rows: NDArray[Any]) -> None:
        ids = rows["id"].astype(np.int64)
        if not self.tracks:
            self.base = int(ids[0])
            self.begin = int(rows["frame"][0])
        if ids.min() < self.base:  # back from before the first frame that is told of
            self._rebase(int(ids.min()))
        self.end = int(rows["frame"][-1]) + 1
        self.tracks = max(self.tracks, int(ids.max()) + 1 - self.base)
        self._make_room(int(self.state[1]) + len(rows))
        columns = Rows(
            frame=rows["frame"].astype(np.int64) - self.begin,
            track=ids - self.base,
            area=np.ascontiguousarray(rows["area"], np.uint32),
            centroid=np.ascontiguousarray(rows["centroid"], np.float32),
            colour=np.ascontiguousarray(rows["colour"], np.float32),
            spread=np.ascontiguousarray(rows["colour_spread"], np.float32),
            perimeter=np.ascontiguousarray(rows["perimeter"], np.uint32),
            motion=np.ascontiguousarray(rows["motion"], np.float32),
        )
        kernels.gather_segments(
            *(columns, self.size, self.unit_sq),
            *(self.sums, self.span, self.series, self.state, self.moments),
        )

    def _add_contacts(self, rows: NDArray[Any]) -> None:
        if len(self.pairs.first) < self.pair_count + len(rows):
            self._copy_pairs(self.pair_count + len(rows))
        self.pair_count = kernels.gather_contacts(
            (rows["first"].astype(np.int64) - self.base).astype(np.int32),
            (rows["second"].astype(np.int64) - self.base).astype(np.int32),
            np.ascontiguousarray(rows["length"], np.uint32),
            np.ascontiguousarray(rows["contrast"], np.float32),
            self.pairs,
            self.pair_count,
        )

    def _copy_pairs(self, room: int, shift: int = 0) -> None:
        """Have a table of pairs with room for so many, of rows that lie so much further on."""
        half = 1 << max(5, room.bit_length())
        pairs = Pairs(
            np.full(2 * half, -1, np.int32),
            np.empty(half, np.int32),
            np.empty(half, np.int32),
            np.zeros((half, 2)),
        )
        for new, old in zip(pairs[1:], self.pairs[1:], strict=True):
            new[: self.pair_count] = old[: self.pair_count]
        pairs.first[: self.pair_count] += shift
        pairs.second[: self.pair_count] += shift
        kernels.refill(pairs, self.pair_count)
        self.pairs = pairs

    def _rebase(self, base: int) -> None:
        """Let row 0 be a lower id."""
        shift = self.base - base
        self.sums = np.concatenate([np.zeros((shift, _SUMS)), self.sums])
        self.span = np.concatenate([np.zeros((shift, 2), np.int64), self.span])
        none = np.full(shift, -1, np.int32)
        head, tail = (np.concatenate([none, a]) for a in (self.series.head, self.series.tail))
        self.series = self.series._replace(head=head, tail=tail)
        self._copy_pairs(self.pair_count, shift)
        self.tracks += shift
        self.base = base

    def _make_room(self, entries: int) -> None:
        """Have room for all tracks and so many entries; twice as much, or copying tells."""
        if self.tracks > len(self.sums):
            size = max(self.tracks, 2 * len(self.sums))
            self.sums = _grown(self.sums, size, 0)
            self.span = _grown(self.span, size, 0)
            head, tail = (_grown(a, size, -1) for a in (self.series.head, self.series.tail))
            self.series = self.series._replace(head=head, tail=tail)
        if entries > len(self.series.time):
            size = max(entries, 2 * len(self.series.time))
            names = ("following", "time", "sums")
            longer = {name: _grown(getattr(self.series, name), size, 0) for name in names}
            self.series = self.series._replace(**longer)

    def graph(self) -> tuple[NDArray[np.int64], Groups, Links, Series]:
        """Return the rows of tracks that are seen, and what merging takes, which it may change.

        Pairs are in the order of both ids: ties go to the lower ones.
        """
        there = np.flatnonzero(self.sums[: self.tracks, 0] > 0)
        sums = self.sums[there]
        row_of = np.full(self.tracks, -1, np.int32)
        row_of[there] = np.arange(len(there), dtype=np.int32)
        first = row_of[self.pairs.first[: self.pair_count]]
        second = row_of[self.pairs.second[: self.pair_count]]
        order = np.lexsort((second, first))
        length, contrast = (self.pairs.sums[order, c].copy() for c in range(2))
        links = Links(first[order], second[order], length, contrast)
        ends = np.concatenate([links.first, links.second])
        contact, across = (
            np.bincount(ends, np.concatenate([c, c]), len(there)) for c in (length, contrast)
        )
        outline = sums[:, 11]
        rim = np.maximum(outline - contact, 0.0)
        groups = Groups(
            moments_of(sums),
            np.stack([sums[:, 10], outline, rim, contact, across], axis=1),
            np.zeros(len(there)),  # filled in as groups form
            np.zeros(len(there)),
        )
        entries = int(self.state[1])
        series = Series(
            self.series.head[there],
            self.series.tail[there],
            self.series.following[:entries].copy(),
            self.series.time[:entries].copy(),
            self.series.sums[:entries].copy(),
        )
        return there, groups, links, series


def moments_of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return volume twice, mean colour (3) and its scatter (6) of tracks."""
    volume = sums[:, :1]
    mean = sums[:, 1:4] / volume
    first, second = np.triu_indices(3)
    scatter = sums[:, 4:10] - volume * mean[:, first] * mean[:, second]
    diagonal = first == second  # rounding could take what has one colour below 0
    scatter[:, diagonal] = np.maximum(scatter[:, diagonal], 0.0)
    return np.hstack([volume, volume, mean, scatter])


def _grown(array: NDArray[Any], size: int, value: int) -> NDArray[Any]:
    """Return a longer copy, filled up with a value."""
    grown = np.full((size, *array.shape[1:]), value, array.dtype)
    grown[: len(array)] = array
    return grown

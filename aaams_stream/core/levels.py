"""The tree over tracks: which of them belong together, by all that a scene tells of them.

A frame's decision is local and final, so that segments are many and short-lived. Evidence gathers
over a clip: what never parts belongs together. The tree holds it as merges of groups of tracks,
closest first; a coarser view of a volume is a prefix of the merges, nested in every finer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.tuning import DEFAULT as METHOD
from aaams_stream.kernels import levels as kernels
from aaams_stream.kernels.levels import Links, Nearness, Rows, Series
from aaams_stream.kernels.records import Pairs
from aaams_stream.model import HIERARCHY_DTYPE, EventKind, FrameSegmentation
from aaams_stream.params import Params

# Columns that are read, besides the frame.
SEGMENTS_NEEDED = ("id", "area", "colour", "colour_spread", "motion")
ADJACENCY_NEEDED = ("first", "second", "length", "contrast")
_AT_ONCE = 1 << 16  # rows that are made room for at a time
_SUMS = 10  # of a track: see `kernels.gather_segments`


@dataclass(frozen=True, slots=True)
class LevelTuning:
    """The constants of the tree over tracks; figures are those of `benchmarks/levels.py`."""

    # Share of the picture at which a group weighs 1, and the power of the share. Larger power: the
    # large stay apart, and many small groups cling to them; 0: sizes grow as they like.
    size_unit: float = 0.0065
    size_power: float = 0.35
    # Contrast along the contact at which it weighs 1, in L*a*b* units, and its power. Larger power:
    # soft passages join what differs; 0: only what is inside counts.
    edge_unit: float = 5.0
    edge_power: float = 0.5
    # Squared pixels a frame between two motions at which they count, and the power.
    motion_sq: float = 2.0
    motion_power: float = 0.5
    # Moments of time at which motions are compared; a longer scene has longer moments. More: turns
    # are told apart in long scenes, at more time for each comparison.
    moments: int = 128
    # By what factor a group grows before all its links are scored anew. Larger: faster where one
    # ground touches everything, and levels are less exact; 1: always.
    growth: float = 1.02


DEFAULT = LevelTuning()


class LevelBuilder:
    """Gathers the tables of a volume, block by block, and builds one tree per scene.

    Memory grows with the tracks of a scene and the pairs of them that touch, not with frames. What
    comes out does not depend on how the rows are cut into blocks.
    """

    def __init__(
        self, shape: tuple[int, int], params: Params, tuning: LevelTuning = DEFAULT
    ) -> None:
        self._pixels = shape[0] * shape[1]
        self._params = params
        self._tuning = tuning
        self._scene = _Scene(tuning.moments)
        self._trees: list[NDArray[Any]] = []

    def add(self, segments: NDArray[Any], adjacency: NDArray[Any], events: NDArray[Any]) -> None:
        """Take the next rows of the three tables: whole frames, each row with its `frame`."""
        changes = np.unique(events["frame"][events["kind"] == EventKind.CUT])
        rows = np.searchsorted(np.ascontiguousarray(segments["frame"]), changes)
        contacts = np.searchsorted(np.ascontiguousarray(adjacency["frame"]), changes)
        begin = (0, 0)
        for end in [*zip(rows.tolist(), contacts.tolist(), strict=True), None]:
            row, contact = end or (len(segments), len(adjacency))
            self._scene.add(segments[begin[0] : row], adjacency[begin[1] : contact])
            if end is not None:
                self._end_scene()
                begin = end

    def finish(self) -> NDArray[Any]:
        """Return all merges (HIERARCHY_DTYPE), scene after scene, in their order.

        Levels lie above 0 and never fall within a scene; every scene ends as one group.
        """
        self._end_scene()
        return np.concatenate([np.zeros(0, HIERARCHY_DTYPE), *self._trees])

    def _end_scene(self) -> None:
        if len(tree := self._scene.tree(self._pixels, self._params, self._tuning)):
            self._trees.append(tree)
        self._scene = _Scene(self._tuning.moments)


def levels_of_frame(frame: FrameSegmentation, params: Params | None = None) -> NDArray[Any]:
    """Return the tree (HIERARCHY_DTYPE) that a frame by itself tells of."""
    height, width = frame.ids.shape
    builder = LevelBuilder((height, width), params or Params())
    tables = (frame.segments, frame.adjacency, frame.events)
    builder.add(*(with_frame(table, frame.index) for table in tables))
    return builder.finish()


def with_frame(table: NDArray[Any], index: int) -> NDArray[Any]:
    """Return the rows of a frame with its number in front, as a volume keeps them."""
    rows = np.empty(len(table), [("frame", np.uint32), *table.dtype.descr])
    rows["frame"] = index
    for name in table.dtype.names or ():
        rows[name] = table[name]
    return rows


class _Scene:
    """Sums over the tracks of one scene; row i of all arrays is id `base` + i."""

    def __init__(self, moments: int) -> None:
        self.base = 0
        self.begin = 0  # frame
        self.end = 0  # one past the last frame
        self.bins = moments
        self.tracks = 0
        self.sums = np.zeros((0, _SUMS))
        none = np.zeros(0, np.int32)
        self.series = Series(none, none, none, none, np.zeros((0, 3)))
        self.state = np.array([1, 0], np.int64)  # frames per entry of a series; entries
        self.pairs = Pairs(none, none, none, np.zeros((0, 2)))
        self.pair_count = 0

    def add(self, segments: NDArray[Any], adjacency: NDArray[Any]) -> None:
        for start in range(0, len(segments), _AT_ONCE):
            self._add_segments(segments[start : start + _AT_ONCE])
        for start in range(0, len(adjacency), _AT_ONCE):
            self._add_contacts(adjacency[start : start + _AT_ONCE])

    def _add_segments(self, rows: NDArray[Any]) -> None:
        ids = rows["id"].astype(np.int64)
        if not self.tracks:  # ids grow: the first row of the first frame mostly has the least
            self.base = int(ids[0])
            self.begin = int(rows["frame"][0])
        if ids.min() < self.base:  # a recording of a stream begins when older ones are hidden
            self._lower_base(int(ids.min()))
        self.end = int(rows["frame"][-1]) + 1
        self.tracks = max(self.tracks, int(ids.max()) + 1 - self.base)
        self._make_room(int(self.state[1]) + len(rows))
        columns = Rows(
            frame=rows["frame"].astype(np.int64) - self.begin,
            track=ids - self.base,
            area=np.ascontiguousarray(rows["area"], np.uint32),
            colour=np.ascontiguousarray(rows["colour"], np.float32),
            spread=np.ascontiguousarray(rows["colour_spread"], np.float32),
            motion=np.ascontiguousarray(rows["motion"], np.float32),
        )
        kernels.gather_segments(columns, self.sums, self.series, self.state, self.bins)

    def _add_contacts(self, rows: NDArray[Any]) -> None:
        if len(self.pairs.first) < self.pair_count + len(rows):
            pairs = _pairs_with_room(self.pair_count + len(rows))
            for new, old in zip(pairs[1:], self.pairs[1:], strict=True):
                new[: self.pair_count] = old[: self.pair_count]
            kernels.refill(pairs, self.pair_count)
            self.pairs = pairs
        self.pair_count = kernels.gather_contacts(
            (rows["first"].astype(np.int64) - self.base).astype(np.int32),
            (rows["second"].astype(np.int64) - self.base).astype(np.int32),
            np.ascontiguousarray(rows["length"], np.uint32),
            np.ascontiguousarray(rows["contrast"], np.float32),
            self.pairs,
            self.pair_count,
        )

    def _lower_base(self, base: int) -> None:
        """Let the rows begin with a lower id."""
        more = self.base - base
        self.base, self.tracks = base, self.tracks + more if self.tracks else 0
        self.sums = np.concatenate([np.zeros((more, _SUMS)), self.sums])
        nobody = np.full(more, -1, np.int32)
        head, tail = (np.concatenate([nobody, a]) for a in (self.series.head, self.series.tail))
        self.series = self.series._replace(head=head, tail=tail)
        self.pairs.first[: self.pair_count] += more
        self.pairs.second[: self.pair_count] += more
        self.pairs.slots[:] = -1
        kernels.refill(self.pairs, self.pair_count)

    def _make_room(self, entries: int) -> None:
        """Have room for all tracks and so many entries; twice as much, or copying tells."""
        if self.tracks > len(self.sums):
            size = max(self.tracks, 2 * len(self.sums))
            self.sums = _grown(self.sums, size, 0)
            head, tail = (_grown(a, size, -1) for a in (self.series.head, self.series.tail))
            self.series = self.series._replace(head=head, tail=tail)
        if entries > len(self.series.time):
            size = max(entries, 2 * len(self.series.time))
            lists = {
                name: _grown(getattr(self.series, name), size, 0)
                for name in ("following", "time", "sums")
            }
            self.series = self.series._replace(**lists)

    def tree(self, pixels: int, params: Params, tuning: LevelTuning) -> NDArray[Any]:
        """Return the merges of this scene; it is used up."""
        there = np.flatnonzero(self.sums[: self.tracks, 0] > 0)
        if len(there) < 2:
            return np.zeros(0, HIERARCHY_DTYPE)
        row_of = np.full(self.tracks, -1, np.int32)
        row_of[there] = np.arange(len(there), dtype=np.int32)
        series = self.series._replace(head=self.series.head[there], tail=self.series.tail[there])
        nearness = Nearness(
            floor=METHOD.variance_floor * params.colour.sigma2,
            pixels=float(pixels * (self.end - self.begin)),
            size_unit=tuning.size_unit,
            size_power=tuning.size_power,
            edge_unit=tuning.edge_unit,
            edge_power=tuning.edge_power,
            motion_sq=tuning.motion_sq,
            motion_power=tuning.motion_power,
            growth=tuning.growth,
        )
        survivor, absorbed, level = kernels.merge_groups(
            _moments(self.sums[there]), self._links(row_of), series, nearness
        )
        ids = (there + self.base).astype(np.uint32)
        merges = np.empty(len(level), HIERARCHY_DTYPE)
        merges["survivor"] = ids[survivor]
        merges["absorbed"] = ids[absorbed]
        merges["level"] = np.maximum(level, np.finfo(np.float32).tiny)
        return merges

    def _links(self, row_of: NDArray[np.int32]) -> Links:
        """Return the pairs that touch in the order of both ids: ties go to the lower ones."""
        first = row_of[self.pairs.first[: self.pair_count]]
        second = row_of[self.pairs.second[: self.pair_count]]
        order = np.lexsort((second, first))
        sums = self.pairs.sums[order]
        return Links(first[order], second[order], sums[:, 0].copy(), sums[:, 1].copy())


def _moments(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return volume twice, mean colour (3) and its scatter (6) of tracks, as merges want them."""
    volume = sums[:, :1]
    mean = sums[:, 1:4] / volume
    first, second = np.triu_indices(3)
    scatter = sums[:, 4:10] - volume * mean[:, first] * mean[:, second]
    diagonal = first == second  # rounding could take what has one colour below 0
    scatter[:, diagonal] = np.maximum(scatter[:, diagonal], 0.0)
    return np.hstack([volume, volume, mean, scatter])


def _pairs_with_room(count: int) -> Pairs:
    """Return an empty table with room for so many pairs."""
    half = 1 << max(10, count.bit_length())
    return Pairs(
        np.full(2 * half, -1, np.int32),
        np.empty(half, np.int32),
        np.empty(half, np.int32),
        np.zeros((half, 2)),
    )


def _grown(array: NDArray[Any], size: int, value: int) -> NDArray[Any]:
    """Return a longer copy, filled up with a value."""
    grown = np.full((size, *array.shape[1:]), value, array.dtype)
    grown[: len(array)] = array
    return grown

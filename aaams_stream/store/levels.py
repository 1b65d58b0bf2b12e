"""The tree over the identities of a volume: found from its tables, cut at a level or a count."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from aaams_stream.core.levels import ADJACENCY_NEEDED, SEGMENTS_NEEDED, LevelBuilder
from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.model import ADJACENCY_DTYPE, EVENT_DTYPE, HIERARCHY_DTYPE, SEGMENT_DTYPE
from aaams_stream.params import Params
from aaams_stream.store.layout import (
    AT_ONCE,
    KEY,
    PRESENT_DTYPE,
    Header,
    array_in,
    read_offsets,
    read_rows,
    stretches,
    whole_frames,
)
from aaams_stream.store.stored import place_of


def _chosen(dtype: np.dtype[Any], names: Iterable[str]) -> np.dtype[Any]:
    return np.dtype([("frame", np.uint32), *((n, dtype[n]) for n in names if n != "frame")])


_NEEDED = {
    "segments": _chosen(SEGMENT_DTYPE, SEGMENTS_NEEDED),
    "adjacency": _chosen(ADJACENCY_DTYPE, ADJACENCY_NEEDED),
    "events": _chosen(EVENT_DTYPE, EVENT_DTYPE.names or ()),
}
_ALL = 2**31  # objects: more than there are


def build_levels(root: zarr.Group, frames: int, at_once: int = AT_ONCE) -> dict[str, NDArray[Any]]:
    """Return the rows of LEVEL_TABLES for the first frames of a volume.

    These are the merges of its identities (HIERARCHY_DTYPE), and of the groups that they make
    those that look like things (OBJECT_DTYPE), best first.

    Reads the tables in stretches of whole frames with about `at_once` rows of segments: memory
    grows with the number of identities, not of frames.
    """
    record: Any = root.attrs[KEY]
    header = Header.from_record(record)
    builder = LevelBuilder((header.height, header.width), Params().updated(header.configuration))
    offsets = {table: read_offsets(root, table, frames) for table in _NEEDED}
    for first, last in whole_frames(offsets["segments"], at_once):
        bounds = {table: (int(at[first]), int(at[last])) for table, at in offsets.items()}
        tables = (read_rows(root, t, *bounds[t], dtype) for t, dtype in _NEEDED.items())
        builder.add(*tables)
    merges = builder.finish()
    return {"hierarchy": merges, "objects": builder.objects(_ALL)}


class Hierarchy:
    """All merges of a volume's identities into groups; a cut gives each identity its group.

    A group is called by its smallest id, and a coarser cut joins whole groups of a finer one.
    """

    def __init__(self, root: zarr.Group, frames: int, identities: int) -> None:
        count = array_in(root, "hierarchy/level").shape[0]
        self.merges = read_rows(root, "hierarchy", 0, count, HIERARCHY_DTYPE)
        wrong = wrong_merges(self.merges, identities)
        if wrong is not None:
            raise SinkError(f"{place_of(root)}: hierarchy is damaged ({wrong})")
        self._root = root
        self._frames = frames
        self._identities = identities

    def lookup(self, level: float) -> NDArray[np.uint32]:
        """Return the group of each id (n + 1,) after all merges up to a level; 0 stays 0."""
        merges = self.merges[self.merges["level"] <= checked_level(level)]
        groups = np.arange(self._identities + 1, dtype=np.uint32)
        groups[merges["absorbed"]] = merges["survivor"]
        while True:  # each identity is absorbed once: ways up the tree halve with every round
            further = groups[groups]
            if np.array_equal(further, groups):
                return groups
            groups = further

    def level_of(self, segments: float) -> float:
        """Return the level at which the mean number of groups a frame is nearest to `segments`.

        Of two that are as near, the finer one.
        """
        if not isinstance(segments, numbers.Real) or not segments >= 1:
            raise ConfigError(f"the number of groups must be >= 1, got {segments!r}")
        levels, counts = self._counts
        return float(levels[np.argmin(np.abs(counts - segments))])

    def count_at(self, level: float) -> float:
        """Return the mean number of groups a frame at a level."""
        levels, counts = self._counts
        return float(counts[np.searchsorted(levels, checked_level(level), side="right") - 1])

    @cached_property
    def _counts(self) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return every level at which a cut differs, from 0, and groups a frame from there on."""
        offsets = read_offsets(self._root, "segments", self._frames)
        present = stretches(self._root, "segments", offsets, PRESENT_DTYPE)
        order = np.argsort(self.merges["level"], kind="stable")
        levels = np.append(np.float32(0), self.merges["level"][order])
        fewer = np.cumsum(joint_frames(self.merges, self._identities, present)[order])
        counts = offsets[-1] - np.append(0, fewer)
        last = np.append(levels[1:] != levels[:-1], True)  # of merges at the same level
        return levels[last], counts[last] / max(self._frames, 1)


def wrong_merges(merges: NDArray[Any], identities: int) -> str | None:
    """Return why these merges make no tree, None if they do."""
    survivor, absorbed = merges["survivor"], merges["absorbed"]
    if not ((survivor >= 1) & (survivor < absorbed) & (absorbed <= identities)).all():
        return "has ids that are not there, or a merge into a larger one"
    if len(np.unique(absorbed)) != len(absorbed):
        return "has an identity that is absorbed twice"
    if not (merges["level"] >= 0).all():
        return "has levels below 0"
    return None


def checked_level(level: float) -> float:
    """Return a level with the digits that are stored: one that was printed means the same again."""
    if not level >= 0:
        raise ConfigError(f"a level must be a number >= 0, got {level}")
    return float(np.float32(level))


def joint_frames(
    merges: NDArray[Any], identities: int, present: Iterable[NDArray[Any]]
) -> NDArray[np.int64]:
    """Return in how many frames both sides of each merge are seen: so much it takes off the count.

    present: frame and id of all segments, whole frames at a time. The identities are laid out
    in a row so that every group is a stretch of it. Of the ids of a frame, in the order of that
    row, each comes together with the next at the highest merge between the two.
    """
    row, highest = _layout(merges, identities)
    counts = np.zeros(len(merges) + 1, np.int64)
    for rows in present:
        place = row[rows["id"]]
        frame = rows["frame"].astype(np.int64)
        order = np.argsort(frame * len(row) + place)
        place, frame = place[order], frame[order]
        beside = frame[1:] == frame[:-1]
        found = highest.between(place[:-1][beside], place[1:][beside])
        counts += np.bincount(found, minlength=len(counts))
    return counts[:-1]  # the last: identities that never come together


def _layout(merges: NDArray[Any], identities: int) -> tuple[NDArray[np.int64], _Maxima]:
    """Return the place of each id (n + 1,), and the merges between places beside each other."""
    after = np.full(identities + 1, -1).tolist()
    tail = list(range(identities + 1))
    for survivor, absorbed in zip(
        merges["survivor"].tolist(), merges["absorbed"].tolist(), strict=True
    ):
        after[tail[survivor]] = absorbed
        tail[survivor] = tail[absorbed]
    # the merge before an id, in the order of the row, is the one in which it was absorbed
    merge_before = np.full(identities + 1, len(merges))
    merge_before[merges["absorbed"]] = np.arange(len(merges))
    in_order = []
    for root in np.flatnonzero(merge_before == len(merges)).tolist():
        while root >= 0:
            in_order.append(root)
            root = after[root]
    place = np.empty(identities + 1, np.int64)
    place[in_order] = np.arange(identities + 1)
    return place, _Maxima(merge_before[in_order])


class _Maxima:
    """The largest of any stretch of a row of numbers, at once."""

    def __init__(self, values: NDArray[np.int64]) -> None:
        self._tables = [values]  # table k: the largest of 2^k numbers from each on
        step = 1
        while 2 * step <= len(values):
            before = self._tables[-1]
            self._tables.append(np.maximum(before[:-step], before[step:]))
            step *= 2

    def between(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the largest of values[left + 1 .. right], right included, for each pair."""
        found = np.empty(len(left), np.int64)
        exponents = np.frexp(right - left)[1] - 1
        for k in np.unique(exponents).tolist():
            here = exponents == k
            table = self._tables[k]
            found[here] = np.maximum(table[left[here] + 1], table[right[here] + 1 - (1 << k)])
        return found

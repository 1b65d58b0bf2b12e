"""Tables of groups from those of their members, in NumPy alone.

A lookup (n + 1,) tells the group of each id; ids that it takes to 0 are in none and left out. A
group is called by its smallest id, so that ids of groups lie in the same range and grow with time
as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import EventKind
from aaams_stream.store.tracks import EVENT_ROW_DTYPE

_SUMS = ("area", "perimeter")
_MEANS = ("centroid", "colour", "motion")  # weighted by area


class Origins(NamedTuple):
    """When each group was first seen, and the group it was split off; by id of the group."""

    first: NDArray[np.int64]  # (n + 1,) frame
    parent: NDArray[np.uint32]  # (n + 1,) or 0


def origins_of(tracks: NDArray[Any], lookup: NDArray[np.uint32]) -> Origins:
    """Return the origins of groups, from the tracks of their members."""
    first = np.full(len(lookup), np.iinfo(np.int64).max)
    np.minimum.at(first, lookup[tracks["id"]], tracks["first"].astype(np.int64))
    parent = np.zeros(len(lookup), np.uint32)
    known = tracks[tracks["parent"] < len(lookup)]
    parent[known["id"]] = known["parent"]
    return Origins(first, _across(parent, lookup))


def _across(other: NDArray[np.uint32], lookup: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the groups of ids `other` (n + 1,), by id of the group; 0 where it is the same one."""
    groups = lookup[other]
    return np.where(groups == lookup, np.uint32(0), groups)


def group_segments(
    rows: NDArray[Any], pairs: NDArray[Any], lookup: NDArray[np.uint32], origins: Origins
) -> NDArray[Any]:
    """Return a row per group and frame, of the columns that `rows` has.

    rows: of the segment table, any of its columns with frame, id and area among them; pairs: rows
    of `adjacency` of the same frames, for the perimeter alone. Areas add up; centroid, colour and
    motion are means over the pixels, and so is the spread of colour, about the mean of the group.
    What belongs to a mode (mode, bandwidths, density) is that of the largest member. The perimeter
    goes without sides between members.
    """
    rows = rows[lookup[rows["id"]] > 0]
    key = _keys(rows["frame"], lookup[rows["id"]])
    area = rows["area"].astype(np.float64)
    rows = rows[order := np.lexsort((rows["id"], -area, key))]
    area = area[order, None]
    keys, begin = np.unique(key[order], return_index=True)
    grouped: NDArray[Any] = rows[begin]  # the largest member of each
    if not len(rows):
        return grouped
    group = (keys & 0xFFFFFFFF).astype(np.uint32)
    member = np.repeat(np.arange(len(keys)), np.diff(np.append(begin, len(rows))))
    names = rows.dtype.names or ()
    grouped["id"] = group
    for name in set(_SUMS).intersection(names):
        grouped[name] = np.add.reduceat(rows[name], begin)
    weight = np.add.reduceat(area, begin)
    means = {n: np.add.reduceat(area * rows[n], begin) / weight for n in _MEANS if n in names}
    for name, values in means.items():
        grouped[name] = values
    if "colour_spread" in names:
        apart = rows["colour"] - means["colour"][member]
        squares = rows["colour_spread"].astype(np.float64) ** 2 + apart**2
        grouped["colour_spread"] = np.sqrt(np.add.reduceat(area * squares, begin) / weight)
    if "bbox" in names:
        boxes = rows["bbox"]
        grouped["bbox"][:, :2] = np.minimum.reduceat(boxes[:, :2], begin)
        grouped["bbox"][:, 2:] = np.maximum.reduceat(boxes[:, 2:], begin)
    if "perimeter" in names:
        first = lookup[pairs["first"]]
        inner = pairs[(first == lookup[pairs["second"]]) & (first > 0)]
        at = np.searchsorted(keys, _keys(inner["frame"], lookup[inner["first"]]))
        sides = np.bincount(at, inner["length"], len(keys)).astype(np.int64)
        grouped["perimeter"] = np.maximum(grouped["perimeter"].astype(np.int64) - 2 * sides, 0)
    if "age" in names:  # of a stream that was recorded from its middle members are older
        grouped["age"] = np.maximum(
            np.maximum.reduceat(rows["age"], begin), grouped["frame"] - origins.first[group]
        )
    if "parent" in names:
        grouped["parent"] = origins.parent[group]
    return grouped


def group_pairs(pairs: NDArray[Any], lookup: NDArray[np.uint32]) -> NDArray[Any]:
    """Return a row per pair of groups that touch in a frame, in order.

    pairs: rows of `adjacency`. Lengths add up, contrast is the mean over them.
    """
    ends = np.sort(np.stack([lookup[pairs["first"]], lookup[pairs["second"]]]), axis=0)
    outer = (ends[0] != ends[1]) & (ends[0] > 0)
    pairs, (first, second) = pairs[outer], ends[:, outer]
    order = np.lexsort((second, first, pairs["frame"]))
    pairs, first, second = pairs[order], first[order], second[order]
    frame = pairs["frame"]
    fresh = np.ones(len(pairs), np.bool_)
    fresh[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1]) | (frame[1:] != frame[:-1])
    begin = np.flatnonzero(fresh)
    grouped: NDArray[Any] = pairs[begin]
    if not len(pairs):
        return grouped
    grouped["first"], grouped["second"] = first[begin], second[begin]
    grouped["length"] = np.add.reduceat(pairs["length"], begin)
    contrast = np.add.reduceat(pairs["length"] * pairs["contrast"].astype(np.float64), begin)
    grouped["contrast"] = contrast / np.maximum(grouped["length"], 1)
    return grouped


def group_events(
    events: NDArray[Any],
    present: Iterable[NDArray[Any]],
    lookup: NDArray[np.uint32],
    frame_count: int,
) -> NDArray[Any]:
    """Return what became of groups: EVENT_DTYPE with the frame in front.

    events: those of the members; present: frame and id of all segments, whole frames at a time. A
    group is born, or split off another as its first member was; it returns when a member is seen
    after frames without any; it dies, or merges into another as its last member did, in the first
    frame without it. A change of scene ends all. Of a frame, those that come are first.
    """
    runs = _Runs(len(lookup))
    for rows in present:
        rows = rows[lookup[rows["id"]] > 0]
        runs.add(rows["frame"], lookup[rows["id"]])
    came, gone = runs.finish(frame_count)
    origin = np.zeros(len(lookup), np.uint32)
    splits = events[events["kind"] == EventKind.SPLIT]
    origin[splits["id"]] = splits["other"]
    origin = _across(origin, lookup)
    scene_changes = events[events["kind"] == EventKind.CUT]
    gone = gone[~np.isin(gone["frame"], scene_changes["frame"])]

    appear = np.zeros(len(came), EVENT_ROW_DTYPE)
    appear["frame"], appear["id"] = came["frame"], came["id"]
    parent = origin[came["id"]]
    kinds = np.where(parent > 0, EventKind.SPLIT, EventKind.BIRTH)
    appear["kind"] = np.where(came["again"], EventKind.RETURN, kinds)
    appear["other"] = np.where(came["again"], 0, parent)

    end = np.zeros(len(gone), EVENT_ROW_DTYPE)
    end["frame"], end["id"] = gone["frame"], gone["id"]
    end["other"] = _heirs(events, gone, lookup)
    end["kind"] = np.where(end["other"] > 0, EventKind.MERGE, EventKind.DEATH)

    parts = (scene_changes.astype(EVENT_ROW_DTYPE), appear, end)
    found = np.concatenate(parts)
    part = np.repeat(np.arange(len(parts)), [len(rows) for rows in parts])
    return np.asarray(found[np.lexsort((found["id"], part, found["frame"]))])


def _heirs(
    events: NDArray[Any], gone: NDArray[Any], lookup: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Return the group into which a member of each group that is gone merged last, or 0."""
    merges = events[events["kind"] == EventKind.MERGE]
    merges = merges[lookup[merges["id"]] != lookup[merges["other"]]]
    keys = _keys(merges["frame"], lookup[merges["id"]])
    order = np.argsort(keys, kind="stable")
    keys, heirs = keys[order], lookup[merges["other"]][order]
    wanted = _keys(gone["frame"], gone["id"])
    at = np.searchsorted(keys, wanted, side="right") - 1
    found = at >= 0
    found[found] = keys[at[found]] == wanted[found]
    return (
        np.where(found, heirs[at], np.uint32(0)) if len(heirs) else np.zeros(len(gone), np.uint32)
    )


_CAME_DTYPE = np.dtype([("frame", np.uint32), ("id", np.uint32), ("again", np.bool_)])


class _Runs:
    """When each group comes into sight and when it is gone; memory grows with their number."""

    def __init__(self, ids: int) -> None:
        self._last = np.full(ids, -1, np.int64)  # frame in which each was seen
        self._came: list[NDArray[Any]] = []
        self._gone: list[NDArray[Any]] = []

    def add(self, frame: NDArray[Any], group: NDArray[np.uint32]) -> None:
        """Note the groups of whole frames, which follow on those before."""
        keys = np.unique(group.astype(np.int64) << 32 | frame)  # by group, then by frame
        group, frame = (keys >> 32).astype(np.uint32), keys & 0xFFFFFFFF
        head = np.append(True, group[1:] != group[:-1])[: len(group)]
        before = np.where(head, self._last[group], np.append(0, frame[:-1])[: len(frame)])
        fresh = (before < 0) | (frame > before + 1)
        self._came.append(_rows(frame[fresh], group[fresh], before[fresh] >= 0))
        hidden = fresh & (before >= 0)
        self._gone.append(_rows(before[hidden] + 1, group[hidden]))
        tail = np.append(head[1:], True)[: len(group)]
        self._last[group[tail]] = frame[tail]

    def finish(self, frame_count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return rows of those that came and of those that were gone."""
        ended = np.flatnonzero((self._last >= 0) & (self._last + 1 < frame_count))
        self._gone.append(_rows(self._last[ended] + 1, ended))
        none = np.zeros(0, _CAME_DTYPE)
        return np.concatenate([none, *self._came]), np.concatenate([none, *self._gone])


def _rows(frame: NDArray[Any], group: NDArray[Any], again: Any = False) -> NDArray[Any]:
    rows = np.empty(len(frame), _CAME_DTYPE)
    rows["frame"], rows["id"], rows["again"] = frame, group, again
    return rows


def _keys(frame: NDArray[Any], group: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(frame.astype(np.int64) << 32 | group)

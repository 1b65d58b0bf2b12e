"""A volume seen at a coarser level: groups of identities take the place of identities."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import ADJACENCY_DTYPE, EVENT_DTYPE, SEGMENT_DTYPE
from aaams_stream.store.counts import Counts
from aaams_stream.store.frames import Frames
from aaams_stream.store.grouping import (
    Origins,
    group_events,
    group_pairs,
    group_segments,
    origins_of,
)
from aaams_stream.store.layout import PRESENT_DTYPE, array_in, stretches
from aaams_stream.store.tables import row_dtype
from aaams_stream.store.tracks import SEEN_DTYPE, sum_up
from aaams_stream.store.volume import Volume


class GroupView(Volume):
    """A volume in which groups take the place of identities, with all that one can be asked.

    lookup (n + 1,): the group of each id, by its smallest id; 0: it is in none, and not seen.
    Tables are those of the members, grouped as they are read; see `store.grouping`. Events and
    tracks sum up the whole volume, on first demand.
    """

    def __init__(self, base: Volume, lookup: NDArray[np.uint32]) -> None:
        super().__init__(base.path, base._root)
        self.base = base
        self.lookup = lookup
        self.ids = Frames(array_in(self._root, "labels/ids/0"), self.frame_count, lookup)
        self._hierarchy = base.hierarchy

    def at(self, *, level: float | None = None, segments: float | None = None) -> LevelView:
        """Return the volume it is a view of at a level."""
        return self.base.at(level=level, segments=segments)

    @property
    def counts(self) -> Counts:
        """How many groups there are, and how many events of each kind."""
        groups = np.setdiff1d(self.lookup[self.base.tracks["id"]], 0)
        events = Counts().with_rows(np.zeros(0, SEGMENT_DTYPE), self.events).events
        return Counts(len(groups), events)

    def segments(self, t: int) -> NDArray[Any]:
        """Return the groups of frame `t`: SEGMENT_DTYPE, in order of id."""
        rows = _in_frame("segments", self.base.segments(t), t % self.frame_count)
        pairs = _in_frame("adjacency", self.base.adjacency(t), t % self.frame_count)
        return _without_frame(
            group_segments(rows, pairs, self.lookup, self._origins), SEGMENT_DTYPE
        )

    def adjacency(self, t: int) -> NDArray[Any]:
        """Return the pairs of groups that touch in frame `t`: ADJACENCY_DTYPE."""
        pairs = _in_frame("adjacency", self.base.adjacency(t), t % self.frame_count)
        return _without_frame(group_pairs(pairs, self.lookup), ADJACENCY_DTYPE)

    def events_at(self, t: int) -> NDArray[Any]:
        """Return the events of groups in frame `t`: EVENT_DTYPE; those that come are first."""
        self.base.events_at(t)  # an IndexError beyond the volume
        rows = self._events[self._events["frame"] == t % self.frame_count]
        return _without_frame(rows, EVENT_DTYPE)

    @property
    def events(self) -> NDArray[Any]:
        """All events of groups: EVENT_DTYPE with the frame in front."""
        return self._events.copy()

    @property
    def tracks(self) -> NDArray[Any]:
        """One row per group: TRACK_DTYPE, in order of id."""
        if self._tracks is None:
            none = np.zeros(0, row_dtype("adjacency"))
            grouped = (
                group_segments(rows, none, self.lookup, self._origins)
                for rows in self._stretches("segments", SEEN_DTYPE)
            )
            self._tracks = sum_up(grouped, self._events)
        return self._tracks.copy()

    def table(self, name: str) -> NDArray[Any]:
        """Return all rows of "segments", "adjacency" or "events", the frame in front."""
        rows = self.base.table(name)
        if name == "segments":
            pairs = self.base.table("adjacency")
            return group_segments(rows, pairs, self.lookup, self._origins)
        return group_pairs(rows, self.lookup) if name == "adjacency" else self.events

    def row_count(self, table: str) -> int:
        """Return how many rows a table has."""
        return int(self.offsets(table)[-1])

    def offsets(self, table: str) -> NDArray[np.int64]:
        """Return where each frame's rows of a table begin, (t + 1)."""
        if table not in self._offsets:
            counts = np.zeros(self.frame_count, np.int64)
            for frame in self._frames_of_rows(table):
                counts += np.bincount(frame, minlength=self.frame_count)
            self._offsets[table] = np.append(0, np.cumsum(counts))
        return self._offsets[table]

    def _frames_of_rows(self, table: str) -> Iterator[NDArray[Any]]:
        """Yield the frame of each row of a table, a stretch at a time."""
        if table == "segments":
            for rows in self._stretches(table, PRESENT_DTYPE):
                rows = rows[self.lookup[rows["id"]] > 0]
                keys = rows["frame"].astype(np.int64) << 32 | self.lookup[rows["id"]]
                yield np.unique(keys) >> 32
        elif table == "adjacency":
            for rows in self._stretches(table, row_dtype(table)):
                yield group_pairs(rows, self.lookup)["frame"]
        else:
            yield self._events["frame"]

    @cached_property
    def _origins(self) -> Origins:
        return origins_of(self.base.tracks, self.lookup)

    @cached_property
    def _events(self) -> NDArray[Any]:
        present = self._stretches("segments", PRESENT_DTYPE)
        return group_events(self.base.events, present, self.lookup, self.frame_count)

    def _stretches(self, table: str, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
        """Return all rows of a table of the members, whole frames at a time."""
        found = stretches(self._root, table, self.base.offsets(table), dtype)
        return map(self.base.known_ids, found)


class LevelView(GroupView):
    """A volume at a level: each identity is in the group that all merges up to it make."""

    unit = "group"

    def __init__(self, base: Volume, level: float) -> None:
        super().__init__(base, base.groups(level=level))
        self.level = level

    def __repr__(self) -> str:
        seen = repr(self.base).strip("<>")
        return f"<{seen}, at level {self.level:.4g}: {self.groups_per_frame:.1f} groups a frame>"

    @property
    def groups_per_frame(self) -> float:
        """How many groups a frame has, on the mean."""
        return self.hierarchy.count_at(self.level)

    @property
    def merges_done(self) -> int:
        """How many merges the level stands for."""
        return int(np.count_nonzero(self.hierarchy.merges["level"] <= np.float32(self.level)))


class ObjectView(GroupView):
    """A volume with nothing but some of its objects, each one identity; elsewhere ids are 0.

    Of two that lie in each other the one that comes first has the pixels. `shown` has their rows
    (OBJECT_DTYPE) with the ids by which they go here: the smallest of what is left of each. Those
    of which nothing is left are not among them.
    """

    unit = "object"

    def __init__(self, base: Volume, objects: NDArray[Any]) -> None:
        objects = np.atleast_1d(objects)  # one row is an object, too
        if not {"id", "level"} <= set(objects.dtype.names or ()):
            raise ValueError("expected rows of objects(), with id and level")
        lookup = np.zeros_like(base.groups(level=0))
        shown = []
        for row in objects.copy():  # to which other ids are given
            members = base.groups(level=float(row["level"])) == row["id"]
            left = np.flatnonzero(members & (lookup == 0))
            if len(left):
                lookup[left] = left[0]
                shown.append(row)
                shown[-1]["id"] = left[0]
        super().__init__(base, lookup)
        self.shown = np.array(shown, objects.dtype)


def _in_frame(table: str, rows: NDArray[Any], t: int) -> NDArray[Any]:
    framed = np.empty(len(rows), row_dtype(table))
    framed["frame"] = t
    for name in rows.dtype.names or ():
        framed[name] = rows[name]
    return framed


def _without_frame(rows: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    plain = np.empty(len(rows), dtype)
    for name in dtype.names or ():
        plain[name] = rows[name]
    return plain

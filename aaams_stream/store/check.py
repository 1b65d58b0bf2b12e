"""What of a volume is sound: every chunk is read, and frames are compared with their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store

from aaams_stream.core.roi import Roi
from aaams_stream.errors import SinkError
from aaams_stream.model import ADJACENCY_DTYPE, EVENT_DTYPE, HIERARCHY_DTYPE, TRACK_DTYPE, EventKind
from aaams_stream.store.address import Address, Target, target_of
from aaams_stream.store.counts import Counts, read_counts
from aaams_stream.store.layout import (
    CHUNK_FRAMES,
    FINAL_TABLES,
    TABLES,
    WITHOUT_LEVELS,
    Header,
    array_in,
    open_group,
    read_offsets,
    read_rows,
)
from aaams_stream.store.levels import wrong_merges
from aaams_stream.store.sweep import STATE, Part, parts
from aaams_stream.store.tracks import build_tracks
from aaams_stream.store.validate import COUNTS, check_nodes, read_record

_SEEN_DTYPE = np.dtype([("frame", np.uint32), ("id", np.uint32), ("area", np.uint32)])
_PAIR_DTYPE = np.dtype([("frame", np.uint32), *ADJACENCY_DTYPE.descr[:2]])
_EVENT_DTYPE = np.dtype([("frame", np.uint32), *EVENT_DTYPE.descr])
_MOST_COUNTED = 1 << 24  # ids that are counted in an array; larger ones are sorted


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong."""

    part: str  # a chunk, an array or a table, by its name within the volume
    reason: str
    frames: tuple[int, int] | None  # that it spoils, from and up to; None: what is said of all


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in a volume."""

    path: Target
    frames: int
    complete: bool
    chunks: int  # that were read
    damages: tuple[Damage, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damages

    @property
    def good(self) -> list[tuple[int, int]]:
        """Frames with which nothing is wrong, as stretches from and up to."""
        bad = np.zeros(self.frames + 2, np.bool_)
        bad[[0, -1]] = True
        for damage in self.damages:
            if damage.frames is not None:
                bad[1 + damage.frames[0] : 1 + damage.frames[1]] = True
        turns = np.flatnonzero(np.diff(bad)).reshape(-1, 2)
        return [(int(first), int(last)) for first, last in turns]


def check(
    store: str | Path | Address | Store, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Read all of a volume, and return what is damaged.

    A SinkError where there is no volume, or its own attributes are damaged, so that nothing is
    known of it. progress: called with frames done and all.
    """
    path = target_of(store)
    record = read_record(path)
    frames = record["frames_committed"]
    nodes: dict[str, str] = {}
    check_nodes(path, record, nodes)
    root = open_group(path)
    damages = [
        Damage(node, _without_place(why, path), _frames_of(node, frames))
        for node, why in nodes.items()
    ]
    offsets: dict[str, NDArray[np.int64]] = {}
    lost: dict[str, str] = {}
    for table in TABLES:
        try:
            if f"{table}/offsets" not in nodes:
                offsets[table] = read_offsets(root, table, frames)
        except SinkError as error:
            lost[f"{table}/offsets"] = _without_place(str(error), path)
    chunks = 0
    try:
        for part in parts(root, nodes):
            found = list(_damaged_chunks(part, frames, offsets))
            chunks += sum(1 for _ in part.array.chunks_of((slice(0, part.rows),)))
            damages += found
    except SinkError as error:  # the segmenter's state is not there
        damages.append(Damage(STATE, _without_place(str(error), path), None))
    told = {damage.part.split("/c/")[0] for damage in damages}
    # whole chunks, but not those of this place
    damages += [Damage(node, why, (0, frames)) for node, why in lost.items() if node not in told]
    reader = _Reader(path, root, record, offsets, damages)
    for done in reader.compare_frames():
        if progress is not None:
            progress(done, frames)
    if not damages:
        damages += reader.compare_tables()
    return Report(path, frames, record["complete"], chunks, tuple(damages))


def _without_place(text: str, path: Target) -> str:
    """Return the text of an error without the volume that it begins with."""
    return text.removeprefix(f"{path}: ")


def _frames_of(node: str, frames: int) -> tuple[int, int] | None:
    """Return the frames that an array is about."""
    table = node.split("/")[0]
    return None if table in FINAL_TABLES or table == STATE else (0, frames)


def _damaged_chunks(
    part: Part, frames: int, offsets: dict[str, NDArray[np.int64]]
) -> Iterator[Damage]:
    for chunk in part.array.chunks_of((slice(0, part.rows),)):
        wrong = part.array.failure(chunk)
        if wrong is not None:
            rows = part.array.part(chunk)[0]
            spoilt = _spoilt_frames(part, rows.start, rows.stop, frames, offsets)
            yield Damage(part.array.name(chunk), wrong, spoilt)


def _spoilt_frames(
    part: Part, first: int, last: int, frames: int, offsets: dict[str, NDArray[np.int64]]
) -> tuple[int, int] | None:
    """Return the frames that rows from `first` up to `last` are about."""
    if part.node.endswith("/offsets"):  # a bound is between two frames
        return max(first - 1, 0), min(last, frames)
    if part.table is None:
        return first, min(last, frames)
    if part.table not in TABLES:
        return None
    bounds = offsets.get(part.table)
    if bounds is None:
        return 0, frames
    begin = int(np.searchsorted(bounds, first, side="right")) - 1
    end = int(np.searchsorted(bounds, last, side="left"))
    return max(begin, 0), min(max(end, begin + 1), frames)


class _Reader:
    """Compares what a volume says in one place with what it says in another."""

    def __init__(
        self,
        path: Target,
        root: zarr.Group,
        record: dict[str, Any],
        offsets: dict[str, NDArray[np.int64]],
        damages: list[Damage],
    ) -> None:
        self._path = path
        self._root = root
        self._record = record
        self._frames: int = record["frames_committed"]
        self._offsets = offsets
        self._damages = damages
        self._region = Header.from_record(record).region

    def compare_frames(self) -> Iterator[int]:
        """Compare every frame that can be read with its rows; yield how many are done."""
        known = Report(self._path, self._frames, True, 0, tuple(self._damages)).good
        for first, last in known if len(self._offsets) == len(TABLES) else ():
            for start in range(first - first % CHUNK_FRAMES, last, CHUNK_FRAMES):
                begin, end = max(start, first), min(start + CHUNK_FRAMES, last)
                try:
                    self._compare(begin, end)
                except SinkError as error:  # sound to the eye, but it cannot be decoded
                    wrong = _without_place(str(error), self._path)
                    self._damages.append(Damage("frames", wrong, (begin, end)))
                yield end

    def _compare(self, begin: int, end: int) -> None:
        ids = array_in(self._root, "labels/ids/0")[begin:end]
        times = array_in(self._root, "time")[begin:end]
        tables = {
            "segments": self._rows("segments", begin, end, _SEEN_DTYPE),
            "adjacency": self._rows("adjacency", begin, end, _PAIR_DTYPE),
            "events": self._rows("events", begin, end, _EVENT_DTYPE),
        }
        for t in range(begin, end):
            here = {}
            for table, rows in tables.items():
                bounds = self._offsets[table][t : t + 2] - self._offsets[table][begin]
                here[table] = rows[bounds[0] : bounds[1]]
            wrong = _inconsistency(ids[t - begin], here, t, self._region)
            if wrong is None and not np.isfinite(times[t - begin]):
                wrong = ("time", "is not a number")
            if wrong is not None:
                self._damages.append(Damage(*wrong, (t, t + 1)))

    def _rows(self, table: str, begin: int, end: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        bounds = self._offsets[table][[begin, end]]
        return read_rows(self._root, table, int(bounds[0]), int(bounds[1]), dtype)

    def compare_tables(self) -> list[Damage]:
        """Return what of the tables over the whole differs from those of the frames."""
        rows = {table: int(bounds[-1]) for table, bounds in self._offsets.items()}
        found = []
        try:
            record = {k: v for k, v in self._record.items() if k != COUNTS}
            counts = read_counts(self._root, record, rows["segments"], rows["events"])
            if COUNTS in self._record and counts != Counts(**self._record[COUNTS]):
                found.append(Damage("zarr.json", "its counts are not those of the tables", None))
            if self._record["complete"]:
                found += self._compare_final(rows, counts.identities)
        except SinkError as error:
            found.append(Damage("tables", _without_place(str(error), self._path), None))
        return found

    def _compare_final(self, rows: dict[str, int], identities: int) -> Iterator[Damage]:
        count = array_in(self._root, "tracks/id").shape[0]
        tracks = read_rows(self._root, "tracks", 0, count, TRACK_DTYPE)
        expected = build_tracks(self._root, rows["segments"], rows["events"])
        if not np.array_equal(tracks, expected):
            yield Damage("tracks", "is not what the segments and events sum up to", None)
        if self._record["schema"] != WITHOUT_LEVELS:
            count = array_in(self._root, "hierarchy/level").shape[0]
            merges = read_rows(self._root, "hierarchy", 0, count, HIERARCHY_DTYPE)
            wrong = wrong_merges(merges, identities)
            if wrong is not None:
                yield Damage("hierarchy", wrong, None)


def _inconsistency(
    ids: NDArray[np.uint32], tables: dict[str, NDArray[Any]], t: int, region: Roi | None
) -> tuple[str, str] | None:
    """Return where a frame's ids and tables do not agree, and how; None if they do."""
    for table, rows in tables.items():
        if (rows["frame"] != t).any():
            return table, "has rows of another frame"
    segments, pairs, events = tables["segments"], tables["adjacency"], tables["events"]
    found, areas = _count_ids(ids)
    if region is not None:
        if not np.array_equal(ids > 0, region.mask):
            return "labels/ids/0", "has ids elsewhere than in the region of interest"
        found, areas = found[found > 0], areas[found > 0]
    if not (np.array_equal(found, segments["id"]) and np.array_equal(areas, segments["area"])):
        return "labels/ids/0", "has other ids or areas than the table of segments"
    if not found[0]:
        return "labels/ids/0", "has pixels without an id"
    ends = np.stack([pairs["first"], pairs["second"]])
    if not ((ends[0] < ends[1]).all() and np.isin(ends, found).all()):
        return "adjacency", "has pairs of segments that are not there"
    if not np.isin(events["kind"], list(EventKind)).all():
        return "events", "has an event of no kind"
    return None


def _count_ids(ids: NDArray[np.uint32]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ids of a frame in order, and how often each is there."""
    if int(ids.max()) >= _MOST_COUNTED:
        return np.unique(ids, return_counts=True)
    counts = np.bincount(ids.ravel())
    found = np.flatnonzero(counts)
    return found, counts[found]

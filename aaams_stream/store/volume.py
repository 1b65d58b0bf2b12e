"""Reading a volume, lazily, and never beyond what was committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import zarr
from numpy.typing import ArrayLike, NDArray

from aaams_stream.core.pool import pool
from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.model import (
    ADJACENCY_DTYPE,
    EVENT_DTYPE,
    OBJECT_DTYPE,
    SEGMENT_DTYPE,
    TRACK_DTYPE,
    Crop,
    Lineage,
    SegmentGraph,
    build_graph,
)
from aaams_stream.params import Params
from aaams_stream.paths import expanded
from aaams_stream.store.counts import Counts, read_counts
from aaams_stream.store.frames import Frames, Pictures
from aaams_stream.store.layout import (
    KEY,
    WITHOUT_LEVELS,
    Header,
    array_in,
    open_group,
    read_offsets,
    read_rows,
    video_in,
)
from aaams_stream.store.levels import Hierarchy, checked_level
from aaams_stream.store.lineage import lineage, with_areas
from aaams_stream.store.sweep import require_chunks
from aaams_stream.store.tracks import build_tracks
from aaams_stream.store.validate import check_volume

if TYPE_CHECKING:
    from aaams_stream.store.view import LevelView, ObjectView

_TABLES = {"segments": SEGMENT_DTYPE, "adjacency": ADJACENCY_DTYPE, "events": EVENT_DTYPE}
NEIGHBOUR_DTYPE = np.dtype([("id", np.uint32), *ADJACENCY_DTYPE.descr[2:]])
_KEPT_BLOCKS = 2  # of rows, decoded, for walks from frame to frame


class Volume:
    """A volume opened for reading; what is written later shows after `open_volume` again.

    Nothing is read before it is asked for. Frames count from 0, and -1 is the last. `ids` (t, h, w)
    is indexed as NumPy indexes an array; `video` has the frames, where they are stored.

    Example:
        >>> import aaams_stream as aaams
        >>> summary = aaams.segment_video("demo", "demo.zarr", duration=0.5, size=(160, 120))
        >>> volume = aaams.open_volume("demo.zarr")
        >>> volume.ids[10].shape, len(volume.at(segments=8).tracks) < len(volume.tracks)
        ((120, 160), True)
    """

    unit = "supervoxel"  # what an id stands for

    def __init__(self, path: Path, root: zarr.Group) -> None:
        record: Any = root.attrs[KEY]
        self.path = path
        self.frame_count: int = record["frames_committed"]
        self.complete: bool = record["complete"]
        self.ended: str = record["ended"]  # "complete", "damaged: …" or "interrupted"
        self.version: str = record["version"]
        self.header = Header.from_record(record)
        self.source: str = self.header.spec
        self.height, self.width = self.header.height, self.header.width
        self.ids = Frames(array_in(root, "labels/ids/0"), self.frame_count)
        self.video: Pictures | None = None  # (t, h, w, 3), where they are stored
        if self.header.with_video:
            self.video = Pictures(Frames(video_in(root), self.frame_count))
        self._root = root
        self._record = record
        self._block_rows: int = array_in(root, "segments/frame").chunks[0]  # as of every column
        self._blocks: dict[tuple[str, int], NDArray[Any]] = {}
        self._tracks: NDArray[Any] | None = None
        self._hierarchy: Hierarchy | None = None
        self._offsets: dict[str, NDArray[np.int64]] = {}
        self._checksummed = array_in(root, "labels/ids/0").checksummed
        self._identities: int | None = None

    def __repr__(self) -> str:
        kept = ["video"] * self.header.with_video + ["levels"] * self.has_levels
        return (
            f"<Volume {self.path.name}: {self.frame_count} frames, {self.width}x{self.height}, "
            f"{self.fps:g} fps, {'complete' if self.complete else 'incomplete'}"
            f"{', with ' + ' and '.join(kept) if kept else ''}>"
        )

    def __len__(self) -> int:
        return self.frame_count

    def __bool__(self) -> bool:
        return True  # also without frames

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many frames there are, and their height and width: the shape of `ids`."""
        return self.frame_count, self.height, self.width

    @property
    def fps(self) -> float:
        """Frames a second, by what the source says of itself; `times` is exact."""
        return float(self.header.rate)

    @property
    def params(self) -> Params:
        """The settings the volume was made with."""
        return Params().updated(self.header.configuration)

    @property
    def times(self) -> NDArray[np.float64]:
        """Presentation time of every frame in seconds."""
        return array_in(self._root, "time")[: self.frame_count]

    @property
    def time_span(self) -> tuple[float, float] | None:
        """Presentation time of the first and the last frame in seconds; None without frames."""
        if not self.frame_count:
            return None
        times = array_in(self._root, "time")
        first, last = (float(times[t]) for t in (0, self.frame_count - 1))
        return first, last

    @property
    def counts(self) -> Counts:
        """How many identities there are, and how many events of each kind.

        Reads no table, unless the volume is older than its counts.
        """
        return self._own_counts()

    def _own_counts(self) -> Counts:
        """Return the counts of the volume, also if this is a view of one."""
        rows = (Volume.row_count(self, name) for name in ("segments", "events"))
        return read_counts(self._root, self._record, *rows)

    def require_chunks(self) -> None:
        """Raise a SinkError that names the first chunk that should be there and is not.

        Looks for files alone; `check` reads them.
        """
        require_chunks(self._root)

    def segments(self, t: int) -> NDArray[Any]:
        """Return the segments of frame `t`: SEGMENT_DTYPE, in order of id."""
        return self._rows("segments", t, SEGMENT_DTYPE)

    def adjacency(self, t: int) -> NDArray[Any]:
        """Return the pairs of segments that touch in frame `t`: ADJACENCY_DTYPE."""
        return self._rows("adjacency", t, ADJACENCY_DTYPE)

    def events_at(self, t: int) -> NDArray[Any]:
        """Return the events of frame `t`: EVENT_DTYPE, in the order they happened."""
        return self._rows("events", t, EVENT_DTYPE)

    @property
    def events(self) -> NDArray[Any]:
        """All events: EVENT_DTYPE with the frame in front."""
        return self.table("events")

    @property
    def tracks(self) -> NDArray[Any]:
        """One row per identity: TRACK_DTYPE, in order of id; of what was committed so far."""
        if self._tracks is None:
            if self.complete:
                count = array_in(self._root, "tracks/id").shape[0]
                tracks = read_rows(self._root, "tracks", 0, count, TRACK_DTYPE)
            else:
                segments, events = (self.row_count(name) for name in ("segments", "events"))
                tracks = build_tracks(self._root, segments, events)
            self.known_ids(tracks[["id"]])
            self._tracks = tracks
        return self._tracks.copy()

    def table(self, name: str) -> NDArray[Any]:
        """Return all rows of "segments", "adjacency" or "events", the frame in front."""
        dtype = row_dtype(name)
        return self.known_ids(read_rows(self._root, name, 0, self.row_count(name), dtype))

    def segment(self, track_id: int, t: int) -> np.void:
        """Return the row of segment `track_id` in frame `t`; a ValueError if it is not there."""
        rows = self.segments(t)
        at = int(np.searchsorted(rows["id"], track_id))
        if at == len(rows) or rows["id"][at] != track_id:
            self._track(track_id)
            raise ValueError(f"id {track_id} is not in frame {t}; see tracks for when it lives")
        row: np.void = rows[at]
        return row

    def mask(self, track_id: int, t: int) -> NDArray[np.bool_]:
        """Return where segment `track_id` is in frame `t`, (h, w); nowhere if it is hidden."""
        mask = np.asarray(self.ids[t] == track_id)
        if not mask.any():
            self._track(track_id)
        return mask

    def crop(self, track_id: int, t: int) -> Crop:
        """Cut segment `track_id` out of frame `t`; the picture comes along if it is stored."""
        x0, y0, x1, y1 = map(int, self.segment(track_id, t)["bbox"])
        mask = np.asarray(self.ids[t][y0:y1, x0:x1] == track_id)
        rgb = None if self.video is None else self.video[t, y0:y1, x0:x1]
        return Crop(t % self.frame_count, (x0, y0, x1, y1), mask, rgb)

    def tube(self, track_id: int) -> Iterator[Crop]:
        """Yield track `track_id` frame by frame, without those in which it is hidden."""
        track = self._track(track_id)
        for t in range(int(track["first"]), int(track["last"]) + 1):
            if track_id in self.segments(t)["id"]:
                yield self.crop(track_id, t)

    def neighbours(self, track_id: int, t: int) -> NDArray[Any]:
        """Return who touches segment `track_id` in frame `t`: rows with id, length and contrast."""
        self.segment(track_id, t)
        pairs = self.adjacency(t)
        pairs = pairs[(pairs["first"] == track_id) | (pairs["second"] == track_id)]
        rows = np.empty(len(pairs), NEIGHBOUR_DTYPE)
        rows["id"] = np.where(pairs["first"] == track_id, pairs["second"], pairs["first"])
        rows["length"], rows["contrast"] = pairs["length"], pairs["contrast"]
        return rows

    def lineage(self, track_id: int) -> Lineage:
        """Return the history of an identity through splits and merges."""
        self._track(track_id)
        return with_areas(lineage(self.events, track_id), self)

    def _track(self, track_id: int) -> np.void:
        """Return the row of an identity in `tracks`; a ValueError where there is no such id."""
        rows = self.tracks if self._tracks is None else self._tracks
        at = int(np.searchsorted(rows["id"], track_id))
        if at == len(rows) or rows["id"][at] != track_id:
            raise ValueError(f"the volume holds no id {track_id}; see tracks for those it holds")
        row: np.void = rows[at]
        return row

    def graph(self, a: int = 0, b: int | None = None) -> SegmentGraph:
        """Return the segments of frames `a` up to before `b` as a graph over space and time."""
        frames = range(self.frame_count)[a:b]
        reads = (self.segments, self.adjacency, self.events_at)
        return build_graph(frames, *([read(t) for t in frames] for read in reads))

    def pool(
        self, features: ArrayLike, t: int, *, layout: str | None = None
    ) -> NDArray[np.float32]:
        """Return the mean of an array over each segment of frame `t`; see `aaams_stream.pool`.

        Row i belongs to row i of `segments(t)`.
        """
        return pool(self.ids[t], features, self.segments(t)["id"], layout=layout)

    @property
    def has_levels(self) -> bool:
        """Whether the tree over its identities is there."""
        return self.complete and bool(self._record["schema"] > WITHOUT_LEVELS)

    @property
    def merge_count(self) -> int:
        """How many merges the tree over its identities has; reads no table."""
        return int(array_in(self._root, "hierarchy/level").shape[0]) if self.has_levels else 0

    @property
    def hierarchy(self) -> Hierarchy:
        """The tree over its identities; a SinkError that names the remedy if it is not there."""
        if self._hierarchy is None:
            self._require_levels()
            self._hierarchy = Hierarchy(self._root, self.frame_count, self.counts.identities)
        return self._hierarchy

    def _require_levels(self) -> None:
        require_complete(self, "levels are found at the end")
        if not self.has_levels:
            raise SinkError(
                f"{self.path}: was written without levels; add them with aaams-stream levels "
                f"{self.path}"
            )

    def groups(
        self, *, level: float | None = None, segments: float | None = None
    ) -> NDArray[np.uint32]:
        """Return the group of each id (n + 1,), by its smallest id; 0 stays 0.

        Either after all merges up to a `level`, 0 being none, or at the level whose mean number of
        groups a frame is nearest to `segments`.
        """
        return self.hierarchy.lookup(self.level_at(level=level, segments=segments))

    def at(self, *, level: float | None = None, segments: float | None = None) -> LevelView:
        """Return the volume seen at a coarser level, as `groups` has it, with all it can be asked.

        Nothing is read before it is asked for; an id is then that of a group.
        """
        from aaams_stream.store.view import LevelView

        return LevelView(self, self.level_at(level=level, segments=segments))

    def objects(self, k: int = 10) -> NDArray[Any]:
        """Return the groups that look most like things: OBJECT_DTYPE, k at most, best first.

        An object is the group of its id at its level. One may lie inside another.
        """
        if not k >= 1:
            raise ConfigError(f"the number of objects must be >= 1, got {k}")
        self._require_levels()
        count = array_in(self._root, "objects/id").shape[0]
        return read_rows(self._root, "objects", 0, min(k, count), OBJECT_DTYPE)

    def only(self, objects: NDArray[Any]) -> ObjectView:
        """Return the volume with nothing but some of its `objects`, each one identity.

        Of two that lie in each other the one that comes first has the pixels.
        """
        from aaams_stream.store.view import ObjectView

        return ObjectView(self, objects)

    def level_at(self, *, level: float | None = None, segments: float | None = None) -> float:
        """Return the level that is meant by a level or a number of groups a frame."""
        if (level is None) == (segments is None):
            raise ConfigError("give either a level or a number of groups, and not both")
        hierarchy = self.hierarchy
        if segments is not None:
            return hierarchy.level_of(segments)
        assert level is not None
        return checked_level(level)

    def row_count(self, table: str) -> int:
        """Return how many rows a table has; reads one chunk of its offsets."""
        if not self.frame_count:
            return 0
        rows = int(array_in(self._root, f"{table}/offsets")[self.frame_count])
        self._require_rows(table, rows)
        return rows

    def offsets(self, table: str) -> NDArray[np.int64]:
        """Return where each frame's rows of a table begin, (t + 1)."""
        if table not in self._offsets:
            offsets = read_offsets(self._root, table, self.frame_count)
            self._require_rows(table, int(offsets[-1]))
            self._offsets[table] = offsets
        return self._offsets[table]

    def _require_rows(self, table: str, rows: int) -> None:
        """Raise a SinkError unless a table has so many rows."""
        found = array_in(self._root, f"{table}/frame").shape[0]
        if not 0 <= rows <= found or (self.complete and rows != found):
            raise SinkError(
                f"{self.path}: {table}/offsets is damaged (it ends at {rows} of {found} rows)"
            )

    def known_ids(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows as they are; a SinkError if they have ids that the volume does not have.

        Where chunks have checksums nobody looks.
        """
        if self._checksummed:
            return rows
        if self._identities is None:
            self._identities = self._own_counts().identities
        most = self._identities
        for name in {"id", "other", "first", "second"}.intersection(rows.dtype.names or ()):
            if int(rows[name].max(initial=0)) > most:
                raise SinkError(f"{self.path}: a table is damaged (it has ids that are not there)")
        return rows

    def _rows(self, table: str, t: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        if not -self.frame_count <= t < self.frame_count:
            raise IndexError(f"frame {t} is out of range; the volume holds {self.frame_count}")
        start, stop = self.offsets(table)[[t % self.frame_count, t % self.frame_count + 1]]
        size, parts = self._block_rows, []
        for block in range(start // size, max(start, stop - 1) // size + 1):
            rows = self._block(table, block, dtype)
            parts.append(rows[max(0, start - block * size) : max(0, stop - block * size)])
        return np.concatenate(parts)

    def _block(self, table: str, block: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        key = (table, block)
        if key not in self._blocks:
            while len(self._blocks) >= _KEPT_BLOCKS * 3:
                del self._blocks[next(iter(self._blocks))]
            start = block * self._block_rows
            stop = min(start + self._block_rows, int(self.offsets(table)[-1]))
            self._blocks[key] = self.known_ids(read_rows(self._root, table, start, stop, dtype))
        return self._blocks[key]


def row_dtype(table: str) -> np.dtype[Any]:
    """Return the columns of a table, the frame in front."""
    if table not in _TABLES:
        raise ValueError(f"a volume has the tables {', '.join(_TABLES)}, not {table!r}")
    return np.dtype([("frame", np.uint32), *_TABLES[table].descr])


def require_complete(volume: Volume, reason: str) -> None:
    """Raise a SinkError that gives the reason unless all frames of a volume are there."""
    if not volume.complete:
        raise SinkError(
            f"{volume.path}: is not complete ({volume.frame_count} frames so far), and {reason}; "
            "finish it with segment --resume"
        )


def open_volume(store: str | Path) -> Volume:
    """Open a volume for reading.

    Args:
        store: the volume's folder; it may still be growing.

    Returns:
        The volume, as far as it was committed.

    Raises:
        SinkError: there is no volume, or none that this version reads; the text says why.

    Example:
        >>> import aaams_stream as aaams
        >>> summary = aaams.segment_video("demo", "seen.zarr", duration=0.1, size=(160, 120))
        >>> aaams.open_volume("seen.zarr").frame_count
        3
    """
    path = expanded(store)
    return Volume(path, open_root(path))


def open_root(path: Path, mode: Literal["r", "r+"] = "r") -> zarr.Group:
    """Open the group of a volume after all of its metadata was found sound."""
    check_volume(path)
    return open_group(path, mode)


def describe(path: Path) -> str:
    """Say in a few words what state a volume is in, and what can be done with it."""
    try:
        volume = open_volume(path)
    except SinkError as error:
        other = "schema version" in str(error)
        return f"({'of another schema version' if other else 'damaged'}); --overwrite replaces it"
    state = f"{'complete' if volume.complete else 'incomplete'}, {volume.frame_count} frames"
    return f"({state}); --resume continues it, --overwrite replaces it"

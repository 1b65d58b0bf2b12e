"""Reading a volume, lazily, and never beyond what was committed."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.errors import ContainsArrayError, GroupNotFoundError

from aaams_stream.core.pool import pool
from aaams_stream.errors import SinkError
from aaams_stream.model import (
    ADJACENCY_DTYPE,
    EVENT_DTYPE,
    SEGMENT_DTYPE,
    TRACK_DTYPE,
    Crop,
    Lineage,
)
from aaams_stream.params import Params
from aaams_stream.store.layout import CHUNK_FRAMES, KEY, ROWS, SCHEMA, Header, read_rows
from aaams_stream.store.lineage import lineage
from aaams_stream.store.tracks import EVENT_ROW_DTYPE, trace

NEIGHBOUR_DTYPE = np.dtype([("id", np.uint32), *ADJACENCY_DTYPE.descr[2:]])
_KEPT_BLOCKS = 2  # of rows, decoded, for walks from frame to frame


class Frames:
    """An array over time, read on demand: `frames[t]`, `frames[a:b]`, `frames[a:b, y, x]`.

    Its length is what was committed. Reading frame by frame decodes each chunk once.
    """

    def __init__(self, array: Any, count: int) -> None:
        self._array = array
        self.shape: tuple[int, ...] = (count, *array.shape[1:])
        self.dtype: np.dtype[Any] = array.dtype
        self.ndim = len(self.shape)
        self.chunks: tuple[int, ...] = array.chunks
        self._block: tuple[int, NDArray[Any]] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        first, *rest = key if isinstance(key, tuple) else (key,)
        if first is Ellipsis:
            raise IndexError("index time first, for example ids[t] or ids[:, 10:20]")
        if isinstance(first, slice):
            start, stop, step = first.indices(len(self))
            if step < 0:
                steps = range(start, stop, step)[::-1]
                return self[(slice(steps.start, steps.stop, steps.step), *rest)][::-1]
            return np.asarray(self._array[(slice(start, max(start, stop), step), *rest)])
        if np.ndim(first) > 0:
            chosen = np.asarray(first)
            if chosen.dtype == bool:
                if chosen.shape != self.shape[:1]:
                    raise IndexError(
                        f"a mask over time needs {len(self)} entries, got shape {chosen.shape}"
                    )
                chosen = np.flatnonzero(chosen)
            if chosen.size == 0:
                return self[(slice(0, 0), *rest)]
            return np.stack([self[(t, *rest)] for t in chosen])
        frame = self._frame(operator.index(first))
        return frame[tuple(rest)] if rest else frame

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def _frame(self, t: int) -> NDArray[Any]:
        if not -len(self) <= t < len(self):
            raise IndexError(f"frame {t} is out of range; the volume holds {len(self)} frames")
        t %= len(self)
        block, within = divmod(t, CHUNK_FRAMES)
        if self._block is None or self._block[0] != block:
            start = block * CHUNK_FRAMES
            stop = min(start + CHUNK_FRAMES, len(self))
            self._block = (block, np.asarray(self._array[start:stop]))
        return np.array(self._block[1][within])


class Volume:
    """A volume opened for reading; what is written later shows after `open_volume` again."""

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
        self.ids = Frames(root["labels/ids/0"], self.frame_count)
        self.video = Frames(root["0"], self.frame_count) if self.header.with_video else None
        self._root = root
        self._blocks: dict[tuple[str, int], NDArray[Any]] = {}
        self._tracks: NDArray[Any] | None = None
        self._offsets: dict[str, NDArray[np.int64]] = {}

    def __repr__(self) -> str:
        state = "complete" if self.complete else "incomplete"
        return (
            f"<Volume {self.path.name}: {self.frame_count} frames, {self.width}x{self.height}, "
            f"{state}>"
        )

    @property
    def params(self) -> Params:
        """The settings the volume was made with."""
        return Params().updated(self.header.configuration)

    @property
    def times(self) -> NDArray[np.float64]:
        """Presentation time of every frame in seconds."""
        array: Any = self._root["time"]
        return np.asarray(array[: self.frame_count])

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
        count = int(self.offsets("events")[-1])
        return read_rows(self._root, "events", 0, count, EVENT_ROW_DTYPE)

    @property
    def tracks(self) -> NDArray[Any]:
        """One row per identity: TRACK_DTYPE, in order of id; of what was committed so far."""
        if self._tracks is None:
            if self.complete:
                column: Any = self._root["tracks/id"]
                self._tracks = read_rows(self._root, "tracks", 0, column.shape[0], TRACK_DTYPE)
            else:
                counts = (int(self.offsets(name)[-1]) for name in ("segments", "events"))
                self._tracks = trace(self._root, *counts)
        return self._tracks.copy()

    def table(self, name: str) -> NDArray[Any]:
        """Return all rows of "segments", "adjacency" or "events", the frame in front."""
        dtypes = {"segments": SEGMENT_DTYPE, "adjacency": ADJACENCY_DTYPE, "events": EVENT_DTYPE}
        if name not in dtypes:
            raise ValueError(f"a volume has the tables {', '.join(dtypes)}, not {name!r}")
        rows = np.dtype([("frame", np.uint32), *dtypes[name].descr])
        return read_rows(self._root, name, 0, int(self.offsets(name)[-1]), rows)

    def segment(self, name: int, t: int) -> Any:
        """Return the row of segment `name` in frame `t`; a ValueError if it is not there."""
        rows = self.segments(t)
        at = int(np.searchsorted(rows["id"], name))
        if at == len(rows) or rows["id"][at] != name:
            raise ValueError(f"id {name} is not in frame {t}; see tracks for when it lives")
        return rows[at]

    def mask(self, name: int, t: int) -> NDArray[np.bool_]:
        """Return where segment `name` is in frame `t`, (h, w); nowhere if it is hidden."""
        return np.asarray(self.ids[t] == name)

    def crop(self, name: int, t: int) -> Crop:
        """Cut segment `name` out of frame `t`; the picture comes along if it is stored."""
        x0, y0, x1, y1 = map(int, self.segment(name, t)["bbox"])
        mask = np.asarray(self.ids[t][y0:y1, x0:x1] == name)
        rgb = None
        if self.video is not None:
            rgb = np.ascontiguousarray(self.video[t][:, y0:y1, x0:x1].transpose(1, 2, 0))
        return Crop(t % self.frame_count, (x0, y0, x1, y1), mask, rgb)

    def tube(self, name: int) -> Iterator[Crop]:
        """Yield track `name` frame by frame, without those in which it is hidden."""
        track = self.tracks[self.tracks["id"] == name]
        if not len(track):
            raise ValueError(f"the volume holds no id {name}")
        for t in range(int(track["first"][0]), int(track["last"][0]) + 1):
            if name in self.segments(t)["id"]:
                yield self.crop(name, t)

    def neighbours(self, name: int, t: int) -> NDArray[Any]:
        """Return who touches segment `name` in frame `t`: rows with id, length and contrast."""
        self.segment(name, t)
        pairs = self.adjacency(t)
        pairs = pairs[(pairs["first"] == name) | (pairs["second"] == name)]
        rows = np.empty(len(pairs), NEIGHBOUR_DTYPE)
        rows["id"] = np.where(pairs["first"] == name, pairs["second"], pairs["first"])
        rows["length"], rows["contrast"] = pairs["length"], pairs["contrast"]
        return rows

    def lineage(self, name: int) -> Lineage:
        """Return the history of an identity through splits and merges."""
        return lineage(self.events, name)

    def pool(self, features: Any, t: int) -> NDArray[np.float32]:
        """Return the mean of an array (h, w) or (h, w, c) over each segment of frame `t`.

        Row i belongs to row i of `segments(t)`.
        """
        return pool(self.ids[t], features, self.segments(t)["id"])

    def offsets(self, table: str) -> NDArray[np.int64]:
        """Return where each frame's rows of a table begin, (t + 1)."""
        if table not in self._offsets:
            array: Any = self._root[f"{table}/offsets"]
            stored = np.asarray(array[: self.frame_count + 1]).astype(np.int64)
            self._offsets[table] = stored if self.frame_count else np.zeros(1, dtype=np.int64)
        return self._offsets[table]

    def _rows(self, table: str, t: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        if not -self.frame_count <= t < self.frame_count:
            raise IndexError(f"frame {t} is out of range; the volume holds {self.frame_count}")
        start, stop = self.offsets(table)[[t % self.frame_count, t % self.frame_count + 1]]
        parts = []
        for block in range(start // ROWS, max(start, stop - 1) // ROWS + 1):
            rows = self._block(table, block, dtype)
            parts.append(rows[max(0, start - block * ROWS) : max(0, stop - block * ROWS)])
        return np.concatenate(parts)

    def _block(self, table: str, block: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        key = (table, block)
        if key not in self._blocks:
            while len(self._blocks) >= _KEPT_BLOCKS * 3:
                del self._blocks[next(iter(self._blocks))]
            stop = min((block + 1) * ROWS, int(self.offsets(table)[-1]))
            self._blocks[key] = read_rows(self._root, table, block * ROWS, stop, dtype)
        return self._blocks[key]


def open_volume(store: str | Path) -> Volume:
    """Open the volume at `store` for reading; a SinkError if there is none we can read."""
    path = Path(store).expanduser()
    root = open_root(path)
    try:
        return Volume(path, root)
    except KeyError as error:
        raise SinkError(f"{path}: a part of the volume is missing ({error})") from error


def open_root(path: Path) -> zarr.Group:
    """Open the group of a volume, read only, after a look at what it says of itself."""
    try:
        found = path.exists()
    except OSError as error:
        raise SinkError(f"{path}: cannot be read ({error.strerror})") from error
    if not found:
        raise SinkError(f"{path}: no such volume")
    try:
        root = zarr.open_group(str(path), mode="r", zarr_format=3)
    except (GroupNotFoundError, ContainsArrayError, FileNotFoundError, NotADirectoryError) as error:
        raise SinkError(f"{path}: not a volume of ours (no Zarr v3 group)") from error
    except OSError as error:
        raise SinkError(f"{path}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise SinkError(f"{path}: its metadata is damaged ({error})") from error
    record = root.attrs.get(KEY)
    if not isinstance(record, dict):
        raise SinkError(f"{path}: a Zarr group, but not a volume of ours")
    if record.get("schema") != SCHEMA:
        raise SinkError(
            f"{path}: has schema version {record.get('schema')}, this program reads {SCHEMA}; use "
            f"the version that wrote it ({record.get('version', 'unknown')})"
        )
    return root


def is_volume(path: Path) -> bool:
    """Whether a folder is a volume of ours, of whatever schema version."""
    try:
        attributes = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return isinstance(attributes, dict) and isinstance(attributes.get(KEY), dict)


def describe(path: Path) -> str:
    """Say in a few words what state a volume is in, and what can be done with it."""
    try:
        volume = open_volume(path)
    except SinkError:
        return "(of another schema version); --overwrite replaces it"
    state = "complete" if volume.complete else "incomplete"
    remedies = "--resume continues it, --overwrite replaces it"
    return f"({state}, {volume.frame_count} frames); {remedies}"

"""Writing a volume: whole chunks, then the count of what may be trusted.

`frames_committed` is written after the data it counts, together with the segmenter's state at
that frame. Whatever a crash leaves beyond it is cut off when the volume is resumed, so that the
finished volume is the one an uninterrupted run writes, byte for byte.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import TransposeCodec

from aaams_stream.errors import SinkError
from aaams_stream.model import FrameSegmentation
from aaams_stream.store.layout import (
    CHUNK_FRAMES,
    KEY,
    SCHEMA,
    TABLES,
    TRACK_COLUMNS,
    Header,
    build,
)
from aaams_stream.store.tracks import trace
from aaams_stream.store.volume import describe, is_volume, open_root

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_INTERRUPTED = "interrupted"
_PIECE = 1 << 20  # bytes of a state written at a time: on its way to disk each is copied four times


class VolumeWriter:
    """Appends frames to one volume.

    Memory: one chunk of frames and one of every column, however long the video is.
    """

    def __init__(self, path: Path, root: zarr.Group, claim: Claim) -> None:
        self.path = path
        self._root = root
        self._claim = claim
        self._record: dict[str, Any] = dict(root.attrs[KEY])  # type: ignore[arg-type]
        header = Header.from_record(self._record)
        self.frames: int = self._record["frames_committed"]
        self.complete: bool = self._record["complete"]
        self._ids = _frames(root["labels/ids/0"], self.frames)
        self._video = _frames(root["0"], self.frames) if header.with_video else None
        self._time = _Growing(root["time"], self.frames)
        self._tables = {name: _Table(root, name, self.frames) for name in TABLES}

    def append(
        self,
        segmentation: FrameSegmentation,
        time: float,
        rgb: NDArray[np.uint8] | None = None,
    ) -> None:
        """Add the next frame; chunks are written as they fill."""
        with sink_errors(self.path):
            self._ids.append(segmentation.ids[None])
            if self._video is not None and rgb is not None:
                self._video.append(rgb.transpose(2, 0, 1)[None])
            self._time.append(np.array([time], dtype=np.float64))
            self._tables["segments"].append(self.frames, segmentation.segments)
            self._tables["adjacency"].append(self.frames, segmentation.adjacency)
            self._tables["events"].append(self.frames, segmentation.events)
            self.frames += 1

    def commit(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Make every frame so far count, `state` being the segmenter's after the last of them.

        Only where chunks end: `frames` must be a multiple of CHUNK_FRAMES.
        """
        if self.frames % CHUNK_FRAMES:
            raise ValueError(f"commit at whole chunks of {CHUNK_FRAMES}, not at {self.frames}")
        with sink_errors(self.path):
            self._flush()
            name = f"{self.frames:08d}"
            _save_state(self._root, name, state)
            self._note(frames_committed=self.frames)
            self._forget_states(keep=name)

    def finish(self, ended: str) -> None:
        """Write what is left and mark the volume complete; `ended` says how the source ended."""
        with sink_errors(self.path):
            self._flush()
            self._write_tracks()
            self._note(frames_committed=self.frames, complete=True, ended=ended)
            tidy(self._root)
        self.release()

    def release(self) -> None:
        """Let others write to the volume; nothing is written here any more."""
        self._claim.release()

    def _flush(self) -> None:
        self._ids.flush()
        if self._video is not None:
            self._video.flush()
        self._time.flush()
        for table in self._tables.values():
            table.flush()

    def _write_tracks(self) -> None:
        rows = trace(self._root, *(self._tables[name].rows for name in ("segments", "events")))
        for name in TRACK_COLUMNS:
            column: Any = self._root[f"tracks/{name}"]
            column.resize((len(rows), *column.shape[1:]))
            column[:] = rows[name]

    def _note(self, **changes: Any) -> None:
        self._record.update(changes)
        self._root.attrs[KEY] = self._record

    def _forget_states(self, keep: str) -> None:
        group = self._root["resume"]
        assert isinstance(group, zarr.Group)
        for name in list(group.array_keys()):
            if name != keep:
                del group[name]


def create(path: Path, header: Header, version: str, *, overwrite: bool = False) -> VolumeWriter:
    """Begin a volume at `path`; with `overwrite`, one that is there is replaced.

    Only a volume of ours is ever replaced, and none that is being written. The new one appears
    under its name whole, so that a crash leaves either the old state or one that can be resumed.
    """
    if not path.name:
        raise SinkError(f"{path}: not a name for a volume; expected one like clip.zarr")
    with sink_errors(path):
        path = path.resolve()  # a link stays one: what it points at is replaced
        taken = path.exists() and not (path.is_dir() and not any(path.iterdir()))
        if taken and not is_volume(path):
            raise SinkError(f"{path}: exists and is not a volume of ours; choose another name")
        if taken and not overwrite:
            raise SinkError(f"{path}: exists {describe(path)}")
        fresh, old = (path.with_name(f".{path.name}.{word}") for word in ("new", "old"))
        for folder in (fresh, old, path):
            if folder.is_dir():
                Claim(folder, path).release()
        for leftover in (fresh, old):
            if leftover.exists():
                shutil.rmtree(leftover)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        claim = Claim(fresh, path)
        record = {
            "schema": SCHEMA,
            "version": version,
            **header.to_record(),
            "frames_committed": 0,
            "complete": False,
            "ended": _INTERRUPTED,
        }
        root = zarr.create_group(str(fresh), zarr_format=3, attributes={KEY: record})
        build(root, header)
        if taken:
            path.rename(old)
        fresh.rename(path)
        if taken:
            shutil.rmtree(old)
        return VolumeWriter(path, zarr.open_group(str(path), mode="r+"), claim)


def resume(
    path: Path, header: Header, version: str
) -> tuple[VolumeWriter, dict[str, NDArray[Any]] | None]:
    """Go on with the volume at `path`; return the writer and the segmenter's state, if any.

    The volume must have been begun for the same source with the same settings.
    """
    record = open_root(path).attrs[KEY]
    assert isinstance(record, dict)
    if record["version"] != version:
        raise SinkError(
            f"{path}: was begun by version {record['version']} and this is {version}; finish it "
            "with that one, or use --overwrite"
        )
    if header.fingerprint is None:
        raise SinkError(f"{path}: {header.spec} cannot be read a second time, so not resumed")
    _require_same(path, Header.from_record(record), header)
    with sink_errors(path):
        claim = Claim(path, path)
        root = zarr.open_group(str(path), mode="r+")
        for partial in path.rglob("*.partial"):  # what a killed process was writing
            partial.unlink()
        try:
            writer = VolumeWriter(path, root, claim)
            state = None if writer.complete else _load_state(root, writer.frames)
        except KeyError as error:
            claim.release()
            raise SinkError(
                f"{path}: a part of the volume is missing ({error.args[0]}); --overwrite begins "
                "anew"
            ) from error
        if writer.complete:
            tidy(root)
        return writer, state


def tidy(root: zarr.Group) -> None:
    """Remove what only an incomplete volume needs."""
    if "resume" in root:
        del root["resume"]


class Claim:
    """The right to write to a volume, held by one process at a time.

    A lock on the folder itself: it goes with the folder when that is renamed, leaves no file
    behind, and ends with the process, however that ends. Where folders cannot be locked, as on
    Windows, everybody has the right.
    """

    def __init__(self, folder: Path, volume: Path) -> None:
        self._lock: weakref.finalize[..., Any] | None = None
        if fcntl is None:
            return
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise SinkError(
                    f"{volume}: is being written by another process; wait for it, or choose "
                    "another name"
                ) from None
            return  # a file system without locks
        self._lock = weakref.finalize(self, os.close, handle)

    def release(self) -> None:
        """Give the right back; a second time does nothing."""
        if self._lock is not None:
            self._lock()


@contextmanager
def sink_errors(path: Path) -> Iterator[None]:
    """Turn the system's errors into a SinkError that names the volume and a remedy."""
    try:
        yield
    except SinkError:
        raise
    except OSError as error:
        remedies = {
            errno.ENOSPC: "the disk is full; make room and use --resume",
            errno.EDQUOT: "the quota is used up; make room and use --resume",
            errno.EROFS: "the place is read-only; choose another",
            errno.EACCES: "the place may not be written to; choose another",
            errno.EPERM: "the place may not be written to; choose another",
        }
        reason = remedies.get(error.errno or 0, error.strerror or str(error))
        raise SinkError(f"{path}: cannot be written ({reason})") from error


def _require_same(path: Path, begun: Header, now: Header) -> None:
    if begun.fingerprint != now.fingerprint:
        raise SinkError(
            f"{path}: was begun from another source ({begun.spec}); give that one, or --overwrite"
        )
    if begun.configuration != now.configuration:
        names = sorted(_differences(begun.configuration, now.configuration))
        raise SinkError(
            f"{path}: was begun with other settings ({', '.join(names)}); use those, or --overwrite"
        )
    wanted = (begun.selection | {"with_video": begun.with_video}).items()
    given = now.selection | {"with_video": now.with_video}
    for name, value in wanted:
        if given.get(name) != value:
            raise SinkError(
                f"{path}: was begun with {name.replace('_', ' ')} {value} and not "
                f"{given.get(name)}; use that, or --overwrite"
            )


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for table in {*one, *other}:
        left, right = one.get(table, {}), other.get(table, {})
        for key in {*left, *right}:
            if left.get(key) != right.get(key):
                yield f"{table}.{key}"


def _save_state(root: zarr.Group, name: str, state: Mapping[str, NDArray[Any]]) -> None:
    packed = io.BytesIO()
    np.savez(packed, **state)  # type: ignore[arg-type]
    data = np.frombuffer(packed.getbuffer(), dtype=np.uint8)
    group = root["resume"]
    assert isinstance(group, zarr.Group)
    array = group.create_array(
        name,
        shape=data.shape,
        chunks=(_PIECE,),
        dtype=np.uint8,
        compressors=None,
        overwrite=True,
        dimension_names=("byte",),
    )
    for start in range(0, len(data), _PIECE):
        array[start : start + _PIECE] = data[start : start + _PIECE]


def _load_state(root: zarr.Group, frames: int) -> dict[str, NDArray[Any]] | None:
    if frames == 0:
        return None
    data = np.asarray(root[f"resume/{frames:08d}"][:])  # type: ignore[index]
    with np.load(io.BytesIO(data.tobytes()), allow_pickle=False) as arrays:
        return dict(arrays)


class _Growing:
    """An array that grows along its first axis, written in whole chunks.

    Holds the last, partial chunk. A flush in between writes that chunk with more rows than before,
    in one rename: the rows committed earlier stay what they were at every moment.
    """

    def __init__(self, array: Any, rows: int) -> None:
        self._array = array
        self._buffer = _room_for_chunk(array)
        self._filled = rows % len(self._buffer)
        self._base = rows - self._filled
        self._buffer[: self._filled] = array[self._base : rows]
        self._fresh = False
        self._resize(rows)

    def append(self, rows: NDArray[Any]) -> None:
        while len(rows):
            begin = self._filled
            self._filled = min(begin + len(rows), len(self._buffer))
            self._buffer[begin : self._filled] = rows[: self._filled - begin]
            rows = rows[self._filled - begin :]
            self._fresh = True
            if self._filled == len(self._buffer):
                self.flush()

    def flush(self) -> None:
        if not self._fresh:
            return
        stop = self._base + self._filled
        self._resize(stop)  # first, so that no chunk ever lies outside and escapes a later cut
        self._array[self._base : stop] = self._buffer[: self._filled]
        self._fresh = False
        if self._filled == len(self._buffer):
            self._base, self._filled = stop, 0

    def _resize(self, rows: int) -> None:
        if self._array.shape[0] != rows:
            self._array.resize((rows, *self._array.shape[1:]))


def _frames(array: Any, frames: int) -> _Growing:
    # comparing every pixel with the fill value, to leave out empty chunks, costs a millisecond
    return _Growing(array.with_config({"write_empty_chunks": True}), frames)


def _room_for_chunk(array: Any) -> NDArray[Any]:
    """Return a buffer for a row of chunks, laid out in memory as a chunk will be.

    The codec that transposes the chunk then has nothing to copy.
    """
    shape = (array.chunks[0], *array.shape[1:])
    order: Sequence[int] = range(len(shape))
    for codec in array.filters:
        if isinstance(codec, TransposeCodec):
            order = codec.order
    return np.empty([shape[axis] for axis in order], array.dtype).transpose(np.argsort(order))


class _Table:
    """A group of columns with one row per entry, and the offsets of each frame's rows."""

    def __init__(self, root: zarr.Group, name: str, frames: int) -> None:
        group = root[name]
        assert isinstance(group, zarr.Group)
        offsets: Any = group["offsets"]
        self.rows = int(offsets[frames]) if frames else 0
        self._offsets = _Growing(offsets, frames + 1 if frames else 0)
        if not frames:
            self._offsets.append(np.zeros(1, dtype=np.uint64))
        self._columns = {column: _Growing(group[column], self.rows) for column in TABLES[name]}

    def append(self, frame: int, rows: NDArray[Any]) -> None:
        self._columns["frame"].append(np.full(len(rows), frame, dtype=np.uint32))
        for name in rows.dtype.names or ():
            self._columns[name].append(rows[name])
        self.rows += len(rows)
        self._offsets.append(np.array([self.rows], dtype=np.uint64))

    def flush(self) -> None:
        for column in self._columns.values():
            column.flush()
        self._offsets.flush()

"""Writing a volume: whole chunks, then the count of what may be trusted.

`frames_committed` is written after the data it counts, together with the segmenter's state at
that frame. Whatever a crash leaves beyond it is cut off when the volume is resumed, so that the
finished volume is the one an uninterrupted run writes, byte for byte.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from aaams_stream.errors import SinkError
from aaams_stream.model import FrameSegmentation
from aaams_stream.store.address import Address, Target
from aaams_stream.store.arrays import ChunkedArray, Table
from aaams_stream.store.counts import Counts, read_counts
from aaams_stream.store.guard import noticing_removal
from aaams_stream.store.layout import (
    CHUNK_FRAMES,
    KEY,
    TABLES,
    Header,
    array_in,
    copy_record,
    group_in,
    video_in,
    write_final_table,
)
from aaams_stream.store.levels import build_levels
from aaams_stream.store.stored import StoredArray, place_of
from aaams_stream.store.tracks import build_tracks
from aaams_stream.store.validate import COUNTS, sealed

if TYPE_CHECKING:
    from aaams_stream.store.root import Right

_AT_ONCE = 16  # arrays that are flushed behind an address
_PIECE = 1 << 20  # bytes of a state written at a time: on its way to disk each is copied four times


class VolumeWriter:
    """Appends frames to one volume.

    Memory: one chunk of frames and one of every column, however long the video is.
    """

    def __init__(self, path: Target, root: zarr.Group, lock: Right) -> None:
        self.path = path
        self._root = root
        self._lock = lock
        self._record: dict[str, Any] = dict(root.attrs[KEY])  # type: ignore[arg-type]
        header = Header.from_record(self._record)
        self.frames: int = self._record["frames_committed"]
        self.complete: bool = self._record["complete"]
        self._ids = ChunkedArray(array_in(root, "labels/ids/0"), self.frames)
        self._video = ChunkedArray(video_in(root), self.frames) if header.with_video else None
        self._time = ChunkedArray(array_in(root, "time"), self.frames)
        self._tables = {name: Table(root, name, self.frames) for name in TABLES}
        rows = (self._tables[name].rows for name in ("segments", "events"))
        self._counts = read_counts(root, self._record, *rows)

    def append(
        self,
        segmentation: FrameSegmentation,
        time: float,
        rgb: NDArray[np.uint8] | None = None,
    ) -> None:
        """Add the next frame; chunks are written as they fill."""
        with noticing_removal(self._root), sink_errors(self.path):
            self._ids.append(segmentation.ids[None])
            if self._video is not None and rgb is not None:
                self._video.append(rgb.transpose(2, 0, 1)[None])
            self._time.append(np.array([time], dtype=np.float64))
            self._tables["segments"].append(self.frames, segmentation.segments)
            self._tables["adjacency"].append(self.frames, segmentation.adjacency)
            self._tables["events"].append(self.frames, segmentation.events)
            self._counts = self._counts.with_rows(segmentation.segments, segmentation.events)
            self.frames += 1

    def commit(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Make every frame so far count, `state` being the segmenter's after the last of them.

        Only where chunks end: `frames` must be a multiple of CHUNK_FRAMES.
        """
        if self.frames % CHUNK_FRAMES:
            raise ValueError(f"commit at whole chunks of {CHUNK_FRAMES}, not at {self.frames}")
        with noticing_removal(self._root), sink_errors(self.path):
            self._flush()
            name = f"{self.frames:08d}"
            _save_state(self._root, name, state)
            self._note(frames_committed=self.frames)
            self._forget_states()

    def finish(self, ended: str) -> None:
        """Write what is left and mark the volume complete; `ended` says how the source ended."""
        with noticing_removal(self._root), sink_errors(self.path):
            self._flush()
            segments, events = (self._tables[name].rows for name in ("segments", "events"))
            write_final_table(self._root, "tracks", build_tracks(self._root, segments, events))
            for table, rows in build_levels(self._root, self.frames).items():
                write_final_table(self._root, table, rows)
            self._note(frames_committed=self.frames, complete=True, ended=ended)
            drop_resume_state(self._root)
        self.release()

    @property
    def root(self) -> zarr.Group:
        """The group of the volume, for those who put frames into it by other ways than `append`."""
        return self._root

    def finish_joined(self, frames: int, counts: Counts, ended: str) -> None:
        """Mark the volume complete after all of its arrays were written elsewhere."""
        with noticing_removal(self._root), sink_errors(self.path):
            self.frames, self._counts = frames, counts
            self._note(frames_committed=frames, complete=True, ended=ended)
            drop_resume_state(self._root)
        self.complete = True
        self.release()

    def release(self) -> None:
        """Let others write to the volume; nothing is written here any more."""
        self._lock.release()

    def _flush(self) -> None:
        arrays = [self._ids, self._time] + ([] if self._video is None else [self._video])
        for table in self._tables.values():
            arrays += table.arrays()
        if isinstance(self.path, Address):  # each waits for its answers, so many at a time
            with ThreadPoolExecutor(_AT_ONCE, "zarr_io_flush") as pool:
                list(pool.map(ChunkedArray.flush, arrays))
            return
        for array in arrays:
            array.flush()

    def _note(self, **changes: Any) -> None:
        self._record.update(changes)
        self._record[COUNTS] = self._counts.to_record()
        record = sealed(self._record)
        if self._record["complete"]:
            copy_record(self._root, record)
        self._root.attrs[KEY] = record

    def _forget_states(self) -> None:
        """Remove the states before; a later one is another process's, or written anew some time."""
        group = group_in(self._root, "resume")
        for name in list(group.array_keys()):
            if int(name) < self.frames:
                del group[name]


def drop_resume_state(root: zarr.Group) -> None:
    """Remove the segmenter's state, which only an incomplete volume needs.

    Whatever it says: it may be damaged, or not there.
    """
    del root["resume"]


def _save_state(root: zarr.Group, name: str, state: Mapping[str, NDArray[Any]]) -> None:
    packed = io.BytesIO()
    np.savez(packed, **state)  # type: ignore[arg-type]
    data = np.frombuffer(packed.getbuffer(), dtype=np.uint8)
    array = group_in(root, "resume").create_array(
        name,
        shape=data.shape,
        chunks=(_PIECE,),
        dtype=np.uint8,
        compressors=[Crc32cCodec()],
        overwrite=True,
        dimension_names=("byte",),
    )
    stored = StoredArray(array)
    for start in range(0, len(data), _PIECE):
        stored[start : start + _PIECE] = data[start : start + _PIECE]


def load_state(root: zarr.Group, frames: int) -> dict[str, NDArray[Any]] | None:
    """Return the state that was committed with frame `frames`; None before the first."""
    if frames == 0:
        return None
    name = f"resume/{frames:08d}"
    array = array_in(root, name)
    if array.dtype != np.uint8 or len(array.shape) != 1:
        raise SinkError(f"{place_of(root)}: {name} is no state of ours")
    data = array[:]
    try:
        with np.load(io.BytesIO(data.tobytes()), allow_pickle=False) as arrays:
            return dict(arrays)
    except MemoryError:
        raise
    except Exception as error:  # zip, headers of arrays, checksums: each has errors of its own
        raise SinkError(f"{place_of(root)}: {name} is damaged ({error})") from error


@contextmanager
def sink_errors(path: Target) -> Iterator[None]:
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

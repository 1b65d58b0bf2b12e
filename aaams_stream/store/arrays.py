"""Arrays and tables that grow frame by frame, written in whole chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import TransposeCodec

from aaams_stream.store.layout import TABLES, array_in
from aaams_stream.store.stored import StoredArray


class ChunkedArray:
    """An array that grows along its first axis, written in whole chunks.

    Holds the last, partial chunk. A flush in between writes that chunk with more rows than before,
    in one rename: the rows committed earlier stay what they were at every moment.
    """

    def __init__(self, array: StoredArray, rows: int) -> None:
        self._array = array
        self._buffer = _room_for_chunk(array)
        self._filled = rows % len(self._buffer)
        self._base = rows - self._filled
        self._buffer[: self._filled] = array[self._base : rows]
        # a crash may have left more rows in the chunk at hand than count: it is written again
        self._fresh = self._filled > 0 and array.shape[0] > rows
        self._resize(rows)

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows; chunks are written as they fill."""
        while len(rows):
            begin = self._filled
            self._filled = min(begin + len(rows), len(self._buffer))
            self._buffer[begin : self._filled] = rows[: self._filled - begin]
            rows = rows[self._filled - begin :]
            self._fresh = True
            if self._filled == len(self._buffer):
                self.flush()

    def flush(self) -> None:
        """Write the chunk at hand, full or not."""
        if not self._fresh:
            return
        stop = self._base + self._filled
        self._resize(stop)  # first, so that no chunk ever lies outside and escapes a later resize
        self._array[self._base : stop] = self._buffer[: self._filled]
        self._fresh = False
        if self._filled == len(self._buffer):
            self._base, self._filled = stop, 0

    def _resize(self, rows: int) -> None:
        if self._array.shape[0] != rows:
            self._array.resize((rows, *self._array.shape[1:]))


def _room_for_chunk(array: StoredArray) -> NDArray[Any]:
    """Return a buffer for a row of chunks, laid out in memory as a chunk will be.

    The codec that transposes the chunk then has nothing to copy.
    """
    shape = (array.chunks[0], *array.shape[1:])
    order: Sequence[int] = range(len(shape))
    for codec in array.filters:
        if isinstance(codec, TransposeCodec):
            order = codec.order
    return np.empty([shape[axis] for axis in order], array.dtype).transpose(np.argsort(order))


class Table:
    """A group of columns with one row per entry, and the offsets of each frame's rows."""

    def __init__(self, root: zarr.Group, name: str, frames: int) -> None:
        offsets = array_in(root, f"{name}/offsets")
        self.rows = int(offsets[frames]) if frames else 0
        self._offsets = ChunkedArray(offsets, frames + 1 if frames else 0)
        if not frames:
            self._offsets.append(np.zeros(1, dtype=np.uint64))
        self._columns = {
            column: ChunkedArray(array_in(root, f"{name}/{column}"), self.rows)
            for column in TABLES[name]
        }

    def append(self, frame: int, rows: NDArray[Any]) -> None:
        """Add the rows of the next frame."""
        self._columns["frame"].append(np.full(len(rows), frame, dtype=np.uint32))
        for name in rows.dtype.names or ():
            self._columns[name].append(rows[name])
        self.rows += len(rows)
        self._offsets.append(np.array([self.rows], dtype=np.uint64))

    def arrays(self) -> list[ChunkedArray]:
        """Return its columns and offsets, to be flushed."""
        return [*self._columns.values(), self._offsets]

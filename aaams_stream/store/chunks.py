"""Chunks as they lie on disk, encoded and decoded one by one, to the bytes that Zarr writes.

Zarr makes new memory for every chunk and turns it round on the way. Who puts a volume together from
parts moves every pixel once, so he works in the order in which a chunk is kept, in memory that is
used again, and several processes write chunks of one array without asking its length.
"""

from __future__ import annotations

from typing import Any

import google_crc32c as crc32c
import numpy as np
from numcodecs.zstd import Zstd
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, TransposeCodec, ZstdCodec
from zarr.codecs.numcodecs import Delta

from aaams_stream.store.stored import StoredArray


class ChunkCoder:
    """Reads and writes whole chunks of one array.

    `shape` is that of a chunk in the order in which it is kept: labels are (y, x, t).
    """

    def __init__(self, array: StoredArray) -> None:
        self._array = array
        order = tuple(range(len(array.chunks)))
        self._delta = False
        for codec in array.filters:
            if isinstance(codec, TransposeCodec):
                order = codec.order
            elif isinstance(codec, Delta):
                self._delta = True
            else:
                raise ValueError(f"{array.path}: unknown filter {codec}")
        compressor, *rest = array.compressors
        if not isinstance(compressor, ZstdCodec) or [type(c) for c in rest] != [Crc32cCodec]:
            raise ValueError(f"{array.path}: unknown codecs {array.compressors}")
        self._zstd = Zstd(level=compressor.level, checksum=compressor.checksum)
        self.order = order
        self.shape = tuple(array.chunks[axis] for axis in order)
        # chunks along each axis behind the first
        self.tiles = tuple(
            -(-n // size) for n, size in zip(array.shape[1:], array.chunks[1:], strict=True)
        )

    def empty(self) -> NDArray[Any]:
        """Return memory for a chunk."""
        return np.empty(self.shape, self._array.dtype)

    def read(self, chunk: tuple[int, ...], out: NDArray[Any]) -> None:
        """Decode the chunk at a place into `out`, of `shape`; a SinkError if it is damaged."""
        data = self._array.raw(chunk)
        wrong = self._array.wrong(data)
        if wrong is not None:
            raise self._array.error(chunk, wrong)
        self._zstd.decode(data[:-4], out=out)
        if self._delta:  # along all of the chunk, as numcodecs has it
            flat = out.reshape(-1)
            np.cumsum(flat, dtype=flat.dtype, out=flat)

    def write(self, chunk: tuple[int, ...], values: NDArray[Any]) -> None:
        """Encode `values`, of `shape` and contiguous, and put them where the chunk lies."""
        if self._delta:
            flat = values.reshape(-1)
            values = np.diff(flat, prepend=flat.dtype.type(0))
        data = bytes(self._zstd.encode(values))
        self._array.put_raw(chunk, data + crc32c.value(data).to_bytes(4, "little"))

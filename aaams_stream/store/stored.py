"""An array of a volume, whose chunks are all there and can be read, or it is an error that says so.

Zarr reads a chunk that is missing as its fill value, and whatever a codec raises is raised on. Here
every chunk that should be there is looked for before it is read, and every failure names it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import google_crc32c as crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore

from aaams_stream.errors import SinkError
from aaams_stream.store.address import SnapshotStore
from aaams_stream.store.guard import GuardedStore
from aaams_stream.store.shards import chunks_in, split_shard

# Volumes without checksums were written without chunks of nothing but zeros. These columns have no
# zeros in a row that counts, so that a chunk of theirs is never left out.
NEVER_ZERO = {
    "labels": {"0"},
    "": {"0"},
    "segments": {"id", "area", "bbox", "offsets"},
    "adjacency": {"first", "second", "length"},
    "events": {"kind"},
    "tracks": {"id", "frames", "volume"},
    "hierarchy": {"survivor", "absorbed"},
    "objects": {"id"},
    "resume": None,
}


MISSING = "is missing"


class StoredArray:
    """An array of a volume on disk, to read and to write."""

    def __init__(self, array: zarr.Array[Any]) -> None:
        # chunks of zeros are written as well, so that one that is missing is lost; leaving them
        # out would also cost a millisecond a frame
        self._array = array.with_config({"write_empty_chunks": True})
        self.path: str = array.path
        self.checksummed = any(isinstance(codec, Crc32cCodec) for codec in array.compressors)
        store = array.store  # what was looked for behind an address and is not there, all told
        self._missed = store.missed if isinstance(store, SnapshotStore) else None
        # whether every chunk is there
        self.whole = self.checksummed or _never_left_out(array.path)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its size along each axis."""
        return self._array.shape

    @property
    def chunks(self) -> tuple[int, ...]:
        """The size of a chunk along each axis."""
        return self._array.chunks

    @property
    def files(self) -> tuple[int, ...]:
        """The size of what lies in one file along each axis: a chunk, or a shard of many."""
        return self._array.shards or self._array.chunks

    @property
    def dtype(self) -> np.dtype[Any]:
        """What a value is."""
        return self._array.dtype

    @property
    def filters(self) -> tuple[Any, ...]:
        """The codecs that come first."""
        return self._array.filters

    @property
    def compressors(self) -> tuple[Any, ...]:
        """The codecs that come last."""
        return self._array.compressors

    def raw(self, chunk: tuple[int, ...]) -> bytes:
        """Return a chunk as it lies on disk; a SinkError if it is missing."""
        store, name = self._array.store, self.name(chunk)
        if isinstance(store, LocalStore):  # without the thread in which Zarr reads
            try:
                with open(os.path.join(store.root, name), "rb") as file:
                    return file.read()
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                raise self.error(chunk, MISSING) from None
        data = sync(store.get(name, default_buffer_prototype()))
        if data is None:
            raise self.error(chunk, MISSING)
        return data.to_bytes()

    def put_raw(self, chunk: tuple[int, ...], data: bytes) -> None:
        """Put a chunk where it lies on disk, also one beyond the size that the array has so far."""
        store, name = self._array.store, self.name(chunk)
        buffer = default_buffer_prototype().buffer.from_bytes(data)
        if isinstance(store, GuardedStore):  # without the thread in which Zarr writes
            store.set_sync(name, buffer)
        else:
            sync(store.set(name, buffer))

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Read a part of the array, by numbers and slices; a SinkError names a chunk that fails."""
        index = key if isinstance(key, tuple) else (key,)
        if self.whole and self._missed is None:
            for chunk in self.chunks_of(index):
                self.require(chunk)
        try:
            found = np.asarray(self._array[key])
        except (MemoryError, SinkError):  # of a store that is not reached, say
            raise
        except Exception as error:  # whatever codecs and the system come up with
            raise self._failure(index, error) from error
        if self.whole and self._missed:
            for chunk in self.chunks_of(index):
                if self.name(chunk) in self._missed:
                    raise self.error(chunk, MISSING)
        return found

    def __setitem__(self, key: Any, values: NDArray[Any]) -> None:
        self._array[key] = values

    def resize(self, shape: tuple[int, ...]) -> None:
        """Give the array another size; chunks outside are removed."""
        self._array.resize(shape)

    def chunks_of(self, index: tuple[Any, ...] = ()) -> Iterator[tuple[int, ...]]:
        """Yield the places of all chunks that an index touches, in order.

        Chunks as files: where they lie in shards, those of the shards.
        """
        axes = []
        for axis, (length, size) in enumerate(zip(self.shape, self.files, strict=True)):
            part = index[axis] if axis < len(index) else slice(None)
            places = range(length)[part]
            if isinstance(places, int):
                axes.append(range(places // size, places // size + 1))
            elif not places:
                return
            else:
                low, high = min(places[0], places[-1]), max(places[0], places[-1])
                axes.append(range(low // size, high // size + 1))
        # the first axis may be long: it is not to be listed before the first chunk is looked for
        for first in axes[0]:
            yield from itertools.product((first,), *axes[1:])

    def name(self, chunk: tuple[int, ...]) -> str:
        """Return the name of a chunk within the volume."""
        return f"{self.path}/{self._array.metadata.encode_chunk_key(chunk)}"

    def failure(self, chunk: tuple[int, ...]) -> str | None:
        """Return what is wrong with a chunk, None if it is sound.

        One that has a checksum is not decoded.
        """
        if self.whole and not self._is_there(chunk):
            return MISSING
        try:
            if self.checksummed:
                return self.wrong(sync(self.get(chunk)))
            self._array[self.part(chunk)]
        except (MemoryError, SinkError):
            raise
        except Exception as error:  # as above
            return f"is damaged ({_reason(error)})"
        return None

    def wrong(self, data: bytes | None) -> str | None:
        """Return what is wrong with a chunk as it is stored, None if nothing is known to be."""
        if data is None:
            return MISSING if self.whole else None
        chunks: list[bytes | None] = [data]
        if self._array.shards is not None:
            try:
                chunks = split_shard(data, chunks_in(self._array.shards, self.chunks))
            except ValueError as error:
                return f"is damaged ({error})"
        for chunk in chunks if self.checksummed else ():
            if chunk is not None and crc32c.value(chunk[:-4]).to_bytes(4, "little") != chunk[-4:]:
                return "is damaged (the checksum does not match)"
        return None

    def error(self, chunk: tuple[int, ...], failure: str) -> SinkError:
        """Return what to raise for a chunk with which something is wrong."""
        place = place_of(self._array)
        return SinkError(
            f"{place}: chunk {self.name(chunk)} {failure}; aaams-stream check {place} tells what "
            "is left, and --repair mends it"
        )

    def part(self, chunk: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the part of the array that lies in a chunk."""
        sides = zip(chunk, self.files, self.shape, strict=True)
        return tuple(slice(at * size, min((at + 1) * size, length)) for at, size, length in sides)

    def require(self, chunk: tuple[int, ...]) -> None:
        """Raise a SinkError if a chunk should be there and is not."""
        if self.whole and not self._is_there(chunk):
            raise self.error(chunk, MISSING)

    def _is_there(self, chunk: tuple[int, ...]) -> bool:
        store, name = self._array.store, self.name(chunk)
        if isinstance(store, LocalStore):
            return os.path.isfile(os.path.join(store.root, name))
        return sync(store.exists(name))

    async def get(self, chunk: tuple[int, ...]) -> bytes | None:
        """Return a chunk as it is stored; None where it is not."""
        found = await self._array.store.get(self.name(chunk), default_buffer_prototype())
        return None if found is None else found.to_bytes()

    def _failure(self, index: tuple[Any, ...], error: Exception) -> SinkError:
        """Return what to raise for an error in reading, with the chunk that is to blame."""
        for chunk in self.chunks_of(index):
            wrong = self.failure(chunk)
            if wrong is not None:
                return self.error(chunk, wrong)
        place = place_of(self._array)
        return SinkError(f"{place}: {self.path} cannot be read ({_reason(error)})")


def place_of(node: zarr.Group | zarr.Array[Any]) -> str:
    """Return where the volume of a node lies."""
    store = node.store
    return str(store.root) if isinstance(store, LocalStore) else str(store)


def _never_left_out(path: str) -> bool:
    *groups, name = path.split("/")
    names = NEVER_ZERO.get(groups[0] if groups else "", set())
    return names is None or name in names


def _reason(error: Exception) -> str:
    """Return one line on an error of a library."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())[:200]

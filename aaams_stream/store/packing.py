"""A complete volume in few files, for archives and stores of objects: shards, and one document.

Or in one: the same, in a ZIP archive.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore, ZipStore

from aaams_stream.errors import SinkError
from aaams_stream.files import Draft, check_target
from aaams_stream.store.address import DOCUMENT, Address, Target, read_document, target_of
from aaams_stream.store.archive import ARCHIVE, named_archive
from aaams_stream.store.bucket import AT_ONCE
from aaams_stream.store.fence import FencedStore
from aaams_stream.store.folders import is_volume
from aaams_stream.store.lock import WriteLock
from aaams_stream.store.open import require_nothing_else, require_replaceable
from aaams_stream.store.root import open_root
from aaams_stream.store.shards import consolidate, join_chunks, sharded
from aaams_stream.store.stored import StoredArray
from aaams_stream.store.sweep import parts
from aaams_stream.store.tables import require_complete
from aaams_stream.store.volume import Volume
from aaams_stream.store.writer import sink_errors

_BYTES = 1 << 25  # of a shard, about: a reader fetches parts of it, a writer holds it in memory
_FEWEST, _MOST = 16, 256  # chunks in a shard
_SAMPLED = 4  # chunks whose size is looked at


@dataclass(frozen=True, slots=True)
class Packed:
    """What was packed."""

    store: Path | str
    files: int
    files_before: int
    size: int  # bytes
    size_before: int


def pack(
    store: str | Path | Address | Store,
    target: str | Path | Address | Store,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Packed:
    """Write a complete volume anew, in few files; it reads as before.

    Chunks keep their bytes and are put together in shards, and the root document repeats those of
    all nodes. The checksum of every chunk is compared on the way. Where the target's name ends in
    `.zip`, all of that is one file.

    Args:
        store: the volume, a folder, an address or a store of Zarr.
        target: where the packed one goes, a folder, an address or a file `NAME.zip`; nothing is
            there until it is whole, or in a bucket until its root document is written.
        overwrite: replace a volume.
        progress: called with arrays done and all.

    Returns:
        How many files and bytes there were and are.

    Raises:
        SinkError: the volume is not complete or damaged, or the target cannot be written.

    Example:
        >>> import aaams_stream as aaams
        >>> summary = aaams.segment_video("demo", "long.zarr", duration=1, size=(160, 120))
        >>> packed = aaams.pack("long.zarr", "packed.zarr")
        >>> packed.files < packed.files_before, aaams.open_volume("packed.zarr").frame_count
        (True, 24)
    """
    origin, archive = target_of(store), named_archive(target)
    place = target_of(target) if archive is None else archive
    volume = Volume(origin, open_root(origin))
    require_complete(volume, "only a complete volume is packed")
    volume.require_chunks()
    with sink_errors(place), ExitStack() as stack:
        if archive is not None:
            told = _pack_into_one(volume, origin, archive, overwrite, progress)
        elif isinstance(place, Path):
            if place.exists() and not (place.is_dir() and not any(place.iterdir())):
                _require_volume(place, overwrite)
            _check(place, None, origin)
            if place.is_dir():
                stack.callback(WriteLock(place, place).release)
            out: Store = LocalStore(stack.enter_context(Draft(place)))
            told = _Packer(volume, out).run(progress)
        else:
            if str(place) == str(origin):
                raise SinkError(f"{place}: is the volume; choose another name")
            told = _pack_behind(volume, place, overwrite, progress)
    return Packed(place if isinstance(place, Path) else str(place), *told)


def _check(
    place: Path, suffixes: tuple[str, ...] | None, origin: Target, overwrite: bool = True
) -> None:
    """Raise a SinkError where the volume must not go; `origin` is the one that is packed."""
    given = Path(str(origin)) if named_archive(str(origin)) is not None else origin
    folder = given if isinstance(given, Path) else None
    volume = {"the volume": folder}
    check_target(place, suffixes, overwrite=overwrite, apart=volume, outside=volume)


def _require_volume(place: Path, overwrite: bool) -> None:
    if not is_volume(place):
        raise SinkError(f"{place}: exists and is not a volume of ours; choose another name")
    if not overwrite:
        raise SinkError(f"{place}: exists; --overwrite replaces it")
    if place.is_dir():  # an archive is one file
        require_nothing_else(place)


def _pack_into_one(
    volume: Volume,
    origin: Target,
    place: Path,
    overwrite: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[int, int, int, int]:
    if place.exists():
        _require_volume(place, overwrite)
    _check(place, (ARCHIVE,), origin)
    with Draft(place) as draft:
        out = sync(ZipStore.open(draft, mode="w"))
        try:
            _, before, _, size_before = _Packer(volume, out).run(progress)
        finally:
            out.close()
    return 1, before, place.stat().st_size, size_before


def _pack_behind(
    volume: Volume, place: Address, overwrite: bool, progress: Callable[[int, int], None] | None
) -> tuple[int, int, int, int]:
    fence = FencedStore(place)
    require_replaceable(place, overwrite)
    try:
        fence.begin(overwrite)
        told = _Packer(volume, fence).run(progress)
        fence.publish()
        return told
    finally:
        fence.release()


class _Packer:
    """Copies one volume into an empty store."""

    def __init__(self, volume: Volume, out: Store) -> None:
        self._place = volume.path
        self._root = volume._root
        self._out = out
        self._documents: dict[str, bytes] = {}
        self._files = self._before = self._size = self._size_before = 0

    def run(self, progress: Callable[[int, int], None] | None) -> tuple[int, int, int, int]:
        """Copy all; return files and bytes, each now and before."""
        arrays = [(part.node, part.array) for part in parts(self._root)]
        groups = {str(up) for node, _ in arrays for up in Path(node).parents} - {"."}
        for node in ("", *sorted(groups)):
            self._note_document(node, self._document(node))
        for done, (node, array) in enumerate(arrays, 1):
            self._copy_array(node, array)
            if progress is not None:
                progress(done, len(arrays))
        self._copy_documents()
        return self._files, self._before, self._size, self._size_before

    def _note_document(self, node: str, document: dict[str, Any]) -> None:
        document.pop("consolidated_metadata", None)
        data = json.dumps(document, indent=2).encode()
        self._documents[f"{node}/{DOCUMENT}" if node else DOCUMENT] = data

    def _copy_documents(self) -> None:
        """Write the metadata of all nodes, that of the root last, which repeats the others."""
        new = default_buffer_prototype().buffer.from_bytes
        memory = MemoryStore({key: new(data) for key, data in self._documents.items()})
        consolidate(memory)
        root = sync(memory.get(DOCUMENT, default_buffer_prototype()))
        assert root is not None
        documents = {**self._documents, DOCUMENT: root.to_bytes()}
        for key in sorted(documents, key=lambda key: (key == DOCUMENT, key)):
            self._put(key, documents[key])

    def _document(self, node: str) -> dict[str, Any]:
        data = read_document(self._place, node)
        self._before += 1
        self._size_before += len(data)
        document: dict[str, Any] = json.loads(data)
        return document

    def _copy_array(self, node: str, array: StoredArray) -> None:
        document = self._document(node)
        count = math.prod(-(-n // size) for n, size in zip(array.shape, array.files, strict=True))
        if array.files != array.chunks or count < 2:  # packed already, or nothing to put together
            self._note_document(node, document)
            for chunk in array.chunks_of():
                for data in self._read(array, [chunk]):
                    if data is not None:
                        self._put(array.name(chunk), data)
            return
        across = count // -(-array.shape[0] // array.chunks[0])  # chunks beside each other
        deep = self._depth(array, across, count)
        sides = [-(-n // size) for n, size in zip(array.shape, array.chunks, strict=True)]
        shard = [n * size for n, size in zip((deep, *sides[1:]), array.chunks, strict=True)]
        self._note_document(node, sharded(document, shard))
        for number in range(-(-sides[0] // deep)):
            rows = range(number * deep, (number + 1) * deep)
            places = list(itertools.product(rows, *map(range, sides[1:])))
            there = [place for place in places if place[0] < sides[0]]
            chunks = [*self._read(array, there), *[None] * (len(places) - len(there))]
            name = "/".join(map(str, (number, *[0] * (len(sides) - 1))))
            self._put(f"{node}/c/{name}", join_chunks(chunks))

    def _depth(self, array: StoredArray, across: int, count: int) -> int:
        """Return how many chunks along the first axis a shard has."""
        first = list(itertools.islice(array.chunks_of(), _SAMPLED))
        sizes = [len(data) for data in self._fetch(array, first) if data is not None]
        fitting = _BYTES // max(max(sizes, default=1), 1)
        return max(1, min(max(fitting, _FEWEST), _MOST, count) // across)

    def _read(self, array: StoredArray, chunks: list[tuple[int, ...]]) -> Iterator[bytes | None]:
        """Yield chunks as they are stored, each found sound."""
        for chunk, data in zip(chunks, self._fetch(array, chunks), strict=True):
            wrong = array.wrong(data)
            if wrong is not None:
                raise array.error(chunk, wrong)
            if data is not None:
                self._before += 1
                self._size_before += len(data)
            yield data

    def _fetch(self, array: StoredArray, chunks: list[tuple[int, ...]]) -> list[bytes | None]:
        """Return chunks as they are stored; behind an address many are asked for at a time."""
        return sync(_gather(array, chunks))

    def _put(self, key: str, data: bytes) -> None:
        sync(self._out.set(key, default_buffer_prototype().buffer.from_bytes(data)))
        self._files += 1
        self._size += len(data)


async def _gather(array: StoredArray, chunks: list[tuple[int, ...]]) -> list[bytes | None]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def get(chunk: tuple[int, ...]) -> bytes | None:
        async with gate:
            return await array.get(chunk)

    return list(await asyncio.gather(*map(get, chunks)))

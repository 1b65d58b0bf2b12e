"""A store of objects as Zarr wants it, with the conditional writes that Zarr has no word for.

Zarr's own (`ObjectStore`) has answers brought by threads that are not Python's, and one that is
still at it when Python ends takes the process down with it. Here threads of Python wait for them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Self, TypeVar

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype

_T = TypeVar("_T")
AT_ONCE = 32  # requests under way: each waits for tens of milliseconds

Tag = Any  # what tells one state of an object from all others


class ConflictError(Exception):
    """An object is not what it was expected to be."""


class BucketStore(Store):
    """Keys below an address; `store` is one of obstore's."""

    supports_writes = True
    supports_deletes = True

    def __init__(self, store: Any, *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only)
        self.store = store

    @property
    def supports_listing(self) -> bool:
        """Whether keys can be listed: not on the web."""
        return not self.web

    @property
    def web(self) -> bool:
        """Whether this is plain HTTP, where objects are read by name and nothing else."""
        return type(self.store).__name__ == "HTTPStore"

    def __str__(self) -> str:
        return str(self.store)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BucketStore) and bool(self.store == other.store)

    __hash__ = None  # type: ignore[assignment]

    def with_read_only(self, read_only: bool = False) -> Self:
        """Return the same store, to read alone or not."""
        return type(self)(self.store, read_only=read_only)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return an object or a part of it; None where there is none."""
        try:
            data = await _beside(lambda: self._part(key, byte_range))
        except FileNotFoundError:
            return None
        return prototype.buffer.from_bytes(data)

    def _part(self, key: str, wanted: ByteRequest | None) -> Any:
        from obstore.exceptions import NotSupportedError

        store = self.store
        if isinstance(wanted, RangeByteRequest):
            return store.get_range(key, start=wanted.start, end=wanted.end)
        if isinstance(wanted, OffsetByteRequest):
            return store.get(key, options={"range": {"offset": wanted.offset}}).bytes()
        if isinstance(wanted, SuffixByteRequest):
            try:
                return store.get(key, options={"range": {"suffix": wanted.suffix}}).bytes()
            except NotSupportedError:  # Azure
                size = store.head(key)["size"]
                return store.get_range(key, start=max(0, size - wanted.suffix), end=size)
        return store.get(key).bytes()

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return parts of objects."""
        return list(await asyncio.gather(*(self.get(k, prototype, r) for k, r in key_ranges)))

    async def get_tagged(self, key: str) -> tuple[bytes, Tag] | None:
        """Return an object and its tag."""

        def get() -> tuple[bytes, Tag]:
            found = self.store.get(key)
            return bytes(found.bytes()), _tag(found.meta)

        try:
            return await _beside(get)
        except FileNotFoundError:
            return None

    async def tag(self, key: str) -> Tag | None:
        """Return the tag of an object; None where there is none."""
        try:
            return _tag(await _beside(lambda: self.store.head(key)))
        except FileNotFoundError:
            return None

    async def put(self, key: str, data: bytes, tag: Tag | None) -> Tag:
        """Write an object that has a tag, or for None is not there, or raise a ConflictError."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode = "create" if tag is None else tag
        try:  # in one part: those of many know no conditions
            put = await _beside(lambda: self.store.put(key, data, mode=mode, use_multipart=False))
        except (AlreadyExistsError, PreconditionError) as error:
            raise ConflictError from error
        return _tag(put)

    async def exists(self, key: str) -> bool:
        """Whether there is an object."""
        return await self.tag(key) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """Write an object, whatever is there."""
        self._check_writable()
        await _beside(lambda: self.store.put(key, value.to_bytes()))

    async def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        self._check_writable()
        try:
            await _beside(lambda: self.store.delete(key))
        except FileNotFoundError:
            return

    async def delete_dir(self, prefix: str) -> None:
        """Remove all objects below a prefix."""
        keys = list(await self.sizes(f"{prefix.rstrip('/')}/" if prefix else ""))
        await asyncio.gather(*map(self.delete, keys))

    async def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return all keys with their sizes in bytes."""

        def found() -> dict[str, int]:
            batches = self.store.list(prefix or None)
            return {entry["path"]: entry["size"] for batch in batches for entry in batch}

        return await _beside(found)

    async def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        for key in await self.sizes():
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix."""
        for key in await self.sizes(prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names right below a prefix."""
        prefix = prefix.rstrip("/")
        found = await _beside(lambda: self.store.list_with_delimiter(prefix or None))
        for path in [*found["common_prefixes"], *(entry["path"] for entry in found["objects"])]:
            yield path.removeprefix(f"{prefix}/" if prefix else "").rstrip("/")


def _tag(told: Any) -> Tag:
    """Return what a store tells of a state, as its writes want it; Google's have a version."""
    return {name: told[name] for name in ("e_tag", "version") if told.get(name) is not None}


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, "zarr_io_bucket")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # which has no threads of its parent


async def _beside(work: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(_threads(), work)

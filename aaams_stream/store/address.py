"""Where a volume lies: a folder here, or behind an address, or in a store that a program gave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

import zarr
from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, ObjectStore, WrapperStore

from aaams_stream.errors import SinkError
from aaams_stream.paths import (
    BUCKETS,
    expanded,
    is_address,
    is_failure,
    reach,
    reason_of,
    scheme_of,
)
from aaams_stream.store.archive import named_archive, open_archive
from aaams_stream.store.bucket import AT_ONCE, BucketStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DOCUMENT = "zarr.json"


class SnapshotStore(WrapperStore[Store]):
    """A store that is read: documents once, so that a volume does not change under its reader.

    Keys that were asked for and are not there are noted in `missed`, so that nobody has to ask for
    a chunk twice.
    """

    def __init__(self, store: Store, name: str) -> None:
        super().__init__(store)
        self._name = name
        self.documents: dict[str, bytes | None] = {}
        self.missed: set[str] = set()

    def _with_store(self, store: Store) -> Self:
        other = type(self)(store, self._name)
        other.documents, other.missed = self.documents, self.missed
        return other

    def __str__(self) -> str:
        return self._name

    def failed(self, error: BaseException) -> SinkError:
        """Return what to say of an error on the way."""
        return SinkError(f"{self._name}: cannot be reached ({reason_of(error)})")

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return what is kept under a key, None where there is nothing."""
        if key.endswith(DOCUMENT) and byte_range is None:
            data = await self.document(key)
            return None if data is None else prototype.buffer.from_bytes(data)
        try:
            value = await super().get(key, prototype, byte_range)
        except Exception as error:
            raise self._told(error) from error
        if value is None:
            self.missed.add(key)
        return value

    async def document(self, key: str) -> bytes | None:
        """Return the metadata of a node, None where there is none."""
        if key not in self.documents:
            try:
                value = await self._store.get(key, default_buffer_prototype())
            except Exception as error:
                raise self._told(error) from error
            self.documents[key] = None if value is None else value.to_bytes()
        return self.documents[key]

    async def read_ahead(self, nodes: Iterable[str]) -> None:
        """Read the documents of nodes, many at a time."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(node: str) -> None:
            async with gate:
                await self.document(f"{node}/{DOCUMENT}")

        await asyncio.gather(*map(read, nodes))

    async def sizes(self) -> dict[str, int] | None:
        """Return all keys with their sizes in bytes; None where they cannot be listed."""
        inner = self._store
        if not inner.supports_listing:
            return None
        try:
            if isinstance(inner, BucketStore):
                return await inner.sizes()
            return {key: await inner.getsize(key) async for key in inner.list()}
        except Exception as error:
            raise self._told(error) from error

    async def exists(self, key: str) -> bool:
        """Whether there is something under a key."""
        if key in self.documents:
            return self.documents[key] is not None
        try:
            return await super().exists(key)
        except Exception as error:
            raise self._told(error) from error

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names below a prefix."""
        try:
            async for name in self._store.list_dir(prefix):
                yield name
        except Exception as error:
            raise self._told(error) from error

    def _told(self, error: Exception) -> Exception:
        """Return an error as a user can read it; a mistake of ours stays one."""
        if isinstance(error, SinkError) or not is_failure(error):
            return error
        return self.failed(error)


class Address:
    """Where a volume lies that is no folder here; what is read through it is of one moment."""

    def __init__(self, text: str, inner: Store) -> None:
        self._text = text
        self.inner = inner  # as it was given, or made for the address
        self.store = SnapshotStore(inner, text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Address({self._text!r})"

    @property
    def name(self) -> str:
        """The last part of it."""
        return self._text.rstrip("/").rpartition("/")[2]

    def absolute(self) -> Address:
        """Return the address: there is no other to which it could be relative."""
        return self

    def again(self) -> Address:
        """Return the same place, to be read as it is now."""
        return Address(self._text, self.inner)


Target = Path | Address


def target_of(given: str | Path | Address | Store) -> Target:
    """Return where a volume lies by what a user names: a path, an address, or a store of Zarr."""
    if isinstance(given, Address):
        return given.again()
    if isinstance(given, LocalStore):
        return given.root
    if isinstance(given, ObjectStore):
        return Address(str(given), BucketStore(given.store, read_only=given.read_only))
    if isinstance(given, Store):
        return Address(str(given), given)
    archive = named_archive(given)
    inner = None if archive is None else open_archive(archive)
    if inner is not None:
        return Address(str(archive), inner)
    if not is_address(given):
        return expanded(given)  # which says what else it may be
    text = str(given).rstrip("/")
    if scheme_of(text) == "file":
        return expanded(unquote(urlsplit(text).path))
    store = reach(text)
    if scheme_of(text) in BUCKETS and not urlsplit(text).path.strip("/"):
        raise SinkError(f"{text}: a whole bucket is no volume; expected {text}/clip.zarr")
    return Address(text, BucketStore(store))


def exists(target: Target) -> bool:
    """Whether there is something where a volume is looked for."""
    if isinstance(target, Path):
        try:
            return target.exists()
        except OSError as error:
            raise SinkError(f"{target}: cannot be read ({error.strerror})") from error
    return sync(target.store.document(DOCUMENT)) is not None


def read_document(target: Target, node: str) -> bytes:
    """Return the metadata of a node; a FileNotFoundError where there is none."""
    if isinstance(target, Path):
        return (target / node / DOCUMENT).read_bytes()
    data = sync(target.store.document(f"{node}/{DOCUMENT}" if node else DOCUMENT))
    if data is None:
        raise FileNotFoundError(node)
    return data


def read_ahead(target: Target, nodes: Iterable[str]) -> None:
    """Read the documents of nodes that will be needed, where that takes time."""
    if isinstance(target, Path):
        return
    store = target.store
    for node, document in _consolidated(store).items():  # which costs no further request
        store.documents.setdefault(f"{node}/{DOCUMENT}", json.dumps(document).encode())
    missing = [node for node in nodes if f"{node}/{DOCUMENT}" not in store.documents]
    sync(store.read_ahead(missing))


def _consolidated(store: SnapshotStore) -> dict[str, Any]:
    """Return the documents that the one of the root repeats, by node."""
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        found = json.loads(store.documents[DOCUMENT] or b"")["consolidated_metadata"]["metadata"]
        return {str(node): document for node, document in found.items()}
    return {}


def names_in(root: zarr.Group) -> set[str] | None:
    """Return the keys of a volume behind an address; None where files are looked at one by one."""
    store = root.store
    if not isinstance(store, SnapshotStore):
        return None
    sizes = sync(store.sizes())
    return None if sizes is None else set(sizes)

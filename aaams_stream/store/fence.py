"""The right to write to a volume that is no folder here, and what keeps others out.

There are no locks behind an address, only conditional writes: of an object that is not there yet,
or that is still the one that was seen. So whoever writes puts a mark of his own into the root
document, and every commit is a write on condition that the mark is still there: whoever takes the
right over has changed it. All else is written on such conditions as well. A process that slept
through that may so find its right gone, but never replaces what its successor wrote.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import secrets
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self

from zarr.abc.store import Store
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

from aaams_stream.errors import SinkError
from aaams_stream.paths import reason_of
from aaams_stream.store.address import DOCUMENT, Address, SnapshotStore
from aaams_stream.store.bucket import BucketStore, ConflictError, Tag

WRITER = "aaams_stream_writer"  # the mark, beside our attributes
BEGUN = "begun.json"  # holds the mark while a volume is begun and has no root document yet
_MOST_TRIES = 20  # of one write; nobody but a process that lost its right interferes
_held: set[str] = set()  # marks of this process


class Objects(Protocol):
    """Conditional writes."""

    async def get_tagged(self, key: str) -> tuple[bytes, Tag] | None:
        """Return an object and its tag."""

    async def tag(self, key: str) -> Tag | None:
        """Return the tag of an object; None where there is none."""

    async def put(self, key: str, data: bytes, tag: Tag | None) -> Tag:
        """Write an object that has a tag, or for None is not there, or raise a ConflictError."""


class _Plain:
    """Objects of any other store of Zarr: compared, then written, which is not the same moment."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get_tagged(self, key: str) -> tuple[bytes, Tag] | None:
        found = await self._store.get(key, default_buffer_prototype())
        return None if found is None else (found.to_bytes(), found.to_bytes())

    async def tag(self, key: str) -> Tag | None:
        found = await self.get_tagged(key)
        return None if found is None else found[1]

    async def put(self, key: str, data: bytes, tag: Tag | None) -> Tag:
        if await self.tag(key) != tag:
            raise ConflictError
        await self._store.set(key, default_buffer_prototype().buffer.from_bytes(data))
        return data


class FencedStore(SnapshotStore):
    """A store to which one process writes, as long as nobody takes the right over.

    Until `publish` the root document is kept back, and the mark lies in BEGUN instead.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address.inner, str(address))
        inner = address.inner
        self._objects: Objects = inner if isinstance(inner, BucketStore) else _Plain(inner)
        self._mark = _new_mark()
        self._fence = DOCUMENT  # the key with the mark
        self._fence_tag: Tag | None = None
        self._tags: dict[str, Tag] = {}
        self._root = b""  # the root document as it is without the mark
        self._mine = self._cleared = False
        if isinstance(inner, BucketStore) and inner.web:
            raise SinkError(
                f"{self}: what lies on the web is only read; write to s3://, gs://, az:// or a "
                "folder"
            )
        if inner.read_only:
            raise SinkError(f"{self}: the store is read-only; open it to write, or give another")

    def _with_store(self, store: Store) -> Self:
        raise TypeError("the right to write is not copied")  # a programmer's mistake

    # ---- taking and giving back the right

    def take(self) -> None:
        """Take the right to write to a volume that is there."""
        sync(self._guarded(self._take()))

    async def _take(self) -> None:
        found = await self._objects.get_tagged(DOCUMENT)
        if found is None:
            raise SinkError(f"{self}: no such volume")
        document = json.loads(found[0])
        self._require_free(document["attributes"].pop(WRITER, None))
        self._root = json.dumps(document, indent=2).encode()  # as Zarr writes it
        self._fence_tag = await self._put_fence(self._marked(self._root), found[1])
        self.documents[DOCUMENT] = self._root
        self._own()
        if await self._objects.tag(BEGUN) is not None:  # of one who was killed as he was done
            await self._store.delete(BEGUN)

    def begin(self, overwrite: bool) -> None:
        """Take the right to begin a volume where there is none, or to replace one; clear the place.

        What is there is looked at by the caller; here, whether it is still the same.
        """
        sync(self._guarded(self._begin(overwrite)))

    async def _begin(self, overwrite: bool) -> None:
        self._fence = BEGUN
        found = await self._objects.get_tagged(BEGUN)
        if found is not None:
            self._require_free(json.loads(found[0]))
        mark = json.dumps(self._mark).encode()
        self._fence_tag = await self._put_fence(mark, None if found is None else found[1])
        self._own()
        root = await self._objects.get_tagged(DOCUMENT)  # now that nobody else begins one here
        if root is not None:
            if not overwrite:
                raise SinkError(
                    f"{self}: another process began it at the same moment; --resume continues it, "
                    "--overwrite replaces it"
                )
            self._require_free(json.loads(root[0])["attributes"].get(WRITER))
        self._cleared = True
        await self._store.delete(DOCUMENT)  # first: from here on its writer is locked out
        await self._delete_all(await self.sizes() or {})

    def publish(self) -> None:
        """Write the root document: from here on there is a volume."""
        sync(self._guarded(self._publish()))

    async def _publish(self) -> None:
        await self._require_right()
        begun = self._fence_tag
        self._fence, self._fence_tag = DOCUMENT, None
        self._fence_tag = await self._put_fence(self._marked(self._root), None)
        if not _same(
            await self._objects.tag(BEGUN), begun
        ):  # whoever took that over may clear the place
            raise self._taken_over()
        await self._store.delete(BEGUN)

    def release(self) -> None:
        """Give the right back; a second time does nothing.

        What was begun and has no root document yet is removed. Where that fails the mark is left,
        of a process that is known not to write any more.
        """
        _held.discard(self._mark["token"])
        if self._mine:
            with suppress(Exception):
                sync(self._release())
        self._mine = False

    async def _release(self) -> None:
        if self._fence == DOCUMENT:
            await self._objects.put(DOCUMENT, self._root, self._fence_tag)
            return
        await self._require_right()
        if self._cleared:
            await self._delete_all(await self.sizes() or {})
        await self._store.delete(BEGUN)  # the mark last

    async def _delete_all(self, keys: Iterable[str]) -> None:
        """Remove all but the mark of a volume that is begun."""
        await asyncio.gather(*(self._store.delete(key) for key in keys if key != BEGUN))

    def _own(self) -> None:
        self._mine = True
        _held.add(self._mark["token"])

    def _marked(self, root: bytes) -> bytes:
        document = json.loads(root)
        document["attributes"][WRITER] = self._mark
        return json.dumps(document, indent=2).encode()

    async def _put_fence(self, data: bytes, tag: Tag | None) -> Tag:
        try:
            return await self._objects.put(self._fence, data, tag)
        except ConflictError:
            found = await self._objects.get_tagged(self._fence)
            if found is None or found[0] != data:
                raise self._taken_over() from None
            return found[1]  # it was written, but the answer got lost on the way

    async def _require_right(self) -> None:
        if not _same(await self._objects.tag(self._fence), self._fence_tag):
            self._mine = False
            raise self._taken_over()

    def _require_free(self, mark: Any) -> None:
        """Raise a SinkError if the process that left a mark is alive, as far as can be known."""
        if isinstance(mark, dict) and _is_alive(mark):
            raise SinkError(
                f"{self}: is being written by another process ({mark.get('pid')} on this "
                "machine); wait for it, or choose another name"
            )

    def _taken_over(self) -> SinkError:
        self._mine = False
        return SinkError(
            f"{self}: another process writes to it now, so this one stopped; what was committed is "
            "there, and --resume goes on with it when the other is done"
        )

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except Exception as error:
            raise self._told(error) from error

    # ---- what Zarr asks for

    async def document(self, key: str) -> bytes | None:
        """Return the metadata of a node; while a volume is begun there is none but its own."""
        return self.documents.get(key) if self._fence == BEGUN else await super().document(key)

    async def set(self, key: str, value: Buffer) -> None:
        """Write a key, unless somebody else has the right to by now."""
        data = value.to_bytes()
        try:
            if key != DOCUMENT:
                await self._put(key, data)
            elif self._fence == DOCUMENT:
                self._fence_tag = await self._put_fence(self._marked(data), self._fence_tag)
        except Exception as error:
            raise self._told(error) from error
        self.missed.discard(key)
        if key == DOCUMENT:
            self._root = data
        if key.endswith(DOCUMENT):
            self.documents[key] = data

    async def _put(self, key: str, data: bytes) -> None:
        tag = self._tags.get(key)
        for _ in range(_MOST_TRIES):
            try:
                self._tags[key] = await self._objects.put(key, data, tag)
                return
            except ConflictError:
                # In this order: whoever wrote before the look had taken the right by then, and what
                # is written after it spoils the tag.
                tag = await self._objects.tag(key)
                await self._require_right()
        raise SinkError(f"{self}: conditional writes fail there; write to a folder, then copy it")

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a key that is not there yet."""
        if not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Remove a key."""
        try:
            await self._require_right()  # there is no condition that a removal could have
            await self._store.delete(key)
        except Exception as error:
            raise self._told(error) from error
        self._forget(key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove all keys below a prefix."""
        try:
            await self._require_right()
            await self._store.delete_dir(prefix)
        except Exception as error:
            raise self._told(error) from error
        for key in [key for key in {*self._tags, *self.documents} if key.startswith(f"{prefix}/")]:
            self._forget(key)

    def _forget(self, key: str) -> None:
        self._tags.pop(key, None)
        self.documents.pop(key, None)

    def failed(self, error: BaseException) -> SinkError:
        """Return what to say of an error on the way."""
        return SinkError(
            f"{self}: cannot be written ({reason_of(error)}); --resume goes on with what is there"
        )


def _same(one: Tag | None, other: Tag | None) -> bool:
    """Whether two tags are of one state; answers to different questions tell more or less of it."""
    if isinstance(one, dict) and isinstance(other, dict) and "e_tag" in one and "e_tag" in other:
        return bool(one["e_tag"] == other["e_tag"])
    return bool(one == other)


def _new_mark() -> dict[str, Any]:
    pid = os.getpid()
    return {
        "host": platform.node(),
        "pid": pid,
        "started": _started(pid),
        "token": secrets.token_hex(8),
    }


def _is_alive(mark: dict[str, Any]) -> bool:
    """Whether the process that left a mark still writes; of another machine nobody knows.

    A process there that is alive finds out by itself that its right was taken over.
    """
    pid = mark.get("pid")
    if mark.get("token") in _held:
        return True
    if mark.get("host") != platform.node() or not isinstance(pid, int) or pid == os.getpid():
        return False
    if sys.platform == "win32":  # where asking would end it
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        pass
    return mark.get("started") == _started(pid)


def _started(pid: int) -> str:
    """Return when a process was started, where the system tells: numbers are used again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""

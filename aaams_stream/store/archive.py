"""A packed volume in one file, a ZIP archive whose entries are stored as they are."""

from __future__ import annotations

import zlib
from pathlib import Path
from zipfile import BadZipFile

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.sync import sync
from zarr.storage import ZipStore

from aaams_stream.errors import SinkError
from aaams_stream.paths import expanded, is_address

ARCHIVE = ".zip"  # what its name ends in
_DAMAGE = (BadZipFile, EOFError, RuntimeError, zlib.error)


class ArchiveStore(ZipStore):
    """An archive that is read: an entry that is damaged is empty, as whoever checks it will say."""

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return an entry or a part of it; None where there is none."""
        try:
            return await super().get(key, prototype, byte_range)
        except _DAMAGE:
            return prototype.buffer.from_bytes(b"")

    async def getsize(self, key: str) -> int:
        """Return the bytes of an entry, which is not read for that."""
        return self._zf.getinfo(key).file_size


def named_archive(given: object) -> Path | None:
    """Return the path that a user names if it is that of an archive by its name, else None."""
    if not isinstance(given, str | Path) or is_address(given):
        return None
    path = expanded(given)
    return path if path.suffix.lower() == ARCHIVE else None


def open_archive(path: Path) -> ArchiveStore | None:
    """Open an archive to read; None where there is no file."""
    try:
        return sync(ArchiveStore.open(path, mode="r")) if path.is_file() else None
    except OSError as error:
        raise SinkError(f"{path}: cannot be read ({error.strerror or error})") from error
    except _DAMAGE as error:
        raise SinkError(f"{path}: is no archive that can be read ({error})") from error

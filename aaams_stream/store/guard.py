"""A volume's folder while it is written: gone is gone, and is not made anew."""

from __future__ import annotations

import os
import shutil
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zarr
from zarr.storage import LocalStore

from aaams_stream.errors import SinkError

_ROOT = "zarr.json"
_LABELS = "labels/ids/0/zarr.json"


class GuardedStore(LocalStore):
    """Writes to a volume only as long as its folder is the one that was opened.

    A plain store makes missing folders, and so leaves the half of a volume, which nobody can read
    and which blocks the name, where another program removed or renamed it meanwhile.
    """

    def __init__(self, root: Path | str, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._handle: int | None = None
        if sys.platform != "win32":  # where a folder that is in use cannot be removed anyway
            # an open folder keeps its number, also where the file system makes numbers up
            self._handle = os.open(self.root, os.O_RDONLY)
            weakref.finalize(self, os.close, self._handle)

    def is_there(self) -> bool:
        """Whether the folder still has its name, and the document that makes it a volume."""
        return self._is_ours() and (self.root / _ROOT).exists()

    def gone(self) -> SinkError:
        """Return what there is to say when it is not; remains that block the name are removed.

        Only what was removed down to its labels: where just a document is gone, the frames are not.
        """
        if self._is_ours() and not (self.root / _LABELS).exists():
            shutil.rmtree(self.root, ignore_errors=True)
        return SinkError(
            f"{self.root}: was removed or renamed while it was being written; if it has another "
            "name now, --resume goes on there"
        )

    def _is_ours(self) -> bool:
        try:
            found = os.stat(self.root)
        except OSError:
            return False
        return self._handle is None or os.path.samestat(os.fstat(self._handle), found)

    def set_sync(self, key: str, value: Any) -> None:
        """Write a key on this thread: asking Zarr's takes longer than writing."""
        self._require()
        super().set_sync(key, value)

    async def set(self, key: str, value: Any) -> None:
        """Write a key."""
        self._require()
        await super().set(key, value)

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        """Write a key that is not there yet."""
        self._require()
        await super().set_if_not_exists(key, value)

    async def delete(self, key: str) -> None:
        """Remove a key."""
        self._require()
        await super().delete(key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove all keys below a prefix."""
        self._require()
        await super().delete_dir(prefix)

    def _require(self) -> None:
        if not self.is_there():
            raise self.gone()


@contextmanager
def noticing_removal(root: zarr.Group) -> Iterator[None]:
    """Tell whatever goes wrong because the folder is gone as what it is."""
    store = root.store
    try:
        yield
    except Exception as error:
        if isinstance(store, GuardedStore) and not store.is_there():
            raise store.gone() from error
        raise

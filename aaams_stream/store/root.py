"""The group of a volume, opened after its metadata was found sound; to write, by one alone."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

import zarr

from aaams_stream.store.address import DOCUMENT, Address, Target
from aaams_stream.store.fence import FencedStore
from aaams_stream.store.layout import open_group
from aaams_stream.store.lock import WriteLock
from aaams_stream.store.validate import check_volume


class Right(Protocol):
    """The right to write to a volume."""

    def release(self) -> None:
        """Give it back; a second time does nothing."""


def open_root(path: Target, mode: Literal["r", "r+"] = "r") -> zarr.Group:
    """Open the group of a volume as it is now; to write only what the caller has locked."""
    if isinstance(path, Address):
        path = path.again()
    check_volume(path)
    return open_group(path, mode)


def root_to_write(path: Target) -> tuple[zarr.Group, Right]:
    """Take the right to write to a volume, and open its group."""
    if isinstance(path, Path):
        lock = WriteLock(path, path)
        try:
            root = open_root(path, "r+")
            drop_partial_files(path)
            return root, lock
        except BaseException:
            lock.release()
            raise
    fence = FencedStore(path)
    fence.take()
    try:
        seen = path.again()
        check_volume(seen)
        kept = {key: data for key, data in seen.store.documents.items() if key != DOCUMENT}
        fence.documents.update(kept)
        return open_group(fence, "r+"), fence
    except BaseException:
        fence.release()
        raise


def drop_partial_files(path: Path) -> None:
    """Remove what a killed process was writing."""
    for partial in path.rglob("*.partial"):
        partial.unlink()

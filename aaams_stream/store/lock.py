"""The right to write to a folder, held by one process at a time."""

from __future__ import annotations

import errno
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aaams_stream.errors import SinkError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class BeingWrittenError(SinkError):
    """Another process has the right to write to a volume."""


class WriteLock:
    """The right to write to a volume, held by one process at a time.

    A lock on the folder itself: it goes with the folder when that is renamed, leaves no file
    behind, and ends with the process, however that ends. Where folders cannot be locked, as on
    Windows, everybody has the right.
    """

    def __init__(self, folder: Path, volume: Path) -> None:
        self._held: weakref.finalize[..., Any] | None = None
        handle = _locked(folder)
        if handle == _TAKEN:
            raise BeingWrittenError(
                f"{volume}: is being written by another process; wait for it, or choose "
                "another name"
            )
        if handle is not None:
            self._held = weakref.finalize(self, os.close, handle)

    def release(self) -> None:
        """Give the right back; a second time does nothing."""
        if self._held is not None:
            self._held()


_TAKEN = -1
_STEP = 0.005  # seconds between looks whether another process has begun its volume in a folder
_MOST_LOOKS = 12_000  # a minute; not by the clock, which goes on while both are held up


def _locked(folder: Path) -> int | None:
    """Lock a folder; return the open handle, _TAKEN, or None where there are no locks."""
    if fcntl is None:
        return None
    while True:
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # what was opened may have been replaced since: then it is the wrong folder
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                return handle
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return _TAKEN
            if error.errno == errno.ENOENT:
                raise
            return None  # a file system without locks
        os.close(handle)


@contextmanager
def beginning_in(folder: Path) -> Iterator[None]:
    """Be the only one who begins a volume in a folder; others are waited for."""
    looks = 0
    while (handle := _locked(folder)) == _TAKEN:
        looks += 1
        if looks > _MOST_LOOKS:
            raise SinkError(f"{folder}: another process is beginning a volume there; try again")
        time.sleep(_STEP)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)

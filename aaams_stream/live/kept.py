"""The folder that snapshots and recordings go to: names of ours, and through no link elsewhere."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from aaams_stream.errors import SinkError

KEPT_FREE = 1 << 30  # bytes that stay free on the disk: a preview must not fill it
_MOST_TRIES = 10_000
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Folder:
    """Makes files and folders under new names in `path`, which is made when it is needed.

    A name is taken in the moment in which it is made, so that no two ask for the same, and never
    one that is there, a link least of all.
    """

    def __init__(self, path: Path, kept_free: int = KEPT_FREE) -> None:
        self._path = path
        self._kept_free = kept_free

    def write(self, suffix: str, data: bytes) -> Path:
        """Write a new file; return its path."""
        self._prepare(len(data))

        def make(path: Path) -> None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW
            handle = os.open(path, flags, 0o666)
            try:
                with open(handle, "wb") as file:
                    file.write(data)
            except BaseException:
                with contextlib.suppress(OSError):
                    path.unlink()
                raise

        return self._first_free(suffix, make)

    def make(self, suffix: str) -> Path:
        """Make a new, empty folder; return its path."""
        self._prepare(0)
        return self._first_free(suffix, os.mkdir)

    def has_room(self, more: int = 0) -> bool:
        """Tell whether so many bytes leave enough of the disk free."""
        return shutil.disk_usage(self._path).free - more >= self._kept_free

    @property
    def no_room(self) -> str:
        """What to say when there is none."""
        return (
            f"{self._path}: less than {self._kept_free / (1 << 30):.1f} GiB of the disk are free; "
            "make room, or choose another --folder"
        )

    def _prepare(self, size: int) -> None:
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkError(f"{self._path}: cannot be made ({error.strerror})") from error
        if not self.has_room(size):
            raise SinkError(self.no_room)

    def _first_free(self, suffix: str, make: Callable[[Path], None]) -> Path:
        stem = datetime.now().strftime("preview-%Y%m%d-%H%M%S")
        for path in itertools.islice(self._names(stem, suffix), _MOST_TRIES):
            try:
                make(path)
            except FileExistsError:
                continue
            except OSError as error:
                raise SinkError(f"{path}: cannot be written ({error.strerror})") from error
            return path
        raise SinkError(f"{self._path}: every name is taken; choose another --folder")

    def _names(self, stem: str, suffix: str) -> Iterator[Path]:
        yield self._path / f"{stem}{suffix}"
        for count in itertools.count(2):
            yield self._path / f"{stem}-{count}{suffix}"

"""Beginning a volume, going on with one, and the right to write to it."""

from __future__ import annotations

import errno
import os
import shutil
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import zarr
from numpy.typing import NDArray

from aaams_stream.errors import SinkError
from aaams_stream.model import same_source
from aaams_stream.store.check import check
from aaams_stream.store.folders import is_volume
from aaams_stream.store.layout import (
    INTERRUPTED,
    KEY,
    LEVEL_TABLES,
    ROWS,
    SCHEMA,
    WITHOUT_LEVELS,
    Header,
    array_in,
    build,
    create_final_table,
    schema_with_levels,
)
from aaams_stream.store.sweep import require_sound
from aaams_stream.store.validate import sealed
from aaams_stream.store.volume import describe, open_root
from aaams_stream.store.writer import VolumeWriter, drop_resume_state, load_state, sink_errors

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def create(
    path: Path,
    header: Header,
    version: str,
    *,
    overwrite: bool = False,
    chunk_rows: int = ROWS,
) -> VolumeWriter:
    """Begin a volume at `path`; with `overwrite`, one that is there is replaced.

    Only a volume of ours is ever replaced, and none that is being written. The new one appears
    under its name whole, so that a crash leaves either the old state or one that can be resumed.
    """
    if not path.name:
        raise SinkError(f"{path}: not a name for a volume; expected one like clip.zarr")
    with sink_errors(path):
        path = path.resolve()  # a link stays one: what it points at is replaced
        path.parent.mkdir(parents=True, exist_ok=True)
        # whoever else begins a volume in this folder waits: from the first look to the last rename
        # nobody comes between, and what is left of an earlier try is of a process that is dead
        with _beginning_in(path.parent):
            return _create_alone(path, header, version, overwrite, chunk_rows)


def _create_alone(
    path: Path, header: Header, version: str, overwrite: bool, chunk_rows: int
) -> VolumeWriter:
    taken = path.exists() and not (path.is_dir() and not any(path.iterdir()))
    if taken and not is_volume(path):
        raise SinkError(f"{path}: exists and is not a volume of ours; choose another name")
    if taken and not overwrite:
        raise SinkError(f"{path}: exists {describe(path)}")
    with ExitStack() as stack, ExitStack() as failing:
        if path.is_dir():  # nobody writes to it, nor will before it is replaced
            stack.callback(WriteLock(path, path).release)
        fresh, old = (path.with_name(f".{path.name}.{word}") for word in ("new", "old"))
        for leftover in (fresh, old):
            _sweep(leftover, path)
        fresh.mkdir()
        lock = WriteLock(fresh, path)
        failing.callback(lock.release)
        record = {
            "schema": SCHEMA,
            "version": version,
            **header.to_record(),
            "frames_committed": 0,
            "complete": False,
            "ended": INTERRUPTED,
        }
        root = zarr.create_group(str(fresh), zarr_format=3, attributes={KEY: sealed(record)})
        build(root, header, chunk_rows)
        if taken:
            path.rename(old)
        fresh.rename(path)
        if taken:
            shutil.rmtree(old)
        writer = VolumeWriter(path, open_root(path, "r+"), lock)
        failing.pop_all()
        return writer


def _sweep(leftover: Path, volume: Path) -> None:
    """Remove what a process that was beginning `volume` left behind."""
    if leftover.is_dir() and not leftover.is_symlink():
        lock = WriteLock(leftover, volume)
        shutil.rmtree(leftover)
        lock.release()
    elif leftover.exists() or leftover.is_symlink():
        leftover.unlink()


def resume(
    path: Path, header: Header, version: str
) -> tuple[VolumeWriter, dict[str, NDArray[Any]] | None]:
    """Go on with the volume at `path`; return the writer and the segmenter's state, if any.

    The volume must have been begun for the same source with the same settings, and every chunk that
    counts must be there and sound. One of an older schema gets the tables that it lacks.
    """
    _require_resumable(path, open_root(path), header, version)
    with sink_errors(path), ExitStack() as failing:
        lock = WriteLock(path, path)
        failing.callback(lock.release)
        root = open_root(path, "r+")
        _require_resumable(path, root, header, version)  # as it is now that nobody else writes
        drop_partial_files(path)
        require_sound_volume(path, root)
        _raise_schema(root)
        writer = VolumeWriter(path, root, lock)
        state = None if writer.complete else load_state(root, writer.frames)
        if writer.complete:
            drop_resume_state(root)
        failing.pop_all()
        return writer, state


def require_sound_volume(path: Path, root: zarr.Group) -> None:
    """Raise a SinkError that names what is damaged in a volume; `check` tells all of it."""
    require_sound(root)
    if not array_in(root, "labels/ids/0").checksummed:  # then only what it says can tell
        for damage in check(path).damages:
            raise SinkError(
                f"{path}: {damage.part} {damage.reason}; aaams-stream check {path} tells what is "
                "left, and --repair mends it"
            )


def _require_resumable(path: Path, root: zarr.Group, header: Header, version: str) -> None:
    record: Any = root.attrs[KEY]
    if record["version"] != version:
        raise SinkError(
            f"{path}: was begun by version {record['version']} and this is {version}; finish it "
            "with that one, or use --overwrite"
        )
    if header.fingerprint is None:
        raise SinkError(f"{path}: {header.spec} cannot be read a second time, so not resumed")
    require_same(path, Header.from_record(record), header)


def drop_partial_files(path: Path) -> None:
    """Remove what a killed process was writing."""
    for partial in path.rglob("*.partial"):
        partial.unlink()


def _raise_schema(root: zarr.Group) -> None:
    """Add to an unfinished volume of an older schema the tables that it lacks."""
    record: Any = root.attrs[KEY]
    if record["schema"] == WITHOUT_LEVELS and not record["complete"]:
        for table in LEVEL_TABLES:
            create_final_table(root, table, array_in(root, "tracks/id").chunks[0])
        root.attrs[KEY] = sealed({**record, "schema": schema_with_levels(root)})


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
            raise SinkError(
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
_PATIENCE = 60.0  # seconds that another process may take to begin a volume in the same folder


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
def _beginning_in(folder: Path) -> Iterator[None]:
    """Be the only one who begins a volume in a folder; others are waited for."""
    until = time.monotonic() + _PATIENCE
    while (handle := _locked(folder)) == _TAKEN:
        if time.monotonic() > until:
            raise SinkError(f"{folder}: another process is beginning a volume there; try again")
        time.sleep(0.005)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def require_same(path: Path, begun: Header, now: Header) -> None:
    """Raise a SinkError that names the first thing in which two runs differ."""
    if not same_source(begun.fingerprint, now.fingerprint):
        raise SinkError(
            f"{path}: was begun from another source ({begun.spec}); give that one, or --overwrite"
        )
    if begun.configuration != now.configuration:
        names = sorted(_differences(begun.configuration, now.configuration))
        raise SinkError(
            f"{path}: was begun with other settings ({', '.join(names)}); use those, or --overwrite"
        )
    wanted = (begun.selection | {"with_video": begun.with_video}).items()
    given = now.selection | {"with_video": now.with_video}
    for name, value in wanted:
        if given.get(name) != value:
            raise SinkError(
                f"{path}: was begun with {name.replace('_', ' ')} {value} and not "
                f"{given.get(name)}; use that, or --overwrite"
            )


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that are not the same in both."""
    for table in {*one, *other}:
        left, right = one.get(table, {}), other.get(table, {})
        for key in {*left, *right}:
            if left.get(key) != right.get(key):
                yield f"{table}.{key}"

"""Beginning a volume, going on with one, and the right to write to it."""

from __future__ import annotations

import errno
import os
import shutil
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import zarr
from numpy.typing import NDArray

from aaams_stream.errors import SinkError
from aaams_stream.model import same_source
from aaams_stream.store.guard import GuardedStore
from aaams_stream.store.layout import (
    INTERRUPTED,
    KEY,
    LEVEL_TABLES,
    ROWS,
    SCHEMA,
    Header,
    array_in,
    build,
    create_final_table,
)
from aaams_stream.store.volume import describe, is_volume, open_root
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
        taken = path.exists() and not (path.is_dir() and not any(path.iterdir()))
        if taken and not is_volume(path):
            raise SinkError(f"{path}: exists and is not a volume of ours; choose another name")
        if taken and not overwrite:
            raise SinkError(f"{path}: exists {describe(path)}")
        fresh, old = (path.with_name(f".{path.name}.{word}") for word in ("new", "old"))
        for folder in (fresh, old, path):
            if folder.is_dir():
                WriteLock(folder, path).release()
        for leftover in (fresh, old):
            if leftover.exists():
                shutil.rmtree(leftover)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        lock = WriteLock(fresh, path)
        record = {
            "schema": SCHEMA,
            "version": version,
            **header.to_record(),
            "frames_committed": 0,
            "complete": False,
            "ended": INTERRUPTED,
        }
        root = zarr.create_group(str(fresh), zarr_format=3, attributes={KEY: record})
        build(root, header, chunk_rows)
        if taken:
            path.rename(old)
        fresh.rename(path)
        if taken:
            shutil.rmtree(old)
        return VolumeWriter(path, zarr.open_group(GuardedStore(path), mode="r+"), lock)


def resume(
    path: Path, header: Header, version: str
) -> tuple[VolumeWriter, dict[str, NDArray[Any]] | None]:
    """Go on with the volume at `path`; return the writer and the segmenter's state, if any.

    The volume must have been begun for the same source with the same settings. One of an older
    schema that can be read becomes one of this schema.
    """
    record = open_root(path).attrs[KEY]
    assert isinstance(record, dict)
    if record["version"] != version:
        raise SinkError(
            f"{path}: was begun by version {record['version']} and this is {version}; finish it "
            "with that one, or use --overwrite"
        )
    if header.fingerprint is None:
        raise SinkError(f"{path}: {header.spec} cannot be read a second time, so not resumed")
    require_same(path, Header.from_record(record), header)
    with sink_errors(path):
        lock = WriteLock(path, path)
        root = zarr.open_group(GuardedStore(path), mode="r+")
        drop_partial_files(path)
        try:
            _raise_schema(root)
            writer = VolumeWriter(path, root, lock)
            state = None if writer.complete else load_state(root, writer.frames)
        except KeyError as error:
            lock.release()
            raise SinkError(
                f"{path}: a part of the volume is missing ({error.args[0]}); --overwrite begins "
                "anew"
            ) from error
        if writer.complete:
            drop_resume_state(root)
        return writer, state


def drop_partial_files(path: Path) -> None:
    """Remove what a killed process was writing."""
    for partial in path.rglob("*.partial"):
        partial.unlink()


def _raise_schema(root: zarr.Group) -> None:
    """Make an unfinished volume of an older schema one of this schema."""
    record: Any = root.attrs[KEY]
    if record["schema"] != SCHEMA and not record["complete"]:
        for table in LEVEL_TABLES:
            create_final_table(root, table, array_in(root, "tracks/id").chunks[0])
        root.attrs[KEY] = {**record, "schema": SCHEMA}


class WriteLock:
    """The right to write to a volume, held by one process at a time.

    A lock on the folder itself: it goes with the folder when that is renamed, leaves no file
    behind, and ends with the process, however that ends. Where folders cannot be locked, as on
    Windows, everybody has the right.
    """

    def __init__(self, folder: Path, volume: Path) -> None:
        self._held: weakref.finalize[..., Any] | None = None
        if fcntl is None:
            return
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise SinkError(
                    f"{volume}: is being written by another process; wait for it, or choose "
                    "another name"
                ) from None
            return  # a file system without locks
        self._held = weakref.finalize(self, os.close, handle)

    def release(self) -> None:
        """Give the right back; a second time does nothing."""
        if self._held is not None:
            self._held()


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

"""Beginning a volume, going on with one, and the right to write to it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.core.sync import sync

from aaams_stream.core.roi import Roi
from aaams_stream.errors import SinkError
from aaams_stream.files import require_no_pattern
from aaams_stream.model import same_source
from aaams_stream.store.address import DOCUMENT, Address, Target
from aaams_stream.store.archive import named_archive
from aaams_stream.store.check import check
from aaams_stream.store.fence import BEGUN, FencedStore
from aaams_stream.store.folders import is_volume
from aaams_stream.store.layout import (
    FINAL_TABLES,
    INTERRUPTED,
    KEY,
    LEVEL_TABLES,
    ROWS,
    SCHEMA,
    TABLES,
    WITHOUT_LEVELS,
    Header,
    array_in,
    build,
    copy_record,
    create_final_table,
    open_group,
    schema_with_levels,
)
from aaams_stream.store.lock import WriteLock, beginning_in
from aaams_stream.store.root import open_root, root_to_write
from aaams_stream.store.sweep import STATE, require_chunks, require_sound
from aaams_stream.store.validate import kept_record, read_record, sealed
from aaams_stream.store.volume import describe
from aaams_stream.store.writer import VolumeWriter, drop_resume_state, load_state, sink_errors

_QUALITY = "quality.json"  # a preview notes there where it gave less


def create(
    path: Target,
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
    if isinstance(path, Address):
        return _create_behind(path, header, version, overwrite, chunk_rows)
    if not path.name:
        raise SinkError(f"{path}: not a name for a volume; expected one like clip.zarr")
    require_no_pattern(path)
    if named_archive(path) is not None:
        raise SinkError(
            f"{path}: a volume is written as a folder; choose another name, and "
            "`aaams-stream pack` makes one file of it when it is complete"
        )
    with sink_errors(path):
        path = path.resolve()  # a link stays one: what it points at is replaced
        outer = next((folder for folder in path.parents if is_volume(folder)), None)
        if outer is not None:
            raise SinkError(f"{path}: lies in the volume {outer}; choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        # whoever else begins a volume in this folder waits: from the first look to the last rename
        # nobody comes between, and what is left of an earlier try is of a process that is dead
        with beginning_in(path.parent):
            return _create_alone(path, header, version, overwrite, chunk_rows)


def _create_alone(
    path: Path, header: Header, version: str, overwrite: bool, chunk_rows: int
) -> VolumeWriter:
    taken = path.exists() and not (path.is_dir() and not any(path.iterdir()))
    if taken and not is_volume(path):
        if kept_record(path) is not None:
            read_record(path)  # which says what is wrong, and what there is to do
        raise SinkError(f"{path}: exists and is not a volume of ours; choose another name")
    if taken and not overwrite:
        raise SinkError(f"{path}: exists {describe(path)}")
    source = Path(header.spec)  # which is absolute if it is a file
    if source.is_absolute() and path in source.resolve().parents:
        raise SinkError(f"{path}: holds the source, {header.spec}; choose another name")
    if taken:
        require_nothing_else(path)
    with ExitStack() as stack, ExitStack() as failing:
        if path.is_dir():  # nobody writes to it, nor will before it is replaced
            stack.callback(WriteLock(path, path).release)
        fresh, old = (path.with_name(f".{path.name}.{word}") for word in ("new", "old"))
        for leftover in (fresh, old):
            _sweep(leftover, path)
        fresh.mkdir()
        lock = WriteLock(fresh, path)
        failing.callback(lock.release)
        lay_out(str(fresh), header, version, chunk_rows)
        if taken:
            path.rename(old)
        fresh.rename(path)
        if taken:
            shutil.rmtree(old)
        writer = VolumeWriter(path, open_root(path, "r+"), lock)
        failing.pop_all()
        return writer


def require_nothing_else(path: Path) -> None:
    """Raise a SinkError if there is more in a volume than we wrote: it would go, too."""
    ours = {"labels", "time", "0", *TABLES, *FINAL_TABLES, STATE, DOCUMENT, _QUALITY}
    for entry in sorted(path.iterdir()):
        if entry.name not in ours and not entry.name.startswith(".") and entry.suffix != ".partial":
            raise SinkError(
                f"{path}: holds {entry.name}, which is not of a volume and would be lost; move it "
                "away, or choose another name"
            )


def lay_out(store: str | Store, header: Header, version: str, chunk_rows: int = ROWS) -> zarr.Group:
    """Create an empty volume in a store."""
    record = {
        "schema": SCHEMA,
        "version": version,
        **header.to_record(),
        "frames_committed": 0,
        "complete": False,
        "ended": INTERRUPTED,
    }
    root = zarr.create_group(store, zarr_format=3, attributes={KEY: sealed(record)})
    build(root, header, chunk_rows)
    copy_record(root, sealed(record))
    return root


def _create_behind(
    address: Address, header: Header, version: str, overwrite: bool, chunk_rows: int
) -> VolumeWriter:
    """Begin a volume behind an address, where nothing can be renamed: the root document comes last.

    A crash before leaves a place that the next one clears.
    """
    address = address.again()
    fence = FencedStore(address)
    require_replaceable(address, overwrite)
    with ExitStack() as failing:
        failing.callback(fence.release)
        fence.begin(overwrite)
        lay_out(fence, header, version, chunk_rows)
        fence.publish()
        writer = VolumeWriter(address, open_group(fence, "r+"), fence)
        failing.pop_all()
        return writer


def require_replaceable(address: Address, overwrite: bool) -> None:
    """Raise a SinkError if what lies behind an address may not be replaced."""
    if is_volume(address):
        if not overwrite:
            raise SinkError(f"{address}: exists {describe(address)}")
        return
    keys = sync(address.store.sizes()) or {}
    if BEGUN not in keys and not all(map(_is_empty_node, keys)):
        raise SinkError(f"{address}: exists and is not a volume of ours; choose another name")


def _is_empty_node(key: str) -> bool:
    """Whether this is what processes leave that begin a volume at one moment: never a value."""
    first, _, rest = key.partition("/")
    return rest.endswith(DOCUMENT) and first in {
        "labels",
        "time",
        "0",
        *TABLES,
        *FINAL_TABLES,
        STATE,
    }


def _sweep(leftover: Path, volume: Path) -> None:
    """Remove what a process that was beginning `volume` left behind."""
    if leftover.is_dir() and not leftover.is_symlink():
        lock = WriteLock(leftover, volume)
        shutil.rmtree(leftover)
        lock.release()
    elif leftover.exists() or leftover.is_symlink():
        leftover.unlink()


def resume(
    path: Target, header: Header, version: str
) -> tuple[VolumeWriter, dict[str, NDArray[Any]] | None]:
    """Go on with the volume at `path`; return the writer and the segmenter's state, if any.

    The volume must have been begun for the same source with the same settings, and every chunk that
    counts must be there and sound. One of an older schema gets the tables that it lacks.
    """
    _require_resumable(path, open_root(path), header, version)
    with sink_errors(path), ExitStack() as failing:
        root, lock = root_to_write(path)
        failing.callback(lock.release)
        _require_resumable(path, root, header, version)  # as it is now that nobody else writes
        require_sound_volume(path, root)
        _raise_schema(root)
        writer = VolumeWriter(path, root, lock)
        state = None if writer.complete else load_state(root, writer.frames)
        if writer.complete:
            drop_resume_state(root)
        failing.pop_all()
        return writer, state


def require_sound_volume(path: Target, root: zarr.Group) -> None:
    """Raise a SinkError that names what is damaged in a volume; `check` tells all of it."""
    if isinstance(path, Address):  # whose bytes are watched over there, and would all be fetched
        require_chunks(root)
    else:
        require_sound(root)
    if not array_in(root, "labels/ids/0").checksummed:  # then only what it says can tell
        for damage in check(path).damages:
            raise SinkError(
                f"{path}: {damage.part} {damage.reason}; aaams-stream check {path} tells what is "
                "left, and --repair mends it"
            )


def _require_resumable(path: Target, root: zarr.Group, header: Header, version: str) -> None:
    record: Any = root.attrs[KEY]
    if record["version"] != version:
        raise SinkError(
            f"{path}: was begun by version {record['version']} and this is {version}; finish it "
            "with that one, or use --overwrite"
        )
    if header.fingerprint is None:
        raise SinkError(f"{path}: {header.spec} cannot be read a second time, so not resumed")
    require_same(path, Header.from_record(record), header)


def _raise_schema(root: zarr.Group) -> None:
    """Add to an unfinished volume of an older schema the tables that it lacks."""
    record: Any = root.attrs[KEY]
    if record["schema"] == WITHOUT_LEVELS and not record["complete"]:
        for table in LEVEL_TABLES:
            create_final_table(root, table, array_in(root, "tracks/id").chunks[0])
        root.attrs[KEY] = sealed({**record, "schema": schema_with_levels(root)})


def require_same(path: Target, begun: Header, now: Header) -> None:
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
    if not _same_region(begun.region, now.region):
        raise SinkError(
            f"{path}: was begun with another region of interest; give the same --mask, or "
            "--overwrite"
        )
    wanted = begun.selection | {"with_video": begun.with_video, "stretch": begun.stretch}
    given = now.selection | {"with_video": now.with_video, "stretch": now.stretch}
    for name, value in wanted.items():
        if given.get(name) != value:
            raise SinkError(
                f"{path}: was begun with {name.replace('_', ' ')} {value} and not "
                f"{given.get(name)}; use that, or --overwrite"
            )


def _same_region(begun: Roi | None, now: Roi | None) -> bool:
    if begun is None or now is None:
        return begun is now
    return np.array_equal(begun.mask, now.mask)


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that are not the same in both."""
    for table in {*one, *other}:
        left, right = one.get(table, {}), other.get(table, {})
        for key in {*left, *right}:
            if left.get(key) != right.get(key):
                yield f"{table}.{key}"

"""The root document of a volume, written anew from what the volume says of itself elsewhere."""

from __future__ import annotations

from pathlib import Path

from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore

from aaams_stream.errors import SinkError
from aaams_stream.store.address import DOCUMENT, Target
from aaams_stream.store.layout import KEY, Header, array_in, open_group
from aaams_stream.store.lock import WriteLock
from aaams_stream.store.mend import write_whole
from aaams_stream.store.open import lay_out
from aaams_stream.store.shards import consolidate
from aaams_stream.store.sweep import STATE
from aaams_stream.store.validate import check_nodes, kept_record, read_record, sealed
from aaams_stream.store.writer import sink_errors


def restore_root(path: Target) -> bool:
    """Write the root document of a volume anew if it is damaged; return whether it was.

    With what the group of labels repeats of it, and as many frames as the last state that was
    saved, if the volume is not complete: the bytes that were there, but for what others noted in
    its attributes. Where nothing repeats it, nothing is done.
    """
    if not isinstance(path, Path) or _is_sound(path):
        return False
    record = kept_record(path)
    if record is None:
        return False
    with sink_errors(path):
        lock = WriteLock(path, path)
        try:
            packed = _is_packed(path)
            if packed:  # the root document repeats those of all nodes
                check_nodes(path, record)
            if not record["complete"]:
                record["frames_committed"] = _frames_committed(path)
            memory = MemoryStore()
            root = lay_out(memory, Header.from_record(record), record["version"])
            root.attrs[KEY] = sealed(record)
            data = sync(memory.get(DOCUMENT, default_buffer_prototype()))
            assert data is not None
            write_whole(path / DOCUMENT, data.to_bytes())
            if packed:
                consolidate(LocalStore(path))
        finally:
            lock.release()
    return True


def _is_sound(path: Path) -> bool:
    try:
        read_record(path)
        open_group(path)
    except SinkError:
        return False
    return True


def _frames_committed(path: Path) -> int:
    """Return after how many frames the last state was saved that is sound, or else the last.

    All that counts was written before it.
    """
    folder = path / STATE
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    saved = sorted((name for name in names if name.isdecimal()), reverse=True)
    for name in saved:
        try:
            state = array_in(open_group(folder), name)
            if not any(map(state.failure, state.chunks_of())):
                return int(name)
        except SinkError:
            continue
    if saved:
        return int(saved[0])
    if array_in(open_group(path / "labels"), "ids/0").shape[0]:
        raise SinkError(
            f"{path}: cannot be repaired: how many of its frames count stood in {DOCUMENT} and "
            f"{STATE} alone, and both are damaged; segment its source under another name"
        )
    return 0


def _is_packed(path: Path) -> bool:
    try:
        ids = array_in(open_group(path / "labels"), "ids/0")
    except SinkError:
        return False
    return ids.files != ids.chunks

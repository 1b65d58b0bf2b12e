"""What is added to a complete volume: levels to an older one, coarse labels for viewers.

Under the right to write, and so that a crash in between leaves a valid volume: what is being added
counts once the attributes say so, which is the last write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zarr
from zarr.abc.store import Store

from aaams_stream.store.address import read_document, target_of
from aaams_stream.store.layout import (
    CHUNK_FRAMES,
    KEY,
    WITHOUT_LEVELS,
    array_in,
    create_final_table,
    create_labels,
    group_in,
    labels_in,
    list_labels,
    schema_with_levels,
    write_final_table,
)
from aaams_stream.store.levels import build_levels
from aaams_stream.store.open import require_sound_volume
from aaams_stream.store.root import open_root, root_to_write
from aaams_stream.store.shards import consolidate, is_consolidated
from aaams_stream.store.tables import require_complete
from aaams_stream.store.validate import sealed
from aaams_stream.store.volume import Volume, open_volume
from aaams_stream.store.writer import sink_errors


def add_levels(path: str | Path | Store, *, overwrite: bool = False) -> bool:
    """Add the tree over its identities to a complete volume; return whether it was missing.

    Where it is there already nothing is done; with `overwrite` it is found anew, and coarse labels
    that were made from the one before are removed.
    """
    with _writing(path, "levels are found at the end") as (volume, root):
        record: Any = root.attrs[KEY]
        if volume.has_levels and not overwrite:
            return False
        tables = build_levels(root, volume.frame_count)
        root.attrs[KEY] = sealed({**record, "schema": WITHOUT_LEVELS})  # until they are there
        for name in labels_in(root):
            if name != "ids":
                _drop_labels(root, name)
        for table, rows in tables.items():
            create_final_table(root, table, array_in(root, "tracks/id").chunks[0])
            write_final_table(root, table, rows)
        root.attrs[KEY] = sealed({**record, "schema": schema_with_levels(root)})
        return True


def materialise(
    path: str | Path | Store, segments: int, progress: Callable[[int, int], None] | None = None
) -> str:
    """Write the volume at so many groups a frame as labels of their own; return their name.

    For viewers that know no lookup: `labels/coarse_N/0` is to them what `labels/ids/0` is. Those
    that are there are written anew. progress: called with frames done and all.
    """
    with _writing(path, "levels are found at the end") as (volume, root):
        view = volume.at(segments=segments)
        name = f"coarse_{segments}"
        _drop_labels(root, name)
        array = create_labels(root, name, volume.header)
        group_in(root, f"labels/{name}").update_attributes({KEY: {"level": view.level}})
        array.resize((volume.frame_count, *array.shape[1:]))
        for start in range(0, volume.frame_count, CHUNK_FRAMES):
            stop = min(start + CHUNK_FRAMES, volume.frame_count)
            array[start:stop] = view.ids[start:stop]
            if progress is not None:
                progress(stop, volume.frame_count)
        list_labels(root, [*labels_in(root), name])
        return f"labels/{name}"


def _drop_labels(root: zarr.Group, name: str) -> None:
    """Remove coarse labels: from the list first, so that nobody looks for what is half there."""
    listed = labels_in(root)
    if name in listed:
        list_labels(root, [other for other in listed if other != name])
    labels = group_in(root, "labels")
    if name in labels:
        del labels[name]


@contextmanager
def _writing(path: str | Path | Store, reason: str) -> Iterator[tuple[Volume, zarr.Group]]:
    """Hold the right to write to a complete volume; yield it to read, and its group to write."""
    place = target_of(path)
    require_complete(open_volume(path), reason)
    with sink_errors(place):
        root, lock = root_to_write(place)
        try:
            require_sound_volume(place, root)
            packed = is_consolidated(json.loads(read_document(target_of(place), "")))
            yield Volume(place, open_root(place)), root  # as it is now that nobody else writes
            if packed:  # the root document repeats what was changed
                consolidate(root.store)
        finally:
            lock.release()

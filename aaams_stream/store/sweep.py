"""All chunks of a volume that count, and whether each of them is there and sound."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import zarr

from aaams_stream.errors import SinkError
from aaams_stream.store.address import SnapshotStore, names_in
from aaams_stream.store.layout import (
    FINAL_TABLES,
    KEY,
    LEVEL_TABLES,
    TABLES,
    WITHOUT_LEVELS,
    array_in,
    columns_of,
    labels_in,
    video_in,
)
from aaams_stream.store.stored import MISSING, StoredArray

STATE = "resume"  # the segmenter's state, as a table


class Part(NamedTuple):
    """An array of a volume, as far as it counts."""

    node: str
    array: StoredArray
    rows: int
    table: str | None  # it is a column of; None: it has a row per frame


def parts(root: zarr.Group, damaged: Container[str] = ()) -> Iterator[Part]:
    """Yield the arrays of a volume whose metadata is sound, offsets of a table before its columns.

    Those with `damaged` metadata are left out. Where the offsets cannot be read that say how many
    rows of a table count, all do.
    """
    record: Any = root.attrs[KEY]
    frames, complete = record["frames_committed"], record["complete"]
    for name in labels_in(root) if "labels" not in damaged else ["ids"]:
        if f"labels/{name}/0" not in damaged:
            yield Part(f"labels/{name}/0", array_in(root, f"labels/{name}/0"), frames, None)
    if record["source"]["with_video"] and "0" not in damaged:
        yield Part("0", video_in(root), frames, None)
    if "time" not in damaged:
        yield Part("time", array_in(root, "time"), frames, None)
    for table, columns in TABLES.items():
        rows = None
        if f"{table}/offsets" not in damaged:
            offsets = array_in(root, f"{table}/offsets")
            yield Part(f"{table}/offsets", offsets, frames + 1 if frames else 0, None)
            with suppress(SinkError):
                rows = int(offsets[frames]) if frames else 0
        for name in columns:
            if f"{table}/{name}" not in damaged:
                column = array_in(root, f"{table}/{name}")
                most = column.shape[0]
                yield Part(
                    f"{table}/{name}", column, min(most, most if rows is None else rows), table
                )
    for table, (_, dtype) in FINAL_TABLES.items() if complete else ():
        if table in LEVEL_TABLES and record["schema"] == WITHOUT_LEVELS:
            continue
        for name in columns_of(dtype):
            if f"{table}/{name}" not in damaged:
                column = array_in(root, f"{table}/{name}")
                yield Part(f"{table}/{name}", column, column.shape[0], table)
    state = f"resume/{frames:08d}"
    if frames and not complete and state not in damaged:
        saved = array_in(root, state)
        yield Part(state, saved, saved.shape[0], STATE)


def require_sound(root: zarr.Group) -> None:
    """Raise a SinkError that names the first chunk that should be there and is not, or is damaged.

    Where chunks have checksums they are not decoded: this takes as long as reading the files.
    """
    for part in parts(root):
        for chunk in part.array.chunks_of((slice(0, part.rows),)):
            wrong = part.array.failure(chunk)
            if wrong is not None:
                raise part.array.error(chunk, wrong)


def require_chunks(root: zarr.Group) -> None:
    """Raise a SinkError that names the first chunk that should be there and is not.

    Looks for files alone, so that it may be asked of every volume. What cannot be listed, on the
    web, is not looked for.
    """
    names = names_in(root)
    if names is None and isinstance(root.store, SnapshotStore):
        return
    for part in parts(root):
        for chunk in part.array.chunks_of((slice(0, part.rows),)):
            if names is None:
                part.array.require(chunk)
            elif part.array.whole and part.array.name(chunk) not in names:
                raise part.array.error(chunk, MISSING)

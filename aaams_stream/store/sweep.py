"""All chunks of a volume that count, and whether each of them is there and sound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import zarr

from aaams_stream.errors import SinkError
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
from aaams_stream.store.stored import StoredArray, place_of


class Part(NamedTuple):
    """An array of a volume, as far as it counts."""

    node: str
    array: StoredArray
    rows: int
    table: str | None  # it is a column of; None: it has a row per frame


def parts(root: zarr.Group) -> Iterator[Part]:
    """Yield the arrays of a volume whose metadata is sound, offsets of a table before its columns.

    A SinkError where the offsets that say how many rows count cannot be read.
    """
    record: Any = root.attrs[KEY]
    frames, complete = record["frames_committed"], record["complete"]
    for name in labels_in(root):
        yield Part(f"labels/{name}/0", array_in(root, f"labels/{name}/0"), frames, None)
    if record["source"]["with_video"]:
        yield Part("0", video_in(root), frames, None)
    yield Part("time", array_in(root, "time"), frames, None)
    for table, columns in TABLES.items():
        offsets = array_in(root, f"{table}/offsets")
        yield Part(f"{table}/offsets", offsets, frames + 1 if frames else 0, None)
        rows = int(offsets[frames]) if frames else 0
        for name in columns:
            column = array_in(root, f"{table}/{name}")
            if rows > column.shape[0]:
                raise SinkError(f"{place_of(root)}: {table}/{name} lacks rows that count")
            yield Part(f"{table}/{name}", column, rows, table)
    for table, (_, dtype) in FINAL_TABLES.items() if complete else ():
        if table in LEVEL_TABLES and record["schema"] == WITHOUT_LEVELS:
            continue
        for name in columns_of(dtype):
            column = array_in(root, f"{table}/{name}")
            yield Part(f"{table}/{name}", column, column.shape[0], table)
    if frames and not complete:
        state = array_in(root, f"resume/{frames:08d}")
        yield Part(state.path, state, state.shape[0], "resume")


def require_sound(root: zarr.Group) -> None:
    """Raise a SinkError that names the first chunk that should be there and is not, or is damaged.

    Where chunks have checksums they are not decoded: this takes as long as reading the files.
    """
    for part in parts(root):
        for chunk in part.array.chunks_of((slice(0, part.rows),)):
            wrong = part.array.failure(chunk)
            if wrong is not None:
                raise SinkError(wrong)


def require_chunks(root: zarr.Group) -> None:
    """Raise a SinkError that names the first chunk that should be there and is not.

    Looks for files alone, so that it may be asked of every volume.
    """
    for part in parts(root):
        for chunk in part.array.chunks_of((slice(0, part.rows),)):
            part.array.require(chunk)

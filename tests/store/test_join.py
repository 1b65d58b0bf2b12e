"""Rows of parts put together, whole chunks at a time."""

from __future__ import annotations

import numpy as np
import pytest
from support.volumes import HEADER, VERSION, fill

from aaams_stream import open_volume, store
from aaams_stream.store.join import LONG_TABLES, Piece, join_tables, read_part, write_rows

FRAMES = 40


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """Return a part whose rows lie in many chunks."""
    path = tmp_path_factory.mktemp("part") / "part.zarr"
    writer = store.create(path, HEADER, VERSION, chunk_rows=16)
    fill(writer, FRAMES, commit=False)
    writer.finish("complete")
    return read_part(path)


@pytest.mark.parametrize("turned", [False, True])
def test_rows_that_lie_in_several_chunks_are_all_there(part, turned, tmp_path):
    lookup = np.arange(part.identities + 1, dtype=np.uint32)
    if turned:  # ids in another order, and so the rows of a frame
        lookup[1:] = lookup[:0:-1]
    rows = {table: int(part.offsets[table][-1]) for table in LONG_TABLES}
    none = dict.fromkeys(LONG_TABLES, 0)
    piece = Piece(part.path, 0, 0, FRAMES, lookup, None, none, rows, none)
    writer = store.create(tmp_path / "whole.zarr", HEADER, VERSION, chunk_rows=48)
    for table in LONG_TABLES:
        write_rows(writer.path, table, [piece], 0, rows[table])
    join_tables(writer, [piece], [part], part.events)
    volume = open_volume(part.path)
    for table, names in (("segments", ("id",)), ("adjacency", ("first", "second"))):
        assert rows[table] > 5 * 16
        found = {n: writer.root[f"{table}/{n}"][:] for n in writer.root[table] if n != "offsets"}
        wanted = {n: volume.table(table)[n] for n in found}
        for name in names:
            wanted[name] = lookup[wanted[name]]
        if turned and table == "adjacency":
            pair = np.stack([wanted["first"], wanted["second"]])
            wanted["first"], wanted["second"] = pair.min(axis=0), pair.max(axis=0)
        if turned and "parent" in wanted:
            wanted["parent"] = lookup[wanted["parent"]]
        order = np.lexsort([*(wanted[name] for name in names[::-1]), wanted["frame"]])
        for name, column in wanted.items():
            np.testing.assert_array_equal(found[name], column[order], err_msg=name)
    writer.release()

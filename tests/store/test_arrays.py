"""Arrays and tables that grow frame by frame."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from support.volumes import HEADER, VERSION, fill
from zarr.codecs import TransposeCodec

from aaams_stream import store
from aaams_stream.model import EVENT_DTYPE, EventKind
from aaams_stream.store import layout, open_volume
from aaams_stream.store.arrays import ChunkedArray, Table
from aaams_stream.store.stored import StoredArray


def test_table_writes_rows_without_waiting_for_a_commit(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION, chunk_rows=7)
    results = fill(writer, 20, commit=False)
    rows = sum(len(result.segments) for result in results)
    assert rows > 14
    for name in layout.TABLES["segments"]:
        assert zarr.open(path, mode="r")[f"segments/{name}"].shape[0] == rows - rows % 7
    assert open_volume(path).frame_count == 0


def test_table_has_rows_that_cross_chunks(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION, chunk_rows=7)
    results = fill(writer, 20)
    writer.finish("complete")
    volume = open_volume(tmp_path / "a.zarr")
    for t in (0, 7, 19, 3, 12):
        np.testing.assert_array_equal(volume.segments(t), results[t].segments)


def empty_array(chunk=4, order=None):
    """Return an array of rows of three in memory; order: in which a chunk's axes are kept."""
    filters = [] if order is None else [TransposeCodec(order=order)]
    return StoredArray(
        zarr.create_array(
            {}, shape=(0, 3), chunks=(chunk, 3), dtype=np.int32, filters=filters, fill_value=0
        )
    )


def numbered(start, stop):
    return np.arange(3 * start, 3 * stop, dtype=np.int32).reshape(-1, 3)


@pytest.mark.parametrize("order", [None, (1, 0)])
@given(steps=st.lists(st.integers(0, 11) | st.just("flush"), max_size=12))
def test_chunked_array_holds_whole_chunks_and_all_rows_after_a_flush(order, steps):
    array = empty_array(order=order)
    chunked, count, least = ChunkedArray(array, 0), 0, 0
    for step in [*steps, "flush"]:
        if step == "flush":
            chunked.flush()
            least = count
        else:
            chunked.append(numbered(count, count + step))
            count += step
        written = max(least, count - count % 4)
        np.testing.assert_array_equal(array[:], numbered(0, written))


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 9))
def test_chunked_array_forgets_rows_that_do_not_count(written, lost, more):
    """As after a crash behind the last commit."""
    array = empty_array()
    before = ChunkedArray(array, 0)
    before.append(numbered(0, written))
    before.append(-1 - numbered(0, lost))
    before.flush()
    chunked = ChunkedArray(array, written)
    chunked.flush()
    np.testing.assert_array_equal(array[:], numbered(0, written))
    chunked.append(numbered(written, written + more))
    chunked.flush()
    np.testing.assert_array_equal(array[:], numbered(0, written + more))


def test_stored_array_writes_chunks_that_are_empty_too():
    kept: dict[str, object] = {}
    array = zarr.create_array(kept, shape=(0, 2), chunks=(2, 2), dtype=np.uint8, fill_value=0)
    ChunkedArray(StoredArray(array), 0).append(np.zeros((4, 2), np.uint8))
    assert sorted(name for name in kept if "/c/" in f"/{name}") == ["c/0/0", "c/1/0"]


def test_table_goes_on_from_the_rows_of_the_frames_that_count():
    root = zarr.create_group({})
    layout.build(root, HEADER, chunk_rows=4)
    rows = np.zeros(9, EVENT_DTYPE)
    rows["id"] = np.arange(9)
    rows["kind"] = EventKind.BIRTH
    table = Table(root, "events", 0)
    for frame, part in enumerate((rows[:3], rows[3:3], rows[3:8])):
        table.append(frame, part)
    for array in table.arrays():
        array.flush()
    again = Table(root, "events", 2)  # the third frame was not committed
    assert again.rows == 3
    again.append(2, rows[8:])
    for array in again.arrays():
        array.flush()
    assert root["events/offsets"][:].tolist() == [0, 3, 3, 4]
    assert root["events/frame"][:].tolist() == [0, 0, 0, 2]
    np.testing.assert_array_equal(
        layout.read_rows(root, "events", 0, 4, EVENT_DTYPE), rows[[0, 1, 2, 8]]
    )

"""Chunks one by one: the bytes that Zarr writes, and what it reads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.volumes import HEADER, VERSION, fill

from aaams_stream import store
from aaams_stream.errors import SinkError
from aaams_stream.store.chunks import ChunkCoder
from aaams_stream.store.layout import TABLES, array_in, open_group, video_in


@pytest.fixture
def volume(tmp_path):
    writer = store.create(
        tmp_path / "a.zarr", dataclasses.replace(HEADER, with_video=True), VERSION, chunk_rows=64
    )
    fill(writer, 19)
    writer.finish("complete")
    return tmp_path / "a.zarr"


def arrays_of(root):
    yield array_in(root, "labels/ids/0")
    yield video_in(root)
    yield array_in(root, "time")
    for table, columns in TABLES.items():
        for name in columns:
            yield array_in(root, f"{table}/{name}")


def test_coder_reads_what_zarr_reads_and_writes_its_bytes(volume):
    root = open_group(volume, "r+")
    chunks = 0
    for array in arrays_of(root):
        coder = ChunkCoder(array)
        values, out = array[:], coder.empty()
        for chunk in array.chunks_of():
            coder.read(chunk, out)
            part = out.transpose(np.argsort(coder.order))
            here = values[array.part(chunk)]
            np.testing.assert_array_equal(part[tuple(map(slice, here.shape))], here)
            before = (volume / array.name(chunk)).read_bytes()
            (volume / array.name(chunk)).unlink()
            coder.write(chunk, out)
            assert (volume / array.name(chunk)).read_bytes() == before
            chunks += 1
    assert chunks > 60


def test_coder_names_a_chunk_that_is_damaged_or_missing(volume):
    root = open_group(volume)
    array = array_in(root, "labels/ids/0")
    coder = ChunkCoder(array)
    path = volume / array.name((1, 0, 0))
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(data)
    with pytest.raises(SinkError, match=r"chunk labels/ids/0/c/1/0/0 is damaged \(the checksum"):
        coder.read((1, 0, 0), coder.empty())
    path.unlink()
    with pytest.raises(SinkError, match=r"chunk labels/ids/0/c/1/0/0 is missing"):
        coder.read((1, 0, 0), coder.empty())

"""A volume's folder while it is written."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil

import pytest
from support.volumes import HEADER, VERSION, files, fill

from aaams_stream import store
from aaams_stream.errors import SinkError


@pytest.fixture
def writer(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 9)
    yield writer
    writer.release()


GONE = r"a\.zarr: was removed or renamed while it was being written; .* --resume goes on there"


def test_a_volume_that_is_gone_is_not_made_anew(writer, tmp_path):
    shutil.rmtree(writer.path)
    with pytest.raises(SinkError, match=GONE):
        fill(writer, 17)
    with pytest.raises(SinkError, match=GONE):
        writer.finish("complete")
    assert list(tmp_path.iterdir()) == []


def test_remains_of_a_volume_are_removed_unless_its_frames_are_there(writer, tmp_path):
    (writer.path / "zarr.json").unlink()
    with pytest.raises(SinkError, match=GONE):
        writer.finish("complete")
    assert (writer.path / "labels" / "ids" / "0" / "c" / "0").exists()
    shutil.rmtree(writer.path / "labels")
    with pytest.raises(SinkError, match=GONE):
        writer.finish("complete")
    assert list(tmp_path.iterdir()) == []


def test_another_volume_under_the_same_name_is_left_alone(writer, tmp_path):
    writer.path.rename(tmp_path / "moved.zarr")
    other = store.create(writer.path, HEADER, VERSION)
    fill(other, 9)
    before = files(other.path)
    with pytest.raises(SinkError, match=GONE):
        fill(writer, 17)
    assert files(other.path) == before
    other.finish("complete")
    assert store.open_volume(other.path).complete


def _open_below(folder):
    """Return what this process holds open below a folder; other tests' leftovers do not count."""
    held = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed as we look
            held.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in held if path.startswith(str(folder))]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_writer_leaves_no_folder_open(tmp_path):
    for n in range(5):
        writer = store.create(tmp_path / f"{n}.zarr", HEADER, VERSION)
        assert _open_below(tmp_path)
        fill(writer, 9)
        writer.finish("complete")
    del writer
    gc.collect()
    assert _open_below(tmp_path) == []

"""A packed volume in one file, a ZIP archive: written whole, and read like any other."""

from __future__ import annotations

import dataclasses
import json
import zipfile

import dask
import dask.array
import numpy as np
import pytest
import xarray
import zarr
from support.commands import run
from support.volumes import HEADER, VERSION, files, fill

from aaams_stream import open_volume, pack, store
from aaams_stream.errors import SinkError
from aaams_stream.store import is_volume

FRAMES = 70


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("volume") / "clip.zarr"
    header = dataclasses.replace(HEADER, with_video=True)
    writer = store.create(path, header, VERSION, chunk_rows=64)
    fill(writer, FRAMES, commit=False)
    writer.finish("complete")
    return path


@pytest.fixture(scope="module")
def archive(folder):
    path = folder.with_name("clip.zarr.zip")
    told = pack(folder, path)
    assert (told.files, told.files_before) == (1, len(files(folder)))
    assert (told.size, told.size_before) == (path.stat().st_size, store.size_on_disk(folder))
    return path


def test_an_archive_reads_as_the_volume_it_was_made_from(folder, archive):
    one, other = open_volume(folder), open_volume(archive)
    np.testing.assert_array_equal(other.ids[:], one.ids[:])
    np.testing.assert_array_equal(other.video[:], one.video[:])
    for table in ("segments", "adjacency", "events"):
        np.testing.assert_array_equal(other.table(table), one.table(table))
    np.testing.assert_array_equal(other.tracks, one.tracks)
    assert other.header == one.header
    assert is_volume(archive)
    assert store.check(archive).sound


def test_an_archive_holds_a_packed_volume_each_entry_once(folder, archive, tmp_path):
    pack(folder, tmp_path / "packed.zarr")
    with zipfile.ZipFile(archive) as entries:
        found = {name: entries.read(name) for name in entries.namelist()}
        assert len(entries.namelist()) == len(found)
        assert all(entry.compress_type == zipfile.ZIP_STORED for entry in entries.infolist())
    assert found == files(tmp_path / "packed.zarr")
    pack(archive, tmp_path / "back.zarr")
    assert files(tmp_path / "back.zarr") == found


@pytest.mark.filterwarnings("ignore")  # what these libraries say of codecs and of each other
def test_an_archive_opens_in_xarray_and_dask(folder, archive):
    ids = open_volume(folder).ids[:]
    opened = zarr.storage.ZipStore(archive, mode="r")
    tree = xarray.open_datatree(opened, engine="zarr", consolidated=True, chunks=None)
    np.testing.assert_array_equal(tree["labels/ids/0"], ids)
    with dask.config.set(scheduler="synchronous"):
        lazy = dask.array.from_zarr(zarr.open_array(opened, path="labels/ids/0", mode="r"))
        np.testing.assert_array_equal(lazy.compute(), ids)
    opened.close()


def test_commands_take_an_archive(archive, tmp_path, capsys):
    assert run("info", archive, "--json") == 0
    assert json.loads(capsys.readouterr().out)["frames"] == FRAMES
    assert run("check", archive) == 0
    assert run("export", archive, "--to", "csv", "-o", tmp_path / "tables") == 0
    capsys.readouterr()
    assert run("levels", archive, "--overwrite") == 2
    assert capsys.readouterr().err.startswith(f"error: {archive}: the store is read-only")
    assert run("check", archive, "--repair") == 0  # there is nothing to mend


def test_an_archive_is_replaced_when_that_is_asked_for_and_never_itself(folder, tmp_path):
    path = tmp_path / "clip.zip"
    pack(folder, path)
    before = path.read_bytes()
    with pytest.raises(SinkError, match="exists; --overwrite replaces it"):
        pack(folder, path)
    with pytest.raises(SinkError, match="is the volume; choose another name"):
        pack(path, path, overwrite=True)
    assert path.read_bytes() == before
    pack(folder, path, overwrite=True)
    other = tmp_path / "thesis.zip"
    with zipfile.ZipFile(other, "w") as entries:
        entries.writestr("thesis.txt", "all of it")
    with pytest.raises(SinkError, match="exists and is not a volume of ours"):
        pack(folder, other, overwrite=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["clip.zip", "thesis.zip"]


def test_what_is_no_archive_or_damaged_is_told(archive, tmp_path):
    broken = tmp_path / "broken.zip"
    broken.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(SinkError, match=r"broken.zip: is no archive that can be read"):
        open_volume(broken)
    with pytest.raises(SinkError, match=r"gone.zip: no such volume"):
        open_volume(tmp_path / "gone.zip")
    with zipfile.ZipFile(archive) as entries:
        info = entries.getinfo("labels/ids/0/c/0/0/0")
    data = bytearray(archive.read_bytes())
    data[info.header_offset + 30 + len(info.filename) + 20] ^= 1
    broken.write_bytes(data)
    report = store.check(broken)
    assert [damage.part for damage in report.damages] == ["labels/ids/0/c/0/0/0"]
    with pytest.raises(SinkError, match="c/0/0/0 is damaged"):
        _ = open_volume(broken).ids[0]


def test_a_volume_is_not_begun_as_an_archive(tmp_path):
    with pytest.raises(SinkError, match="written as a folder"):
        store.create(tmp_path / "clip.zip", HEADER, VERSION)
    assert not (tmp_path / "clip.zip").exists()

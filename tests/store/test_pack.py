"""Packing: few files that read as before, here, behind addresses, and by other libraries."""

from __future__ import annotations

import dataclasses
import json

import dask
import dask.array
import numpy as np
import pytest
import xarray
import zarr
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader
from support.buckets import note_requests, objects
from support.commands import run
from support.volumes import HEADER, VERSION, files, fill

from aaams_stream import open_volume, pack, store
from aaams_stream.errors import SinkError
from aaams_stream.run.repair import repair_volume
from aaams_stream.store import packing

FRAMES = 270


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Write a volume of many chunks, with pictures; the last shard of it is not full."""
    path = tmp_path_factory.mktemp("long") / "long.zarr"
    header = dataclasses.replace(HEADER, with_video=True)
    writer = store.create(path, header, VERSION, chunk_rows=64)
    fill(writer, FRAMES, commit=False)
    writer.finish("complete")
    store.materialise(path, 3)
    return path


@pytest.fixture(scope="module")
def packed(long):
    path = long.with_name("packed.zarr")
    pack(long, path)
    return path


@pytest.fixture
def copy(packed, tmp_path):
    """Return a packed volume to spoil."""
    path = tmp_path / "copy.zarr"
    pack(packed, path)
    assert files(path) == files(packed)
    return path


def test_a_packed_volume_has_a_tenth_of_the_files(long, tmp_path):
    path = tmp_path / "packed.zarr"
    told = pack(long, path)
    assert told.files == len(files(path))
    assert told.files_before == len(files(long))
    assert told.size == store.size_on_disk(path)
    assert told.size_before == store.size_on_disk(long)
    documents = sum(name.endswith("zarr.json") for name in files(long))
    assert told.files - documents <= (told.files_before - documents) / 10


def test_a_packed_volume_reads_as_before(long, packed):
    one, other = open_volume(long), open_volume(packed)
    np.testing.assert_array_equal(other.ids[:], one.ids[:])
    np.testing.assert_array_equal(other.video[:], one.video[:])
    np.testing.assert_array_equal(other.times, one.times)
    for table in ("segments", "adjacency", "events"):
        np.testing.assert_array_equal(other.table(table), one.table(table))
    np.testing.assert_array_equal(other.segments(170), one.segments(170))
    np.testing.assert_array_equal(other.tracks, one.tracks)
    np.testing.assert_array_equal(other.groups(segments=3), one.groups(segments=3))
    assert other.header == one.header
    other.require_chunks()
    report = store.check(packed)
    assert report.sound
    assert report.frames == FRAMES


@pytest.mark.filterwarnings("ignore")  # what these libraries say of codecs and of each other
def test_a_packed_volume_opens_in_xarray_dask_and_ome_zarr(long, packed):
    volume = open_volume(long)
    ids = volume.ids[:]
    data = xarray.open_zarr(packed / "labels/ids", consolidated=False, chunks=None)
    np.testing.assert_array_equal(data["0"][:], ids)
    data.close()
    tree = xarray.open_datatree(str(packed), engine="zarr", consolidated=True, chunks=None)
    np.testing.assert_array_equal(tree["time"], volume.times)
    np.testing.assert_array_equal(tree["segments/area"], volume.table("segments")["area"])
    tree.close()
    with dask.config.set(scheduler="synchronous"):  # and no threads that stay
        lazy = dask.array.from_zarr(str(packed), component="labels/ids/0")
        np.testing.assert_array_equal(lazy.compute(), ids)
        picture, *labels = [node.data[0] for node in Reader(parse_url(str(packed)))() if node.data]
        np.testing.assert_array_equal(picture[5].compute().transpose(1, 2, 0), volume.video[5])
        coarse = volume.at(segments=3).ids[7]  # in which order they come is not told
        found = [labels[0][7].compute(), labels[1][7].compute()]
        for expected in (ids[7], coarse):
            assert any(np.array_equal(one, expected) for one in found)


def test_the_root_document_of_a_packed_volume_repeats_all_others(packed):
    document = json.loads((packed / "zarr.json").read_bytes())
    told = document["consolidated_metadata"]["metadata"]
    nodes = {str(file.parent.relative_to(packed)) for file in packed.rglob("*/zarr.json")}
    assert set(told) == nodes
    for node in nodes:
        told[node].pop("consolidated_metadata", None)  # an empty one, of groups
        assert told[node] == json.loads((packed / node / "zarr.json").read_bytes())


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")  # Zarr 3.1 warns of the frames' codec
def test_shards_are_as_deep_as_their_size_allows(long, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "_BYTES", 1)
    pack(long, tmp_path / "a.zarr")
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    assert root["labels/ids/0"].shards == (16 * 8, 48, 64)
    np.testing.assert_array_equal(root["labels/ids/0"][:], open_volume(long).ids[:])


def test_what_is_damaged_is_not_packed(long, tmp_path):
    path = tmp_path / "damaged.zarr"
    for name, data in files(long).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    chunk = path / "segments/area/c/3"
    chunk.write_bytes(chunk.read_bytes()[:-5] + b"wrong")
    with pytest.raises(SinkError, match=r"chunk segments/area/c/3 is damaged"):
        pack(path, tmp_path / "packed.zarr")
    chunk.unlink()
    with pytest.raises(SinkError, match=r"chunk segments/area/c/3 is missing"):
        pack(path, tmp_path / "packed.zarr")
    assert [entry.name for entry in tmp_path.iterdir()] == ["damaged.zarr"]


def test_damage_in_a_shard_is_found(copy):
    shard = copy / "labels/ids/0/c/0/0/0"
    data = bytearray(shard.read_bytes())
    data[20] ^= 1
    shard.write_bytes(data)
    report = store.check(copy)
    assert [damage.part for damage in report.damages] == ["labels/ids/0/c/0/0/0"]
    with pytest.raises(SinkError, match="c/0/0/0 is damaged"):
        _ = open_volume(copy).ids[0]
    with pytest.raises(SinkError, match="is packed and cannot be mended"):
        repair_volume(copy)
    shard.write_bytes(data[:-3])
    assert "index" in store.check(copy).damages[0].reason
    shard.unlink()
    with pytest.raises(SinkError, match="c/0/0/0 is missing"):
        open_volume(copy).require_chunks()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("index_location", "start"),
        ("index_codecs", [{"name": "bytes", "configuration": {"endian": "little"}}]),
        ("chunk_shape", [7, 48, 64]),
        ("chunk_shape", None),
        ("codecs", []),
    ],
)
def test_shards_of_another_kind_are_refused(copy, field, value):
    place = copy / "labels/ids/0/zarr.json"
    document = json.loads(place.read_bytes())
    document["codecs"][0]["configuration"][field] = value
    place.write_text(json.dumps(document))
    with pytest.raises(SinkError, match=r"metadata is damaged \(labels/ids/0/zarr\.json"):
        open_volume(copy)


def test_what_is_added_to_a_packed_volume_is_in_its_root_document(copy):
    assert store.add_levels(copy, overwrite=True)
    store.materialise(copy, 2)
    told = json.loads((copy / "zarr.json").read_bytes())["consolidated_metadata"]["metadata"]
    assert "labels/coarse_2/0" in told
    assert "labels/coarse_3/0" not in told
    assert store.check(copy).sound


def test_only_what_is_complete_is_packed_and_only_volumes_are_replaced(long, tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 8)
    writer.release()
    with pytest.raises(SinkError, match=r"is not complete \(8 frames so far\)"):
        pack(path, tmp_path / "b.zarr")
    with pytest.raises(SinkError, match="exists; --overwrite replaces it"):
        pack(long, path)
    with pytest.raises(SinkError, match="is the volume; choose another name"):
        pack(long, long, overwrite=True)
    pack(long, path, overwrite=True)
    assert open_volume(path).frame_count == FRAMES
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.txt").write_text("all of it")
    with pytest.raises(SinkError, match="exists and is not a volume of ours"):
        pack(long, tmp_path / "other", overwrite=True)


@pytest.mark.campaign
def test_packing_goes_from_and_to_buckets(long, packed, bucket, tmp_path):
    pack(long, f"{bucket}/a.zarr")
    assert objects(f"{bucket}/a.zarr") == files(packed)
    np.testing.assert_array_equal(open_volume(f"{bucket}/a.zarr").ids[:], open_volume(long).ids[:])
    assert store.check(f"{bucket}/a.zarr").sound
    with pytest.raises(SinkError, match=r"exists \(complete, 270 frames\); .*--overwrite replaces"):
        pack(long, f"{bucket}/a.zarr")
    pack(f"{bucket}/a.zarr", tmp_path / "back.zarr")
    assert files(tmp_path / "back.zarr") == files(packed)


def test_a_packed_volume_in_a_bucket_is_opened_with_one_request(packed, bucket, monkeypatch):
    pack(packed, f"{bucket}/a.zarr")
    asked = note_requests(monkeypatch)
    assert open_volume(f"{bucket}/a.zarr").frame_count == FRAMES
    assert asked == ["zarr.json"]


def test_the_command_packs_and_tells(long, tmp_path, capsys):
    assert run("pack", long, tmp_path / "a.zarr") == 0
    assert "files instead of" in capsys.readouterr().out
    assert run("pack", long, tmp_path / "a.zarr") == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'a.zarr'}: exists; --overwrite")
    assert run("pack", long, tmp_path / "a.zarr", "--overwrite", "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"] == len(files(tmp_path / "a.zarr"))

"""What is missing or damaged in a volume is an error that names it, whoever reads."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest
import zarr
from support.older import edit_record, make_older
from support.volumes import HEADER, VERSION, files, fill

from aaams_stream import store
from aaams_stream.errors import SinkError
from aaams_stream.store import open_volume

READERS = {
    "labels/ids/0/c/1/0/0": lambda volume: volume.ids[12],
    "0/c/2/0/0/0": lambda volume: volume.video[16:20, :, ::2, 3],
    "time/c/0": lambda volume: volume.times,
    "segments/motion/c/0/0": lambda volume: volume.segments(3),
    "adjacency/contrast/c/0": lambda volume: volume.adjacency(3),
    "events/other/c/0": lambda volume: volume.events,
    "tracks/parent/c/0": lambda volume: volume.tracks,
    "hierarchy/level/c/0": lambda volume: volume.at(level=1),
    "objects/score/c/0": lambda volume: volume.objects(),
    "segments/offsets/c/0": lambda volume: volume.segments(3),
}


@pytest.fixture
def copy(whole, tmp_path):
    """Return a copy of a complete volume of 29 frames with pictures."""
    return shutil.copytree(whole[0], tmp_path / "copy.zarr")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("damage", ["missing", "flipped", "cut", "empty", "folder"])
def test_reading_names_the_chunk(copy, name, damage):
    file = copy / name
    data = bytearray(file.read_bytes())
    file.unlink()
    if damage == "flipped":
        data[len(data) // 2] ^= 16
        file.write_bytes(data)
    elif damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "empty":
        file.touch()
    elif damage == "folder":
        file.mkdir()
    wrong = "missing" if damage in ("missing", "folder") else "damaged"
    with pytest.raises(SinkError, match=f"chunk {name} is {wrong}.*check"):
        READERS[name](open_volume(copy))


@pytest.mark.parametrize("name", READERS)
def test_a_complete_volume_with_a_missing_chunk_is_not_resumed(copy, name):
    (copy / name).unlink()
    with pytest.raises(SinkError, match=f"chunk {name} is missing"):
        open_volume(copy).require_chunks()
    with pytest.raises(SinkError, match=f"chunk {name} is missing"):
        store.resume(copy, dataclasses.replace(HEADER, with_video=True), VERSION)


@pytest.mark.parametrize(
    "name", ["labels/ids/0/c/0/0/0", "segments/motion/c/0/0", "resume/00000016/c/0"]
)
@pytest.mark.parametrize("missing", [True, False])
def test_resume_goes_on_only_from_sound_frames(tmp_path, name, missing):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 16)
    writer.release()
    data = (path / name).read_bytes()
    (path / name).write_bytes(data[:-3])
    if missing:
        (path / name).unlink()
    before = files(path)
    with pytest.raises(SinkError, match=f"chunk {name} is {'missing' if missing else 'damaged'}"):
        store.resume(path, HEADER, VERSION)
    assert files(path) == before
    (path / name).write_bytes(data)
    store.resume(path, HEADER, VERSION)[0].release()  # nobody kept the right to write


def test_chunks_of_zeros_are_written(tmp_path):
    """So that one that is missing is lost; earlier builds left them out."""
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 3)
    writer.finish("complete")
    parents = open_volume(path).table("segments")["parent"]
    assert not parents.any()
    assert (path / "segments" / "parent" / "c" / "0").is_file()


def test_older_volumes_are_read_as_they_were(whole, copy):
    make_older(copy)
    before, after = open_volume(whole[0]), open_volume(copy)
    for table in ("segments", "adjacency", "events"):
        np.testing.assert_array_equal(before.table(table), after.table(table))
    np.testing.assert_array_equal(before.ids[:], after.ids[:])
    np.testing.assert_array_equal(before.tracks, after.tracks)
    (copy / "labels/ids/0/c/1/0/0").unlink()
    with pytest.raises(SinkError, match="chunk labels/ids/0/c/1/0/0 is missing"):
        after.ids[9]
    (copy / "segments/id/c/0").write_bytes(b"no chunk of ours")
    with pytest.raises(SinkError, match="chunk segments/id/c/0 is damaged"):
        open_volume(copy).segments(0)


@pytest.mark.parametrize("frames", [8, 16])
def test_an_older_volume_is_gone_on_with(tmp_path, frames):
    path, plain = tmp_path / "a.zarr", tmp_path / "b.zarr"
    for place, until in ((path, frames), (plain, 29)):
        writer = store.create(place, HEADER, VERSION)
        fill(writer, until)
        writer.release() if until < 29 else writer.finish("complete")
    make_older(path)
    writer, state = store.resume(path, HEADER, VERSION)
    fill(writer, 29, state=state)
    writer.finish("complete")
    resumed, expected = open_volume(path), open_volume(plain)
    np.testing.assert_array_equal(resumed.ids[:], expected.ids[:])
    np.testing.assert_array_equal(resumed.table("segments"), expected.table("segments"))
    assert json.loads((path / "zarr.json").read_text())["attributes"]["aaams_stream"]["schema"] == 3


NESTED = "[" * 100_000 + "]" * 100_000
RECORDS = [
    {"frames_committed": -1},
    {"frames_committed": 29.0},
    {"frames_committed": True},
    {"frames_committed": 10**30},
    {"complete": "yes"},
    {"ended": ["complete"]},
    {"version": 1},
    {"source": []},
    {"configuration": {"post": 3}},
    {"configuration": {"post": {"level": 10**400}}},
    {"counts": {"identities": -3, "events": {}}},
    {"counts": {"identities": 3, "events": {"wedding": 1}}},
]
SOURCES = [
    {"width": 0},
    {"width": "64"},
    {"height": 10**9},
    {"rate": "0/1"},
    {"rate": "1e1000000000"},
    {"time_base": None},
    {"spec": 3},
    {"selection": {"every": 0}},
    {"selection": 7},
    {"surprise": 1},
]


@pytest.mark.parametrize("change", RECORDS, ids=str)
def test_the_door_checks_every_field(copy, change):
    edit_record(copy, **change)
    with pytest.raises(SinkError, match=rf"zarr\.json: {next(iter(change))} must be"):
        open_volume(copy)


@pytest.mark.parametrize("change", SOURCES, ids=str)
def test_the_door_checks_every_field_of_the_source(copy, change):
    source = json.loads((copy / "zarr.json").read_text())["attributes"]["aaams_stream"]["source"]
    edit_record(copy, source={**source, **change})
    with pytest.raises(SinkError, match=rf"zarr\.json: source.*{next(iter(change))}"):
        open_volume(copy)


def test_the_door_knows_attributes_that_were_changed(copy):
    text = (copy / "zarr.json").read_text()
    (copy / "zarr.json").write_text(
        text.replace('"frames_committed": 29', '"frames_committed": 28')
    )
    with pytest.raises(SinkError, match="checksum does not match"):
        open_volume(copy)


NODES = [
    ("labels/ids/0", {"data_type": "uint16"}),
    ("labels/ids/0", {"shape": [29, 48, 63]}),
    ("labels/ids/0", {"shape": [10**15, 48, 64]}),
    ("labels/ids/0", {"shape": [21, 48, 64]}),
    ("labels/ids/0", {"shape": None}),
    ("labels/ids/0", {"fill_value": 7}),
    ("labels/ids/0", {"codecs": [{"name": "bytes"}]}),
    ("labels/ids/0", {"node_type": "group"}),
    ("segments/mode", {"chunk_grid": {"name": "irregular"}}),
    ("segments/mode", {"chunk_key_encoding": {"name": "v2"}}),
    ("segments/area", {"shape": [3]}),
    ("0", {"storage_transformers": [{"name": "x"}]}),
    ("hierarchy", {"zarr_format": "/etc"}),
    ("hierarchy", {"node_type": "array"}),
    ("labels/ids", {"attributes": 3}),
    ("segments", {"unknown": {}}),
    ("tracks", {"consolidated_metadata": {"metadata": 7}}),
]


@pytest.mark.parametrize(("node", "change"), NODES, ids=str)
def test_the_door_checks_every_array_and_group(copy, node, change):
    file = copy / node / "zarr.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(SinkError, match=rf"metadata is damaged \({node}/zarr\.json"):
        open_volume(copy)
    with pytest.raises(SinkError, match=rf"metadata is damaged \({node}/zarr\.json"):
        store.resume(copy, dataclasses.replace(HEADER, with_video=True), VERSION)
    assert node in {damage.part for damage in store.check(copy).damages}


@pytest.mark.parametrize("node", ["", "labels", "labels/ids/0", "events/kind"])
@pytest.mark.parametrize("text", ["{", "[]", "null", NESTED, "\xff", "9" * 5000])
def test_the_door_takes_any_text_for_metadata(copy, node, text):
    (copy / node / "zarr.json").write_text(text, encoding="latin-1")
    with pytest.raises(SinkError, match=r"copy\.zarr"):
        open_volume(copy)


@pytest.mark.parametrize(
    ("column", "values"),
    [("absorbed", [1, 1]), ("survivor", [9, 9]), ("level", [-1, np.nan])],
)
def test_merges_that_make_no_tree_are_refused(copy, column, values):
    """Following them would not end."""
    array = zarr.open_array(str(copy / "hierarchy" / column), mode="r+")
    array[: len(values)] = np.array(values, array.dtype)
    with pytest.raises(SinkError, match=r"hierarchy.* is damaged"):
        open_volume(copy).groups(level=1)


def test_ids_that_are_not_there_are_refused_though_the_checksum_is_right(copy):
    """A chunk may lie in the place of another; groups are looked up by id."""
    zarr.open_group(str(copy), mode="r+")["events/other"][0] = 4_000_000
    volume = open_volume(copy)
    with pytest.raises(SinkError, match="it has ids that are not there"):
        _ = volume.events
    with pytest.raises(SinkError, match="it has ids that are not there"):
        _ = volume.at(segments=8).tracks


def test_a_volume_is_completed_whatever_its_last_state_says(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 8)
    (tmp_path / "a.zarr/resume/zarr.json").write_text("[" * 50_000 + "]" * 50_000)
    writer.finish("complete")
    assert open_volume(tmp_path / "a.zarr").complete
    assert not (tmp_path / "a.zarr/resume").exists()


def test_a_column_that_ends_early_is_refused(tmp_path):
    """What is beyond the last commit is not counted, so metadata alone does not tell."""
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 16)
    del writer
    document = tmp_path / "a.zarr/segments/density/zarr.json"
    said = json.loads(document.read_text())
    said["shape"][0] = 3
    document.write_text(json.dumps(said))
    with pytest.raises(SinkError, match=r"segments/density is damaged \(has rows up to 3, not"):
        open_volume(tmp_path / "a.zarr").segments(12)

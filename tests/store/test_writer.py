"""Volumes on disk: layout, reading, resuming, and never destroying anything by mistake."""

from __future__ import annotations

import dataclasses
import json
import resource
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import zarr
from support import ROOT, TESTS, standin
from support.clips import moving_frames

from aaams_stream import store
from aaams_stream.errors import SinkError
from aaams_stream.model import EVENT_DTYPE, SEGMENT_DTYPE, TRACK_DTYPE
from aaams_stream.params import Params
from aaams_stream.store import layout, open_volume

VERSION = "1"
HEADER = store.Header(
    width=64,
    height=48,
    rate=Fraction(25),
    time_base=Fraction(1, 25),
    spec="/somewhere/clip.mkv",
    fingerprint="sha256:0",
    selection={"start": None, "duration": None, "every": 1, "size": None},
    configuration=Params().to_dict(),
)


def fill(writer, count, *, state=None, commit=True, seen=None):
    """Append frames up to number `count` from a segmenter; return what was appended."""
    segmenter = standin.Segmenter(
        state=standin.SegmenterState.from_arrays(state) if state is not None else None
    )
    results = []
    for index, rgb in enumerate(moving_frames(count)):
        if index < writer.frames:
            continue
        result = segmenter.step(rgb, index / 25)
        writer.append(result, index / 25, rgb)
        results.append(result)
        if commit and writer.frames % store.CHUNK_FRAMES == 0:
            writer.commit(segmenter.state.to_arrays())
    return results


def files(path):
    """Return the content of every file below a folder."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Write a complete volume of 29 frames with pictures; return it and what was written."""
    path = tmp_path_factory.mktemp("whole") / "whole.zarr"
    writer = store.create(path, dataclasses.replace(HEADER, with_video=True), VERSION)
    results = fill(writer, 29)
    writer.finish("complete")
    return path, results


def test_what_was_written_is_read_back(whole):
    path, results = whole
    volume = open_volume(path)
    assert (volume.frame_count, volume.width, volume.height) == (29, 64, 48)
    assert volume.complete
    assert volume.ended == "complete"
    assert volume.source == "/somewhere/clip.mkv"
    assert volume.params == Params()
    np.testing.assert_array_equal(volume.times, np.arange(29) / 25)
    np.testing.assert_array_equal(volume.ids[:], np.stack([result.ids for result in results]))
    for t, (result, rgb) in enumerate(zip(results, moving_frames(29), strict=True)):
        np.testing.assert_array_equal(volume.ids[t], result.ids)
        np.testing.assert_array_equal(volume.segments(t), result.segments)
        np.testing.assert_array_equal(volume.adjacency(t), result.adjacency)
        np.testing.assert_array_equal(volume.events_at(t), result.events)
        np.testing.assert_array_equal(volume.video[t], rgb.transpose(2, 0, 1))
    assert volume.segments(0).dtype == SEGMENT_DTYPE
    assert volume.events_at(0).dtype == EVENT_DTYPE
    frames = np.repeat(np.arange(29), [len(result.events) for result in results])
    np.testing.assert_array_equal(volume.events["frame"], frames)


def test_ids_are_indexed_like_an_array(whole):
    path, results = whole
    ids = open_volume(path).ids
    expected = np.stack([result.ids for result in results])
    assert ids.shape == expected.shape
    assert ids.dtype == np.uint32
    assert len(ids) == 29
    for key in (
        -1,
        slice(3, 20, 4),
        slice(None, None, -3),
        slice(50, 60),
        (5, slice(2, 9), 7),
        (slice(8, 12), slice(None), slice(0, 64, 2)),
        [3, 1, 28],
    ):
        np.testing.assert_array_equal(ids[key], expected[key], err_msg=str(key))
    np.testing.assert_array_equal(np.asarray(ids), expected)
    for wrong in (29, -30):
        with pytest.raises(IndexError, match="29 frames"):
            ids[wrong]
    with pytest.raises(IndexError, match="29"):
        open_volume(path).segments(29)


def test_the_layout_is_the_documented_one(whole):
    root = zarr.open_group(str(whole[0]), mode="r")
    ids = root["labels/ids/0"]
    assert ids.metadata.zarr_format == 3
    assert ids.metadata.dimension_names == ("t", "y", "x")
    assert ids.chunks == (8, 48, 64)
    assert ids.fill_value == 0
    names = [type(codec).__name__ for codec in ids.metadata.codecs]
    assert names == ["TransposeCodec", "BytesCodec", "ZstdCodec"]
    assert root["0"].metadata.dimension_names == ("t", "c", "y", "x")
    assert root["time"].dtype == np.float64
    segments = {"frame", *SEGMENT_DTYPE.names, "offsets"}
    assert {"area", "mode", "bandwidth_colour", "bandwidth_space", "bbox", "density"} < segments
    assert set(root["segments"].array_keys()) == segments
    assert set(root["events"].array_keys()) == {"frame", "kind", "id", "other", "offsets"}
    pairs = {"frame", "first", "second", "length", "contrast", "offsets"}
    assert set(root["adjacency"].array_keys()) == pairs
    assert set(root["tracks"].array_keys()) == set(TRACK_DTYPE.names)
    assert root["segments/offsets"].shape == (30,)
    assert "resume" not in root
    record = root.attrs["aaams_stream"]
    assert record["schema"] == layout.SCHEMA
    assert record["version"] == VERSION
    assert record["source"]["spec"] == HEADER.spec
    assert record["configuration"] == Params().to_dict()
    assert (record["frames_committed"], record["complete"], record["ended"]) == (
        29,
        True,
        "complete",
    )


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((480, 640), (480, 640)),
        ((720, 1280), (720, 1280)),
        ((1280, 720), (1280, 720)),
        ((1080, 1920), (540, 960)),
        ((2160, 3840), (720, 1280)),
    ],
)
def test_frames_above_720p_are_tiled(size, expected):
    assert layout.tile(*size) == expected


def test_the_metadata_is_ome_ngff(whole):
    v05 = pytest.importorskip("ome_zarr_models.v05")
    root = zarr.open_group(str(whole[0]), mode="r")
    image = v05.image.Image.from_zarr(root)
    assert [axis.name for axis in image.attributes.ome.multiscales[0].axes] == list("tcyx")
    label = v05.image_label.ImageLabel.from_zarr(root["labels/ids"])
    scales = label.attributes.ome.multiscales[0]
    assert [axis.name for axis in scales.axes] == list("tyx")
    assert scales.datasets[0].coordinateTransformations[0].scale == [0.04, 1.0, 1.0]
    labels = v05.labels.Labels.from_zarr(root["labels"])
    assert labels.attributes.ome.labels == ["ids"]


def test_labels_are_valid_without_the_picture(tmp_path):
    v05 = pytest.importorskip("ome_zarr_models.v05")
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 3)
    writer.finish("complete")
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    assert v05.image_label.ImageLabel.from_zarr(group["labels/ids"])
    assert "0" not in group


def test_a_volume_opens_in_xarray_and_dask(whole):
    xarray = pytest.importorskip("xarray")
    array = pytest.importorskip("dask.array")
    path, results = whole
    opened = xarray.open_zarr(str(path / "labels" / "ids"), consolidated=False, chunks=None)
    assert opened["0"].dims == ("t", "y", "x")
    np.testing.assert_array_equal(opened["0"][7], results[7].ids)
    lazy = array.from_zarr(str(path), component="labels/ids/0")
    np.testing.assert_array_equal(lazy[28].compute(scheduler="synchronous"), results[28].ids)
    table = xarray.open_zarr(str(path / "segments"), consolidated=False, chunks=None)
    assert table["mode"].dims == ("row", "Labxy")


def test_rows_cross_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("aaams_stream.store.layout.ROWS", 7)
    monkeypatch.setattr("aaams_stream.store.volume.ROWS", 7)
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    results = fill(writer, 20)
    writer.finish("complete")
    volume = open_volume(tmp_path / "a.zarr")
    for t in (0, 7, 19, 3, 12):
        np.testing.assert_array_equal(volume.segments(t), results[t].segments)


def test_rows_do_not_wait_for_a_commit(tmp_path, monkeypatch):
    monkeypatch.setattr("aaams_stream.store.layout.ROWS", 7)
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    results = fill(writer, 20, commit=False)
    rows = sum(len(result.segments) for result in results)
    assert rows > 14
    for name in layout.TABLES["segments"]:
        assert zarr.open(path, mode="r")[f"segments/{name}"].shape[0] == rows - rows % 7
    assert open_volume(path).frame_count == 0


def test_a_reader_trusts_only_what_was_committed(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    assert open_volume(path).frame_count == 0
    assert len(open_volume(path).events) == 0
    results = fill(writer, 8)
    fill(writer, 21, commit=False)  # two chunks on disk, not counted
    volume = open_volume(path)
    assert volume.frame_count == len(volume.ids) == len(volume.times) == 8
    assert not volume.complete
    assert volume.ended == "interrupted"
    assert len(volume.events) == sum(len(result.events) for result in results)
    with pytest.raises(IndexError):
        volume.ids[8]


@pytest.mark.parametrize("committed", [0, 8, 16])
def test_a_resumed_volume_equals_an_uninterrupted_one(whole, tmp_path, committed):
    path = tmp_path / "a.zarr"
    header = dataclasses.replace(HEADER, with_video=True)
    writer = store.create(path, header, VERSION)
    fill(writer, committed)
    fill(writer, committed + 12, commit=False)
    (path / "labels" / "zarr.123.partial").write_bytes(b"half")
    writer.release()
    writer, state = store.resume(path, header, VERSION)
    assert writer.frames == committed
    fill(writer, 29, state=state)
    writer.finish("complete")
    assert files(path) == files(whole[0])


def test_resuming_a_complete_volume_changes_nothing(whole):
    before = files(whole[0])
    writer, state = store.resume(whole[0], dataclasses.replace(HEADER, with_video=True), VERSION)
    assert writer.complete
    assert state is None
    assert files(whole[0]) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": "sha256:1"}, "another source"),
        ({"fingerprint": None}, "cannot be read a second time"),
        ({"configuration": Params().updated({"post": {"level": 7}}).to_dict()}, "post.level"),
        ({"selection": {**HEADER.selection, "every": 2}}, "every"),
        ({"with_video": True}, "with video"),
    ],
)
def test_resuming_needs_the_same_run(tmp_path, change, message):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 8)
    before = files(tmp_path)
    with pytest.raises(SinkError, match=message):
        store.resume(tmp_path / "a.zarr", dataclasses.replace(HEADER, **change), VERSION)
    with pytest.raises(SinkError, match="version 1 and this is 2"):
        store.resume(tmp_path / "a.zarr", HEADER, "2")
    assert files(tmp_path) == before


def test_commits_come_where_chunks_end(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 3)
    with pytest.raises(ValueError, match="whole chunks"):
        writer.commit({})


def test_an_existing_volume_is_replaced_only_on_demand(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 8)
    with pytest.raises(SinkError, match=r"incomplete, 8 frames.*--resume.*--overwrite"):
        store.create(path, HEADER, VERSION)
    assert open_volume(path).frame_count == 8
    writer.release()
    store.create(path, HEADER, VERSION, overwrite=True)
    assert open_volume(path).frame_count == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zarr"]


def test_what_is_not_ours_is_never_replaced(tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter1.txt").write_text("years of work")
    foreign = tmp_path / "foreign.zarr"
    zarr.create_group(str(foreign), attributes={"ome": {}})
    file = tmp_path / "file"
    file.write_text("one line")
    for path in (folder, foreign, file):
        before = files(tmp_path)
        with pytest.raises(SinkError, match="not a volume of ours"):
            store.create(path, HEADER, VERSION, overwrite=True)
        assert files(tmp_path) == before
    (tmp_path / "empty").mkdir()
    store.create(tmp_path / "empty", HEADER, VERSION)


def test_other_schema_versions_and_strangers_are_told_apart(tmp_path):
    path = tmp_path / "a.zarr"
    store.create(path, HEADER, VERSION)
    record = json.loads((path / "zarr.json").read_text())
    record["attributes"]["aaams_stream"]["schema"] = 99
    (path / "zarr.json").write_text(json.dumps(record))
    with pytest.raises(SinkError, match="schema version 99, this program reads 2"):
        open_volume(path)
    with pytest.raises(SinkError, match="another schema version"):
        store.create(path, HEADER, VERSION)
    with pytest.raises(SinkError, match="schema version 99"):
        store.resume(path, HEADER, VERSION)
    (path / "zarr.json").write_text("{")
    with pytest.raises(SinkError, match=r"a\.zarr"):
        open_volume(path)
    with pytest.raises(SinkError, match="no such volume"):
        open_volume(tmp_path / "none.zarr")
    zarr.create_group(str(tmp_path / "other.zarr"))
    with pytest.raises(SinkError, match="a Zarr group, but not a volume of ours"):
        open_volume(tmp_path / "other.zarr")
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="not a volume of ours"):
        open_volume(tmp_path / "file")


def test_a_volume_with_a_part_missing_says_which(tmp_path):
    path = tmp_path / "a.zarr"
    store.create(path, HEADER, VERSION)
    shutil.rmtree(path / "labels")
    with pytest.raises(SinkError, match=r"missing .*labels/ids/0"):
        open_volume(path)


def test_a_place_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="cannot be written"):
        store.create(tmp_path / "file" / "a.zarr", HEADER, VERSION)


FULL = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from store.test_writer import HEADER, VERSION, fill, store
writer = store.create(Path(sys.argv[1]), HEADER, VERSION)
fill(writer, 16)
resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))  # no file can grow any more
try:
    fill(writer, 32)
except store.writer.SinkError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs file size limits")
def test_a_disk_that_fills_up_leaves_what_was_committed(tmp_path):
    path = tmp_path / "a.zarr"
    run = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(TESTS)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert "a.zarr: cannot be written" in run.stdout, run.stderr
    assert open_volume(path).frame_count == 16
    assert open_volume(path).ids[15].all()
    writer, state = store.resume(path, HEADER, VERSION)
    fill(writer, 32, state=state)
    writer.finish("complete")
    assert open_volume(path).frame_count == 32


def test_one_process_writes_a_volume_at_a_time(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 8)
    before = files(tmp_path)
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from store.test_writer import HEADER, VERSION, SinkError, store\n"
        "for begin in (store.resume, lambda *of: store.create(*of, overwrite=True)):\n"
        "    try:\n"
        "        begin(Path(sys.argv[1]), HEADER, VERSION)\n"
        "        print('taken')\n"
        "    except SinkError as error:\n"
        "        print(error)\n"
    )
    command = [sys.executable, "-c", code, str(path), str(TESTS)]

    def others():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    refused = f"{path}: is being written by another process; wait for it, or choose another name"
    assert others() == [refused, refused]
    assert files(tmp_path) == before
    fill(writer, 9, commit=False)
    writer.finish("complete")
    assert others() == ["taken", "taken"]


def test_a_link_to_a_volume_stays_one(tmp_path):
    (tmp_path / "big").mkdir()
    place, link = tmp_path / "big" / "a.zarr", tmp_path / "a.zarr"
    store.create(place, HEADER, VERSION).release()
    link.symlink_to(place)
    for _ in range(2):
        writer = store.create(link, HEADER, VERSION, overwrite=True)
        fill(writer, 3, commit=False)
        writer.finish("complete")
        assert link.is_symlink()
        assert open_volume(link).frame_count == open_volume(place).frame_count == 3
    assert sorted(entry.name for entry in tmp_path.rglob("*a.zarr*")) == ["a.zarr", "a.zarr"]


def test_resuming_what_lost_a_part_says_so(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 8)
    writer.release()
    shutil.rmtree(path / "time")
    with pytest.raises(SinkError, match=r"part of the volume is missing.*--overwrite begins anew"):
        store.resume(path, HEADER, VERSION)


@pytest.mark.parametrize("name", [Path(), Path("/"), Path("x" * 300)])
def test_a_name_that_cannot_be_one_is_refused(name):
    with pytest.raises(SinkError, match=r"not a name for a volume|name too long"):
        store.create(name, HEADER, VERSION)


def test_frames_are_chosen_by_a_mask_over_time(whole):
    volume = open_volume(whole[0])
    late = volume.times > 0.5
    np.testing.assert_array_equal(volume.ids[late], volume.ids[:][late])
    np.testing.assert_array_equal(volume.ids[[5, 2], 3:9], volume.ids[:][[5, 2], 3:9])
    assert volume.ids[[]].shape == (0, 48, 64)
    with pytest.raises(IndexError, match="a mask over time needs 29 entries"):
        volume.ids[late[:-1]]
    with pytest.raises(TypeError):
        volume.ids[1.7]

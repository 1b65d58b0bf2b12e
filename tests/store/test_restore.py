"""A root document that is damaged is written anew, to the byte, from what the volume repeats."""

from __future__ import annotations

import json
import shutil

import pytest
from support.commands import run
from support.older import make_older
from support.volumes import HEADER, VERSION, files, fill

from aaams_stream import store
from aaams_stream.errors import SinkError
from aaams_stream.store import open_volume
from aaams_stream.store.layout import COPY, KEY

DAMAGES = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "noise": lambda data: b"\xff\x00\x01" * 99,
    "flipped": lambda data: data.replace(b'"complete": true', b'"complete": null'),
    "another number": lambda data: data.replace(b'committed": 29', b'committed": 21'),
    "of another schema": lambda data: data.replace(b'"schema": 4', b'"schema": 5'),
    "of others": lambda data: data.replace(KEY.encode(), b"aaans_stream"),
    "an array": lambda data: data.replace(b'"group"', b'"array"'),
}


@pytest.fixture
def copy(whole, tmp_path):
    """Return a copy of a complete volume of 29 frames with pictures."""
    return shutil.copytree(whole[0], tmp_path / "copy.zarr")


def labels_of(path):
    return json.loads((path / "labels/zarr.json").read_text())["attributes"]


def test_what_the_root_says_is_repeated_by_the_labels(copy):
    root = json.loads((copy / "zarr.json").read_text())["attributes"][KEY]
    assert labels_of(copy)[COPY] == root


@pytest.mark.parametrize("damage", [*DAMAGES, "missing", "folder", "loop"])
def test_a_damaged_root_is_named_and_written_anew(copy, damage, capsys):
    before = files(copy)
    root = copy / "zarr.json"
    if damage in DAMAGES:
        assert DAMAGES[damage](before["zarr.json"]) != before["zarr.json"]
        root.write_bytes(DAMAGES[damage](before["zarr.json"]))
    else:
        root.unlink()
        if damage == "folder":
            root.mkdir()
        elif damage == "loop":
            root.symlink_to(root.name)
    with pytest.raises(SinkError):
        open_volume(copy)
    assert run("info", copy) == 2
    told = capsys.readouterr().err
    if damage != "of another schema":  # which may be of a later version
        assert f"aaams-stream check {copy} --repair writes it anew" in told
    assert run("check", copy) == 2
    assert run("check", copy, "--repair") == 0
    assert capsys.readouterr().out.endswith("chunks: repaired, and sound\n")
    assert files(copy) == before
    assert run("check", copy, "--repair", "--json") == 0
    assert json.loads(capsys.readouterr().out)["repaired"] is False


@pytest.mark.parametrize("frames", [0, 16])
def test_an_unfinished_volume_goes_on_after_its_root_was_lost(tmp_path, frames):
    whole, torn = tmp_path / "whole.zarr", tmp_path / "torn.zarr"
    for path in (whole, torn):
        writer = store.create(path, HEADER, VERSION)
        fill(writer, 29 if path is whole else frames)
        if path is whole:
            writer.finish("complete")
        writer.release()
    (torn / "zarr.json").write_text("{")
    with pytest.raises(SinkError, match="--repair writes it anew"):
        store.create(torn, HEADER, VERSION, overwrite=True)
    assert store.restore_root(torn)
    assert store.check(torn).sound
    writer, state = store.resume(torn, HEADER, VERSION)
    assert writer.frames == frames
    fill(writer, 29, state=state)
    writer.finish("complete")
    assert files(torn) == files(whole)


def test_frames_of_which_nobody_knows_whether_they_count_are_not_guessed_at(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 16)
    writer.release()
    shutil.rmtree(path / "resume")
    (path / "zarr.json").write_text("{")
    before = files(path)
    with pytest.raises(SinkError, match="how many of its frames count"):
        store.restore_root(path)
    assert files(path) == before


def test_a_packed_volume_gets_its_root_back(copy, tmp_path):
    packed = tmp_path / "packed.zarr"
    store.pack(copy, packed)
    before = files(packed)
    (packed / "zarr.json").write_text("")
    assert store.restore_root(packed)
    assert files(packed) == before
    assert store.is_packed(packed)
    (packed / "zarr.json").write_text("")
    (packed / "tracks/end/zarr.json").write_text("{")
    with pytest.raises(SinkError, match=r"damaged \(tracks/end/zarr\.json"):
        store.restore_root(packed)
    assert (packed / "zarr.json").read_text() == ""


def test_without_a_copy_the_error_says_what_is_left_to_do(copy, tmp_path):
    make_older(copy)
    document = json.loads((copy / "labels/zarr.json").read_text())
    del document["attributes"][COPY]
    (copy / "labels/zarr.json").write_text(json.dumps(document))
    (copy / "zarr.json").write_text("{")
    assert not store.restore_root(copy)
    with pytest.raises(SinkError, match="segment its source under another name"):
        open_volume(copy)


def test_a_copy_that_is_damaged_itself_is_not_believed(copy):
    document = json.loads((copy / "labels/zarr.json").read_text())
    document["attributes"][COPY]["frames_committed"] = 21
    (copy / "labels/zarr.json").write_text(json.dumps(document))
    (copy / "zarr.json").unlink()
    assert not store.restore_root(copy)
    with pytest.raises(SinkError, match="not a volume of ours"):
        open_volume(copy)


def test_who_writes_a_volume_is_not_disturbed(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    (path / "zarr.json").write_text("{")
    with pytest.raises(SinkError, match="is being written"):
        store.restore_root(path)
    writer.release()


def test_coarse_labels_of_a_volume_are_no_volume(copy, tmp_path):
    store.materialise(copy, 3)
    assert not store.is_volume(copy / "labels/coarse_3")
    with pytest.raises(SinkError, match="lies in the volume"):
        store.create(copy / "labels/coarse_3", HEADER, VERSION, overwrite=True)
    assert open_volume(copy).frame_count == 29

"""What `check` finds in volumes that were damaged on purpose, and in sound ones."""

from __future__ import annotations

import shutil

import pytest
import zarr
from support.older import edit_record, make_older
from support.volumes import HEADER, VERSION, fill

from aaams_stream import store
from aaams_stream.errors import SinkError
from aaams_stream.store import Damage, check


@pytest.fixture
def copy(whole, tmp_path):
    """Return a copy of a complete volume of 29 frames with pictures."""
    return shutil.copytree(whole[0], tmp_path / "copy.zarr")


@pytest.fixture
def narrow(tmp_path):
    """Write a complete volume of 29 frames whose tables fill several chunks."""
    path = tmp_path / "narrow.zarr"
    writer = store.create(path, HEADER, VERSION, chunk_rows=16)
    fill(writer, 29)
    writer.finish("complete")
    return path


@pytest.mark.parametrize("older", [False, True])
def test_check_finds_nothing_in_a_sound_volume(copy, older):
    if older:
        make_older(copy)
    seen = []
    report = check(copy, lambda done, total: seen.append((done, total)))
    assert report.damages == ()
    assert (report.sound, report.frames, report.complete) == (True, 29, True)
    assert report.good == [(0, 29)]
    assert seen[-1] == (29, 29)


@pytest.mark.parametrize("frames", [0, 8])
def test_check_reads_what_was_committed(tmp_path, frames):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, frames)
    fill(writer, frames + 5, commit=False)
    report = check(tmp_path / "a.zarr")
    assert (report.damages, report.frames, report.complete) == ((), frames, False)


def test_check_tells_which_frames_are_good(copy):
    (copy / "labels/ids/0/c/1/0/0").unlink()
    (copy / "0/c/3/0/0/0").write_bytes(b"no chunk of ours")
    report = check(copy)
    damaged = "is damaged (the checksum does not match)"
    assert report.damages == (
        Damage("labels/ids/0/c/1/0/0", "is missing", (8, 16)),
        Damage("0/c/3/0/0/0", damaged, (24, 29)),
    )
    assert report.good == [(0, 8), (16, 24)]


def test_check_tells_the_frames_of_rows(narrow):
    volume = store.open_volume(narrow)
    frames = volume.table("segments")["frame"][16:32]
    volume_rows = volume.row_count("segments")
    assert volume_rows > 48
    (narrow / "segments/colour/c/1/0").unlink()
    report = check(narrow)
    (damage,) = report.damages
    assert damage.frames == (int(frames[0]), int(frames[-1]) + 1)
    assert report.good == [(0, int(frames[0])), (int(frames[-1]) + 1, 29)]


def test_check_knows_tables_over_the_whole_from_those_of_frames(copy):
    (copy / "tracks/path/c/0").unlink()
    report = check(copy)
    assert report.damages == (Damage("tracks/path/c/0", "is missing", None),)
    assert report.good == [(0, 29)]


def test_check_knows_a_sound_chunk_in_the_place_of_another(copy):
    """Its checksum is right."""
    shutil.copy(copy / "events/frame/c/0", copy / "events/offsets/c/0")
    (damage,) = check(copy).damages
    assert (damage.part, damage.frames) == ("events/offsets", (0, 29))


def test_check_goes_on_where_metadata_is_damaged(copy):
    (copy / "events/kind/zarr.json").write_text("{")
    shutil.rmtree(copy / "tracks/id")
    (copy / "labels/ids/0/c/0/0/0").unlink()
    found = {damage.part: damage.frames for damage in check(copy).damages}
    assert found == {"events/kind": (0, 29), "tracks/id": None, "labels/ids/0/c/0/0/0": (0, 8)}


def test_check_compares_frames_with_their_tables(copy):
    """Every chunk is sound here: it is what they say that does not fit together."""
    ids = zarr.open_array(str(copy / "labels/ids/0"), mode="r+")
    ids[11, 5, 5] = 9999
    frame = zarr.open_array(str(copy / "events/frame"), mode="r+")
    frame[0] = 7
    report = check(copy)
    assert {(d.part, d.frames) for d in report.damages} == {
        ("labels/ids/0", (11, 12)),
        ("events", (0, 1)),
    }


@pytest.mark.parametrize("part", ["tracks", "hierarchy", "zarr.json"])
def test_check_compares_tables_over_the_whole(copy, part):
    if part == "tracks":
        zarr.open_array(str(copy / "tracks/volume"), mode="r+")[0] = 1
    elif part == "hierarchy":
        zarr.open_array(str(copy / "hierarchy/survivor"), mode="r+")[0] = 10**6
    else:
        edit_record(copy, counts={"identities": 10**6, "events": {}})
    assert [damage.part for damage in check(copy).damages] == [part]


def test_check_knows_a_volume_without_its_state(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 8)
    shutil.rmtree(tmp_path / "a.zarr" / "resume")
    report = check(tmp_path / "a.zarr")
    assert [damage.part for damage in report.damages] == ["resume"]
    assert report.good == [(0, 8)]


def test_check_needs_a_volume(tmp_path, copy):
    with pytest.raises(SinkError, match="no such volume"):
        check(tmp_path / "none.zarr")
    (copy / "zarr.json").write_text("{")
    with pytest.raises(SinkError, match="metadata is damaged"):
        check(copy)

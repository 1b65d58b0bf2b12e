"""Volumes that were damaged on purpose are mended to the last byte, or left alone."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil

import pytest
import zarr
from support.clips import moving_frames, write_clip
from support.commands import run
from support.older import edit_record
from support.volumes import HEADER, files, fill

from aaams_stream import SinkError, __version__, segment_video, store
from aaams_stream.run.repair import repair_volume
from aaams_stream.run.segment_video import Interrupted


@pytest.fixture
def made(tmp_path_factory):
    """Segment a clip of 21 frames, with pictures and coarse labels; return both paths."""
    folder = tmp_path_factory.mktemp("repair")
    clip = write_clip(folder / "clip.mkv", moving_frames(21))
    segment_video(clip, folder / "a.zarr", with_video=True)
    store.materialise(folder / "a.zarr", 3)
    return clip, folder / "a.zarr"


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made[1], tmp_path / "copy.zarr")


def test_repair_gives_the_bytes_of_an_unbroken_run(made, copy):
    (copy / "labels/ids/0/c/1/0/0").unlink()
    (copy / "labels/coarse_3/0/c/0/0/0").write_bytes(b"")
    (copy / "0/c/0/0/0/0").write_bytes(b"no chunk of ours")
    shutil.rmtree(copy / "segments/area")
    (copy / "segments/area").write_text("a file in the place of a folder")
    (copy / "events/kind/zarr.json").write_text("{")
    (copy / "hierarchy/level/c/0").unlink()
    shutil.rmtree(copy / "adjacency")
    report = repair_volume(copy)
    assert report.sound
    assert files(copy) == files(made[1])
    assert [entry.name for entry in copy.parent.iterdir()] == ["copy.zarr"]


def test_repair_leaves_a_sound_volume_alone(copy):
    before = {file: file.stat().st_mtime_ns for file in copy.rglob("*")}
    assert repair_volume(copy).sound
    assert {file: file.stat().st_mtime_ns for file in copy.rglob("*")} == before


def test_repair_writes_what_is_damaged_and_nothing_else(copy):
    (copy / "labels/ids/0/c/1/0/0").unlink()
    before = {f: f.stat().st_mtime_ns for f in copy.rglob("*") if f.is_file()}
    assert repair_volume(copy).sound
    after = {f: f.stat().st_mtime_ns for f in copy.rglob("*") if f.is_file()}
    assert set(after) - set(before) == {copy / "labels/ids/0/c/1/0/0"}
    assert {f: after[f] for f in before} == before


def test_repair_finishes_a_volume_that_was_not_complete(made, tmp_path, press_at):
    clip, _ = made
    with pytest.raises(Interrupted):
        segment_video(clip, tmp_path / "torn.zarr", progress=press_at(10))
    (tmp_path / "torn.zarr/labels/ids/0/c/0/0/0").unlink()
    with pytest.raises(SinkError, match=r"labels/ids/0/c/0/0/0 is missing.*--repair"):
        segment_video(clip, tmp_path / "torn.zarr", resume=True)
    report = repair_volume(tmp_path / "torn.zarr")
    assert (report.sound, report.complete, report.frames) == (True, True, 21)
    segment_video(clip, tmp_path / "whole.zarr")
    assert files(tmp_path / "torn.zarr") == files(tmp_path / "whole.zarr")


def test_repair_goes_on_where_it_was_stopped(made, copy, press_at):
    (copy / "labels/ids/0/c/1/0/0").unlink()
    before = files(copy)
    with pytest.raises(Interrupted):
        repair_volume(copy, progress=press_at(5))
    assert files(copy) == before
    scratch = copy.parent / ".copy.zarr.repair"
    assert store.open_volume(scratch).frame_count == 8
    steps = []
    assert repair_volume(copy, progress=steps.append).sound
    assert len(steps) == 13
    assert files(copy) == files(made[1])


def test_repair_changes_nothing_where_sound_frames_come_out_otherwise(copy):
    (copy / "labels/ids/0/c/1/0/0").unlink()
    zarr.open_array(str(copy / "segments/density"), mode="r+")[3] = 77
    before = files(copy)
    with pytest.raises(SinkError, match=r"segments/density/c/0 comes out otherwise.*nothing"):
        repair_volume(copy)
    assert files(copy) == before
    assert [entry.name for entry in copy.parent.iterdir()] == ["copy.zarr"]


def test_repair_needs_the_source(made, copy, tmp_path):
    (copy / "labels/ids/0/c/1/0/0").unlink()
    other = write_clip(tmp_path / "other.mkv", moving_frames(5, seed=3))
    with pytest.raises(SinkError, match=r"other\.mkv is not what it was made of.*--source"):
        repair_volume(copy, source=other)
    moved = shutil.copy(made[0], tmp_path / "moved.mkv")
    source = json.loads((copy / "zarr.json").read_text())["attributes"]["aaams_stream"]["source"]
    edit_record(copy, source={**source, "spec": "/gone/clip.mkv"})
    assert repair_volume(copy, source=moved).sound
    assert store.open_volume(copy).source == "/gone/clip.mkv"
    edit_record(copy, source={**source, "fingerprint": None})
    (copy / "labels/ids/0/c/1/0/0").unlink()
    with pytest.raises(SinkError, match="cannot be read a second time"):
        repair_volume(copy)


def test_repair_waits_for_nobody_who_writes(copy):
    (copy / "labels/ids/0/c/1/0/0").unlink()
    from aaams_stream.store.lock import WriteLock

    lock = WriteLock(copy, copy)
    with pytest.raises(SinkError, match="is being written"):
        repair_volume(copy)
    lock.release()


def test_check_command(copy, capsys):
    assert run("check", copy) == 0
    assert capsys.readouterr().out.endswith("chunks: sound\n")
    (copy / "labels/ids/0/c/1/0/0").unlink()
    assert run("check", copy) == 2
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  labels/ids/0/c/1/0/0 is missing (frames 8 to 15)",
        "good frames: 0 to 7, 16 to 20",
    ]
    for command in (["info", copy], ["render", copy, "-o", copy.parent / "a.mp4"]):
        assert run(*command) == 2
        assert "chunk labels/ids/0/c/1/0/0 is missing" in capsys.readouterr().err
    assert run("check", copy, "--json") == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["sound"], told["good"]) == (False, [[0, 8], [16, 21]])
    assert run("check", copy, "--source", "x.mkv") == 2
    assert "give both" in capsys.readouterr().err
    assert run("check", copy, "--repair", "--quiet") == 0
    assert capsys.readouterr().out == ""
    assert run("check", copy, "--json") == 0


def test_repair_completes_what_nobody_can_go_on_with(tmp_path, capsys):
    """A camera, or a recording, whose program died: its frames would stay without tracks."""
    for name, fingerprint in (("live", None), ("file", "sha256:0")):
        header = dataclasses.replace(HEADER, fingerprint=fingerprint)
        writer = store.create(tmp_path / f"{name}.zarr", header, __version__)
        fill(writer, 20)
        writer.release()
    assert run("check", tmp_path / "live.zarr") == 0
    assert "16 frames, incomplete" in capsys.readouterr().out
    assert run("check", tmp_path / "live.zarr", "--repair") == 0
    assert re.search("16 frames, complete, .*: repaired, and sound", capsys.readouterr().out)
    volume = store.open_volume(tmp_path / "live.zarr")
    assert (volume.frame_count, volume.ended, len(volume.tracks) > 0) == (16, "interrupted", True)
    assert run("check", tmp_path / "file.zarr", "--repair", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["repaired"], told["complete"]) == (False, False)

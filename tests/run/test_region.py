"""A region of interest through whole runs: resumed, checked, mended, refused."""

from __future__ import annotations

import json
import shutil

import cv2
import numpy as np
import pytest
from support.clips import moving_frames, write_clip
from support.commands import run
from support.older import edit_record
from support.volumes import files

import aaams_stream as aaams
from aaams_stream import ConfigError, SinkError, SourceError, segment_video, store
from aaams_stream.run.region import read_roi
from aaams_stream.run.repair import repair_volume
from aaams_stream.run.segment_video import Interrupted

SHAPE = (48, 64)
Y, X = np.mgrid[: SHAPE[0], : SHAPE[1]]
ISLANDS = (np.hypot(Y - 14, X - 16) < 12) | ((X > 36) & (Y > 8))


def edit_source(path, **changes):
    source = json.loads((path / "zarr.json").read_text())["attributes"]["aaams_stream"]["source"]
    edit_record(path, source={**source, **changes})


@pytest.fixture(autouse=True)
def _tiny_segmenter():
    """In these tests the real one runs."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a clip and masks; return their folder."""
    folder = tmp_path_factory.mktemp("region")
    write_clip(folder / "clip.mkv", moving_frames(21), rate=10)
    pictures = {
        "mask.png": 255 * ISLANDS,
        "other.png": 255 * (X > 20),
        "black.png": 0 * X,
        "white.png": 255 + 0 * X,
        "small.png": 255 + 0 * X[:8, :4],
    }
    for name, picture in pictures.items():
        cv2.imwrite(str(folder / name), picture.astype(np.uint8))
    segment_video(folder / "clip.mkv", folder / "whole.zarr", roi=folder / "mask.png")
    return folder


@pytest.fixture(scope="module")
def volume(folder):
    return aaams.open_volume(folder / "whole.zarr")


def test_volume_has_ids_in_the_region_alone_and_knows_it(volume):
    np.testing.assert_array_equal(volume.roi, ISLANDS)
    assert all(np.array_equal(volume.ids[t] > 0, ISLANDS) for t in range(len(volume)))
    assert store.check(volume.path).sound


def test_groups_and_objects_stay_in_the_region(volume):
    for seen in (volume.at(segments=1), volume.at(level=0)):
        np.testing.assert_array_equal(seen.ids[5] > 0, ISLANDS)
        assert seen.segments(5)["area"].sum() == ISLANDS.sum()
    assert len(volume.at(segments=1).segments(5)) <= len(volume.segments(5))
    assert (volume.only(volume.objects(2)).ids[5][~ISLANDS] == 0).all()


def test_pooled_features_are_those_of_the_segments(volume):
    means = volume.pool(X, 4)
    np.testing.assert_allclose(means, volume.segments(4)["centroid"][:, 0], rtol=1e-5)
    np.testing.assert_allclose(aaams.pool(volume.ids[4], np.stack([X, Y]))[:, 0], means)


def test_replay_and_stream_give_the_same(folder, volume):
    live = aaams.stream(folder / "clip.mkv", roi=ISLANDS)
    for now, again in zip(live, aaams.replay(volume), strict=True):
        np.testing.assert_array_equal(now.ids, again.ids)
        np.testing.assert_array_equal(now.segments, again.segments)
        assert now.groups(segments=2)[0] == 0


def test_interrupted_run_is_resumed_bit_for_bit(folder, tmp_path, press_at):
    path = tmp_path / "torn.zarr"
    with pytest.raises(Interrupted):
        segment_video(folder / "clip.mkv", path, roi=ISLANDS, progress=press_at(10))
    for other in (None, folder / "other.png", folder / "white.png"):
        with pytest.raises(SinkError, match=r"begun with another region of interest.*--mask"):
            segment_video(folder / "clip.mkv", path, roi=other, resume=True)
    segment_video(folder / "clip.mkv", path, roi=folder / "mask.png", resume=True)
    assert files(path) == files(folder / "whole.zarr")


def test_volume_without_a_region_is_not_gone_on_with_in_one(folder, tmp_path, press_at):
    with pytest.raises(Interrupted):
        segment_video(folder / "clip.mkv", tmp_path / "a.zarr", progress=press_at(10))
    with pytest.raises(SinkError, match="begun with another region of interest"):
        segment_video(folder / "clip.mkv", tmp_path / "a.zarr", roi=ISLANDS, resume=True)
    segment_video(folder / "clip.mkv", tmp_path / "a.zarr", roi=np.ones(SHAPE), resume=True)
    assert aaams.open_volume(tmp_path / "a.zarr").roi is None


def test_damaged_volume_is_mended_in_its_region(folder, tmp_path):
    copy = shutil.copytree(folder / "whole.zarr", tmp_path / "copy.zarr")
    (copy / "labels/ids/0/c/1/0/0").unlink()
    assert not store.check(copy).sound
    assert repair_volume(copy).sound
    assert files(copy) == files(folder / "whole.zarr")


def test_check_finds_ids_outside_of_the_region(folder, tmp_path):
    copy = shutil.copytree(folder / "whole.zarr", tmp_path / "copy.zarr")
    text = read_roi(folder / "other.png").to_text()
    edit_source(copy, roi=text)
    (damage, *_) = store.check(copy).damages
    assert "elsewhere than in the region of interest" in damage.reason


@pytest.mark.parametrize("text", [5, "?", "", "AAAA"])
def test_region_that_is_none_is_damaged_metadata(folder, tmp_path, text):
    copy = shutil.copytree(folder / "whole.zarr", tmp_path / "copy.zarr")
    edit_source(copy, roi=text)
    with pytest.raises(SinkError, match=r"source\.roi must be a mask of the size of the frames"):
        aaams.open_volume(copy)


def test_parts_of_a_film_are_stitched_inside_the_region(folder, tmp_path):
    still = [moving_frames(1)[0]] * 50
    clip = write_clip(tmp_path / "still.mkv", still, rate=10)
    segment_video(clip, tmp_path / "a.zarr", roi=ISLANDS, stretch=2.5)
    seen = aaams.open_volume(tmp_path / "a.zarr")
    assert store.check(seen.path).sound
    assert seen.header.stretch == 2.5
    np.testing.assert_array_equal(seen.ids[49], seen.ids[0])  # stitched: nobody is new
    np.testing.assert_array_equal(seen.ids[49] > 0, ISLANDS)


def test_batch_refuses_a_complete_volume_of_another_region(folder, tmp_path, capsys):
    words = ["batch", folder / "clip.mkv", "-o", tmp_path / "all", "--quiet", "--mask"]
    assert run(*words, folder / "mask.png") == 0
    assert run(*words, folder / "mask.png") == 0
    assert run(*words, folder / "other.png", "--json") == 2
    assert "begun with another region of interest" in capsys.readouterr().out


def test_transparent_and_black_pixels_of_a_picture_are_outside(tmp_path):
    picture = np.zeros((2, 2, 4), np.uint8)
    picture[..., 3] = [[255, 0], [255, 255]]
    picture[..., 2] = [[9, 9], [0, 9]]
    cv2.imwrite(str(tmp_path / "alpha.png"), picture)
    assert read_roi(tmp_path / "alpha.png").mask.tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("black.png", ConfigError, "black.png: the mask is empty; mark what is to be segmented"),
        ("small.png", ConfigError, "small.png: the mask is 4x8, expected 64x48 as the frames are"),
        ("nothing.png", SourceError, "nothing.png: no such file"),
        ("clip.mkv", SourceError, "clip.mkv: is a video, expected one image"),
    ],
)
def test_mask_that_is_none_is_refused_before_all_else(folder, tmp_path, name, kind, said):
    with pytest.raises(kind, match=said):
        segment_video(folder / "clip.mkv", tmp_path / "a.zarr", roi=folder / name)
    assert not (tmp_path / "a.zarr").exists()
    with pytest.raises(kind, match=said):
        next(aaams.stream(folder / "clip.mkv", roi=folder / name))


def test_commands_take_a_mask(folder, tmp_path, capsys):
    clip, mask = folder / "clip.mkv", folder / "mask.png"
    assert run("segment", clip, "-o", tmp_path / "a.zarr", "--mask", mask, "--quiet") == 0
    assert files(tmp_path / "a.zarr") == files(folder / "whole.zarr")
    assert run("batch", clip, "-o", tmp_path / "all", "--mask", mask, "--quiet") == 0
    assert files(tmp_path / "all/clip.mkv.zarr") == files(folder / "whole.zarr")
    capsys.readouterr()
    assert run("info", tmp_path / "a.zarr") == 0
    share = round(1 - ISLANDS.mean(), 3)
    assert f"masked              {share}" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["segment", "preview"])
def test_commands_refuse_a_mask_in_one_line(folder, tmp_path, capsys, command):
    words = ["-o", tmp_path / "a.zarr"] if command == "segment" else ["--no-open"]
    assert run(command, folder / "clip.mkv", *words, "--mask", folder / "small.png", "--quiet") == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "the mask is 4x8, expected 64x48" in said
    assert said.count("\n") == 1

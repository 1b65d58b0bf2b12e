"""The script that follows an object through a video or a volume."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from support import ROOT
from support.clips import write_clip, write_images
from support.followed import truth_of

import aaams_stream as aaams
from aaams_stream.files import encode_mask
from aaams_stream.metrics import region_similarity
from aaams_stream.source.demo import demo_frame
from aaams_stream.source.images import read_image


@pytest.fixture
def script():
    path = ROOT / "pipelines" / "supervoxels.py"
    spec = importlib.util.spec_from_file_location("supervoxels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write the demo as a video, a volume without pictures, and its truth; return the folder."""
    folder = tmp_path_factory.mktemp("files")
    write_clip(folder / "clip.mkv", [demo_frame(t).rgb for t in range(10)], rate=24)
    aaams.segment_video(folder / "clip.mkv", folder / "clip.zarr")
    masks = [np.repeat(truth_of(t)[..., None], 3, axis=2).astype(np.uint8) for t in range(10)]
    write_images(folder / "truth", masks, "{:05d}.png")
    path = folder / "first.png"
    path.write_bytes(encode_mask(path, truth_of(0)))
    return folder


@pytest.mark.parametrize("name", ["clip.mkv", "clip.zarr"])
def test_supervoxels_writes_masks_and_an_overlay(script, files, tmp_path, capsys, name):
    out = tmp_path / "out"
    words = [files / name, "-o", out, "--mask", files / "first.png", "--truth", files / "truth"]
    assert script.main([str(word) for word in words]) == 0
    said = capsys.readouterr().out
    assert said.startswith("10 frames, J ")
    assert float(said.split("J ")[1][:5]) > 0.9
    assert float(said.split("F ")[1][:5]) > 0.9
    masks = sorted((out / "masks").iterdir())
    assert [mask.name for mask in masks] == [f"{t:05d}.png" for t in range(10)]
    last = read_image(masks[-1])
    assert {tuple(colour) for colour in last.reshape(-1, 3)} == {(0, 0, 0), (128, 0, 0)}
    assert region_similarity(last.any(axis=2), truth_of(9)) > 0.75
    assert sum(1 for _ in aaams.stream(out / "overlay.mp4", segments=5)) == 10


def test_supervoxels_begins_with_a_click_in_a_later_frame(script, files, tmp_path):
    y, x = np.argwhere(truth_of(4)).mean(axis=0).astype(int)
    words = [files / "clip.zarr", "-o", tmp_path / "out", "--click", f"{x},{y}", "--frame", 4]
    assert script.main([str(word) for word in words]) == 0
    names = sorted(path.name for path in (tmp_path / "out" / "masks").iterdir())
    assert names == [f"{t:05d}.png" for t in range(4, 10)]


def test_supervoxels_follows_the_group_under_a_click(script, files, tmp_path):
    """At twelve groups a frame the balloon is one of them."""
    y, x = np.argwhere(truth_of(0)).mean(axis=0).astype(int)
    words = [files / "clip.zarr", "-o", tmp_path / "out", "--click", f"{x},{y}", "--at", 12]
    assert script.main([str(word) for word in words]) == 0
    masks = sorted((tmp_path / "out" / "masks").iterdir())
    view = aaams.open_volume(files / "clip.zarr").at(segments=12)
    first, last = (read_image(mask).any(axis=2) for mask in (masks[0], masks[-1]))
    np.testing.assert_array_equal(first, view.ids[0] == view.ids[0][y, x])
    assert region_similarity(last, truth_of(9)) > 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.mp4", "--click", "1,1"), "nowhere.mp4"),
        (("clip.zarr", "--click", "900,1"), "outside the picture of 320x240"),
        (("clip.zarr", "--click", "1,1", "--frame", "10"), "--frame 10 is out of range"),
        (("clip.zarr", "--mask", "nothing.png"), "nothing.png"),
        (("clip.zarr", "--mask", "black.png"), "the mask is empty"),
        (("clip.zarr", "--mask", "small.png"), "the mask is 8x4, expected 320x240"),
        (("begun.zarr", "--click", "1,1"), "not complete"),
        (("clip.zarr", "--click", "1,1", "--truth", "masks"), "no truth images"),
        (
            ("clip.mkv", "--click", "1,1", "--level", "2"),
            "--level is for volumes; segment it first",
        ),
    ],
)
def test_supervoxels_says_what_is_wrong(
    script, files, tmp_path, capsys, monkeypatch, words, message
):
    from aaams_stream import store

    monkeypatch.chdir(files)
    for name, mask in (("black", np.zeros((240, 320), bool)), ("small", np.ones((4, 8), bool))):
        path = files / f"{name}.png"
        path.write_bytes(encode_mask(path, mask))
    if not (files / "begun.zarr").exists():
        store.create(files / "begun.zarr", aaams.open_volume("clip.zarr").header, "1")
    assert script.main([*words, "-o", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1

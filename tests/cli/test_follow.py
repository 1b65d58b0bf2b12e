"""The command `follow`, as a user meets it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.clips import write_clip
from support.followed import truth_of

import aaams_stream as aaams
from aaams_stream import store
from aaams_stream.cli import main
from aaams_stream.export.masks import indexed_png
from aaams_stream.files import encode_mask
from aaams_stream.source.demo import demo_frame

COUNT = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write some frames of the demo as a video and a volume, and masks of all kinds."""
    folder = tmp_path_factory.mktemp("follow")
    write_clip(folder / "clip.mkv", [demo_frame(t).rgb for t in range(COUNT)], rate=24)
    aaams.segment_video(folder / "clip.mkv", folder / "clip.zarr")
    volume = aaams.open_volume(folder / "clip.zarr")
    store.create(folder / "begun.zarr", volume.header, "1")
    write_clip(folder / "gone.mkv", [demo_frame(t).rgb for t in range(3)], rate=24)
    aaams.segment_video(folder / "gone.mkv", folder / "gone.zarr")
    (folder / "gone.mkv").unlink()
    masks = {
        "first": truth_of(0),
        "black": np.zeros((240, 320), bool),
        "small": np.ones((4, 8), bool),
    }
    for name, mask in masks.items():
        path = folder / f"{name}.png"
        path.write_bytes(encode_mask(path, mask))
    labels = truth_of(0) * np.uint8(1) + truth_of(0, "ball") * np.uint8(2)
    (folder / "both.png").write_bytes(indexed_png(labels))
    return folder


def run(capsys, *words):
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_follow_tells_how_often_each_object_is_seen(folder, tmp_path, capsys):
    out = tmp_path / "out"
    code, said, _ = run(
        capsys, "follow", folder / "clip.zarr", "--mask", folder / "both.png", "-o", out
    )
    assert code == 0
    assert said == f"{out}: 6 frames, object 1 seen in 6, object 2 seen in 6\n"
    assert sorted(path.name for path in out.iterdir()) == ["masks", "objects.csv", "overlay.mp4"]


def test_follow_segments_a_video_on_the_way(folder, tmp_path, capsys):
    y, x = (int(n) for n in np.argwhere(truth_of(2)).mean(axis=0))
    words = ("--click", f"4:{x},{y}", "--not", "4:0,0", "--frame", 2, "--json")
    code, said, _ = run(capsys, "follow", folder / "clip.mkv", *words, "-o", tmp_path / "out")
    assert code == 0
    facts = json.loads(said)
    assert (facts["frames"], facts["seen"]) == (4, {"4": 4})
    assert sorted(p.name for p in (tmp_path / "out" / "masks").iterdir())[0] == "00002.png"


def test_follow_goes_backwards_and_replaces_only_if_told_so(folder, tmp_path, capsys):
    out = tmp_path / "out"
    words = ("follow", folder / "clip.zarr", "--mask", folder / "first.png", "-o", out, "--quiet")
    assert run(capsys, *words, "--frame", 3, "--backwards") == (0, "", "")
    assert len(list((out / "masks").iterdir())) == 4
    code, _, err = run(capsys, *words)
    assert (code, err) == (2, f"error: {out}: exists; --overwrite replaces it\n")
    assert run(capsys, *words, "--overwrite") == (0, "", "")
    assert len(list((out / "masks").iterdir())) == COUNT


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("clip.zarr",), "say what to follow: --mask FILE or --click X,Y"),
        (("clip.zarr", "--mask", "black.png"), "black.png: the mask is empty"),
        (("clip.zarr", "--mask", "small.png"), "small.png: the mask is 8x4, expected 320x240"),
        (("clip.zarr", "--mask", "nothing.png"), "nothing.png"),
        (("clip.zarr", "--click", "320,0"), "at 320,0 lies outside the picture of 320x240"),
        (("clip.zarr", "--click", "1,1", "--not", "1,900"), "at 1,900 lies outside"),
        (("clip.zarr", "--click", "1,1", "--not", "1,1"), "object 1 is empty"),
        (("clip.zarr", "--click", "1,1", "--click", "2:1,1"), "belongs to object 1 already"),
        (("clip.zarr", "--click", "1,1", "--frame", "6"), "--frame 6 is out of range"),
        (("clip.zarr", "--click", "1,1", "--frame", "-1"), "--frame -1 is out of range"),
        (("clip.mkv", "--click", "1,1", "--frame", "6"), "--frame 6 is out of range"),
        (("gone.zarr", "--click", "1,1"), "name it with --source"),
        (("gone.zarr", "--click", "1,1", "--backwards", "--frame", "1"), "name it with --source"),
        (("begun.zarr", "--click", "1,1"), "is not complete"),
        (("nowhere.mp4", "--click", "1,1"), "nowhere.mp4"),
        (("clip.mkv", "--click", "1,1", "--level", "9"), "--level is for volumes; segment it"),
        (("clip.mkv", "--click", "1,1", "--backwards"), "only a volume is gone through"),
    ],
)
def test_follow_says_in_one_line_what_is_wrong(
    folder, tmp_path, capsys, monkeypatch, words, message
):
    monkeypatch.chdir(folder)
    code, out, err = run(capsys, "follow", *words, "-o", tmp_path / "out")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["320", "a,b", "0:1,1", "256:1,1", "-1,5", "1:2:3,4"])
def test_follow_refuses_clicks_that_are_none(capsys, text):
    with pytest.raises(SystemExit) as error:
        main(["follow", "clip.zarr", "-o", "out", f"--click={text}"])
    assert error.value.code == 2
    assert "expected X,Y, for example 320,240" in capsys.readouterr().err

"""The command `image` as a person meets it: what it writes, prints and refuses."""

from __future__ import annotations

import json
import sys

import cv2
import numpy as np
import pytest
from support.commands import run

from aaams_stream import files, segment_image
from aaams_stream.source.demo import POSTER, demo_frame
from aaams_stream.source.images import read_image


def test_image_writes_labels_as_png_and_npy(photo, tmp_path, capsys):
    expected = segment_image(read_image(photo)).labels
    assert run("image", photo, "-o", tmp_path / "a.png") == 0
    assert run("image", photo, "-o", tmp_path / "a.npy") == 0
    found = cv2.imread(str(tmp_path / "a.png"), cv2.IMREAD_UNCHANGED)
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, expected)
    stored = np.load(tmp_path / "a.npy")
    assert stored.dtype == np.uint32
    np.testing.assert_array_equal(stored, expected)
    out, err = capsys.readouterr()
    assert "a.png: 4 segments, " in out
    assert err == ""


def test_image_of_the_demo_needs_nothing_at_hand(tmp_path, capsys):
    labels, overlay = tmp_path / "labels.png", tmp_path / "overlay.png"
    assert run("image", "demo", "-o", labels, "--overlay", overlay) == 0
    assert read_image(labels).shape == (240, 320)
    drawn = read_image(overlay)
    assert drawn.shape == (240, 320, 3)
    assert 0 < (drawn != demo_frame(POSTER).rgb).any(axis=2).mean() < 0.5


def test_image_leaves_json_alone_on_stdout(photo, tmp_path, capsys):
    assert run("image", photo, "-o", tmp_path / "a.png", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"labels", "iterations", "seconds"}
    assert report["labels"] == 4
    assert report["iterations"] >= 1
    assert report["seconds"] > 0


def test_image_can_be_asked_for_a_number_of_segments(photo, tmp_path, capsys):
    assert run("image", photo, "-o", tmp_path / "a.npy", "--segments", 2, "--json") == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 2
    assert np.load(tmp_path / "a.npy").max() == 1


def test_image_draws_a_plot_with_its_history(photo, tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "modes.png"
    assert run("image", photo, "-o", tmp_path / "a.png", "--plot", plot, "--quiet") == 0
    assert read_image(plot).shape[0] > 100
    assert read_image(tmp_path / "modes-history.png").shape[0] > 100


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 1), np.uint8), ((1, 30, 3), np.uint8), ((9, 7, 4), np.uint16)]
)
def test_image_takes_unusual_images(tmp_path, shape, dtype):
    cv2.imwrite(str(tmp_path / "a.png"), np.full(shape, 99, dtype))
    out, overlay = tmp_path / "l.png", tmp_path / "o.png"
    assert run("image", tmp_path / "a.png", "-o", out, "--overlay", overlay, "--quiet") == 0
    assert read_image(out).shape == shape[:2]
    assert read_image(overlay).shape == (*shape[:2], 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.png", "-o", "a.png"], "none.png: no such file"),
        ([".", "-o", "a.png"], "is a folder, expected one image file"),
        (["torn.png", "-o", "a.png"], "torn.png: the image is truncated"),
        (["text.jpg", "-o", "a.png"], "text.jpg: cannot decode the image"),
        (["clip.mp4", "-o", "a.png"], "clip.mp4: is a video, expected one image"),
        (["photo.png"], "the following arguments are required: -o/--output"),
        (["photo.png", "-o", "text.jpg/a.png"], "text.jpg/a.png: text.jpg is not a folder"),
        (["photo.png", "-o", "a.gif"], "the output must end in .png or .npy, got .gif"),
        (["photo.png", "-o", "a"], "got no suffix"),
        (["photo.png", "-o", "photo.png"], "photo.png: is the input; choose another"),
        (["photo.png", "-o", "a.png", "--overlay", "./a.png"], "a.png: is the file of the labels"),
        (["photo.png", "-o", "a.png", "--overlay", "b.xyz"], "b.xyz: the output must end in"),
        (["photo.png", "-o", "a.png", "--plot", "b.xyz"], "b.xyz: the output must end in"),
        (["photo.png", "-o", "a.png", "--segments", "x"], "expected a whole number, got 'x'"),
        (["photo.png", "-o", "a.png", "--segments", "-1"], "--segments must be >= 0, got -1"),
        (["photo.png", "-o", "a.png", "--set", "colour.sigma2=0"], "colour.sigma2 must be in"),
        (["photo.png", "-o", "a.png", "--set", "space.epsilon2=-1"], "space.epsilon2 must be"),
        (["photo.png", "-o", "a.png", "--set", "post.lvl=1"], "the nearest known is post.level"),
        (["photo.png", "-o", "a.png", "--set", "level"], "expected table.key=value, got 'level'"),
        (["photo.png", "-o", "a.png", "--config", "no.toml"], "no.toml: cannot read"),
        (["photo.png", "-o", "a.png", "--bogus"], "unrecognized arguments: --bogus"),
    ],
)
def test_image_says_a_mistake_in_one_line_and_exits_with_two(
    photo, words, message, monkeypatch, capfd
):
    folder = photo.parent
    monkeypatch.chdir(folder)
    (folder / "torn.png").write_bytes(photo.read_bytes()[:300])
    (folder / "text.jpg").write_text("no picture", encoding="utf-8")
    (folder / "clip.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    before = sorted(folder.iterdir())
    try:
        code = run("image", *words)
    except SystemExit as stop:  # argparse leaves this way
        code = stop.code
    out, err = capfd.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(folder.iterdir()) == before


def test_image_makes_missing_folders(photo, tmp_path):
    out, overlay = tmp_path / "a" / "b" / "l.png", tmp_path / "c" / "o.png"
    assert run("image", photo, "-o", out, "--overlay", overlay, "--quiet") == 0
    assert out.is_file()
    assert overlay.is_file()


def test_image_names_the_other_format_for_more_labels_than_a_png_holds(
    photo, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(files, "MOST_PNG_LABELS", 3)
    assert run("image", photo, "-o", tmp_path / "a.png", "--overlay", tmp_path / "o.png") == 2
    assert "holds 3 labels, got 4; write a.npy instead" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["photo.png"]


def test_image_without_matplotlib_names_the_extra_and_writes_nothing(photo, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    folder = photo.parent
    assert run("image", photo, "-o", folder / "a.png", "--plot", folder / "p.png") == 2
    assert 'pip install "aaams-stream[plot]"' in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["photo.png"]


def test_image_says_where_it_has_fewer_segments_than_were_asked_for(photo, tmp_path, capsys):
    wanted = ("image", photo, "-o", tmp_path / "a.png", "--segments", 900)
    assert run(*wanted) == 0
    out, err = capsys.readouterr()
    assert err.startswith("warning: 900 segments were wanted, and ")
    assert err.count("\n") == 1
    assert "segments" in out
    assert run(*wanted, "--quiet") == 0
    assert capsys.readouterr() == ("", "")

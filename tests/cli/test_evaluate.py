"""The command evaluate, as a user meets it."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
from support import standin
from support.clips import moving_frames, write_clip

from aaams_stream.cli import main
from aaams_stream.cluster.door import segment_video
from aaams_stream.metrics import score_video
from aaams_stream.source import open_source
from aaams_stream.store import open_volume

FRAMES = 12
PICTURES = moving_frames(FRAMES)


@pytest.fixture(autouse=True)
def _tiny_segmenter(monkeypatch):
    standin.take_over(monkeypatch)


@pytest.fixture
def volume(tmp_path):
    clip = write_clip(tmp_path / "clip.mkv", PICTURES)
    segment_video(clip, tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


@pytest.fixture
def truth():
    """Return the truth of the square, with a rim that is not judged."""
    masks = np.stack([frame[..., 0] == 250 for frame in PICTURES]).astype(np.uint8)
    masks[:, -4:] = 255
    return masks


@pytest.fixture
def folder(tmp_path, truth):
    return save(tmp_path / "truth", truth)


@pytest.fixture
def run(capsys):
    """Run a command; return the exit code, stdout and stderr."""

    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def save(folder, masks):
    """Write truth images whose names sort naturally, not by letter."""
    folder.mkdir()
    for index, mask in enumerate(masks):
        cv2.imwrite(str(folder / f"mask{index}.png"), mask)
    return folder


def test_a_table_names_every_measure(run, volume, folder):
    code, out, err = run("evaluate", volume, folder, "--ignore", 255)
    assert (code, err) == (0, "")
    names = [line.split()[0] for line in out.splitlines()]
    assert names[:4] == ["ue3d", "sa3d", "j_oracle", "j_prop"]
    assert set(names) >= {"br", "bp", "contour", "ev", "life", "life_vol", "per_frame", "n_sv"}


def test_json_holds_what_the_metrics_say(run, volume, folder, truth):
    code, out, _ = run("evaluate", volume, folder, "--ignore", 255, "--json")
    told = json.loads(out)
    scores = score_video(open_volume(volume).ids[:], truth, PICTURES, ignore=255)
    assert code == 0
    assert told["volume"] == str(volume)
    for name in ("ue3d", "sa3d", "j_oracle", "j_prop", "br", "bp", "ev", "life", "n_sv", "frames"):
        assert told[name] == pytest.approx(getattr(scores, name)), name


def test_quiet_says_nothing(run, volume, folder):
    assert run("evaluate", volume, folder, "--quiet") == (0, "", "")


def test_colours_are_labels_too(run, volume, tmp_path, truth):
    colours = np.zeros((*truth.shape, 3), np.uint8)
    colours[truth == 1] = (128, 0, 64)  # BGR
    colours[truth == 255] = (192, 224, 224)
    painted = save(tmp_path / "painted", colours)
    plain = save(tmp_path / "plain", truth)
    _, first, _ = run("evaluate", volume, painted, "--ignore", "0xE0E0C0")
    _, second, _ = run("evaluate", volume, plain, "--ignore", "255")
    assert first == second
    grey = save(tmp_path / "grey", np.repeat(truth[..., None], 3, axis=-1))
    assert run("evaluate", volume, grey, "--ignore", "255")[1] == second


def test_without_the_source_ev_is_left_out_with_a_word(run, volume, folder, tmp_path):
    (tmp_path / "clip.mkv").unlink()
    code, out, err = run("evaluate", volume, folder, "--json")
    assert code == 0
    assert json.loads(out)["ev"] is None
    assert err.startswith("note: ev is left out (")
    assert len(err.splitlines()) == 1


def test_stored_video_serves_when_the_source_is_gone(run, folder, tmp_path):
    clip = write_clip(tmp_path / "b.mkv", PICTURES)
    segment_video(clip, tmp_path / "b.zarr", with_video=True)
    clip.unlink()
    _, out, err = run("evaluate", tmp_path / "b.zarr", folder, "--json")
    assert (json.loads(out)["ev"] > 0, err) == (True, "")


def test_a_pipe_is_not_read_again(run, folder, tmp_path, monkeypatch):
    clip = write_clip(tmp_path / "b.mkv", PICTURES)

    def unrepeatable(spec, wanted):
        opened = open_source(spec, wanted)
        opened.fingerprint = None
        return opened

    monkeypatch.setattr("aaams_stream.run.segment_video.open_source", unrepeatable)
    segment_video(clip, tmp_path / "b.zarr")
    code, _, err = run("evaluate", tmp_path / "b.zarr", folder)
    assert code == 0
    assert "note: ev is left out (" in err
    assert "cannot be read again" in err


def test_the_count_must_fit(run, volume, folder):
    (folder / "mask11.png").unlink()
    code, out, err = run("evaluate", volume, folder)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "holds 11 truth images" in err
    assert "has 12 frames" in err


@pytest.mark.parametrize("size", [(10, 10), (64, 48, 1)])
def test_the_size_must_fit(run, volume, tmp_path, size):
    small = save(tmp_path / "small", np.zeros((FRAMES, *size), np.uint8))
    code, _, err = run("evaluate", volume, small)
    assert code == 2
    assert f"is {size[1]}x{size[0]}, expected 64x48" in err
    assert len(err.splitlines()) == 1


def test_what_is_missing_is_named(run, volume, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    for words, text in (
        ((tmp_path / "none.zarr", folder), "none.zarr: no such volume"),
        ((volume, tmp_path / "none"), "none: no such folder of truth images"),
        ((volume, tmp_path / "empty"), "empty: no truth images found"),
        ((volume, tmp_path / "clip.mkv"), "clip.mkv: is a file, expected a folder"),
    ):
        code, out, err = run("evaluate", *words)
        assert (code, out) == (2, "")
        assert text in err
        assert len(err.splitlines()) == 1


def test_a_damaged_truth_image_is_named(run, volume, folder):
    (folder / "mask3.png").write_bytes(b"not a picture")
    code, _, err = run("evaluate", volume, folder)
    assert code == 2
    assert "mask3.png: cannot decode" in err


@pytest.mark.parametrize("label", ["-1", "void", "1.5", str(2**32)])
def test_an_ignored_label_is_a_number(label, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", "a.zarr", "truth", f"--ignore={label}"])
    assert stop.value.code == 2
    assert "expected a label" in capsys.readouterr().err

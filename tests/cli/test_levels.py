"""The command `levels`, and --at and --level wherever they are offered."""

from __future__ import annotations

import json
import shutil

import cv2
import numpy as np
import pytest
import zarr
from PIL import Image
from pycocotools import mask as coco_mask
from support.hierarchies import drop_levels
from support.volumes import files

from aaams_stream import open_volume, segment_video, store
from aaams_stream.cli import main
from aaams_stream.metrics import score_video


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Segment half a second of the demo."""
    target = tmp_path_factory.mktemp("volume") / "demo.zarr"
    segment_video("demo", target, duration=0.5, size=(160, 120))
    return target


@pytest.fixture
def older(path, tmp_path):
    """Return a copy of the volume as an earlier build wrote it."""
    shutil.copytree(path, tmp_path / "older.zarr")
    drop_levels(tmp_path / "older.zarr")
    return tmp_path / "older.zarr"


@pytest.fixture
def begun(path, tmp_path):
    """Return a volume that was only begun."""
    store.create(tmp_path / "begun.zarr", open_volume(path).header, "1").release()
    return tmp_path / "begun.zarr"


@pytest.fixture
def run(capsys):
    """Run a command; return the exit code, stdout and stderr."""

    def call(*words):
        try:
            code = main([str(word) for word in words])
        except SystemExit as stopped:  # how argparse ends
            code = stopped.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_levels_adds_to_an_older_volume_once(run, path, older):
    code, out, err = run("levels", older)
    assert code == 0, err
    merges = open_volume(path).merge_count
    assert out.startswith(f"{older}: levels added ({merges} merges) in ")
    np.testing.assert_array_equal(
        open_volume(older).hierarchy.merges, open_volume(path).hierarchy.merges
    )
    before = files(older)
    told = json.loads(run("levels", older, "--json")[1])
    assert (told["added"], told["merges"], told["labels"]) == (False, merges, [])
    assert files(older) == before
    assert json.loads(run("levels", older, "--overwrite", "--json")[1])["added"]
    assert run("levels", older, "--quiet") == (0, "", "")


def test_levels_materialises_labels_for_viewers(run, path, tmp_path):
    copy = tmp_path / "a.zarr"
    shutil.copytree(path, copy)
    code, out, err = run("levels", copy, "--materialise", 20, "--materialise", 5)
    assert code == 0, err
    assert "labels/coarse_20, labels/coarse_5 written" in out
    for count in (20, 5):
        array = zarr.open_array(str(copy / "labels" / f"coarse_{count}" / "0"), mode="r")
        np.testing.assert_array_equal(array[:], open_volume(copy).at(segments=count).ids[:])


def test_info_tells_of_levels(run, path, older):
    volume = open_volume(path)
    told = json.loads(run("info", path, "--json")[1])
    assert told["merges"] == volume.merge_count
    assert told["identities"] == volume.counts.identities
    view = volume.at(segments=10)
    at = json.loads(run("info", path, "--at", 10, "--json")[1])
    assert at["segments_per_frame"] == round(view.groups_per_frame, 1)
    assert at["identities"] == len(view.tracks)
    assert 0 < at["at_merge"] < at["merges"]
    # the level that is told means the same again
    again = json.loads(run("info", path, "--level", at["at_level"], "--json")[1])
    assert again == at
    assert json.loads(run("info", older, "--json")[1])["merges"] is None
    assert "aaams-stream levels adds them" in run("info", older)[1]


def test_render_draws_groups(run, path, tmp_path):
    film = tmp_path / "a.mp4"
    for words in (
        ("--at", 5),
        ("--level", "1.5"),
        ("--view", "objects"),
        ("--at", 5, "--view", "objects"),
    ):
        code, out, err = run("render", path, "-o", film, "--overwrite", *words)
        assert code == 0, err
        assert out.startswith(f"{film}: 12 frames")


def test_segment_draws_groups_over_the_pictures(run, tmp_path):
    words = ("--duration", "0.25", "--size", "80x60", "--overlay", tmp_path / "a.mp4", "--at", 8)
    code, _, err = run("segment", "demo", "-o", tmp_path / "a.zarr", "--quiet", *words)
    assert (code, err) == (0, "")
    assert (tmp_path / "a.mp4").stat().st_size > 0


def test_export_writes_groups(run, path, tmp_path):
    view = open_volume(path).at(segments=10)
    code, _, err = run("export", path, "--to", "mot", "-o", tmp_path / "a.txt", "--at", 10)
    assert code == 0, err
    lines = (tmp_path / "a.txt").read_text().splitlines()
    assert len(lines) == view.row_count("segments")
    code, _, err = run("export", path, "--to", "davis-png", "-o", tmp_path / "png", "--at", 10)
    assert code == 0, err
    code, _, err = run(
        "export", path, "--to", "coco", "-o", tmp_path / "a.json", "--level", view.level
    )
    assert code == 0, err
    annotations = json.loads((tmp_path / "a.json").read_text())["annotations"]
    assert [one["id"] for one in annotations] == view.tracks["id"].tolist()
    code, _, err = run("export", path, "--to", "csv", "-o", tmp_path / "csv", "--at", 10)
    assert code == 0, err
    rows = (tmp_path / "csv" / "segments.csv").read_text().splitlines()
    assert len(rows) == 1 + view.row_count("segments")


def test_evaluate_scores_groups(run, path, tmp_path):
    volume = open_volume(path)
    truth = (volume.at(segments=4).ids[:] == volume.at(segments=4).ids[0][60, 80]).astype(np.uint8)
    (tmp_path / "truth").mkdir()
    for t, mask in enumerate(truth):
        cv2.imwrite(str(tmp_path / "truth" / f"{t:05d}.png"), mask)
    code, out, err = run("evaluate", path, tmp_path / "truth", "--at", 4, "--json")
    assert code == 0, err
    told = json.loads(out)
    scores = score_video(volume.at(segments=4).ids[:], truth)
    assert told["j_prop"] == pytest.approx(scores.j_prop) == pytest.approx(1.0)
    assert told["per_frame"] == pytest.approx(volume.at(segments=4).groups_per_frame)


def test_objects_lists_what_looks_like_things(run, path):
    code, out, err = run("objects", path, "-k", 3)
    assert code == 0, err
    expected = open_volume(path).objects(3)
    heads, *rows = [line.split() for line in out.splitlines()]
    assert heads == list(expected.dtype.names)
    assert [int(row[0]) for row in rows] == expected["id"].tolist()
    told = json.loads(run("objects", path, "-k", 3, "--json")[1])
    assert [one["id"] for one in told["objects"]] == expected["id"].tolist()
    assert run("objects", path, "--quiet") == (0, "", "")


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pycocotools")
def test_objects_are_exported_as_tracks_with_masks(run, path, tmp_path):
    volume = open_volume(path)
    view = volume.only(volume.objects(3))
    names = view.shown["id"].tolist()
    code, out, err = run(
        "objects", path, "-k", 3, "--to", "coco", "-o", tmp_path / "a.json", "--json"
    )
    assert code == 0, err
    assert [one["id"] for one in json.loads(out)["objects"]] == names
    document = json.loads((tmp_path / "a.json").read_text())
    assert [one["id"] for one in document["annotations"]] == sorted(names)
    assert document["categories"][0]["name"] == "object"
    for one in document["annotations"]:
        mask = coco_mask.decode(one["segmentations"][5])
        np.testing.assert_array_equal(mask > 0, view.ids[5] == one["id"])
    code, _, err = run("objects", path, "-k", 3, "--to", "davis-png", "-o", tmp_path / "png")
    assert code == 0, err
    pixels = np.asarray(Image.open(tmp_path / "png" / "00005.png"))
    np.testing.assert_array_equal(pixels > 0, view.ids[5] > 0)
    code, _, err = run("objects", path, "-k", 3, "--to", "mot", "-o", tmp_path / "a.txt")
    assert code == 0, err
    assert len((tmp_path / "a.txt").read_text().splitlines()) == view.row_count("segments")


COMMANDS = [
    ("info", "VOLUME"),
    ("render", "VOLUME", "-o", "a.mp4"),
    ("export", "VOLUME", "--to", "mot", "-o", "a.txt", "--partial"),
    ("evaluate", "VOLUME", "truth"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_levels_that_cannot_be_are_one_line_and_exit_2(
    run, path, older, begun, tmp_path, monkeypatch, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "truth").mkdir()
    for t in range(12):
        cv2.imwrite(str(tmp_path / "truth" / f"{t:05d}.png"), np.zeros((120, 160), np.uint8))

    def refused(volume, *more):
        code, out, err = run(*(volume if word == "VOLUME" else word for word in words), *more)
        assert (code, out) == (2, ""), err
        assert err.startswith("error: ")
        assert err.count("\n") == 1, err
        return err

    for wrong in ("0", "-3", "2.5", "many"):
        assert "expected a number of groups a frame from 1" in refused(path, f"--at={wrong}")
    for wrong in ("-1", "nan", "high"):
        assert "expected a level from 0" in refused(path, f"--level={wrong}")
    assert "not allowed with" in refused(path, "--at", 5, "--level", 1)
    assert f"aaams-stream levels {older}" in refused(older, "--at", 5)
    assert f"aaams-stream levels {older}" in refused(older, "--level", 0)
    if words[0] != "evaluate":  # which wants as many frames as there are truths
        assert "segment --resume" in refused(begun, "--at", 5)
    assert not (tmp_path / "a.mp4").exists()
    assert not (tmp_path / "a.txt").exists()


def test_levels_says_a_mistake_in_one_line_and_exits_with_two(run, path, begun, tmp_path):
    for words, message in (
        ((tmp_path / "none.zarr",), "no such volume"),
        ((begun,), "finish it with segment --resume"),
        ((path, "--materialise", "0"), "expected a number of groups a frame from 1"),
    ):
        code, out, err = run("levels", *words)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert message in err
        assert err.count("\n") == 1
    code, _, err = run("segment", "demo", "-o", tmp_path / "a.zarr", "--at", 5)
    assert (code, "needs --overlay" in err) == (2, True)
    assert not (tmp_path / "a.zarr").exists()


def test_objects_says_a_mistake_in_one_line_and_exits_with_two(run, path, older, begun, tmp_path):
    for words, message in (
        ((path, "-k", "0"), "the number of objects must be >= 1, got 0"),
        ((path, "--to", "coco"), "--to and -o belong together"),
        ((path, "-o", tmp_path / "a.json"), "--to and -o belong together"),
        ((path, "--to", "xml", "-o", tmp_path / "a.xml"), "'xml' is no format"),
        ((older,), f"aaams-stream levels {older}"),
        ((begun,), "finish it with segment --resume"),
        ((tmp_path / "none.zarr",), "no such volume"),
    ):
        code, out, err = run("objects", *words)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert message in err
        assert err.count("\n") == 1

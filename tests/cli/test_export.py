"""The command `export`, as a user meets it."""

from __future__ import annotations

import json

import pytest

from aaams_stream import segment_video
from aaams_stream.cli import main


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Segment half a second of the demo."""
    target = tmp_path_factory.mktemp("volume") / "demo.zarr"
    segment_video("demo", target, duration=0.5, size=(160, 120))
    return target


def run(capsys, *words):
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_export_writes_and_reports(path, tmp_path, capsys):
    out = tmp_path / "boxes.txt"
    code, said, _ = run(capsys, "export", path, "--to", "mot", "-o", out, "--min-area", 9, "--json")
    assert code == 0
    assert json.loads(said)["frames"] == 12
    code, _, err = run(capsys, "export", path, "--to", "mot", "-o", out)
    assert (code, "--overwrite" in err) == (2, True)
    assert run(capsys, "export", path, "--to", "mot", "-o", out, "--overwrite", "--quiet")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.zarr", "--to", "mot", "-o", "a.txt"), "nowhere.zarr: no such volume"),
        (("VOLUME", "--to", "xml", "-o", "a"), "'xml' is no format; expected one of parquet"),
        (("VOLUME", "--to", "coco", "-o", "a.xml"), "must end in .json"),
        (("VOLUME", "--to", "csv", "-o", "no/where"), "does not exist; create it first"),
        (("VOLUME", "--to", "csv", "-o", "a", "--start", "99"), "no frame between"),
        (("VOLUME", "--to", "csv", "-o", "home", "--overwrite"), "holds thesis.tex, which is no"),
        (("VOLUME", "--to", "coco", "-o", "home"), "is a folder, expected the name of a file"),
    ],
)
def test_export_says_a_mistake_in_one_line_and_exits_with_two(
    path, tmp_path, monkeypatch, capsys, words, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work", encoding="utf-8")
    words = [path if word == "VOLUME" else word for word in words]
    code, out, err = run(capsys, "export", *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert (tmp_path / "home" / "thesis.tex").exists()


def test_export_takes_a_stretch_told_by_frames(path, tmp_path, capsys):
    words = ("export", path, "--to", "mot", "-o", tmp_path / "a.txt", "--json")
    code, said, _ = run(capsys, *words, "--start", "3f", "--duration", "00:00:00:05")
    assert (code, json.loads(said)["frames"]) == (0, 5)
    code, _, err = run(capsys, *words, "--overwrite", "--start", "99f")
    assert (code, "no frame between" in err) == (2, True)

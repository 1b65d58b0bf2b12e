"""The script that segments a folder overnight."""

from __future__ import annotations

import importlib.util
import signal
import sys

import pytest
from support import ROOT, standin
from support.clips import moving_frames, write_clip

from aaams_stream.store import open_volume

SCRIPT = ROOT / "pipelines" / "presegment.py"


@pytest.fixture
def presegment(monkeypatch):
    """Load the script with a tiny segmenter under it."""
    standin.take_over(monkeypatch)
    spec = importlib.util.spec_from_file_location("presegment", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "presegment", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def videos(tmp_path):
    folder = tmp_path / "videos"
    (folder / "deep").mkdir(parents=True)
    write_clip(folder / "a.mkv", moving_frames(10))
    write_clip(folder / "deep" / "b.mkv", moving_frames(20, seed=1))
    (folder / "broken.mp4").write_text("no film")
    (folder / "notes.txt").write_text("not looked at")
    return folder


def statuses(out):
    table = out.split("\n\n")[-1].splitlines()[1:]
    return {row.split()[0]: row.split()[1] for row in table}


def test_one_failing_file_does_not_stop_the_rest(presegment, videos, tmp_path, capsys):
    code = presegment.main([str(videos), str(tmp_path / "out")])
    out = capsys.readouterr().out
    assert code == 1
    assert statuses(out) == {"a.mkv": "done", "broken.mp4": "failed", "deep/b.mkv": "done"}
    assert "not a video" in out
    assert open_volume(tmp_path / "out" / "deep" / "b.mkv.zarr").frame_count == 20


def test_complete_volumes_are_skipped_and_others_resumed(
    presegment, videos, tmp_path, capsys, monkeypatch
):
    (videos / "broken.mp4").unlink()
    label = standin.Segmenter.label

    def press(self, prepared):
        if self.state is not None and self.state.index == 12:
            signal.raise_signal(signal.SIGINT)
        return label(self, prepared)

    monkeypatch.setattr(standin.Segmenter, "label", press)
    assert presegment.main([str(videos), str(tmp_path / "out")]) == 130
    assert statuses(capsys.readouterr().out) == {"a.mkv": "done"}
    assert not open_volume(tmp_path / "out" / "deep" / "b.mkv.zarr").complete
    monkeypatch.setattr(standin.Segmenter, "label", label)
    assert presegment.main([str(videos), str(tmp_path / "out")]) == 0
    assert statuses(capsys.readouterr().out) == {"a.mkv": "skipped", "deep/b.mkv": "resumed"}
    assert presegment.main([str(videos), str(tmp_path / "out")]) == 0
    assert set(statuses(capsys.readouterr().out).values()) == {"skipped"}


def test_nothing_to_do_is_an_error(presegment, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert presegment.main([str(tmp_path / "empty"), str(tmp_path / "out")]) == 2
    assert presegment.main([str(tmp_path), str(tmp_path), "--set", "a.b=1"]) == 2
    assert all(line.startswith("error: ") for line in capsys.readouterr().err.splitlines())


def test_a_name_too_long_for_a_volume_costs_that_file_alone(presegment, videos, tmp_path, capsys):
    (videos / "broken.mp4").unlink()
    (videos / "folder.mp4").mkdir()
    long = f"{'long' * 62}.mkv"
    write_clip(videos / long, moving_frames(3))
    (tmp_path / "out" / "a.mkv.zarr").mkdir(parents=True)  # left empty by whoever
    assert presegment.main([str(videos), str(tmp_path / "out")]) == 1
    out = capsys.readouterr().out
    assert statuses(out) == {"a.mkv": "done", "deep/b.mkv": "done", long: "failed"}
    assert "name too long" in out

"""The command batch, as a user meets it."""

from __future__ import annotations

import json
import signal

import pytest
from support.clips import moving_frames, write_clip
from support.commands import run

from aaams_stream.cli.meter import BatchMeter
from aaams_stream.store import open_volume

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture
def videos(tmp_path):
    folder = tmp_path / "videos"
    (folder / "deep").mkdir(parents=True)
    write_clip(folder / "a.mkv", moving_frames(10), rate=10)
    write_clip(folder / "deep" / "b.mkv", moving_frames(20, seed=1), rate=10)
    return folder


def cells(out):
    """Return the first three columns of the table."""
    return [tuple(line.split()[:3]) for line in out.splitlines()[1:-1]]


def test_batch_tells_what_became_of_each_video(videos, tmp_path, capsys):
    (videos / "broken.mp4").write_text("no film")
    words = ("batch", videos, "-o", tmp_path / "out", "--jobs", 2)
    assert run(*words) == 2
    out, err = capsys.readouterr()
    assert cells(out) == [
        ("a.mkv", "done", "10"),
        ("broken.mp4", "failed", "0"),
        ("deep/b.mkv", "done", "20"),
    ]
    assert "not a video" in out
    assert out.splitlines()[-1].startswith(f"{tmp_path / 'out'}: 2 done, 1 failed in 0:")
    assert f"error: {videos / 'broken.mp4'}: not a video" in err
    assert "deep/b.mkv: done, 20 frames" in err
    (videos / "broken.mp4").unlink()
    assert run(*words) == 0
    out, err = capsys.readouterr()
    assert cells(out) == [("a.mkv", "skipped", "10"), ("deep/b.mkv", "skipped", "20")]
    assert "a.mkv: skipped (already complete), 10 frames" in err


def test_batch_gives_its_options_to_every_video(videos, tmp_path, capsys):
    code = run(
        *("batch", videos / "a.mkv", videos / "deep" / "b.mkv", "-o", tmp_path / "out", "--quiet"),
        *("--start", "0.5", "--duration", "1", "--size", "32x24", "--every", 2, "--segments", 50),
        *("--set", "post.level=0.5", "--with-video", "--overlay", tmp_path / "films"),
        *("--at", 3),
    )
    assert (code, *capsys.readouterr()) == (0, "", "")
    for name, frames in (("a.mkv", 3), ("b.mkv", 5)):
        volume = open_volume(tmp_path / "out" / f"{name}.zarr")
        assert (volume.frame_count, volume.width, volume.times[0]) == (frames, 32, 0.5)
        assert (volume.params.post.level, volume.params.stream.segments) == (0.5, 50)
        assert volume.video is not None
        assert (tmp_path / "films" / f"{name}.mp4").stat().st_size > 0


def test_json_is_all_there_is_on_stdout(videos, tmp_path, capsys):
    (videos / "broken.mp4").write_text("no film")
    assert run("batch", videos, "-o", tmp_path / "out", "--json", "--quiet") == 2
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["statuses"] == {"done": 2, "failed": 1}
    assert [(video["name"], video["frames"]) for video in told["videos"]] == [
        *(("a.mkv", 10), ("broken.mp4", 0), ("deep/b.mkv", 20))
    ]
    assert told["videos"][2]["store"] == str(tmp_path / "out" / "deep" / "b.mkv.zarr")
    assert err.startswith("error: ")  # what quiet leaves
    assert err.count("\n") == 1


def test_ctrl_c_exits_with_130_and_the_same_command_goes_on(videos, tmp_path, capsys, monkeypatch):
    write_clip(videos / "a.mkv", moving_frames(1000, 24, 32))
    words = ("batch", videos, "-o", tmp_path / "out", "--jobs", 1)
    show = BatchMeter.show

    def press(meter, standing):
        show(meter, standing)
        if standing.running.get("a.mkv") and not standing.stopping:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(BatchMeter, "show", press)
    assert run(*words) == 130
    out, err = capsys.readouterr()
    assert [row[:2] for row in cells(out)] == [("a.mkv", "interrupted"), ("deep/b.mkv", "waiting")]
    assert "finishing the chunks at hand (Ctrl-C again stops at once)" in err
    assert err.endswith("interrupted: run the same again to go on\n")
    assert not open_volume(tmp_path / "out" / "a.mkv.zarr").complete
    monkeypatch.undo()
    assert run(*words) == 0
    out, _ = capsys.readouterr()
    assert cells(out) == [("a.mkv", "resumed", "1000"), ("deep/b.mkv", "done", "20")]


def test_overwrite_replaces_what_is_complete(videos, tmp_path, capsys):
    words = ("batch", videos / "a.mkv", "-o", tmp_path / "out", "--quiet")
    assert run(*words) == 0
    assert run(*words, "--every", 2) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run(*words, "--every", 2, "--overwrite") == 0
    assert open_volume(tmp_path / "out" / "a.mkv.zarr").frame_count == 5


def test_problems_are_one_line_and_exit_2_before_anything_is_begun(videos, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    out = tmp_path / "out"
    write_clip(tmp_path / "a.mkv", moving_frames(3))
    for words in (
        (tmp_path / "none.mp4", "-o", out),
        (tmp_path / "empty", "-o", out),
        (videos / "*.mov", "-o", out),
        (videos, tmp_path / "a.mkv", "-o", out),
        (videos, "-o", out, "--jobs", 0),
        (videos, "-o", out, "--every", 0),
        (videos, "-o", out, "--segments", -1),
        (videos, "-o", out, "--set", "nothing.here=1"),
        (videos, "-o", out, "--overlay", videos / "films"),
    ):
        assert run("batch", *words) == 2, words
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("error: "), words
        assert told.err.count("\n") == 1, told.err
    assert not out.exists()


def test_a_name_too_long_for_a_volume_costs_that_file_alone(videos, tmp_path, capsys):
    long = f"{'long' * 62}.mkv"
    write_clip(videos / long, moving_frames(3))
    (tmp_path / "out" / "a.mkv.zarr").mkdir(parents=True)  # left empty by whoever
    assert run("batch", videos, "-o", tmp_path / "out") == 2
    out, err = capsys.readouterr()
    assert [row[1] for row in cells(out)] == ["done", "done", "failed"]
    assert "name too long" in err

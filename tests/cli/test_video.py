"""The commands segment, info and render, as a user meets them."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from support import standin
from support.clips import moving_frames, write_clip
from support.volumes import HEADER, VERSION, fill, spoil_early_rows

from aaams_stream import store
from aaams_stream.cli import main, video
from aaams_stream.cli.meter import Meter
from aaams_stream.errors import SinkError
from aaams_stream.store import open_volume


@pytest.fixture(autouse=True)
def _tiny_segmenter(monkeypatch):
    standin.take_over(monkeypatch)
    monkeypatch.setattr("aaams_stream.cli.options.say_if_cold", lambda quiet: None)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mkv", moving_frames(20), rate=10)


@pytest.fixture
def run(capsys):
    """Run a command; return the exit code, stdout and stderr."""

    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_segment_tells_what_it_made(run, clip, tmp_path):
    code, out, err = run("segment", clip, "-o", tmp_path / "a.zarr")
    assert code == 0
    assert "a.zarr: 20 frames, 64x48," in out
    assert err == ""
    assert open_volume(tmp_path / "a.zarr").complete


def test_json_is_all_there_is_on_stdout(run, clip, tmp_path):
    code, out, _ = run("segment", clip, "-o", tmp_path / "a.zarr", "--json", "--every", 2)
    assert code == 0
    told = json.loads(out)
    assert (told["frames"], told["complete"], told["ended"]) == (10, True, "complete")
    assert told["store"] == str(tmp_path / "a.zarr")


def test_quiet_says_nothing(run, clip, tmp_path):
    assert run("segment", clip, "-o", tmp_path / "a.zarr", "--quiet") == (0, "", "")


def test_options_reach_the_volume(run, clip, tmp_path):
    code, _, err = run(
        *("segment", clip, "-o", tmp_path / "a.zarr", "--start", "0:00.5", "--duration", "1"),
        *("--size", "32x24", "--segments", 50, "--set", "post.level=0.5", "--with-video"),
        *("--overlay", tmp_path / "a.mp4"),
    )
    assert code == 0, err
    volume = open_volume(tmp_path / "a.zarr")
    assert (volume.frame_count, volume.width, volume.times[0]) == (10, 32, 0.5)
    assert volume.params.post.level == 0.5
    assert volume.params.stream.segments == 50
    assert volume.video is not None
    assert (tmp_path / "a.mp4").stat().st_size > 0


def test_ctrl_c_exits_with_130_and_can_be_resumed(run, clip, tmp_path, monkeypatch):
    original = Meter.frame

    def press(meter, progress):
        original(meter, progress)
        if progress.frames == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Meter, "frame", press)
    code, out, err = run("segment", clip, "-o", tmp_path / "a.zarr", "--json")
    assert code == 130
    assert "interrupted" in err
    assert "--resume continues" in err
    assert json.loads(out)["frames"] == 8
    monkeypatch.undo()
    standin.take_over(monkeypatch)
    code, out, _ = run("segment", clip, "-o", tmp_path / "a.zarr", "--resume")
    assert code == 0
    assert "20 frames, 8 of them from before" in out


def test_resuming_what_is_complete_says_that_nothing_was_to_be_done(run, clip, tmp_path):
    run("segment", clip, "-o", tmp_path / "a.zarr")
    code, out, err = run("segment", clip, "-o", tmp_path / "a.zarr", "--resume")
    told = f"{tmp_path / 'a.zarr'}: all 20 frames were there; nothing was to be done\n"
    assert (code, out, err) == (0, told, "")


def test_a_damaged_source_is_a_warning(run, tmp_path):
    source = write_clip(
        tmp_path / "a.mp4",
        moving_frames(40),
        codec="libx264",
        pix_fmt="yuv420p",
        container_options={"movflags": "faststart"},
    )
    source.write_bytes(source.read_bytes()[: source.stat().st_size * 7 // 10])
    code, out, err = run("segment", source, "-o", tmp_path / "a.zarr")
    assert code == 0
    assert err.startswith(f"warning: {source} is damaged: ")
    assert "(damaged: " in out


def test_problems_are_one_line_and_exit_2(run, clip, tmp_path):
    taken, folder, empty = tmp_path / "taken.zarr", tmp_path / "folder", tmp_path / "empty.mp4"
    assert run("segment", clip, "-o", taken, "--quiet")[0] == 0
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    empty.touch()
    new = tmp_path / "new.zarr"
    for words in (
        ("segment", tmp_path / "none.mp4", "-o", new),
        ("segment", empty, "-o", new),
        ("segment", folder / "notes.txt", "-o", new),
        ("segment", folder, "-o", new),
        ("segment", "camera:77", "-o", new),
        ("segment", "http://127.0.0.1:9/a.mp4", "-o", new),
        ("segment", clip, "-o", taken),
        ("segment", clip, "-o", folder, "--overwrite"),
        ("segment", clip, "-o", taken, "--resume", "--every", 2),
        ("segment", clip, "-o", taken, "--resume", "--set", "post.level=9"),
        ("segment", "demo", "-o", taken, "--resume"),
        ("segment", clip, "-o", empty / "new.zarr"),
        ("segment", clip, "-o", new, "--segments", -1),
        ("segment", clip, "-o", new, "--set", "nothing.here=1"),
        ("segment", clip, "-o", new, "--config", tmp_path / "none.toml"),
        ("info", new),
        ("info", folder),
        ("render", new, "-o", tmp_path / "a.mp4"),
        ("render", taken, "-o", tmp_path / "a.avi"),
        ("render", taken, "-o", tmp_path / "a.mp4", "--source", tmp_path / "none.mp4"),
    ):
        code, out, err = run(*words)
        assert code == 2, words
        assert out == ""
        assert err.startswith("error: "), words
        assert err.count("\n") == 1, err
    assert not new.exists()
    assert open_volume(taken).frame_count == 20


@pytest.mark.parametrize(
    "words", [("--size", "640"), ("--start", "soon"), ("--resume", "--overwrite")]
)
def test_malformed_options_are_usage_errors(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["segment", "demo", "-o", "a.zarr", *words])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_info_describes_a_volume(run, clip, tmp_path):
    run("segment", clip, "-o", tmp_path / "a.zarr", "--set", "post.level=0.5")
    code, out, _ = run("info", tmp_path / "a.zarr")
    assert code == 0
    assert "post.level 0.5" in out
    told = json.loads(run("info", tmp_path / "a.zarr", "--json")[1])
    assert (told["frames"], told["complete"], told["ended"]) == (20, True, "complete")
    assert told["last_time"] == 1.9
    assert told["source"] == str(clip)
    assert told["events"]["birth"] > 0


def test_info_reads_no_more_than_the_last_rows_of_a_table(run, tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION, chunk_rows=8)
    fill(writer, 29)
    writer.finish("complete")
    before = json.loads(run("info", path, "--json")[1])
    assert spoil_early_rows(path) > 100
    with pytest.raises(SinkError, match="chunk events/"):
        len(open_volume(path).events)
    code, out, err = run("info", path, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told.pop("bytes") != before.pop("bytes")
    assert told.pop("bytes_per_pixel") != before.pop("bytes_per_pixel")
    assert told == before


def test_render_makes_a_film(run, clip, tmp_path):
    run("segment", clip, "-o", tmp_path / "a.zarr")
    for view in video.VIEWS:
        film = tmp_path / f"{view}.mp4"
        code, out, _ = run("render", tmp_path / "a.zarr", "-o", film, "--view", view)
        assert code == 0
        assert out.startswith(f"{film}: 20 frames")
    told = json.loads(run("render", tmp_path / "a.zarr", "-o", film, "--overwrite", "--json")[1])
    assert told["frames"] == 20


def test_no_time_left_is_told_before_there_is_a_pace(run, clip, tmp_path, monkeypatch):
    """The first two frames compile, and say nothing about those to come."""
    told = []
    monkeypatch.setattr(Meter, "frame", lambda meter, progress: told.append(progress))
    run("segment", clip, "-o", tmp_path / "a.zarr", "--quiet")
    assert [(at.fps, at.seconds_left) for at in told[:2]] == [(None, None)] * 2
    assert all(at.fps > 0 and at.seconds_left >= 0 for at in told[2:])


def test_the_real_segmenter_makes_a_volume_of_the_demo(run, tmp_path, monkeypatch):
    for name in standin.modules():
        monkeypatch.delitem(sys.modules, name)
    store = tmp_path / "demo.zarr"
    code, out, err = run("segment", "demo", "-o", store, "--size", "80x60", "--duration", "0.5")
    assert code == 0, err
    assert out.startswith(f"{store}: 12 frames")
    assert open_volume(store).ids[:].all()
    assert Path(store).is_dir()

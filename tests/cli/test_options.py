"""Options that commands share: where settings come from, and what is said."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from fractions import Fraction

import pytest
from support.commands import run

from aaams_stream import jit
from aaams_stream.cli import options
from aaams_stream.core.threads import thread_count
from aaams_stream.model import Timecode


def test_settings_are_read_once_for_all_commands():
    parser = argparse.ArgumentParser()
    options.add_settings(parser)
    args = parser.parse_args(["--set", "post.level=0.5"])
    assert options.read_settings(args).post.level == 0.5


def test_settings_come_from_a_file_and_single_ones_override_it(photo, tmp_path, capsys):
    config = tmp_path / "mine.toml"
    config.write_text("[post]\nlevel = 1000.0\n", encoding="utf-8")
    out = tmp_path / "a.npy"
    assert run("image", photo, "-o", out, "--config", config, "--json") == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 1
    words = ["--config", config, "--set", "post.min_size=20", "--set", "post.level=1"]
    assert run("image", photo, "-o", out, *words, "--json") == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 4


def test_say_if_cold_tells_why_the_first_run_takes_long(photo, tmp_path, capsys, monkeypatch):
    jit.compile_ahead()
    monkeypatch.setattr(jit, "is_compiled", lambda kernel: False)
    assert run("image", photo, "-o", tmp_path / "a.png", "--json") == 0
    out, err = capsys.readouterr()
    assert err == "compiling kernels, once, for up to a minute …\n"
    assert json.loads(out)["labels"] == 4


def test_quiet_prints_nothing(photo, tmp_path, capfd, monkeypatch):
    jit.compile_ahead()
    monkeypatch.setattr(jit, "is_compiled", lambda kernel: False)
    assert run("image", photo, "-o", tmp_path / "a.png", "--quiet") == 0
    assert capfd.readouterr() == ("", "")


COMPUTING = [
    ("segment", "demo", "-o", "a.zarr"),
    ("image", "demo", "-o", "a.png"),
    ("preview", "demo"),
]


def settings_from(*words):
    """Read settings as a command does."""
    parser = argparse.ArgumentParser()
    options.add_settings(parser)
    return options.read_settings(parser.parse_args(words))


def test_threads_say_how_many_compute_here_and_in_processes_started_from_here(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "7")
    settings_from()
    assert thread_count() == 7
    settings_from("--threads", "3")
    assert thread_count() == 3
    code = "from aaams_stream.core.threads import thread_count; print(thread_count())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "3\n"


def test_threads_may_be_said_where_the_variable_is_wrong(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "wrong")
    settings_from("--threads", "1")
    assert os.environ["AAAMS_THREADS"] == "1"


@pytest.mark.parametrize("words", COMPUTING, ids=lambda words: words[0])
@pytest.mark.parametrize("wrong", ["0", "-2", "many", "1.5", ""])
def test_threads_of_no_number_are_an_error_of_one_line(words, wrong, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AAAMS_THREADS", "1")
    assert run(*words, f"--threads={wrong}") == 2
    told = f"error: --threads must be a whole number from 1 on, got {wrong!r}\n"
    assert capsys.readouterr() == ("", told)
    assert os.environ["AAAMS_THREADS"] == "1"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [*COMPUTING, ("warmup",)], ids=lambda words: words[0])
def test_a_wrong_variable_for_threads_is_an_error_that_names_it(
    words, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AAAMS_THREADS", "two")
    assert run(*words) == 2
    told = "error: AAAMS_THREADS must be a whole number from 1 on, got 'two'\n"
    assert capsys.readouterr() == ("", told)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", COMPUTING, ids=lambda words: words[0])
def test_threads_are_told_of_in_the_help(words, capsys):
    with pytest.raises(SystemExit):
        run(words[0], "--help")
    told = " ".join(capsys.readouterr().out.split())
    assert "the result is the same for any number" in told
    assert "AAAMS_THREADS" in told


def test_threads_change_nothing_about_an_image(photo, tmp_path, monkeypatch):
    monkeypatch.setattr("aaams_stream.core.threads._SHARE", 1)  # any work is worth a thread
    monkeypatch.setenv("AAAMS_THREADS", "1")  # for it to be put back
    for count in (1, 2):
        assert run("image", photo, "-o", tmp_path / f"{count}.npy", "--threads", count) == 0
    assert (tmp_path / "1.npy").read_bytes() == (tmp_path / "2.npy").read_bytes()


def test_segments_of_0_mean_what_they_mean_in_the_settings(photo, tmp_path):
    parser = argparse.ArgumentParser()
    options.add_settings(parser)
    options.add_clip(parser)
    assert options.read_stream_settings(parser.parse_args([])).stream.segments > 0
    assert options.read_stream_settings(parser.parse_args(["--segments", "0"])).stream.segments == 0
    for name, more in (("a.npy", []), ("b.npy", ["--segments", "0"])):
        assert run("image", photo, "-o", tmp_path / name, "--quiet", *more) == 0
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("1.5", Fraction(3, 2)), (".5", Fraction(1, 2)), ("2.", 2), ("1:02:03.5", 3723.5)],
)
def test_seconds_are_read_exactly(text, value):
    assert options.seconds(text) == value


@pytest.mark.parametrize(
    "text",
    ["", ":", "1:2:3:4", "1e400", "1e999999999", "1/0", "nan", "inf", "-1", "1_0", "²", "9" * 5000],
)
def test_seconds_that_are_none_are_refused_at_once(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"expected seconds or \[hh:\]mm:ss, got"):
        options.seconds(text)


@pytest.mark.parametrize("text", ["", "x", "1.5", "²", "9" * 30, "--1"])
def test_whole_numbers_that_are_none_are_refused(text):
    assert options.whole_number("-12") == -12
    with pytest.raises(argparse.ArgumentTypeError, match="expected a whole number, got"):
        options.whole_number(text)


@pytest.mark.parametrize("text", ["inf", "nan", "-1", "x"])
def test_levels_that_are_none_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected a level from 0"):
        options.level(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", Fraction(3, 2)),
        ("01:02", 62),
        ("120f", Timecode(120)),
        ("0f", Timecode(0)),
        ("01:00:02:12", Timecode(12, 3602)),
    ],
)
def test_moments_are_seconds_frames_or_timecodes(text, value):
    assert options.moment(text) == value


@pytest.mark.parametrize(
    "text", ["f", "-1f", "1.5f", "1:2:3:4:5", "00:00:01:1.5", "x", "9" * 30 + "f"]
)
def test_moments_that_are_none_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"hh:mm:ss:ff or a frame as 120f, got"):
        options.moment(text)

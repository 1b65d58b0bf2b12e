"""The command line as a whole: its exit codes, its help, its commands."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time

import pytest
from support.commands import run

from aaams_stream import __version__
from aaams_stream.cli import ROOMS


def test_main_without_a_command_is_a_mistake_too(capsys):
    with pytest.raises(SystemExit) as stop:
        run()
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("error: the following arguments are required")


def test_main_leaves_nothing_behind_when_interrupted(photo, tmp_path, monkeypatch, capsys):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("aaams_stream.core.image.segment_image", interrupt)
    assert run("image", photo, "-o", tmp_path / "a.png") == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["photo.png"]


def test_main_lets_a_bug_keep_its_traceback(photo, tmp_path, monkeypatch):
    monkeypatch.setattr("aaams_stream.core.image.segment_image", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("image", photo, "-o", tmp_path / "a.png")


def test_main_gives_the_version_of_the_package(capsys):
    with pytest.raises(SystemExit) as stop:
        run("--version")
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"aaams-stream {__version__}\n"


def test_main_gives_help_quickly():
    """The best of three, since machines are busy."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "aaams_stream", "--help"], capture_output=True, check=True
        )
        seconds.append(time.perf_counter() - start)
    assert b"image" in done.stdout
    assert min(seconds) < 0.3 * 2  # twice the aim, for slow machines


def test_rooms_all_have_commands():
    for room in ROOMS:
        assert callable(importlib.import_module(f"aaams_stream.cli.{room}").add_commands)

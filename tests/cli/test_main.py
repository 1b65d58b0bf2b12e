"""The command line as a whole: its exit codes, its help, its commands."""

from __future__ import annotations

import importlib
import subprocess
import sys

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


def test_main_gives_help_without_loading_what_takes_long():
    code = (
        "import sys\nfrom aaams_stream.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'numba', 'cv2', 'av', 'zarr', 'matplotlib'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "image" in done.stdout
    assert done.stderr == "[]\n"


def test_rooms_all_have_commands():
    for room in ROOMS:
        assert callable(importlib.import_module(f"aaams_stream.cli.{room}").add_commands)

"""The command line as a whole: its exit codes, its help, its commands."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys

import pytest
from support.commands import run

from aaams_stream import __version__
from aaams_stream.cli import ROOMS, build_parser


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


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda path: (path / "none").read_bytes(), "none: cannot be opened (No such file or dir"),
        (lambda path: list((path / "none").iterdir()), "none: cannot be listed (No such file or d"),
        (lambda path: (path / "a" / "b").mkdir(), "b: cannot be written (No such file or directo"),
        (lambda path: (path / "a").rename(path / "b"), "a: cannot be moved or removed (No such f"),
        (lambda path: os.close(10**6), "something cannot be worked with (Bad file descriptor)"),
    ],
)
def test_main_names_the_file_and_the_operation_of_a_system_s_error(
    act, told, photo, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("aaams_stream.core.image.segment_image", lambda *_, **__: act(tmp_path))
    assert run("image", photo, "-o", tmp_path / "a.png", "--quiet") == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_main_tells_an_output_that_cannot_be_printed_from_files_that_cannot():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "aaams_stream", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    assert done.returncode == 2
    assert done.stderr == "error: the output cannot be printed (No space left on device)\n"


@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_main_tidies_up_when_it_is_asked_to_end(photo, tmp_path, monkeypatch, capsys, number):
    if not hasattr(signal, number):
        pytest.skip("unknown on this system")

    def ask(*args, **options):
        signal.raise_signal(getattr(signal, number))

    monkeypatch.setattr("aaams_stream.files.encode_labels", ask)
    assert run("image", photo, "-o", tmp_path / "a.png") == 128 + getattr(signal, number)
    assert capsys.readouterr().err == "interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["photo.png"]


def test_main_prints_names_with_line_breaks_on_one_line(tmp_path, capsys):
    assert run("info", tmp_path / "a\nb.zarr") == 2
    assert capsys.readouterr().err.endswith("a\\nb.zarr: no such volume\n")
    with pytest.raises(SystemExit):
        run("info", "a", "b\nc")
    assert capsys.readouterr().err.count("\n") == 1


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


def test_every_argument_of_every_command_is_told_in_its_help():
    [commands] = [action for action in build_parser()._actions if isinstance(action.choices, dict)]
    for name, command in commands.choices.items():
        for action in command._actions:
            assert action.help, f"{name}: {action.option_strings or action.dest}"


def test_rooms_all_have_commands():
    for room in ROOMS:
        assert callable(importlib.import_module(f"aaams_stream.cli.{room}").add_commands)

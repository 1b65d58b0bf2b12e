"""The command `completion`, tried in the shells that are here."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from support.commands import run

from aaams_stream.cli.completion import all_commands

ASK = """
{script}
COMP_WORDS=({words})
COMP_CWORD={at}
_aaams_stream
echo "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def script(capsys):
    def printed(shell):
        assert run("completion", shell) == 0
        return capsys.readouterr().out

    return printed


def completed(script, *words):
    """Return what bash offers for the last of some words."""
    quoted = " ".join(f"'{word}'" for word in ("aaams-stream", *words))
    text = ASK.format(script=script, words=quoted, at=len(words))
    found = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    assert found.stderr == ""
    return found.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["seg"], ["segment"]),
        (["segment", "--over"], ["--overlay", "--overwrite"]),
        (["export", "a.zarr", "--to", "p"], ["parquet", "png16"]),
        (["segment", "a.mp4", "--config", "re"], ["realtime"]),
        (["segment", "clip"], []),  # a file, which the shell completes by itself
        (["nonsense", "--x"], []),
    ],
)
def test_bash_completes_commands_options_and_values(script, words, offered):
    assert completed(script("bash"), *words) == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_bash_knows_every_command(script):
    names = completed(script("bash"), "")
    assert set(names) == {command.name for command in all_commands()}
    assert {"segment", "image", "export", "doctor", "completion"} <= set(names)


def test_fish_is_told_what_each_option_is_for(script):
    lines = script("fish").splitlines()
    assert all(line.startswith("complete -c aaams-stream -n ") for line in lines)
    [line] = [line for line in lines if "from export'" in line and "-l to " in line]
    assert "-x -a 'parquet csv" in line
    [line] = [line for line in lines if "from segment'" in line and "-l output" in line]
    assert "-s o" in line
    assert not any("%(" in line for line in lines)


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not here")
def test_fish_understands_its_script(script):
    subprocess.run(["fish", "--no-execute"], input=script("fish"), text=True, check=True)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not here")
def test_zsh_understands_its_script(script):
    subprocess.run(["zsh", "-n"], input=script("zsh"), text=True, check=True)


def test_an_unknown_shell_is_an_error_of_one_line(capsys):
    with pytest.raises(SystemExit) as stopped:
        run("completion", "powershell")
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("error: argument SHELL: invalid choice")

"""Options that commands share: where settings come from, and what is said."""

from __future__ import annotations

import argparse
import json

from support.commands import run

from aaams_stream import jit
from aaams_stream.cli import options


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
    assert err == "compiling kernels, once, about a minute …\n"
    assert json.loads(out)["labels"] == 4


def test_quiet_prints_nothing(photo, tmp_path, capfd, monkeypatch):
    jit.compile_ahead()
    monkeypatch.setattr(jit, "is_compiled", lambda kernel: False)
    assert run("image", photo, "-o", tmp_path / "a.png", "--quiet") == 0
    assert capfd.readouterr() == ("", "")

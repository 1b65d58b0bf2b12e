"""The command `doctor`, as somebody who reports a bug runs it."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from support.commands import run

import aaams_stream
from aaams_stream import kernels


def test_doctor_tells_versions_threads_codecs_and_cache(capsys, monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "3")
    assert run("doctor") == 0
    out, err = capsys.readouterr()
    assert err == ""
    for word in (
        aaams_stream.__version__,
        f"numba {version('numba')}",
        f"av {version('av')}",
        "3 compute",
        "h264",
        "ffv1",
        "AAAMS_THREADS 3",
        kernels.CACHE_FOLDER.name,
    ):
        assert word in out
    home = str(Path.home())
    assert home == "/" or home not in out  # a report does not name its author


def test_doctor_tells_machines_the_same(capsys):
    assert run("doctor", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["aaams_stream"] == aaams_stream.__version__
    assert facts["libraries"]["zarr"] == version("zarr")
    assert "h264" in facts["codecs"]["decoders"]
    assert facts["troubles"] == []
    assert all(name.startswith("camera:") for name in facts["cameras"])


def test_doctor_names_a_library_that_does_not_load(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    assert run("doctor") == 2
    out, err = capsys.readouterr()
    assert "does not load" in out
    assert err.startswith("error: zarr does not load: ")
    assert err.count("\n") == 1


def test_doctor_tells_a_part_that_fails_and_the_others_all_the_same(capsys, monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "many")
    assert run("doctor") == 2
    out, err = capsys.readouterr()
    assert "threads: failed (ConfigError: AAAMS_THREADS" in err
    assert "h264" in out


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may write everywhere")
def test_doctor_warns_of_a_cache_that_cannot_be_written(capsys, monkeypatch, tmp_path):
    tmp_path.chmod(0o500)
    monkeypatch.setattr(kernels, "CACHE_FOLDER", tmp_path / "cache")
    assert run("doctor") == 2
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err

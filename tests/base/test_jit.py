"""Where compiled code is kept, and whether there is any."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import aaams_stream
from aaams_stream import jit, kernels

SOURCE = Path(aaams_stream.__file__).parent


@pytest.fixture
def installed(tmp_path):
    """Copy the package without compiled code; return it and how to run Python beside it."""
    shutil.copytree(
        SOURCE, tmp_path / "site" / "aaams_stream", ignore=shutil.ignore_patterns("__pycache__")
    )

    def run(code, **environment):
        env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG"))},
            "PYTHONPATH": str(tmp_path / "site"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        }
        command = [sys.executable, "-W", "error", "-c", code]
        return subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return tmp_path / "site" / "aaams_stream", run


@pytest.mark.skipif(os.name != "posix", reason="makes folders unwritable the POSIX way")
def test_kernels_work_where_neither_package_nor_home_can_be_written(installed, tmp_path):
    package, run = installed
    (package / "kernels" / "__pycache__").touch()  # a file: no folder can be made there
    (tmp_path / "temporary").mkdir()
    code = "from aaams_stream.kernels import metrics\nimport numba; print(numba.config.CACHE_DIR)\n"
    done = run(code, HOME="/proc/nowhere", TMPDIR=str(tmp_path / "temporary"))
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path / "temporary"
    assert folder.stat().st_mode & 0o077 == 0


def test_a_package_that_can_be_written_keeps_its_code_beside_it(installed):
    _, run = installed
    done = run(
        "from aaams_stream.kernels import mean_shift\n"
        "import numba\n"
        "print(repr(numba.config.CACHE_DIR), mean_shift.first_shift._cache.cache_path)"
    )
    assert done.returncode == 0, done.stderr
    setting, folder = done.stdout.split()
    assert setting == "''"
    assert folder.endswith(os.path.join("kernels", "__pycache__"))


def test_fresh_code_is_reported_as_not_compiled(installed):
    _, run = installed
    done = run(
        "from aaams_stream.jit import is_compiled\nfrom aaams_stream.kernels import region_graph\n"
        "import numpy as np\n"
        "before = is_compiled(region_graph.count_contacts)\n"
        "region_graph.count_contacts(np.zeros((2, 2), np.int32))\n"
        "print(before, is_compiled(region_graph.count_contacts))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True"]
    again = run(
        "from aaams_stream.jit import is_compiled\nfrom aaams_stream.kernels import region_graph\n"
        "print(is_compiled(region_graph.count_contacts), is_compiled(region_graph.find_edges))"
    )
    assert again.stdout.split() == ["True", "False"]


def test_a_kernel_that_cannot_be_asked_counts_as_compiled():
    assert jit.is_compiled(object())


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners are a POSIX matter")
def test_cached_code_never_goes_where_others_can_write(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = kernels._private_folder()
    assert kernels._private_folder() == first
    assert os.stat(first).st_mode & 0o077 == 0
    os.chmod(first, 0o777)
    other = kernels._private_folder()
    assert other != first
    assert os.stat(other).st_mode & 0o077 == 0
    os.rmdir(first)
    os.symlink(tmp_path, first)
    assert kernels._private_folder() != first


# Segments a clip, and says with how many kernels that were compiled here.
SEGMENT = """
import sys
from aaams_stream import segment_video
from aaams_stream.jit import stream_is_compiled
from aaams_stream.kernels import mean_shift
print(stream_is_compiled())
segment_video("demo", sys.argv[1], size=(160, 120), duration=0.25)
print(sum(mean_shift.shift_clusters.stats.cache_misses.values()))
"""


def test_the_first_run_gives_the_same_bytes_as_every_later_one(tmp_path):
    """Though the first one finds nothing compiled."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    told, volumes = [], []
    for name in ("first", "second"):
        command = [sys.executable, "-c", SEGMENT, str(tmp_path / name)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.split())
        files = (path for path in (tmp_path / name).rglob("*") if path.is_file())
        volumes.append({str(f.relative_to(tmp_path / name)): f.read_bytes() for f in files})
    assert told == [["False", "0"], ["True", "0"]]
    assert len(volumes[0]) > 10
    assert [name for name in volumes[0] if volumes[0][name] != volumes[1].get(name)] == []
    assert volumes[0].keys() == volumes[1].keys()


def test_without_a_python_to_start_kernels_are_compiled_as_they_are_called(monkeypatch):
    monkeypatch.setattr(jit, "stream_is_compiled", lambda: False)
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **kwargs: pytest.fail("started one"))
    for executable, frozen in (("", False), (sys.executable, True)):
        monkeypatch.setattr(sys, "executable", executable)
        monkeypatch.setattr(sys, "frozen", frozen, raising=False)
        jit.compile_ahead.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr(jit, "stream_is_compiled", lambda: False)
    monkeypatch.setattr(sys, "executable", os.path.join(os.sep, "nowhere", "python"))
    jit.compile_ahead.__wrapped__()


def test_shares_compile_what_a_stream_calls(compiled):
    calls = jit.signatures()
    assert len(calls) >= 40  # of the 46 that Python calls
    for _, kernel, signature in calls:
        assert signature in kernel.signatures, kernel.py_func.__name__
    for module, kernel, _ in calls:  # and they are kernels again
        assert getattr(module, kernel.py_func.__name__) is kernel

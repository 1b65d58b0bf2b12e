"""Where compiled code is kept, and whether there is any."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import aaams_stream
from aaams_stream import jit, kernels
from aaams_stream.errors import SinkError

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


# Says where numba would keep other code, and where ours is.
WHERE = """
import numba
from aaams_stream.kernels import mean_shift, metrics
print(repr(numba.config.CACHE_DIR), metrics.count_pairs._cache.cache_path)
"""


@pytest.mark.skipif(os.name != "posix", reason="makes folders unwritable the POSIX way")
def test_kernels_work_where_neither_package_nor_home_can_be_written(installed, tmp_path):
    package, run = installed
    (package / "kernels" / "__pycache__").touch()  # a file: no folder can be made there
    (tmp_path / "temporary").mkdir()
    done = run(WHERE, HOME="/proc/nowhere", TMPDIR=str(tmp_path / "temporary"))
    assert done.returncode == 0, done.stderr
    setting, folder = done.stdout.split()
    assert setting == "''"
    private = Path(folder).parents[1]
    assert private.parent == tmp_path / "temporary"
    assert private.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.name != "posix", reason="makes folders unwritable the POSIX way")
def test_kernels_are_kept_in_the_users_cache_where_the_package_cannot_be_written(
    installed, tmp_path
):
    package, run = installed
    (package / "kernels" / "__pycache__").touch()
    done = run(WHERE, HOME=str(tmp_path / "home"), XDG_CACHE_HOME=str(tmp_path / "home" / "cache"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "home") in Path(done.stdout.split()[1]).parents


def test_kernels_say_what_to_do_where_nothing_can_be_written(monkeypatch):
    monkeypatch.setattr(kernels, "_PLACES", [lambda: Path(__file__)])
    with pytest.raises(SinkError, match="name one in NUMBA_CACHE_DIR"):
        kernels._find_folder()


def test_a_package_that_can_be_written_keeps_its_code_beside_it(installed):
    package, run = installed
    done = run(WHERE)
    assert done.returncode == 0, done.stderr
    setting, folder = done.stdout.split()
    assert setting == "''"
    assert Path(folder).parents[1] == package / "kernels" / "__pycache__"


def test_a_folder_named_for_numba_is_used_and_stays_named(installed, tmp_path):
    _, run = installed
    named = str(tmp_path / "named")
    done = run(WHERE, NUMBA_CACHE_DIR=named)
    assert done.returncode == 0, done.stderr
    setting, folder = done.stdout.split()
    assert setting == repr(named)
    assert Path(folder).parents[1] == Path(named)


def test_users_keep_their_own_code_where_they_had_it(installed, tmp_path):
    _, run = installed
    (tmp_path / "own.py").write_text(
        "from numba import njit\n@njit(cache=True)\ndef double(x):\n    return 2 * x\n"
    )
    done = run(
        "import numpy as np\n"
        "from aaams_stream.kernels import label_maps\n"
        "labels = np.zeros((2, 2), np.int32)\n"
        "label_maps.apply_lut(labels, np.zeros(1, np.int32), labels)\n"
        "import own\n"
        "own.double(1)\n"
    )
    assert done.returncode == 0, done.stderr
    kept = [file.name for file in (tmp_path / "__pycache__").iterdir()]
    assert [name.split("-")[0] for name in kept if name.endswith(".nbc")] == ["own.double"]


# Two files of kernels that share a helper, and what they make of it.
SHARED = {
    "common.py": "from numba import njit\n\n@njit\ndef twice(x):\n    return 2 * x\n",
    "first.py": "from numba import njit\nfrom aaams_stream.kernels.common import twice\n\n"
    "@njit(cache=True)\ndef first(x):\n    return twice(x) + 1\n",
    "second.py": "from numba import njit\nfrom aaams_stream.kernels.common import twice\n\n"
    "@njit(cache=True)\ndef second(x):\n    return twice(x) + 0.5\n",
}
CALL_SHARED = """
from aaams_stream.kernels import first, second
print(first.first(1), second.second(1.0))
for kernel in (first.first, second.second):
    print(sum(kernel.stats.cache_hits.values()))
"""


def share_a_helper(package):
    """Leave nothing but two files of kernels and the helper that they share."""
    for file in (package / "kernels").glob("[!_]*.py"):
        file.unlink()
    for name, text in SHARED.items():
        (package / "kernels" / name).write_text(text)


def test_an_edit_to_a_helper_that_files_share_is_noticed(installed):
    package, run = installed
    share_a_helper(package)
    assert run(CALL_SHARED).stdout.split() == ["3", "2.5", "0", "0"]
    assert run(CALL_SHARED).stdout.split() == ["3", "2.5", "1", "1"]
    helper = package / "kernels" / "common.py"
    helper.write_text(helper.read_text().replace("2 * x", "3 * x"))
    assert run(CALL_SHARED).stdout.split() == ["4", "3.5", "0", "0"]
    helper.write_text(helper.read_text().replace("3 * x", "2 * x"))
    assert run(CALL_SHARED).stdout.split() == ["3", "2.5", "1", "1"]  # the code of before


def test_a_helper_that_files_share_is_kept_with_its_callers_alone(installed):
    """Numba mixes up entries of different types that two processes write at a time."""
    package, run = installed
    share_a_helper(package)
    assert run(CALL_SHARED).returncode == 0
    kept = {file.name.split(".")[0] for file in (package / "kernels").rglob("*.nbc")}
    assert kept == {"first", "second"}


def test_helpers_that_files_share_are_not_cached_by_themselves():
    shared = jit.kernels_of("common")
    assert shared
    assert [k.py_func.__name__ for k in shared if k._cache.cache_path] == []


def test_fresh_code_is_reported_as_not_compiled(installed):
    _, run = installed
    done = run(
        "from aaams_stream.jit import is_compiled\nfrom aaams_stream.kernels import flow\n"
        "import numpy as np\n"
        "before = is_compiled(flow.pad_plane)\n"
        "flow.pad_plane(np.zeros((2, 2), np.uint8), np.zeros((20, 20), np.float32))\n"
        "print(before, is_compiled(flow.pad_plane))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True"]
    again = run(
        "from aaams_stream.jit import is_compiled\nfrom aaams_stream.kernels import flow\n"
        "print(is_compiled(flow.pad_plane), is_compiled(flow.find_slopes))"
    )
    assert again.stdout.split() == ["True", "False"]


def test_code_that_is_missing_beside_its_index_is_reported_as_not_compiled(installed):
    """As after a process that was ended between the two."""
    package, run = installed
    share_a_helper(package)
    assert run(CALL_SHARED).returncode == 0
    (code,) = package.rglob("first.first-*.nbc")
    code.unlink()
    done = run(
        "from aaams_stream.jit import is_compiled\nfrom aaams_stream.kernels import first, second\n"
        "print(is_compiled(first.first), is_compiled(second.second))"
    )
    assert done.stdout.split() == ["False", "True"], done.stderr


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


def test_one_process_compiles_and_the_others_wait_for_it(monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "CACHE_FOLDER", tmp_path)
    answers = iter([False, True])  # the second look, when the lock is had
    monkeypatch.setattr(jit, "stream_is_compiled", lambda: next(answers))
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **kwargs: pytest.fail("started one"))
    jit.compile_ahead.__wrapped__()
    assert next(answers, None) is None


@pytest.mark.parametrize(
    ("looks", "started"), [([True], []), ([False, True], []), ([False, False], ["export"])]
)
def test_following_is_compiled_by_another_process_that_steps_aside(
    monkeypatch, tmp_path, looks, started
):
    monkeypatch.setattr(kernels, "CACHE_FOLDER", tmp_path)
    answers, words = iter(looks), []
    monkeypatch.setattr(jit, "are_compiled", lambda files: next(answers))
    monkeypatch.setattr(jit, "compile_ahead", lambda: None)
    monkeypatch.setattr(jit, "_warm_up", lambda *given, aside: words.extend(given) or aside)
    jit.compile_following()
    assert words == started
    assert next(answers, None) is None


@pytest.mark.skipif(jit.fcntl is None, reason="folders cannot be locked here")
def test_the_lock_of_a_folder_is_had_by_one_at_a_time(tmp_path):
    told = []

    def wait():
        with jit._only_one(tmp_path):
            told.append("second")

    with jit._only_one(tmp_path):
        second = threading.Thread(target=wait)
        second.start()
        handle = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            jit.fcntl.flock(handle, jit.fcntl.LOCK_EX | jit.fcntl.LOCK_NB)
        os.close(handle)
        told.append("first")
    second.join()
    assert told == ["first", "second"]


def test_sweeping_removes_only_what_is_ours_and_was_not_used_for_long(tmp_path):
    digests = ("0123456789ab", "3456789abcde", "6789abcdef01", "of-somebody-else")
    present, recent, old, foreign = (tmp_path / f"{kernels.CACHE_PREFIX}{d}" for d in digests)
    long_ago = time.time() - 31 * 24 * 3600
    for folder in (present, recent, old, foreign):
        (folder / "kernels").mkdir(parents=True)
        (folder / "kernels" / "code.nbc").touch()
        if folder != recent:
            os.utime(folder, (long_ago, long_ago))
    jit.sweep(present)
    assert set(tmp_path.iterdir()) == {present, recent, foreign}


def test_a_start_marks_its_compiled_code_as_used(installed):
    package, run = installed
    assert run(WHERE).returncode == 0
    (folder,) = (package / "kernels" / "__pycache__").glob(f"{kernels.CACHE_PREFIX}*")
    os.utime(folder, (0, 0))
    assert run(WHERE).returncode == 0
    assert folder.stat().st_mtime > 0


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


def test_shares_are_all_the_files_and_none_of_them_twice():
    for shares in (1, 2, 3):
        lists = jit.shared_out(shares)
        assert len(lists) == shares
        assert all(lists)
        assert sorted(file for files in lists for file in files) == sorted(jit.STREAM_FILES)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # tests have threads, it has none
def test_compile_shares_has_every_call_compiled_once(tmp_path):
    """By processes of their own: each notes what it does in a file."""

    class Noted:
        def __init__(self, file):
            self.py_func = type("", (), {"__module__": f"aaams_stream.kernels.{file}"})

        def compile(self, signature):
            with (tmp_path / "_".join(map(str, signature))).open("a") as notes:
                notes.write(f"{os.getpid()}\n")

    calls = [jit.Call(Noted(file), (file, n)) for n in range(2) for file in jit.STREAM_FILES]
    jit.compile_shares(calls, 3)
    noted = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    assert noted.keys() == {"_".join(map(str, call.signature)) for call in calls}
    assert {len(pids) for pids in noted.values()} == {1}
    processes = {pids[0] for pids in noted.values()}
    assert len(processes) == (3 if hasattr(os, "fork") else 1)
    assert str(os.getpid()) in processes

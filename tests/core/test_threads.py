"""How many threads compute, and which kernels do so on several."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
import threading

import numba
import pytest

from aaams_stream import kernels
from aaams_stream.core import threads
from aaams_stream.core.threads import available_cores, thread_count, threads_for
from aaams_stream.errors import ConfigError
from aaams_stream.jit import kernels_of

compiled = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"
)
ENOUGH = 1 << 30  # items: worth any number of threads

# Loops over so much that threads pay; every other kernel runs beside others instead.
PARALLEL = {
    ("agglomerate", "find_partners"),
    ("agglomerate", "merge_first"),
    ("mean_shift", "first_shift"),
    ("mean_shift", "seed_clusters"),
    ("mean_shift", "shift_clusters"),
    ("points", "shift_clusters"),
}


def all_kernels():
    """Return every kernel by its file and name."""
    files = [file.name for file in pkgutil.iter_modules(kernels.__path__)]
    return {(file, k.py_func.__name__): k for file in files for k in kernels_of(file)}


@compiled
def test_kernels_let_go_of_the_interpreter():
    """Else the stages of a stream would wait for each other."""
    found = all_kernels()
    assert len(found) > 100
    # what numba copies into its callers, or they call, runs as they do
    public = {
        name: kernel
        for name, kernel in found.items()
        if name[0] != "common" and kernel.targetoptions.get("inline") != "always"
    }
    assert [name for name, k in public.items() if not k.targetoptions.get("nogil")] == []


@compiled
def test_kernels_are_parallel_only_where_it_pays():
    found = all_kernels()
    assert {name for name, k in found.items() if k.targetoptions.get("parallel")} == PARALLEL


def test_thread_count_is_what_the_variable_says(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "3")
    assert thread_count() == 3


@pytest.mark.parametrize("unset", [None, ""])
def test_thread_count_is_the_number_of_cores_unless_it_is_said(monkeypatch, unset):
    monkeypatch.delenv("AAAMS_THREADS", raising=False)
    if unset is not None:
        monkeypatch.setenv("AAAMS_THREADS", unset)
    assert thread_count() == available_cores()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no process is held to cores")
def test_available_cores_are_those_this_process_may_use():
    code = "from aaams_stream.core.threads import available_cores; print(available_cores())"
    held = f"import os; os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}}); {code}"
    told = subprocess.run([sys.executable, "-c", held], capture_output=True, text=True, check=True)
    assert told.stdout == "1\n"


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "1.5", " 2", "²", "9" * 5000])
def test_thread_count_refuses_what_is_no_number_of_threads(monkeypatch, wrong):
    monkeypatch.setenv("AAAMS_THREADS", wrong)
    with pytest.raises(ConfigError, match="AAAMS_THREADS must be a whole number from 1 on, got "):
        thread_count()


def test_threads_for_takes_one_thread_for_little_work(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "2")
    with threads_for(5000):
        assert numba.get_num_threads() == 1


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two cores")
def test_threads_for_takes_as_many_as_it_may_for_much_and_leaves_what_was_set(monkeypatch):
    usual = numba.get_num_threads()
    for text, expected in (("1", 1), ("2", 2), ("1000", usual)):
        monkeypatch.setenv("AAAMS_THREADS", text)
        with threads_for(ENOUGH):
            assert numba.get_num_threads() == expected
        assert numba.get_num_threads() == usual
    numba.set_num_threads(1)
    try:
        with threads_for(ENOUGH):
            assert numba.get_num_threads() == 1  # no more than the user has set
    finally:
        numba.set_num_threads(usual)


def test_threads_for_leaves_what_was_set_after_an_error(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "1")
    usual = numba.get_num_threads()
    with pytest.raises(ZeroDivisionError), threads_for(ENOUGH):
        raise ZeroDivisionError
    assert numba.get_num_threads() == usual
    monkeypatch.setenv("AAAMS_THREADS", "none")
    with pytest.raises(ConfigError), threads_for(ENOUGH):
        pass
    monkeypatch.setenv("AAAMS_THREADS", "1")
    with threads_for(ENOUGH):  # nobody is locked out
        assert numba.get_num_threads() == 1


def test_threads_for_lets_one_thread_in_at_a_time():
    inside, order = threading.Event(), []

    def second():
        inside.set()
        with threads_for(1):
            order.append("second")

    other = threading.Thread(target=second)
    with threads_for(1):
        other.start()
        assert inside.wait(60)
        assert threads._one_at_a_time.locked()
        order.append("first")
    other.join()
    assert order == ["first", "second"]


SIDE_BY_SIDE = """
import threading
import numba
import numpy as np
from aaams_stream import segment_image
image = np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)
segment_image(image)
assert numba.threading_layer() == "workqueue"
many = [threading.Thread(target=segment_image, args=(image,)) for _ in range(8)]
for thread in many:
    thread.start()
for thread in many:
    thread.join()
print("all done")
"""


@compiled
def test_images_may_be_segmented_on_several_threads_whatever_numba_runs_its_own_with():
    """Of its layers, `workqueue` ends the process when two threads enter a parallel loop."""
    done = subprocess.run(
        [sys.executable, "-c", SIDE_BY_SIDE],
        env={**os.environ, "NUMBA_THREADING_LAYER": "workqueue"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "all done\n"), done.stderr

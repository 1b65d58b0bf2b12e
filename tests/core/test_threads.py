"""How many threads compute, and how work is shared among them."""

from __future__ import annotations

import gc
import os
import pkgutil
import subprocess
import sys
import threading
import time

import pytest

from aaams_stream import kernels
from aaams_stream.core.threads import POOL, available_cores, side_by_side, thread_count
from aaams_stream.errors import ConfigError
from aaams_stream.jit import kernels_of

compiled = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"
)


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
def test_kernels_of_pictures_are_not_parallel_by_themselves():
    """Threads that take parts of the work compile in half the time, and may run anywhere."""
    parallel = {name for name, k in all_kernels().items() if k.targetoptions.get("parallel")}
    assert parallel == {("points", "shift_clusters")}


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


def parts_of(items, worth=1):
    """Return the parts that side_by_side makes, in order, and the threads that do them."""
    parts = []

    def work(start, stop):
        parts.append((start, stop, threading.get_ident()))

    side_by_side(work, items, worth)
    parts.sort()
    return [part[:2] for part in parts], {part[2] for part in parts}


def test_side_by_side_does_little_work_at_once_on_the_thread_that_asks(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "8")
    assert parts_of(1000) == ([(0, 1000)], {threading.get_ident()})
    assert parts_of(0) == ([(0, 0)], {threading.get_ident()})
    monkeypatch.setenv("AAAMS_THREADS", "1")
    assert parts_of(1 << 30) == ([(0, 1 << 30)], {threading.get_ident()})


@pytest.mark.parametrize(("items", "worth"), [(100_000, 1), (360, 480), (3, 1 << 20)])
def test_side_by_side_leaves_nothing_out_and_does_nothing_twice(monkeypatch, items, worth):
    monkeypatch.setenv("AAAMS_THREADS", "3")
    parts, _ = parts_of(items, worth)
    assert len(parts) > 1
    assert [start for start, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
    assert parts[-1][1] == items
    assert all(start < stop for start, stop in parts)


def test_side_by_side_uses_as_many_threads_as_it_may(monkeypatch):
    """Each waits for the other: on one thread they would wait for ever."""
    monkeypatch.setenv("AAAMS_THREADS", "2")
    meeting = threading.Barrier(2, timeout=300)
    side_by_side(lambda start, stop: meeting.wait(), 8, worth=1 << 20)


def test_side_by_side_gives_no_part_out_twice_while_the_collector_lets_others_in(monkeypatch):
    """Python may collect garbage wherever it allocates, and what it calls then lets threads in."""
    monkeypatch.setenv("AAAMS_THREADS", "4")
    before = gc.get_threshold()
    gc.set_threshold(1)
    gc.callbacks.append(lambda *_: time.sleep(0))
    try:
        for _ in range(200):
            parts, _ = parts_of(64, worth=1 << 20)
            assert [start for start, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
    finally:
        gc.callbacks.pop()
        gc.set_threshold(*before)


def test_side_by_side_keeps_no_more_threads_than_it_may_use(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "7")
    before = set(threading.enumerate())
    for items in range(2, 30):
        side_by_side(lambda start, stop: None, items, worth=1 << 14)
    begun = set(threading.enumerate()) - before
    assert len(begun) <= 6
    assert all(thread.name.startswith(POOL) for thread in begun)


def test_side_by_side_begins_nothing_after_an_error(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "2")
    begun = []
    both = threading.Barrier(2, timeout=300)

    def work(start, stop):
        begun.append(start)
        both.wait()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        side_by_side(work, 8, worth=1 << 20)
    assert len(begun) == 2


def test_side_by_side_raises_what_went_wrong(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "2")
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda start, stop: 1 // 0, 8, worth=1 << 20)


SIDE_BY_SIDE = """
import threading
import numpy as np
from aaams_stream import segment_image
image = np.random.default_rng(0).integers(0, 255, (160, 240, 3), np.uint8)
expected = segment_image(image).labels
found = []
many = [
    threading.Thread(target=lambda: found.append(segment_image(image).labels)) for _ in range(4)
]
for thread in many:
    thread.start()
for thread in many:
    thread.join()
print(len(found), all((labels == expected).all() for labels in found))
"""


@compiled
def test_images_may_be_segmented_on_several_threads():
    done = subprocess.run(
        [sys.executable, "-c", SIDE_BY_SIDE],
        env={**os.environ, "AAAMS_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "4 True\n"), done.stderr

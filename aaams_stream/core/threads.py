"""How many threads compute. The result never depends on it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise

from aaams_stream.errors import ConfigError

VARIABLE = "AAAMS_THREADS"
POOL = "aaams_compute"  # what the threads are called that wait for work
# Clusters or pixels worth a thread: with less to do, waking one takes longer than it saves, and the
# stages beside the labels need the cores. A warm frame of 640x480 has a few thousand, a cold one
# 170,000; at 512 a thread `realtime` made 57 frames a second on two cores for 68.
_SHARE = 16384
_MOST_DIGITS = 9  # beyond any machine, and within what Python reads as a number
_PARTS = 4  # a thread: sky and ground do not take equally long


def thread_count() -> int:
    """Return how many threads may compute: AAAMS_THREADS, or the cores this process may use."""
    text = os.environ.get(VARIABLE, "")
    return read_count(text, VARIABLE) if text else available_cores()


def read_count(text: str, name: str) -> int:
    """Return a number of threads; `name` is where it was said, for the error."""
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) < 1:
        raise ConfigError(f"{name} must be a whole number from 1 on, got {text!r}")
    return int(text)


def available_cores() -> int:
    """Return how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not everywhere
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def side_by_side(work: Callable[[int, int], None], items: int, worth: float = 1) -> None:
    """Do `work(start, stop)` for all items, in parts on several threads where that pays.

    worth: clusters or pixels an item stands for. The parts may be done in any order, and
    at the same time, and `work` lets go of the interpreter, as kernels do. The thread that asks
    does its share; the others wait for work from one time to the next.
    """
    most = thread_count()
    threads = min(most, int(items * worth) // _SHARE, items)
    if threads < 2:
        work(0, items)
        return
    parts = min(_PARTS * threads, items)
    edges = [items * part // parts for part in range(parts + 1)]
    # of a list: its iterator alone gives each part out once, whoever is let in between
    spans = iter(list(pairwise(edges)))

    def take_part() -> None:
        for start, stop in spans:
            work(start, stop)

    others: list[Future[None]] = []
    try:
        for _ in range(threads - 1):
            others.append(_pool(most - 1).submit(take_part))
        take_part()
    finally:
        for _ in spans:  # after an error nothing more is begun
            pass
        wait([other for other in others if not other.cancel()])
    for other in others:
        if not other.cancelled():
            other.result()  # what went wrong there is raised here


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the threads that wait for work; they are begun as they are needed."""
    return ThreadPoolExecutor(threads, POOL)


if hasattr(os, "register_at_fork"):  # the threads stay behind with the parent
    os.register_at_fork(after_in_child=_pool.cache_clear)

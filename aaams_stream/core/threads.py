"""How many threads compute. The result never depends on it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aaams_stream.errors import ConfigError

VARIABLE = "AAAMS_THREADS"
# Clusters or pixels worth a thread: with less to do, waking one takes longer than it saves. A warm
# frame of 640x480 has a few thousand, a cold one 170,000.
_SHARE = 16384
_MOST_DIGITS = 9  # beyond any machine, and within what Python reads as a number
# Of numba's ways to run parallel loops, one ends the process when two threads do so at a time.
_one_at_a_time = threading.Lock()


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


@contextmanager
def threads_for(items: int) -> Iterator[None]:
    """Let parallel kernels use as many threads as are worth their while for so many items.

    Whoever else runs some waits; not to be nested.
    """
    import numba  # here: whoever asks only for the number does without

    with _one_at_a_time:
        usual = numba.get_num_threads()
        numba.set_num_threads(max(min(usual, thread_count(), items // _SHARE), 1))
        try:
            yield
        finally:
            numba.set_num_threads(usual)

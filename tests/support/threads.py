"""Waiting for threads to end."""

from __future__ import annotations

import threading

from aaams_stream.core.threads import POOL

PATIENCE = 300  # seconds after which a test that hangs fails


def our_threads() -> set[threading.Thread]:
    """Return the threads that run, without the pools of zarr and of ours that a process keeps."""
    pools = ("zarr_io", "asyncio_", POOL)
    return {thread for thread in threading.enumerate() if not thread.name.startswith(pools)}


def all_end(*names: str) -> bool:
    """Wait for the threads of these names; return whether all of them came to their end."""
    threads = [thread for thread in threading.enumerate() if thread.name in names]
    for thread in threads:
        thread.join(PATIENCE)
    return not any(thread.is_alive() for thread in threads)

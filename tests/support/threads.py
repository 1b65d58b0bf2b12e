"""Waiting for threads to end."""

from __future__ import annotations

import threading

PATIENCE = 300  # seconds after which a test that hangs fails


def all_end(*names: str) -> bool:
    """Wait for the threads of these names; return whether all of them came to their end."""
    threads = [thread for thread in threading.enumerate() if thread.name in names]
    for thread in threads:
        thread.join(PATIENCE)
    return not any(thread.is_alive() for thread in threads)

"""All compiled loops, one file per data structure.

A kernel calls only kernels of its own file: numba's cache does not notice an edit to a callee
that lives elsewhere, and would run stale code.

This file settles, before the first kernel is defined, where compiled code is kept and how its
threads wait.
"""

from __future__ import annotations

import os
import stat
import tempfile

import numba


def _settle_cache() -> None:
    """Point numba at a private temporary folder if it finds no place of its own to write to.

    It tries the package's folder, then the user's cache folder; where both are read-only, as in
    some containers, every `njit(cache=True)` would raise.
    """
    try:
        numba.njit(cache=True)(_probe)
    except RuntimeError:
        numba.config.CACHE_DIR = _private_folder()  # type: ignore[attr-defined]


def _probe() -> None:
    pass


def _private_folder() -> str:
    """Return a folder that only this user can write to: cached code is code that will run."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = os.path.join(tempfile.gettempdir(), f"aaams-stream-numba-{user}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        found = os.lstat(folder)
        shared = hasattr(os, "getuid") and (found.st_uid != user or found.st_mode & 0o077)
        if not stat.S_ISDIR(found.st_mode) or shared:
            return tempfile.mkdtemp(prefix="aaams-stream-numba-")
    return folder


# A frame runs dozens of short parallel loops beside the threads that decode and write. By default
# OpenMP's threads spin between loops; on two busy cores that took ten times the processor time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
_settle_cache()

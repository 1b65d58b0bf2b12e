"""All compiled loops, one file per data structure.

A kernel calls only kernels of its own file: numba's cache does not notice an edit to a callee
that lives elsewhere, and would run stale code.

This file settles, before the first kernel is defined, where compiled code is kept and how its
threads wait; and who compiles it.
"""

from __future__ import annotations

import functools
import importlib
import os
import stat
import subprocess
import sys
import tempfile
from typing import Any

import numba

# The files that images and streams run through; the others do without fastmath.
_STREAM = (
    *("agglomerate", "carry", "enlarge", "features", "parting", "regions", "seek", "tables"),
    "window",
)
_COMPILING = "AAAMS_STREAM_COMPILING"  # set in the environment of the process that compiles


@functools.cache
def compile_ahead() -> None:
    """Have the kernels of images and streams compiled by another process, if they are not yet.

    Every process shall run the same machine code, or a run that was resumed would differ in its
    last digits from one that was not. The process that compiles is the exception: it keeps a
    kernel's first version, and the version that was optimised once more when it was linked into
    its callers is what goes to the cache; under fastmath the two round differently. So nobody
    computes with what he compiled, everybody with what the cache holds. Where there is no Python
    to start or no cache to write, the caller compiles for himself, as numba does.

    Looks once per process. Two processes that find nothing both compile, the same.
    """
    if _COMPILING in os.environ or stream_is_compiled():
        return
    if not sys.executable or getattr(sys, "frozen", False):  # it would start the frozen program
        return
    environment = {
        **os.environ,
        _COMPILING: "1",
        "PYTHONPATH": os.pathsep.join(folder or os.getcwd() for folder in sys.path),
    }
    if numba.config.CACHE_DIR:  # type: ignore[attr-defined]
        environment["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    command = [sys.executable, "-P", "-m", "aaams_stream", "warmup", "video"]
    nothing = subprocess.DEVNULL  # standard input may be the video
    try:
        subprocess.run(
            command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing, check=False
        )
    except OSError:
        return


def stream_is_compiled() -> bool:
    """Return whether images and streams will find all their kernels compiled for this machine."""
    modules = [importlib.import_module(f"{__name__}.{name}") for name in _STREAM]
    kernels = [k for module in modules for k in vars(module).values() if hasattr(k, "py_func")]
    # What numba copies into its callers is never compiled by itself.
    return all(is_compiled(k) for k in kernels if k.targetoptions.get("inline") != "always")


def is_compiled(kernel: Any) -> bool:
    """Return whether the first call will find compiled code for this machine.

    Reads numba's own index beside the cached code; where numba changes its inside, the answer is
    yes, so that nobody is told to wait for nothing.
    """
    try:
        if kernel.signatures:
            return True
        machine = kernel.targetctx.codegen().magic_tuple()
        index = kernel._cache._cache_file._load_index()
        return any(key[1] == machine for key in index)
    except Exception:
        return True


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

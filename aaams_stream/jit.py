"""Compiling the kernels of images and streams before they are first called.

`python -m aaams_stream.jit SHARE SHARES` compiles one share of them into numba's cache.
"""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import numba

from aaams_stream import kernels

# The files that images and streams run through; the others do without fastmath.
_STREAM = (
    *("agglomerate", "associate", "common", "features", "mean_shift", "measure", "merge_tree"),
    *("modes", "motion_split", "propagate", "recover", "refine", "region_graph", "transport"),
    "upsample",
)
_COMPILING = "AAAMS_STREAM_COMPILING"  # set in the environment of the processes that compile
_SHARES = 2  # processes that compile at a time, where there are as many cores


@functools.cache
def compile_ahead() -> None:
    """Have the kernels of images and streams compiled by other processes, if they are not yet.

    Every process shall run the same machine code, or a run that was resumed would differ in its
    last digits from one that was not. A process that compiles is the exception: it keeps a
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
    shares = min(_SHARES, os.cpu_count() or 1)
    try:
        if shares > 1:
            _run_all([f"{__name__} {share} {shares}" for share in range(shares)])
        _run_all(["aaams_stream warmup video"])  # a real run: compiles what the shares missed
    except OSError:
        return


def stream_is_compiled() -> bool:
    """Return whether images and streams will find all their kernels compiled for this machine."""
    found = [kernel for module in _modules() for _, kernel in _kernels_of(module)]
    # What numba copies into its callers is never compiled by itself.
    return all(is_compiled(k) for k in found if k.targetoptions.get("inline") != "always")


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


def compile_share(share: int, shares: int) -> None:
    """Compile the kernels of every `shares`-th file, from file number `share` on.

    Kernels call only kernels of their own file, so no two processes compile the same.
    """
    mine = _modules()[share::shares]
    for module, kernel, signature in signatures():
        if module in mine:
            kernel.compile(signature)


def signatures() -> list[tuple[ModuleType, Any, tuple[Any, ...]]]:
    """Return which kernels of which file a stream calls, and with arguments of which types.

    Told by a stream of stamp-sized frames in which the kernels run as plain Python. Rare ones do
    not come up there; what is missing here is compiled when it is first called.
    """
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.params import Params
    from aaams_stream.source.demo import demo_frame

    # a narrow window spares Python most of the work; the scale makes a frame of 60 one of 48
    settings = Params().updated({"stream": {"scale": 0.8}, "space": {"sigma2": 1.5}})
    with _plain_kernels() as calls:
        segmenter = Segmenter(settings)
        for index in range(3):
            segmenter.step(demo_frame(8 * index).rgb[::4, :240:4])
    return calls


@contextmanager
def _plain_kernels() -> Iterator[list[tuple[ModuleType, Any, tuple[Any, ...]]]]:
    """Run kernels as the Python they are written in; note those that Python calls."""
    calls: list[tuple[ModuleType, Any, tuple[Any, ...]]] = []
    inside = False

    def plain(module: ModuleType, kernel: Any) -> Any:
        def run(*arguments: Any) -> Any:
            nonlocal inside
            if inside:
                return kernel.py_func(*arguments)
            call = module, kernel, tuple(map(numba.typeof, arguments))
            if call not in calls:
                calls.append(call)
            inside = True
            try:
                return kernel.py_func(*arguments)
            finally:
                inside = False

        return run

    with ExitStack() as stack:
        for module in _modules():
            for name, kernel in _kernels_of(module):
                setattr(module, name, plain(module, kernel))
                stack.callback(setattr, module, name, kernel)
        yield calls


def _modules() -> list[ModuleType]:
    return [importlib.import_module(f"{kernels.__name__}.{name}") for name in _STREAM]


def _kernels_of(module: ModuleType) -> list[tuple[str, Any]]:
    return [(name, thing) for name, thing in vars(module).items() if hasattr(thing, "py_func")]


def _run_all(modules: list[str]) -> None:
    """Run Python modules with their arguments side by side; none outlives this call."""
    environment = {
        **os.environ,
        _COMPILING: "1",
        "PYTHONPATH": os.pathsep.join(folder or os.getcwd() for folder in sys.path),
    }
    if numba.config.CACHE_DIR:  # type: ignore[attr-defined]
        environment["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    nothing = subprocess.DEVNULL  # standard input may be the video
    with ExitStack() as stack:
        running = []
        for module in modules:
            command = [sys.executable, "-P", "-m", *module.split()]
            process = subprocess.Popen(
                command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing
            )
            running.append(stack.enter_context(process))
            stack.callback(process.kill)
        for process in running:
            process.wait()


if __name__ == "__main__":
    compile_share(*map(int, sys.argv[1:]))

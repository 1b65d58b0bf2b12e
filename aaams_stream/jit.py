"""Compiling the kernels of images and streams before they are first called.

Whoever runs them for a user calls `compile_ahead` first: `run`, `live` and the command line. What
is run to have them compiled stands in `run/warmup.py`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import llvmlite.binding
import numba

from aaams_stream import kernels

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# The files that images and streams run through; the others do without fastmath.
STREAM_FILES = (
    *("agglomerate", "associate", "features", "flow", "label_maps", "level_sums", "levels"),
    *("mean_shift", "measure", "merge_tree", "modes", "motion_split", "propagate", "recover"),
    *("refine", "refresh", "region_graph", "transport", "upsample", "wire"),
)
# And those that following an object takes beside them.
FOLLOWING_FILES = ("rle", "tracker")
_log = logging.getLogger(__name__)
Kernel: TypeAlias = Any  # numba's dispatcher, of which parts are needed that have no types
_COMPILING = "AAAMS_STREAM_COMPILING"  # set in the environment of the processes that compile
_SHARES = 2  # processes that compile at a time, where there are as many cores
_LOOK_SECONDS = 0.5  # between looks how far compiling has come
_ASIDE = 10  # how much nicer a process is that steps aside
_listeners: list[Callable[[int, int], None]] = []
_UNUSED = 30 * 24 * 3600.0  # seconds after which the compiled code of other sources is removed


def processor() -> str:
    """Return what code is compiled for: last digits belong to it, where loops have fastmath."""
    features = zlib.crc32(llvmlite.binding.get_host_cpu_features().flatten().encode())
    return f"{llvmlite.binding.get_host_cpu_name()} {features:08x}"


def processor_knows(feature: str) -> bool:
    """Whether this processor has a set of instructions, by LLVM's name for it."""
    return bool(llvmlite.binding.get_host_cpu_features().get(feature, False))


class Call(NamedTuple):
    """A kernel that Python calls, and the types of its arguments."""

    kernel: Kernel
    signature: tuple[Any, ...]  # of numba's types

    @property
    def file(self) -> str:
        """The file of the kernel."""
        name: str = self.kernel.py_func.__module__
        return name.rpartition(".")[2]


def tell_progress(listener: Callable[[int, int], None]) -> None:
    """Have a listener told how many kernels are compiled, and of how many, while that lasts."""
    _listeners.append(listener)


@functools.cache
def compile_ahead() -> None:
    """Have the kernels of images and streams compiled by other processes, if they are not yet.

    Every process shall run the same machine code, or a run that was resumed would differ in its
    last digits from one that was not. A process that compiles is the exception: it keeps a
    kernel's first version, and the version that was optimised once more when it was linked into
    its callers is what goes to the cache; under fastmath the two round differently. So nobody
    computes with what he compiled, everybody with what the cache holds. Where there is no Python
    to start or no cache to write, the caller compiles for himself, as numba does.

    Looks once per process. Of several processes that find nothing, one has it compiled and the
    others wait for it.
    """
    if _COMPILING in os.environ or stream_is_compiled():
        return
    if not sys.executable or getattr(sys, "frozen", False):  # it would start the frozen program
        return
    shares = min(_SHARES, os.cpu_count() or 1)
    with suppress(OSError), _only_one(kernels.CACHE_FOLDER):
        if stream_is_compiled():  # by the one that was waited for
            return
        _log.info("compiling kernels, once, into %s", kernels.CACHE_FOLDER)
        if shares > 1:
            _warm_up("--shares", str(shares))
        if not stream_is_compiled():
            _warm_up("video")  # a real run: compiles what the shares missed
        sweep(kernels.CACHE_FOLDER)
        _tell(done=True)


def compile_following() -> None:
    """Have the kernels of following compiled by another process that steps aside, if need be.

    A thread that compiles holds the interpreter: a picture that runs meanwhile would stand still.
    """
    if _COMPILING in os.environ or are_compiled(FOLLOWING_FILES):
        return
    if not sys.executable or getattr(sys, "frozen", False):
        return
    compile_ahead()  # what is needed first
    with suppress(OSError), _only_one(kernels.CACHE_FOLDER):
        if not are_compiled(FOLLOWING_FILES):
            _log.info("compiling kernels for following, once, into %s", kernels.CACHE_FOLDER)
            _warm_up("export", aside=True)


def stream_is_compiled() -> bool:
    """Return whether images and streams will find all their kernels compiled for this machine."""
    return are_compiled(STREAM_FILES)


def are_compiled(files: Sequence[str]) -> bool:
    """Return whether all kernels of some files are compiled for this machine."""
    found = [kernel for file in files for kernel in kernels_of(file)]
    # What numba copies into its callers is never compiled by itself.
    return all(is_compiled(k) for k in found if k.targetoptions.get("inline") != "always")


def is_compiled(kernel: Kernel) -> bool:
    """Return whether the first call will find compiled code for this machine.

    Reads numba's own index beside the cached code; where numba changes its inside, the answer is
    yes, so that nobody is told to wait for nothing.
    """
    try:
        if kernel.signatures:
            return True
        machine = kernel.targetctx.codegen().magic_tuple()
        cache = kernel._cache._cache_file
        # the index is written before the code
        found = [name for key, name in cache._load_index().items() if key[1] == machine]
        return any(os.path.exists(cache._data_path(name)) for name in found)
    except Exception:
        return True


def kernels_of(file: str) -> list[Kernel]:
    """Return the kernels that a file defines; what it imports from another belongs there."""
    module = _module(file)
    found = [thing for thing in vars(module).values() if hasattr(thing, "py_func")]
    return [kernel for kernel in found if kernel.py_func.__module__ == module.__name__]


def compile_shares(calls: Sequence[Call], shares: int) -> None:
    """Compile the kernels of all files by so many processes.

    A kernel calls those of its own file and the helpers of `common.py`, which are not cached by
    themselves: no two processes write the same. They are forked, so that what led here is not done
    again; where that cannot be, one compiles all. No thread runs yet that a fork could lose.
    """
    mine, *others = shared_out(shares if hasattr(os, "fork") else 1)
    children = []
    for files in others:
        child = os.fork()
        if not child:
            try:
                _compile_files(calls, files)
            finally:
                os._exit(0)  # what is missing now is compiled by a real run
        children.append(child)
    _compile_files(calls, mine)
    for child in children:
        os.waitpid(child, 0)


def shared_out(shares: int) -> list[list[str]]:
    """Return the files of a stream in so many lists that take about as long to compile.

    The longest file goes to whom has least, and so on: the length of its text tells.
    """
    lengths = {file: len(inspect.getsource(_module(file))) for file in STREAM_FILES}
    lists: list[list[str]] = [[] for _ in range(shares)]
    for file in sorted(STREAM_FILES, key=lambda name: -lengths[name]):
        min(lists, key=lambda files: sum(lengths[name] for name in files)).append(file)
    return lists


def _compile_files(calls: Sequence[Call], files: Sequence[str]) -> None:
    for call in calls:
        if call.file in files:
            call.kernel.compile(call.signature)


@contextmanager
def plain_kernels() -> Iterator[list[Call]]:
    """Run kernels as the Python they are written in; note those that Python calls."""
    calls: list[Call] = []
    inside = False

    def plain(kernel: Kernel) -> Any:
        def run(*arguments: Any) -> Any:
            nonlocal inside
            if inside:
                return kernel.py_func(*arguments)
            call = Call(kernel, tuple(map(numba.typeof, arguments)))
            if call not in calls:
                calls.append(call)
            inside = True
            try:
                return kernel.py_func(*arguments)
            finally:
                inside = False

        return run

    with ExitStack() as stack:
        for file in pkgutil.iter_modules(kernels.__path__):
            module = _module(file.name)
            for name, kernel in list(vars(module).items()):
                if hasattr(kernel, "py_func"):
                    setattr(module, name, plain(kernel))
                    stack.callback(setattr, module, name, kernel)
        yield calls


def sweep(folder: Path) -> None:
    """Remove the compiled code of other versions beside `folder` that nobody used for a month.

    By age and not by number: several versions may be in use side by side, each in its environment,
    and one folder takes about 10 MB. Called when there is something new, so that an ordinary start
    pays nothing.
    """
    for other in folder.parent.glob(kernels.CACHE_PREFIX + 12 * "[0-9a-f]"):
        with suppress(OSError):  # another process may be sweeping too
            if other != folder and time.time() - other.stat().st_mtime > _UNUSED:
                shutil.rmtree(other, ignore_errors=True)


def _module(file: str) -> ModuleType:
    return importlib.import_module(f"{kernels.__name__}.{file}")


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Let one process at a time go on; the lock ends with the process, however that ends.

    Where folders cannot be locked, as on Windows, all go on, and compile the same.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _tell(done: bool = False) -> None:
    """Tell listeners how many kernels of a stream have compiled code in the folder."""
    if not _listeners:
        return
    every = [kernel for file in STREAM_FILES for kernel in kernels_of(file)]
    total = sum(kernel.targetoptions.get("inline") != "always" for kernel in every)
    count = sum(1 for _ in kernels.CACHE_FOLDER.rglob("*.nbi"))  # an index for each
    for listener in _listeners:
        listener(total if done else min(count, total - 1), total)


def _warm_up(*words: str, aside: bool = False) -> None:
    """Run `aaams-stream warmup` with these words in a process that does not outlive this call.

    aside: whether it leaves the processors to others that want them.
    """
    environment = {
        **os.environ,
        _COMPILING: "1",
        "NUMBA_CACHE_DIR": str(kernels.CACHE_FOLDER.parent),  # they find the same folder there
        "PYTHONPATH": os.pathsep.join(folder or os.getcwd() for folder in sys.path),
    }
    nothing = subprocess.DEVNULL  # standard input may be the video
    command = [sys.executable, "-P", "-m", "aaams_stream", "warmup", *words]
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        start_new_session=True,  # so that it can be ended with those it forked
    )
    try:
        if aside and hasattr(os, "setpriority"):
            with suppress(OSError):  # it may be over
                os.setpriority(os.PRIO_PROCESS, process.pid, _ASIDE)
        while True:
            try:
                process.wait(_LOOK_SECONDS)
                return
            except subprocess.TimeoutExpired:
                if not aside:
                    _tell()
    finally:
        if process.poll() is None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those it forked."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()

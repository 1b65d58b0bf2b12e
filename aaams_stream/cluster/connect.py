"""From an address to workers that will do: all that can be known before a task is sent."""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaams_stream import __version__
from aaams_stream.cluster.plan import Request
from aaams_stream.core.threads import VARIABLE
from aaams_stream.errors import ConfigError, SinkError, SourceError

if TYPE_CHECKING:
    from distributed import Client

_log = logging.getLogger(__name__)
_ANSWER = 10.0  # seconds in which a scheduler must answer
_WORKERS = 10.0  # seconds in which a first worker must be there
_LOOK = 1.0  # seconds between looks whether a machine still has any
_KEEP = 3.0  # seconds between looks whether workers of this machine are missing
_LOCAL = "local:"
_PROBE = ".aaams-stream-probe"
# A terminal's Ctrl-C reaches its workers too: it is for the client, who lets them finish.
_PRELOAD = """
import signal

def dask_setup(worker):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
"""
_HAS_PACKAGE = "bool(__import__('aaams_stream').__version__)"
_PACKAGES = ("numpy", "numba", "llvmlite", "cv2", "av", "zarr")  # on which bytes depend


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Give a client of the cluster at an address, a scheduler's file, or `local:N`."""
    distributed = _distributed()
    if address.startswith(_LOCAL):
        with _local(address) as client:
            yield client
        return
    where = _scheduler_at(address)
    with _quietly():
        try:  # before there is a client: one that was never connected cannot be closed in silence
            asyncio.run(_require_answer(where))
            client = distributed.Client(where, timeout=_ANSWER, set_as_default=False)
        except Exception as error:  # whatever comes of what another server says
            raise ConfigError(
                f"--dask {address}: no scheduler answers ({_line(error) or 'no reply'}); start one "
                "with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1`"
            ) from error
    try:
        yield client
    finally:
        with _quietly(), suppress(Exception):
            client.close()


def _scheduler_at(given: str) -> str:
    """Return the address of a scheduler, which may be kept in a file."""
    if "://" in given or given.rpartition(":")[2].isdecimal():
        return given
    try:
        return str(json.loads(Path(given).read_bytes())["address"])
    except FileNotFoundError:
        raise ConfigError(
            f"--dask {given}: expected tcp://HOST:PORT, the file of a scheduler, or local:N"
        ) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"--dask {given}: is not the file of a scheduler ({_line(error)}); "
            "`dask scheduler --scheduler-file FILE` writes one"
        ) from error


async def _require_answer(address: str) -> None:
    """Ask whoever listens at an address who he is; raise what comes of it if no scheduler does."""
    distributed = _distributed()
    options = {"connection_args": distributed.Security().get_connection_args("client")}
    async with distributed.rpc(address, timeout=_ANSWER, **options) as scheduler:
        told = await asyncio.wait_for(scheduler.identity(), _ANSWER)
    if told.get("type") != "Scheduler":
        raise ValueError(f"a {told.get('type')} of Dask does")


@contextmanager
def _local(address: str) -> Iterator[Client]:
    """Give a client of so many workers on this machine, of one thread each."""
    count = address.removeprefix(_LOCAL)
    if not count.isdecimal() or not 1 <= int(count) <= 4096:
        raise ConfigError(f"--dask {address}: expected local:N with a number of workers from 1 on")
    distributed = _distributed()
    # the path of this process: a package that is not installed is found there
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    with (
        _quietly(),
        distributed.LocalCluster(
            n_workers=int(count),
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",  # None would take the usual port
            memory_limit=0,
            env={VARIABLE: "1", "PYTHONPATH": path},
            silence_logs=logging.CRITICAL,
            preload=_PRELOAD,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        _kept(cluster, int(count)),
    ):
        yield client


@contextmanager
def _kept(cluster: Any, count: int) -> Iterator[None]:
    """Have workers replaced that Dask gives up: those that die, or take long, as they begin anew.

    With none left, a film would wait for ever.
    """
    over = threading.Event()

    def keep() -> None:
        while not over.wait(_KEEP):
            cluster.scale(count)

    thread = threading.Thread(target=keep, name="aaams-workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ConfigError(
            "--dask needs Dask, which is not installed; pip install 'aaams-stream[dask]'"
        ) from error
    return distributed


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep Dask from telling on the terminal what is told in one line of ours."""
    loggers = [logging.getLogger(name) for name in ("distributed", "tornado", "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a process is like, as far as it matters for bytes."""

    version: str
    packages: Mapping[str, str]
    processor: str  # what code is compiled for


@functools.cache
def own_traits() -> Traits:
    """Return what this process is like."""
    from aaams_stream.jit import processor

    versions = {name: str(importlib.import_module(name).__version__) for name in _PACKAGES}
    return Traits(__version__, versions, processor())


@dataclass(frozen=True, slots=True)
class Sight:
    """What a worker sees."""

    traits: Traits
    host: str
    sources: tuple[str | None, ...]  # why each cannot be read; None: it is the same
    targets: tuple[str | None, ...]  # why each cannot be written to


def look_around(sources: Sequence[tuple[str, str]], targets: Sequence[tuple[str, str]]) -> Sight:
    """Return what this worker is like and sees.

    sources: name and fingerprint; targets: folder of parts, and what a file in it must say.
    """
    return Sight(
        own_traits(),
        socket.gethostname(),
        tuple(_source_trouble(name, known) for name, known in sources),
        tuple(_target_trouble(Path(folder), word) for folder, word in targets),
    )


def _source_trouble(name: str, known: str) -> str | None:
    from aaams_stream.model import same_source
    from aaams_stream.source import fingerprint, local_file

    path = local_file(name)
    if path is None:
        return None  # an address: whoever opens it will see
    try:
        if not path.exists() and not any(letter in name for letter in "*?["):
            return "there is no such file"
        if path.exists() and not same_source(known, fingerprint(path)):
            return "another file lies there"
    except OSError as error:
        return error.strerror or str(error)
    return None


def _target_trouble(folder: Path, word: str) -> str | None:
    try:
        if (folder / _PROBE).read_text(encoding="utf-8") != word:
            return "another folder lies there"
        own = folder / f"{_PROBE}-{socket.gethostname()}-{os.getpid()}"
        own.write_text(word, encoding="utf-8")
        own.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return None


def compile_here() -> None:
    """Have the kernels compiled on this worker's machine."""
    from aaams_stream.jit import compile_ahead

    compile_ahead()


def prepare_workers(client: Client, requests: Sequence[Request]) -> list[str]:
    """Make sure that every worker will do, and have each machine compile once; return warnings."""
    _wait_for_workers(client)
    warnings, hosts = require_workers(client, requests)
    tag = uuid.uuid4().hex
    # By machine: one worker by name would not be waited for where it begins anew under another, and
    # Dask's tasks that may go elsewhere are forgotten where there is nobody for a moment.
    places = {name: _place(worker) for name, worker in hosts.items()}
    compiling: dict[str, Any] = {
        name: client.submit(compile_here, workers=[place], key=f"compile-{tag}-{name}", pure=False)
        for name, place in places.items()
    }
    for name, future in compiling.items():
        try:
            if _await(client, future, places[name]):
                future.result()
        except Exception as error:  # of the compiler, or the workers died of it
            raise ConfigError(
                f"--dask: the kernels cannot be compiled on {name} ({_line(error)})"
            ) from error
        finally:
            future.release()
    return warnings


def _place(worker: str) -> str:
    """Return the machine in the address of a worker."""
    from distributed.comm.addressing import get_address_host

    return str(get_address_host(worker))


def _await(client: Client, future: Any, place: str) -> bool:
    """Wait until a task of one machine is done, or failed; False where that machine has gone.

    A TimeoutError where no other is left. Workers that die have some time to come back.
    """
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    since: float | None = None  # when that machine was found to have no worker
    while not done.wait(_LOOK):
        workers = client.scheduler_info(n_workers=-1)["workers"]
        if any(_place(worker) == place for worker in workers):
            since = None
        elif since is None:
            since = time.monotonic()
        elif time.monotonic() - since < _WORKERS:
            continue
        elif workers:
            return False
        else:
            raise TimeoutError("its workers died of it; their logs tell why")
    return True


def require_workers(
    client: Client, requests: Sequence[Request]
) -> tuple[list[str], dict[str, str]]:
    """Make sure that every worker will do; return warnings, and one worker of each machine.

    A ConfigError, SourceError or SinkError names the first worker that will not do, and why.
    """
    word = f"{socket.gethostname()} {os.getpid()}"
    targets = [(str(request.folder), word) for request in requests]
    sources = [(str(request.job.source), _fingerprint(request)) for request in requests]
    try:
        for folder, _ in targets:
            (Path(folder) / _PROBE).write_text(word, encoding="utf-8")
        sights = _sights(client, sources, targets)
    finally:
        for folder, _ in targets:
            (Path(folder) / _PROBE).unlink(missing_ok=True)
    mine, warnings = own_traits(), []
    for worker, sight in sights.items():
        require_same(worker, mine, sight.traits)
        for (name, _), trouble in zip(sources, sight.sources, strict=True):
            if trouble is not None:
                raise SourceError(
                    f"{name}: worker {worker} on {sight.host} cannot read it ({trouble}); put it "
                    "where all machines see it under the same name"
                )
        for (folder, _), trouble in zip(targets, sight.targets, strict=True):
            if trouble is not None:
                raise SinkError(
                    f"{folder}: worker {worker} on {sight.host} cannot write there ({trouble}); "
                    "choose a place that all machines see under the same name"
                )
        if sight.traits.processor != mine.processor:
            warnings.append(
                f"worker {worker} on {sight.host} has another processor "
                f"({sight.traits.processor}, here {mine.processor}): bytes may differ in the last "
                "digits from those of one machine"
            )
    return warnings, {sight.host: worker for worker, sight in sights.items()}


def _fingerprint(request: Request) -> str:
    return str(json.loads(request.header)["source"]["fingerprint"])


def _wait_for_workers(client: Client) -> None:
    try:
        client.wait_for_workers(1, timeout=_WORKERS)
    except TimeoutError as error:
        raise ConfigError(
            "--dask: the scheduler has no workers; start some with `dask worker ADDRESS "
            "--nthreads 1`"
        ) from error


def _sights(
    client: Client, sources: Sequence[tuple[str, str]], targets: Sequence[tuple[str, str]]
) -> dict[str, Sight]:
    """Ask every worker what it sees."""
    try:
        with _quietly():
            # first by nothing but what Python has: whoever lacks the package cannot read our names
            found = client.run(eval, _HAS_PACKAGE, on_error="return")
            for worker, there in found.items():
                if there is not True:
                    raise ConfigError(
                        f"--dask: worker {worker} has no package aaams_stream ({_line(there)}); "
                        f"install version {__version__} with the extra dask there"
                    )
            sights = client.run(look_around, sources, targets, on_error="return")
    except (OSError, TimeoutError) as error:
        raise ConfigError(
            f"--dask: the scheduler has gone ({_line(error) or 'no reply'})"
        ) from error
    for worker, sight in sights.items():
        if isinstance(sight, BaseException):
            raise ConfigError(f"--dask: worker {worker} does not work ({_line(sight)})")
    return dict(sights)


def require_same(worker: str, mine: Traits, other: Traits) -> None:
    """Raise a ConfigError if a worker has other versions than the client, who is `mine`."""
    wanted = {"aaams_stream": mine.version, **mine.packages}
    given = {"aaams_stream": other.version, **other.packages}
    for name, version in wanted.items():
        if given.get(name) != version:
            raise ConfigError(
                f"--dask: worker {worker} has {name} {given.get(name)} and here it is {version}; "
                "results differ between versions: install the same everywhere"
            )


def _line(error: object) -> str:
    return " ".join(str(error).split())[:200]

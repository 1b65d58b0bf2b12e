"""Who does the tasks of films: this process, one after the other, or the workers of a Dask cluster.

Workers get functions of this package with small arguments, and read and write files: results are
small, and nothing is lost with a worker but what it was at.
"""

from __future__ import annotations

import ctypes
import functools
import heapq
import itertools
import logging
import os
import queue
import socket
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from aaams_stream.cluster.connect import Traits, own_traits, require_same
from aaams_stream.cluster.film import PART, Task
from aaams_stream.core.threads import VARIABLE
from aaams_stream.errors import AaamsError, SinkError
from aaams_stream.run.progress import Progress

_log = logging.getLogger(__name__)
_MOST_TOLD = 300  # characters of an error
_TOLD_SECONDS = 1.0  # between two words of a worker on how far it is
_RETRIES = 2  # of a task that raises something which may pass
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_KEPT = 32 << 20  # bytes: the most that glibc comes to by itself
_DEATHS = 3  # times that a task is begun anew after workers died of it and it came no further


class Outcome(NamedTuple):
    """What came of a task."""

    film: int
    task: Task
    result: Any
    error: BaseException | None = None


class News(NamedTuple):
    """How far a part is."""

    film: int
    begin: int
    progress: Progress


class Engine(Protocol):
    """Whoever does tasks."""

    def submit(self, film: int, task: Task) -> None:
        """Have a task done."""

    def wait(self, seconds: float) -> tuple[list[Outcome], list[News]]:
        """Wait a while for something to be done; return all that was since."""

    def drop(self, film: int | None = None) -> None:
        """Leave what was not begun undone, of one film or of all."""

    def busy(self, film: int | None = None) -> bool:
        """Whether something is to be waited for."""

    @property
    def workers(self) -> int:
        """How many do tasks at a time."""


class SerialEngine:
    """Does tasks in this process, the most urgent first."""

    workers = 1

    def __init__(self, tell: Callable[[News], None] = lambda news: None) -> None:
        self._waiting: list[tuple[float, int, int, Task]] = []
        self._numbers = itertools.count()
        self._tell = tell

    def submit(self, film: int, task: Task) -> None:
        """Have a task done when it is its turn."""
        heapq.heappush(self._waiting, (-task.priority, next(self._numbers), film, task))

    def wait(self, seconds: float) -> tuple[list[Outcome], list[News]]:
        """Do the next task."""
        if not self._waiting:
            return [], []
        _, _, film, task = heapq.heappop(self._waiting)
        more: tuple[Any, ...] = ()
        if task.kind == PART:
            more = (lambda progress: self._tell(News(film, task.number, progress)),)
        try:
            return [Outcome(film, task, task.work(*task.arguments, *more))], []
        except AaamsError as error:
            return [Outcome(film, task, None, error)], []

    def drop(self, film: int | None = None) -> None:
        """Leave what was not begun undone."""
        self._waiting = [item for item in self._waiting if film not in (None, item[2])]
        heapq.heapify(self._waiting)

    def busy(self, film: int | None = None) -> bool:
        """Whether something is to be done."""
        return any(film in (None, item[2]) for item in self._waiting)


class TaskError(Exception):
    """What another error says of a task that failed; it can be sent, which not every error can."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """An error that a second try would not change, on its way back."""

    error: AaamsError


def run_task(topic: str, film: int, task: Task, client: Traits) -> Any:
    """Do a task on a worker; errors that a user can fix are returned, others raised as TaskErrors.

    A client would wait for ever for a task whose error could not be sent. client: what it is like.
    Workers that came after all were looked at may have other versions.
    """
    os.environ.setdefault(VARIABLE, "1")  # a worker has a thread for each task, and no more
    _keep_memory()
    more: tuple[Any, ...] = ()
    if task.kind == PART:
        more = (_Teller(topic, film, task.number),)
    try:
        require_same(f"on {socket.gethostname()}", client, own_traits())
        return task.work(*task.arguments, *more)
    except AaamsError as error:
        return _Failed(error)
    except Exception as error:
        _log.exception("%s %d failed", task.kind, task.number)
        told = " ".join(f"{type(error).__name__}: {error}".split())[:_MOST_TOLD]
    raise TaskError(told)  # out here: what is raised in there takes the other along


@functools.cache
def _keep_memory() -> None:
    """Have memory that is given back kept for the next frame, as in any other process.

    Dask's nannies set MALLOC_TRIM_THRESHOLD_, by which every picture is fetched from the system
    anew and given back: a third of all time.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_TRIM_THRESHOLD, 2 * _KEPT)
            mallopt(_M_MMAP_THRESHOLD, _KEPT)


class _Teller:
    """Tells the client how far a part is, now and then."""

    def __init__(self, topic: str, film: int, begin: int) -> None:
        self._words = topic, film, begin
        self._told = float("-inf")

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._told < _TOLD_SECONDS:
            return
        self._told = now
        from distributed import get_worker

        topic, film, begin = self._words
        facts = (progress.frames, progress.segments, progress.warm)
        get_worker().log_event(topic, {"film": film, "begin": begin, "facts": facts})


class DaskEngine:
    """Has tasks done by the workers of a cluster."""

    def __init__(self, client: Any) -> None:  # a `distributed.Client`; hardly any of it has types
        self._client = client
        self._topic = f"aaams-stream-{uuid.uuid4().hex[:12]}"
        self._futures: dict[str, tuple[int, Task, Any]] = {}
        self._ready: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._numbers = itertools.count()
        self._deaths: dict[tuple[int, str, int], tuple[int, int]] = {}
        self._frames: dict[tuple[int, int], int] = {}
        client.subscribe_topic(self._topic, self._hear)

    def close(self) -> None:
        """Hear no more, and leave everything undone."""
        self.drop()
        self._client.unsubscribe_topic(self._topic)

    @property
    def workers(self) -> int:
        """How many workers there are now."""
        return len(self._client.scheduler_info(n_workers=-1)["workers"])

    def submit(self, film: int, task: Task) -> None:
        """Have a task done by a worker."""
        key = f"{self._topic}-{film}-{task.kind}-{task.number}-{next(self._numbers)}"
        future = self._client.submit(
            *(run_task, self._topic, film, task, own_traits()),
            key=key,
            pure=False,
            retries=_RETRIES,
            priority=task.priority,
        )
        self._futures[key] = film, task, future
        future.add_done_callback(lambda done: self._ready.put(key))

    def wait(self, seconds: float) -> tuple[list[Outcome], list[News]]:
        """Wait a while for a task to be done; return what was done since, and what was told."""
        outcomes: list[Outcome] = []
        until = time.monotonic() + seconds
        while True:
            try:
                key = self._ready.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            outcome = self._outcome(key)
            if outcome is not None:
                outcomes.append(outcome)
                until = 0.0  # and what else there is
        if self._client.status not in ("running", "connecting"):
            raise SinkError(
                "the scheduler has gone; parts that are done are kept: run the same again to go on"
            )
        news = []
        while not self._news.empty():
            news.append(self._news.get())
        return outcomes, news

    def _outcome(self, key: str) -> Outcome | None:
        from distributed import KilledWorker

        if key not in self._futures:
            return None
        film, task, future = self._futures.pop(key)
        if future.cancelled():
            return None
        try:
            result = future.result()
        except KilledWorker as error:
            if self._goes_on_after_death(film, task):
                self.submit(film, task)
                return None
            return Outcome(film, task, None, _died(task, error))
        except Exception as error:
            return Outcome(film, task, None, error)
        finally:
            future.release()  # else it would be done again if the worker died that has its result
        if isinstance(result, _Failed):
            return Outcome(film, task, None, result.error)
        return Outcome(film, task, result)

    def _goes_on_after_death(self, film: int, task: Task) -> bool:
        """Whether a task is begun anew whose workers died: if it came further, or not too often."""
        name = film, task.kind, task.number
        deaths, frames = self._deaths.get(name, (0, 0))
        reached = self._frames.get((film, task.number), 0)
        deaths = 1 if reached > frames else deaths + 1
        self._deaths[name] = deaths, reached
        return deaths <= _DEATHS

    def drop(self, film: int | None = None) -> None:
        """Leave what was not begun undone; a part under way is stopped by its sign."""
        gone = [key for key, (other, _, _) in self._futures.items() if film in (None, other)]
        futures = [self._futures[key][2] for key in gone]
        for key in gone:
            del self._futures[key]
        if futures and self._client.status == "running":
            self._client.cancel(futures)

    def busy(self, film: int | None = None) -> bool:
        """Whether something is to be waited for."""
        return any(film in (None, other) for other, _, _ in self._futures.values())

    def _hear(self, event: tuple[float, Any]) -> None:
        _, said = event
        if not isinstance(said, dict):
            return
        frames, segments, warm = said["facts"]
        film, begin = said["film"], said["begin"]
        self._frames[film, begin] = frames
        self._news.put(News(film, begin, Progress(frames, None, None, segments, warm, None)))


def _died(task: Task, error: BaseException) -> SinkError:
    what = f"the part from frame {task.number} on" if task.kind == PART else f"the {task.kind}"
    return SinkError(
        f"workers died again and again of {what}, for want of memory or by a bug; their logs tell: "
        f"{' '.join(str(error).split())[:200]}"
    )

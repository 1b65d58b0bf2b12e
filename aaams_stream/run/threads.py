"""One stage per thread, with bounded queues between: `prefetch` before, `AsyncSink` after.

Both own one thread. An error on one side reaches the other; either side can stop both.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, Self, TypeVar

Item = TypeVar("Item")

AHEAD, BEHIND = 3, 4  # frames decoded in advance, frames waiting to be written
_POLL = 0.1  # seconds between looks at the stop sign
# seconds a stopped thread is waited for; one stuck in a read is left alone, soon if likely
_PATIENCE, _IF_DEAF = 1.0, 0.1
_ASIDE = 4  # steps of niceness: enough to go second among our own threads
_NICEST = 19
_END = object()


class _Failure:
    """An error on its way to the other thread."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def prefetch(
    items: Iterable[Item],
    depth: int,
    *,
    stop: Callable[[], None] = lambda: None,
    should_stop: Callable[[], bool] = lambda: False,
    first: bool = False,
    deaf: bool = False,
) -> Generator[Item]:
    """Yield `items`, taken by a thread of its own, up to `depth` ahead; 0: by the caller.

    The thread steps aside for others where cores are short, unless it is to come `first`.

    Wrap it in `contextlib.closing`: a consumer that stops then stops the thread. `stop` is called
    at that moment, to wake an iteration that waits; a `deaf` one may wait for input nevertheless,
    and its thread is hardly waited for. While no item is ready, `should_stop` is asked again and
    again. No item is begun before there is room for it, so that none grows old waiting.
    """
    if not depth:
        try:
            with _closed(items) as iterator:
                yield from iterator
        finally:
            stop()
        return
    ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
    room = threading.Semaphore(depth)
    halted = threading.Event()

    def work() -> None:
        try:
            with _closed(items) as iterator:  # in the thread that runs it
                aside = first
                while room.acquire() and not halted.is_set():
                    item = next(iterator, _END)
                    if not aside:  # only now: threads begun by the first item would inherit it
                        step_aside()
                        aside = True
                    ready.put(item)
                    if item is _END:
                        return
        except BaseException as error:
            ready.put(_Failure(error))

    thread = threading.Thread(target=work, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item = ready.get(timeout=_POLL)
            except queue.Empty:
                if should_stop():
                    return
                continue
            if item is _END:
                return
            if isinstance(item, _Failure):
                raise item.error
            room.release()
            yield item
    finally:
        halted.set()
        room.release()
        stop()
        thread.join(_IF_DEAF if deaf else _PATIENCE)


def step_aside() -> None:
    """Let other threads of this process go before this one where there are not cores for all.

    Labels follow one frame after the other, so the thread that decides them sets the pace; what
    runs ahead of it and behind has time. Three threads on two cores made 93 to 104 frames a second
    before, 101 to 114 with this. Only Linux gives threads a priority of their own.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            nice = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(nice + _ASIDE, _NICEST))


@contextmanager
def _closed(items: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """Iterate over `items`; whoever leaves closes the iteration, if it can be."""
    iterator = iter(items)
    try:
        yield iterator
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


class AsyncSink(Generic[Item]):
    """Hands items to `handle` on a thread of its own, in order, at most `depth` behind; 0: at once.

    A context manager: leaving it waits until everything is handled, unless an error is under way.
    """

    def __init__(self, handle: Callable[[Item], None], depth: int) -> None:
        self._handle = handle
        self._at_once = not depth
        self._waiting: queue.Queue[Any] = queue.Queue(depth)
        self._halted = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="async-sink", daemon=True)

    def __enter__(self) -> Self:
        if not self._at_once:
            self._thread.start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if self._at_once:
            return
        if error_type is None:
            try:
                self._put(_END)
                self._thread.join()
                self._raise_failure()
            finally:
                self._halted.set()
        else:
            self._halted.set()
            self._thread.join()  # the item at hand is finished: half a chunk helps nobody

    def put(self, item: Item) -> None:
        """Queue an item, waiting for room; raises what `handle` raised for an earlier one."""
        if self._at_once:
            self._handle(item)
        else:
            self._put(item)

    def _put(self, item: Any) -> None:
        while True:
            self._raise_failure()
            try:
                self._waiting.put(item, timeout=_POLL)
            except queue.Full:
                continue
            return

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        step_aside()
        while not self._halted.is_set():
            try:
                item = self._waiting.get(timeout=_POLL)
            except queue.Empty:
                continue
            if item is _END:
                return
            try:
                self._handle(item)
            except BaseException as error:
                self._failure = error
                return

"""Signals that ask a program to end: Ctrl-C, SIGTERM of a service, SIGHUP of a closed terminal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import TypeVar

Item = TypeVar("Item")
Handler = Callable[[int, FrameType | None], object]

_POLITE = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(KeyboardInterrupt):
    """A signal that asks the program to end, raised; `code` is what a shell expects of it."""

    def __init__(self, number: int = signal.SIGINT, message: str = "") -> None:
        super().__init__(message)
        self.number = number

    @property
    def code(self) -> int:
        """The exit code: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
        return 128 + self.number


class Stop:
    """Whether a signal has asked to end, and which one came first."""

    number = 0  # of the signal; 0: none so far
    waiting = False  # for what may never come, so that one is to be raised

    @property
    def asked(self) -> bool:
        """Whether one has."""
        return self.number != 0

    def ending(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yield `items` until one is asked for after a signal, or a signal comes while it is."""
        while not self.asked:
            self.waiting = True
            try:
                item = next(items)
            except (StopIteration, Stopped):
                return
            finally:
                self.waiting = False
            yield item


@contextmanager
def noting_stop() -> Iterator[Stop]:
    """Note signals that ask to end. A Ctrl-C that follows is let through, others change nothing.

    Others may come in any number: a terminal that closes sends SIGHUP twice, a service manager
    tells every process of a service, and who cannot wait has SIGKILL.
    """
    stop = Stop()

    def note(number: int, frame: FrameType | None) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.number = stop.number or number
        if stop.waiting:
            stop.waiting = False  # the next must not disturb the tidying up
            raise Stopped(number)

    with ExitStack() as stack:
        stack.enter_context(handling(signal.SIGINT, note))
        for number in _POLITE:
            stack.enter_context(_handling_politely(number, note))
        yield stop


@contextmanager
def raising_stop() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Stopped`, once, so that everything is left tidy behind."""
    raised = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        if not raised:  # a second one must not disturb the tidying up
            raised = True
            raise Stopped(number)

    with ExitStack() as stack:
        for number in _POLITE:
            stack.enter_context(_handling_politely(number, stop))
        yield


class _Polite:
    """A handler of ours, which another one of ours may take the place of."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGTERM:
            _leave_terminal()
        self._handler(number, frame)


@contextmanager
def _handling_politely(number: signal.Signals, handler: Handler) -> Iterator[None]:
    """Handle a signal unless somebody else does, or has it ignored, as `nohup` has SIGHUP."""
    current = signal.getsignal(number)
    if current is signal.SIG_DFL or isinstance(current, _Polite):
        with handling(number, _Polite(handler)):
            yield
    else:
        yield


@contextmanager
def handling(number: signal.Signals, handler: Handler) -> Iterator[None]:
    """Handle a signal for a while. Only the main thread gets any: elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        if before is not None:  # None: set by code that is not Python's, which cannot be put back
            signal.signal(number, before)


def _leave_terminal() -> None:
    """Print nowhere where a terminal has gone: each line would fail, and work with it."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            with suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream)
                os.close(nowhere)

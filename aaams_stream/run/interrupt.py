"""Ctrl-C, and other signals that ask a program to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


class CtrlC:
    """Whether Ctrl-C was pressed."""

    pressed = False


@contextmanager
def noting_ctrl_c() -> Iterator[CtrlC]:
    """Note the first Ctrl-C, and let the second one through."""
    ctrl_c = CtrlC()

    def note(number: int, frame: FrameType | None) -> None:
        if ctrl_c.pressed:
            raise KeyboardInterrupt
        ctrl_c.pressed = True

    with handling(signal.SIGINT, note):
        yield ctrl_c


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

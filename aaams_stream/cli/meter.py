"""Progress of a command, on stderr."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aaams_stream.run.progress import Progress

_LINE_SECONDS = 10.0  # between lines of progress where there is no terminal
_BAR_SECONDS = 0.1  # between redraws of the bar
_BAR_WIDTH = 24


class Meter:
    """Shows progress on stderr: a bar on a terminal, a line every ten seconds elsewhere."""

    def __init__(self, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet = quiet
        self._clock = clock
        self._bar = sys.stderr.isatty()
        self._shown = -math.inf if self._bar else clock()
        self._open = False

    def frame(self, progress: Progress) -> None:
        """Show a segmenter's progress."""
        pace = "getting ready" if progress.fps is None else f"{progress.fps:.1f} fps"
        rest = f"{pace}, {progress.segments} segments, {progress.warm:.0%} warm"
        if progress.stopping:
            rest += ", finishing the chunk at hand (Ctrl-C again stops at once)"
        elif progress.seconds_left is not None:
            rest += f", {clock_time(progress.seconds_left)} left"
        self._show(progress.frames, progress.total, rest)

    def count(self, done: int, total: int) -> None:
        """Show plain progress."""
        self._show(done, total, "")

    def close(self) -> None:
        """Leave the line of the bar."""
        if self._open:
            print(file=sys.stderr)
            self._open = False

    def _show(self, done: int, total: int | None, rest: str) -> None:
        now = self._clock()
        soon = now - self._shown < (_BAR_SECONDS if self._bar else _LINE_SECONDS)
        # a bar is drawn to its end; the last line of a short run says nothing the summary does not
        if self._quiet or (soon and not (self._bar and done == total)):
            return
        self._shown = now
        count = f"{done}/{total}" if total is not None else f"{done}"
        if not self._bar:
            print(f"frame {count}, {rest}".rstrip(", "), file=sys.stderr, flush=True)
            return
        filled = round(_BAR_WIDTH * min(1.0, done / total)) if total else 0
        drawn = f"{'█' * filled}{'·' * (_BAR_WIDTH - filled)} " if total else ""
        print(f"\r{drawn}{count} {rest}\x1b[K", end="", file=sys.stderr, flush=True)
        self._open = True


def clock_time(seconds: float) -> str:
    """Return a time as [hours:]minutes:seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

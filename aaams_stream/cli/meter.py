"""Progress of a command, on stderr."""

from __future__ import annotations

import errno
import math
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aaams_stream.run.batch import Outcome, Standing
    from aaams_stream.run.progress import Progress

_LINE_SECONDS = 10.0  # between lines of progress where there is no terminal
_BAR_SECONDS = 0.1  # between redraws of the bar
_BAR_WIDTH = 24


class Meter:
    """Shows progress on stderr: a bar on a terminal, a line every ten seconds elsewhere."""

    def __init__(
        self, quiet: bool, clock: Callable[[], float] = time.monotonic, unit: str = "frame"
    ) -> None:
        self._quiet = quiet
        self._clock = clock
        self._unit = unit
        self._bar = sys.stderr.isatty()
        self._shown = -math.inf if self._bar else clock()
        self._open = False

    def frame(self, progress: Progress) -> None:
        """Show a segmenter's progress."""
        self._show(progress.frames, progress.total, _pace(progress))

    def count(self, done: int, total: int) -> None:
        """Show plain progress."""
        self._show(done, total, "")

    def tick(self, done: int) -> None:
        """Show progress towards an end that is not known."""
        self._show(done, None, "")

    def close(self) -> None:
        """Leave the line of the bar."""
        if self._open:
            _tell("\n")
            self._open = False

    def _show(self, done: int, total: int | None, rest: str) -> None:
        now = self._clock()
        soon = now - self._shown < (_BAR_SECONDS if self._bar else _LINE_SECONDS)
        # a bar is drawn to its end; the last line of a short run says nothing the summary does not
        if self._quiet or (soon and not (self._bar and done == total)):
            return
        self._shown = now
        if not self._bar:
            line = f"{self._unit} {_count(done, total)}, {rest}".rstrip(", ")
            _tell(f"{line}\n")
            return
        _tell(f"\r{_bar(done, total)}{_count(done, total)} {rest}\x1b[K")
        self._open = True


class BatchMeter:
    """Shows many videos on stderr: a line for each at work and one for all.

    On a terminal they stay at the bottom and are drawn again and again; elsewhere they are printed
    every ten seconds. What became of a video is a line of its own as soon as it is known; errors
    are told even if `quiet`.
    """

    def __init__(self, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet = quiet
        self._clock = clock
        self._table = sys.stderr.isatty() and not quiet
        self._shown = -math.inf if self._table else clock()
        self._told = 0  # outcomes
        self._stopping = 0
        self._drawn = 0  # lines of the table on the screen

    def show(self, standing: Standing) -> None:
        """Show how a batch stands."""
        news = [_line_of(outcome) for outcome in standing.outcomes[self._told :]]
        news = [line for line in news if not self._quiet or line.startswith("error: ")]
        self._told = len(standing.outcomes)
        if standing.stopping and not self._stopping and not self._quiet:
            news.append("finishing the chunks at hand (Ctrl-C again stops at once)")
        self._stopping = standing.stopping
        now = self._clock()
        soon = now - self._shown < (_BAR_SECONDS if self._table else _LINE_SECONDS)
        if soon and not news:
            return
        if self._table:
            self._shown = now
            self._draw(news, _lines_of(standing, _bar))
            return
        if not soon and not self._quiet:
            self._shown = now
            news += _lines_of(standing)
        for line in news:
            _tell(f"{line}\n")

    def close(self) -> None:
        """Take the table away."""
        if self._drawn:
            self._draw([], [])

    def _draw(self, news: list[str], table: list[str]) -> None:
        """Print lines that stay, and the table anew below them."""
        most = max(3, shutil.get_terminal_size().lines - 2)
        if len(table) > most:
            shown = most - 2  # beside the line that says so, and the one for all
            table = [*table[:shown], f"… {len(table) - 1 - shown} more at work", table[-1]]
        back = f"\x1b[{self._drawn}A" if self._drawn else ""
        # long lines must not wrap, or the way back up would be wrong
        lines = "".join(f"\x1b[?7l{line}\x1b[?7h\n" for line in table)
        stay = "".join(f"{line}\n" for line in news)
        _tell(f"\r{back}\x1b[J{stay}{lines}")
        self._drawn = len(table)


def _tell(text: str) -> None:
    """Print on stderr at once; a terminal that has gone must not cost the work that is told of."""
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except OSError as error:
        if error.errno != errno.EIO:
            raise


def _lines_of(
    standing: Standing, bar: Callable[[int, int | None], str] = lambda done, total: ""
) -> list[str]:
    """Return a line for each video at work, and one for all."""
    lines = []
    for name, progress in standing.running.items():
        if progress is None:
            lines.append(f"{bar(0, 1)}{printable(name)}: getting ready")
        else:
            done, total = progress.frames, progress.total
            count = _count(done, total)
            lines.append(f"{bar(done, total)}{printable(name)}: frame {count}, {_pace(progress)}")
    paces = [progress.fps for progress in standing.running.values() if progress and progress.fps]
    failed = sum(outcome.status == "failed" for outcome in standing.outcomes)
    told = [
        f"{len(standing.outcomes)} of {standing.videos} videos",
        f"{failed} failed" if failed else "",
        f"{sum(paces):.1f} fps" if paces else "",
        clock_time(standing.seconds),
    ]
    if standing.seconds_left is not None:
        told.append(f"about {clock_time(standing.seconds_left)} left")
    lines.append(bar(len(standing.outcomes), standing.videos) + ", ".join(filter(None, told)))
    return lines


def _line_of(outcome: Outcome) -> str:
    if outcome.status == "failed":
        return f"error: {printable(outcome.note)}"
    note = f" ({printable(outcome.note)})" if outcome.note else ""
    pace = f", {outcome.fps:.1f} fps" if outcome.fps else ""
    return f"{printable(outcome.name)}: {outcome.status}{note}, {outcome.frames} frames{pace}"


def _pace(progress: Progress) -> str:
    pace = "getting ready" if progress.fps is None else f"{progress.fps:.1f} fps"
    rest = f"{pace}, {progress.segments} segments, {progress.warm:.0%} warm"
    if progress.note:
        rest += f", {progress.note}"
    if progress.stopping:
        rest += ", finishing the chunk at hand (Ctrl-C again stops at once)"
    elif progress.seconds_left is not None:
        rest += f", {clock_time(progress.seconds_left)} left"
    return rest


def _count(done: int, total: int | None) -> str:
    return f"{done}/{total}" if total is not None else f"{done}"


def _bar(done: int, total: int | None) -> str:
    if not total:
        return ""
    filled = round(_BAR_WIDTH * min(1.0, done / total))
    return f"{'█' * filled}{'·' * (_BAR_WIDTH - filled)} "


def printable(text: str) -> str:
    """Return a text as it can be printed on a line: names of files may hold anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def clock_time(seconds: float) -> str:
    """Return a time as [hours:]minutes:seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

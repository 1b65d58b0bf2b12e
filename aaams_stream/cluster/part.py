"""One part of a film, segmented into a volume of its own."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

from aaams_stream import store as stores
from aaams_stream.cluster.plan import Request, Start, Survey
from aaams_stream.errors import SinkError
from aaams_stream.run.progress import Progress
from aaams_stream.run.segment_video import Interrupted, Span, run_job
from aaams_stream.store.join import PartTables, read_part

_LOOK_SECONDS = 0.5  # between looks for news on disk
_PATIENCE = 60.0  # seconds for which a part may be held by a process that is thought to be dead


def segment_part(
    request: Request,
    start: Start,
    stop: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> PartTables | None:
    """Segment a film from a frame on; return what is small of the part, None if it was stopped.

    stop: the frame before which it ends; None: it ends before a frame that the survey proposes, if
    the scene does change there, or else goes on. What is there of it is gone on with.
    """
    path = request.part(start.frame)
    job = dataclasses.replace(
        request.job, store=path, resume=True, overwrite=False, overlay=None, at=None
    )
    ends = _EndsAtCut(request, start.frame) if stop is None else _ends_at(stop)
    signs = _Signs(request, start.frame)
    span = Span(start.frame, start.marks, ends, signs)
    if not _is_complete(path):
        try:
            _patiently(lambda: run_job(job, progress, span=span))
        except Interrupted:
            if not signs.seen:  # Ctrl-C
                raise
            return None
    return read_part(path)


def _is_complete(path: Path) -> bool:
    return stores.is_volume(path) and stores.open_volume(path).complete


def _patiently(run: Callable[[], object]) -> None:
    """Run, and again as long as somebody else writes there: he may have been given up for dead."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            run()
            return
        except stores.BeingWrittenError:
            if time.monotonic() > until:
                raise
            time.sleep(_LOOK_SECONDS)


def _ends_at(stop: int) -> Callable[[int, Callable[[], bool]], bool]:
    return lambda index, changes: index >= stop


class _EndsAtCut:
    """Whether a part ends before a frame: one that is proposed, and with which the scene changes.

    While the survey is under way, more are proposed; one that comes too late is passed by.
    """

    def __init__(self, request: Request, begin: int) -> None:
        self._request = request
        self._begin = begin
        self._survey: Survey | None = None
        self._proposed: frozenset[int] = frozenset()
        self._looked = float("-inf")

    def __call__(self, index: int, changes: Callable[[], bool]) -> bool:
        if self._survey is None or not self._survey.complete:
            now = time.monotonic()
            if now - self._looked >= _LOOK_SECONDS:
                self._looked = now
                self._survey = Survey.load(self._request.folder) or self._survey
                starts = () if self._survey is None else self._survey.starts
                self._proposed = frozenset(start.frame for start in starts)
        return index > self._begin and index in self._proposed and changes()


class _Signs:
    """Whether somebody put up a sign that stops a part."""

    def __init__(self, request: Request, begin: int) -> None:
        self._signs = (request.stop_sign(), request.stop_sign(begin))
        self._looked = float("-inf")
        self.seen = False

    def __call__(self) -> bool:
        now = time.monotonic()
        if not self.seen and now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self.seen = any(sign.exists() for sign in self._signs)
        return self.seen


def require_folder(request: Request) -> None:
    """Make the folder of parts; a SinkError where that cannot be."""
    try:
        request.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SinkError(f"{request.folder}: cannot be made ({error.strerror})") from error

"""Cameras that are not there, and a gate by which a test holds back any source's frames."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from fractions import Fraction
from itertools import count

from aaams_stream.model import Clip, Frame
from aaams_stream.source import Source
from aaams_stream.source.reader import VideoReader
from support.clocks import PATIENCE


def fake_camera(width: int = 160, height: int = 120, rate: int = 30) -> Source:
    """Return a live source that never ends: a moving test picture in real time."""
    graph = f"testsrc2=size={width}x{height}:rate={rate},realtime"
    return Source(VideoReader(graph, "fake camera", container_format="lavfi"), Clip(), live=True)


class Slides:
    """A live source of given pictures, over and over; with a failure, that follows the last."""

    description = spec = "slides"
    live, remote, ended = True, False, "complete"
    rate, time_base = Fraction(16), Fraction(1, 16)  # exact as floats, too

    def __init__(self, pictures, failure=None):
        self.height, self.width = pictures[0].shape[:2]
        self._pictures, self._failure = pictures, failure

    def __iter__(self) -> Iterator[Frame]:
        for index in count():
            if self._failure is not None and index == len(self._pictures):
                raise self._failure
            rgb = self._pictures[index % len(self._pictures)]
            yield Frame(index, index / self.rate, rgb)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


class GatedSource:
    """A source whose frames pass when the test says so: those it sends, or all once released."""

    def __init__(self, source, *, released: bool = False) -> None:
        self.description, self.spec = source.description, source.spec
        self.width, self.height = source.width, source.height
        self.rate, self.time_base, self.live = source.rate, source.time_base, source.live
        self.remote = source.remote
        self.last: Frame | None = None  # that has passed
        self._source = source
        self._changed = threading.Condition()
        self._allowed: float = math.inf if released else 0
        self._passed = 0
        self._asked = 0  # as many frames had passed when the reader came back for more
        self._over = False

    @property
    def ended(self) -> str:
        return self._source.ended

    def __iter__(self) -> Iterator[Frame]:
        frames = iter(self._source)
        try:
            while True:
                with self._changed:
                    self._asked = self._passed
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._over or self._passed < self._allowed)
                    if self._over:
                        return
                    self._passed += 1
                frame = next(frames, None)
                if frame is None:
                    return
                self.last = frame
                yield frame
        finally:
            self.stop()

    def send(self, frames: int = 1) -> None:
        """Let so many frames pass; return when the reader has handed them on."""
        with self._changed:
            self._allowed = self._passed + frames
        self._settle()

    def hold(self) -> None:
        """Let no frame pass; return when the reader has handed on the last one."""
        with self._changed:
            self._allowed = self._passed
        self._settle()

    def release(self) -> None:
        """Let all frames pass."""
        with self._changed:
            self._allowed = math.inf
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._source.stop()

    def close(self) -> None:
        self._source.close()

    def _settle(self) -> None:
        with self._changed:
            self._changed.notify_all()
            handed_on = self._changed.wait_for(
                lambda: self._over or self._asked >= self._allowed, PATIENCE
            )
        assert handed_on, "the reader has not come back"

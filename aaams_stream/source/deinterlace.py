"""Whole frames out of interlaced ones."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator

import av
from av.filter import Graph

from aaams_stream.source.pixels import Picture


class Deinterlacer:
    """Passes pictures on; those flagged as interlaced become whole frames, one for one.

    at_work: begin as if one so flagged had passed before.
    """

    def __init__(self, at_work: bool = False) -> None:
        self._at_work = at_work
        self._surplus = 0  # frames in the graph that nobody gave
        self._graph: Graph | None = None
        self._shape: tuple[int, int, str] | None = None
        self._inside: deque[Picture] = deque()

    def push(self, picture: Picture) -> Iterator[Picture]:
        """Take one picture; yield those that are ready, in order."""
        frame = picture.frame
        assert isinstance(frame, av.VideoFrame)
        shape = (frame.width, frame.height, frame.format.name)
        if self._graph is not None and shape != self._shape:
            yield from self.flush()
        if self._graph is None:
            if not (frame.interlaced_frame or self._at_work) or min(shape[:2]) < 4:
                yield picture
                return
            self._graph, self._shape = _bwdif(frame), shape
            if self._at_work:  # bwdif takes the first interlaced frame it sees for the very first
                self._graph.vpush(_flagged(frame))
                self._at_work, self._surplus = False, 1
        self._inside.append(picture)
        self._graph.vpush(frame)
        yield from self._ready()

    def flush(self) -> Iterator[Picture]:
        """Yield what is still inside."""
        if self._graph is not None:
            self._graph.vpush(None)
            yield from self._ready()
            self._graph = None
        while self._inside:
            yield self._inside.popleft()

    def _ready(self) -> Iterator[Picture]:
        assert self._graph is not None
        while self._inside:
            try:
                frame = self._graph.vpull()
            except (av.error.BlockingIOError, av.error.EOFError):
                return
            if self._surplus:
                self._surplus -= 1
                continue
            taken = self._inside.popleft()
            entry = taken.entry and taken.entry._replace(filtered=True)
            yield dataclasses.replace(taken, frame=frame, entry=entry)


def _bwdif(frame: av.VideoFrame) -> Graph:
    return _graph(frame, "bwdif", "mode=send_frame:parity=auto:deint=interlaced")


def _flagged(frame: av.VideoFrame) -> av.VideoFrame:
    """Return a frame as an interlaced one."""
    graph = _graph(frame, "setfield", "mode=tff")
    graph.vpush(frame)
    return graph.vpull()


def _graph(frame: av.VideoFrame, name: str, options: str) -> Graph:
    """Return one filter for frames like the given one."""
    graph = Graph()
    entry = graph.add_buffer(
        width=frame.width,
        height=frame.height,
        format=frame.format,
        time_base=frame.time_base,
    )
    graph.link_nodes(
        entry,
        graph.add(name, options),
        graph.add("buffersink"),
    ).configure()
    return graph

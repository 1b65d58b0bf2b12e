"""The last few seconds of every segment, to answer questions about one of them."""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import EventKind, FrameSegmentation

_FRAMES = 300
_MOST_POINTS = 60  # of the course of a segment that is handed out
_TOLD = {
    EventKind.BIRTH: "born",
    EventKind.DEATH: "gone",
    EventKind.SPLIT: "split from {other}",
    EventKind.MERGE: "merged into {other}",
    EventKind.RETURN: "came back",
}


class _Tables(NamedTuple):
    """What is kept of a frame: no picture, which would fill the memory."""

    time: float
    pixels: int
    segments: NDArray[Any]
    events: NDArray[Any]


class History:
    """Keeps the tables of the last frames; asked by one thread while another one adds."""

    def __init__(self, frames: int = _FRAMES) -> None:
        self._frames: deque[_Tables] = deque(maxlen=frames)
        self._lock = threading.Lock()

    def add(self, result: FrameSegmentation) -> None:
        """Remember the tables of one more frame."""
        tables = _Tables(result.time or 0.0, result.ids.size, result.segments, result.events)
        with self._lock:
            self._frames.append(tables)

    def trails(self, seconds: float = 1.0, least: float = 3.0) -> dict[int, list[tuple[int, int]]]:
        """Return the way of each identity over the last seconds that has moved so many pixels."""
        with self._lock:
            frames = list(self._frames)
        if not frames:
            return {}
        ways: dict[int, list[tuple[float, float]]] = {
            int(row["id"]): [] for row in frames[-1].segments
        }
        for frame in frames:
            if frame.time >= frames[-1].time - seconds:
                for track, (x, y) in zip(
                    frame.segments["id"].tolist(), frame.segments["centroid"].tolist(), strict=True
                ):
                    if track in ways:
                        ways[track].append((x, y))
        return {
            track: [(round(x), round(y)) for x, y in way]
            for track, way in ways.items()
            if math.dist(way[0], way[-1]) >= least
        }

    def about(self, track: int) -> dict[str, Any] | None:
        """Return what is known of an id, ready for JSON; None if it was not seen of late.

        Age is in frames since the birth. The history holds [time, x, y, area], oldest first; of
        a long one only every n-th point.
        """
        with self._lock:
            frames = list(self._frames)
        seen = [
            (frame, row) for frame in frames if (row := _row_of(frame.segments, track)) is not None
        ]
        if not seen:
            return None
        last, row = seen[-1]
        step = -(-len(seen) // _MOST_POINTS)
        history = [
            [frame.time, *map(float, at["centroid"]), int(at["area"])]
            for frame, at in reversed(seen[::-1][::step])
        ]
        return {
            "id": track,
            "alive": last is frames[-1],
            "age": int(row["age"]),
            "area": int(row["area"]),
            "share": float(row["area"]) / last.pixels,
            "parent": int(row["parent"]),
            "lab": [round(float(value), 1) for value in row["colour"]],
            "place": [round(float(value), 1) for value in row["centroid"]],
            "motion": [round(float(value), 2) for value in row["motion"]],
            "bbox": row["bbox"].tolist(),
            "history": history,
            "events": [
                {"time": frame.time, "what": told.format(other=int(event["other"]))}
                for frame in frames
                for event in frame.events[frame.events["id"] == track]
                if (told := _TOLD.get(EventKind(event["kind"])))
            ],
        }


def _row_of(segments: NDArray[Any], track: int) -> Any:
    at = int(np.searchsorted(segments["id"], track))
    if at < len(segments) and segments["id"][at] == track:
        return segments[at]
    return None

"""Messages of the stream as bytes, encoded once for everyone who looks on.

A message begins with the length of its head (uint32) and the head, a JSON object padded to whole
words: the status and, with a frame, its number and sizes. The frame follows. All numbers are
little-endian; k segments, n merges, m runs:

    ids        uint32 (k,)
    colours    uint8 (k, 4)     mean colour as RGBA
    centroids  float32 (k, 2)   x, y
    merges     uint32 (n, 2)    segments that become one, in order: the first stands for both
    rows       uint32 (m,)      the segment of each run of pixels, in raster order
    lengths    uint16 (m,)      of the runs, none beyond the end of a line; an even number of them
    jpeg       the rest         the frame

The page paints from these whatever its viewer wants to see.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from typing import TYPE_CHECKING, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import measure

if TYPE_CHECKING:
    from aaams_stream.live import LiveFrame, LiveLoop

_JPEG_QUALITY = 85
_BAND = 1 << 16  # pixels that OpenCV converts on one thread


class Message(NamedTuple):
    """A message before its head is framed: a JSON object, and a frame or nothing."""

    head: bytes
    picture: bytes


class Messages:
    """The messages about a loop; `title` is what viewers may know of its source."""

    def __init__(self, loop: LiveLoop, title: str) -> None:
        self._loop, self._title = loop, title
        self._encoder = Encoder()
        self._lock = threading.Lock()
        self._made_for: tuple[int, int | None] | None = None
        self._message = Message(b"{}", b"")

    def frame_message(self, version: int, shown: LiveFrame | None, viewers: int) -> Message:
        """Return the state of things, and a frame if there is a new one.

        The bytes are made once for each version of the loop, by the first viewer who asks.
        """
        asked = (version, shown.number if shown is not None else None)
        with self._lock:
            if self._made_for != asked:
                head: dict[str, object] = dataclasses.asdict(self._loop.status)
                head |= {"source": self._title, "viewers": viewers}
                picture = b""
                if shown is not None:
                    sizes, picture = self._encoder.encode(shown)
                    head |= {"number": shown.number, "time": shown.segmentation.time, **sizes}
                self._made_for = asked
                self._message = Message(json.dumps(head).encode(), picture)
            return self._message


def with_latency(head: bytes, seconds: float) -> bytes:
    """Return the head for one viewer, framed: with the time its last frame took to its screen."""
    text = b'%s, "glass": %.4f}' % (head[:-1], seconds)
    text += b" " * (-len(text) % 4)
    return len(text).to_bytes(4, "little") + text


class Encoder:
    """Encodes each frame once, on the thread that asks first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._encoded: tuple[dict[str, int], bytes] = ({}, b"")

    def encode(self, shown: LiveFrame) -> tuple[dict[str, int], bytes]:
        """Return the numbers a reader needs to take the bytes apart, and the bytes."""
        with self._lock:
            if shown.number > self._number:
                self._encoded = encode_frame(shown)
                self._number = shown.number
            return self._encoded


def encode_frame(shown: LiveFrame) -> tuple[dict[str, int], bytes]:
    """Return the sizes of a frame's parts, and the parts one after the other."""
    ids, segments = shown.segmentation.ids, shown.segmentation.segments
    h, w = ids.shape
    names = np.ascontiguousarray(segments["id"])
    rows, lengths = np.empty(h * w + 1, np.uint32), np.empty(h * w + 1, np.uint16)
    runs = measure.find_runs(ids, names, rows, lengths)
    if runs % 2:  # a run of no pixels keeps what follows aligned
        rows[runs] = lengths[runs] = 0
        runs += 1
    quality = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    parts = [
        names.astype("<u4").tobytes(),
        _rgba(segments["colour"]).tobytes(),
        segments["centroid"].astype("<f4").tobytes(),
        shown.merges.astype("<u4").tobytes(),
        rows[:runs].astype("<u4").tobytes(),
        lengths[:runs].astype("<u2").tobytes(),
        cv2.imencode(".jpg", _bgr(shown.frame.rgb), quality)[1].tobytes(),
    ]
    sizes = {"width": w, "height": h, "segments": len(segments), "runs": runs}
    sizes["merges"] = len(shown.merges)
    return sizes, b"".join(parts)


def _bgr(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the picture in OpenCV's order."""
    bgr = np.empty_like(rgb)
    # in bands, for the whole of which OpenCV would wake a pool of threads
    lines = max(_BAND // rgb.shape[1], 1)
    for y in range(0, len(rgb), lines):
        cv2.cvtColor(rgb[y : y + lines], cv2.COLOR_RGB2BGR, dst=bgr[y : y + lines])
    return bgr


def _rgba(lab: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return colours (k, 4) of L*a*b* (k, 3)."""
    colours = np.full((len(lab), 4), 255, np.uint8)
    if len(lab):
        rgb = cv2.cvtColor(np.ascontiguousarray(lab[None], np.float32), cv2.COLOR_LAB2RGB)
        colours[:, :3] = np.rint(255 * np.clip(rgb[0], 0, 1))
    return colours

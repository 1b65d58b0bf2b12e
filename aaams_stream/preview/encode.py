"""One frame and its segments as bytes, encoded once for everyone who looks on.

All numbers are little-endian; k segments, m runs:

    ids        uint32 (k,)
    colours    uint8 (k, 4)     mean colour as RGBA
    centroids  float32 (k, 2)   x, y
    rows       uint32 (m,)      the segment of each run of pixels, in raster order
    lengths    uint16 (m,)      of the runs, none beyond the end of a line; an even number of them
    jpeg       the rest         the frame

The page paints from these whatever its viewer wants to see.
"""

from __future__ import annotations

import threading

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream.live import LiveFrame

_JPEG_QUALITY = 85


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
    begins = np.ones((h, w), np.bool_)
    np.not_equal(ids[:, 1:], ids[:, :-1], out=begins[:, 1:])
    starts = np.flatnonzero(begins)
    if len(starts) % 2:  # a run of no pixels keeps what follows aligned
        starts = np.append(starts, h * w)
    lengths = np.diff(starts, append=h * w).astype("<u2")
    rows = np.searchsorted(segments["id"], ids.reshape(-1)[np.minimum(starts, h * w - 1)])
    quality = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    bgr = np.empty_like(shown.frame.rgb)
    # as cvtColor, which would wake a pool of threads for so little
    cv2.mixChannels([shown.frame.rgb], [bgr], [0, 2, 1, 1, 2, 0])
    parts = [
        segments["id"].astype("<u4").tobytes(),
        _rgba(segments["colour"]).tobytes(),
        segments["centroid"].astype("<f4").tobytes(),
        rows.astype("<u4").tobytes(),
        lengths.tobytes(),
        cv2.imencode(".jpg", bgr, quality)[1].tobytes(),
    ]
    sizes = {"width": w, "height": h, "segments": len(segments), "runs": len(starts)}
    return sizes, b"".join(parts)


def _rgba(lab: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return colours (k, 4) of L*a*b* (k, 3)."""
    colours = np.full((len(lab), 4), 255, np.uint8)
    if len(lab):
        rgb = cv2.cvtColor(np.ascontiguousarray(lab[None], np.float32), cv2.COLOR_LAB2RGB)
        colours[:, :3] = np.rint(255 * np.clip(rgb[0], 0, 1))
    return colours

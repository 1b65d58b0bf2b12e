"""Optical flow since the frame before. It needs no labels: it can be sought ahead of them."""

from __future__ import annotations

import threading

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.tuning import DEFAULT, Tuning

# How often the resolution of the luma is halved before flow is sought: at a quarter of that of the
# frame thin things are lost.
_FINEST_SCALES = {"fine": 0, "fast": 1}
_LEAST_SIDE = 16  # pixels: a smaller side has no room for the search pyramid


class _OneThread:
    """Keeps OpenCV to one thread while anybody is inside; the number is the whole process's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._usual = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._usual = cv2.getNumThreads()
                cv2.setNumThreads(1)
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                cv2.setNumThreads(self._usual)


one_thread = _OneThread()


def backward_flow(
    now: NDArray[np.uint8],
    before: NDArray[np.uint8],
    shape: tuple[int, int],
    quality: str = "fine",
    tuning: Tuning = DEFAULT,
) -> NDArray[np.float32]:
    """Return (h, w, 2) float32: how far to go from each pixel to where it was before.

    now, before: as `features.half_luma` gives them; shape (h, w): that of the picture whose pixels
    are meant. Dense inverse search, at the resolution of `now` or, with the quality "fast", at half
    of it. It runs on one thread, because its result depends on how many there are. Pictures too
    small for its patches do not move.
    """
    if min(now.shape) < _LEAST_SIDE:
        return np.zeros((*shape, 2), np.float32)
    with one_thread:
        search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
        search.setFinestScale(_FINEST_SCALES[quality])
        search.setPatchStride(tuning.flow_stride)
        search.setGradientDescentIterations(tuning.flow_steps)
        search.setVariationalRefinementIterations(tuning.flow_refinements)
        flow = np.zeros((*now.shape, 2), np.float32)
        flow = np.asarray(search.calc(now, features.resized(before, now.shape), flow), np.float32)
        flow *= np.array([shape[1] / now.shape[1], shape[0] / now.shape[0]], np.float32)
        return features.resized(flow, shape)

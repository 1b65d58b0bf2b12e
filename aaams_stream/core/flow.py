"""Optical flow since the frame before. It needs no labels: it can be sought ahead of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.tuning import DEFAULT, Tuning
from aaams_stream.kernels import flow as kernels
from aaams_stream.kernels.records import Motion

# How often the resolution of the luma is halved before flow is sought: at a quarter of that of the
# frame thin things are lost.
_FINEST_SCALES = {"fine": 0, "fast": 1}
_LEAST_SIDE = 2 * kernels.SIDE  # pixels: on less, a patch sees little else than the rim


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
    of it. OpenCV's own takes three times as long to find as much (benchmarks/flow.py). Pictures too
    small for its patches do not move.
    """
    if min(now.shape) < _LEAST_SIDE:
        return np.zeros((*shape, 2), np.float32)
    pairs = [(now, features.resized(before, now.shape[:2]))]
    while min(pairs[-1][0].shape) >= 2 * _LEAST_SIDE:
        here, there = pairs[-1]
        pairs.append((features.halved(here), features.halved(there)))
    finest = min(_FINEST_SCALES[quality], len(pairs) - 1)
    flow = np.empty((0, 0, 2), np.float32)
    for here, there in reversed(pairs[finest:]):
        coarse, flow = flow, np.empty((*here.shape, 2), np.float32)
        kernels.search_level(here, there, coarse, tuning.flow_stride, tuning.flow_steps, flow)
    h, w = flow.shape[:2]
    # x and y in turn, a row at a time: pair by pair it would take ten times as long
    flow.reshape(h, 2 * w)[:] *= np.tile(np.array([shape[1] / w, shape[0] / h], np.float32), w)
    return features.resized(flow, shape)


def trace_pixels(
    flow: NDArray[np.float32], before: NDArray[np.float32], smooth: NDArray[np.float32]
) -> Motion:
    """Return where each pixel was, and how its colour has changed since.

    flow as from `backward_flow`; before, smooth (3, h, w): the colours of both frames.
    """
    shape = smooth.shape[1:]
    motion = Motion(flow, np.empty(shape, np.int32), np.empty(shape, np.float32))
    kernels.trace_pixels(before, smooth, motion)
    return motion

"""Optical flow since the frame before. It needs no labels: it can be sought ahead of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.tuning import DEFAULT, Tuning
from aaams_stream.kernels import flow as kernels

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
    flow = _search(*pairs[-1], None, tuning)
    for pair in reversed(pairs[_FINEST_SCALES[quality] : -1]):
        flow = _search(*pair, flow, tuning)
    h, w = flow.shape[:2]
    flow *= np.array([shape[1] / w, shape[0] / h], np.float32)
    return features.resized(flow, shape)


def _search(
    now: NDArray[np.uint8],
    before: NDArray[np.uint8],
    coarse: NDArray[np.float32] | None,
    tuning: Tuning,
) -> NDArray[np.float32]:
    """Return the flow (h, w, 2) of one level, sought from that of the level above."""
    h, w = now.shape
    pad, side, stride = kernels.PAD, kernels.SIDE, tuning.flow_stride
    here, there = np.empty((2, h + 2 * pad, w + 2 * pad), np.float32)
    across, down = np.empty((2, h, w), np.float32)
    kernels.pad_plane(now, here)
    kernels.pad_plane(before, there)
    kernels.find_slopes(here, across, down)
    found = np.zeros((-(-(h - side) // stride) + 1, -(-(w - side) // stride) + 1, 2), np.float32)
    if coarse is not None:
        kernels.begin_search(coarse, stride, found, h, w)
    errors = np.empty(found.shape[:2], np.float32)
    kernels.search_patches(here, there, across, down, stride, tuning.flow_steps, found, errors)
    flow = np.empty((h, w, 2), np.float32)
    kernels.spread_patches(here, there, stride, found, np.empty((3, h, w), np.float32), flow)
    return flow

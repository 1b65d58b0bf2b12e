"""The segments of a smaller frame in the pixels of the frame itself."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import upsample
from aaams_stream.model import ADJACENCY_DTYPE
from aaams_stream.params import Params

_LEAST_SIDE = 48  # pixels: frames are not made smaller than that
_LEAST_SHARE = 0.25  # of pixels, down to which lengths shrink with the picture
_LEAST2 = 2.0  # squared pixels: shorter lengths do not shrink
_ALIKE2 = 600.0  # squared RGB levels in which a vote fades
# A vote's weight by the squared distance, in steps of 16; far off, place alone decides.
_WEIGHTS = np.exp(-16 * np.arange(1024) / _ALIKE2).clip(1e-6).astype(np.float32)


def working_shape(shape: tuple[int, ...], scale: float) -> tuple[int, int]:
    """Return the height and width in which a frame of `shape` (h, w, …) is segmented."""
    h, w = shape[:2]
    least = max(scale, min(1.0, _LEAST_SIDE / min(h, w)))
    return round(h * least), round(w * least)


@functools.lru_cache(maxsize=8)  # asked for every frame
def working_params(params: Params, share: float) -> Params:
    """Return the settings for a picture with `share` of the frame's pixels.

    Lengths and sizes in the settings are in pixels of the frame. Below a quarter they shrink no
    further: clusters one pixel apart must still be able to meet.
    """
    share = max(share, _LEAST_SHARE)
    return params.updated(
        {
            "space": {
                "sigma2": max(params.space.sigma2 * share, min(params.space.sigma2, _LEAST2)),
                "epsilon2": max(params.space.epsilon2 * share, min(params.space.epsilon2, _LEAST2)),
            },
            "post": {"min_size": max(round(params.post.min_size * share), 1)},
        }
    )


def enlarged(
    labels: NDArray[np.int32],
    segments: NDArray[Any],
    adjacency: NDArray[Any],
    small: NDArray[np.uint8],
    rgb: NDArray[np.uint8],
) -> tuple[NDArray[np.int32], NDArray[Any], NDArray[Any]]:
    """Return what was found in `small` (h, w, 3) for the frame itself, `rgb` (H, W, 3).

    labels (h, w): rows of the segment table. Each pixel gets the nearest; at boundaries, of those
    around it, that of the pixels it looks most like, as far as no segment falls apart. What counts
    pixels and their sides counts those of the frame; places, motion and bandwidths are scaled;
    colours stay what they were.
    """
    nearest, places, wanted = np.empty((3, *rgb.shape[:2]), np.int32)
    wishes = np.empty(len(rgb), np.int32)
    upsample.choose_labels(labels, small, rgb, _WEIGHTS, nearest, places, wanted, wishes)
    upsample.move_boundaries(nearest, places, wanted, wishes)
    scale = np.array(nearest.shape[::-1]) / labels.shape[::-1]
    return nearest, *_tables(nearest, segments, adjacency, scale)


def _tables(
    labels: NDArray[np.int32],
    small: NDArray[Any],
    contacts: NDArray[Any],
    scale: NDArray[np.float64],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the segments and their contacts as the labels of the frame show them."""
    area, perimeter = np.empty((2, len(small)), np.int64)
    bbox = np.empty((len(small), 4), np.int32)
    sums = np.empty((len(small), 2))
    capacity = 1 << (8 * len(small)).bit_length()
    while True:
        first, second, length = upsample.measure_shapes(
            labels, capacity, area, bbox, sums, perimeter
        )
        if first.size or len(small) == 1:
            break
        capacity *= 4  # segments in several parts may touch more often
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    squares = [scale[0] ** 2, scale.prod(), scale[1] ** 2]
    segments = small.copy()
    segments["area"] = area
    segments["perimeter"] = perimeter
    segments["bbox"] = bbox
    segments["centroid"] = sums / area[:, None]
    segments["mode"][:, 3:] = (small["mode"][:, 3:] + 0.5) * scale - 0.5
    segments["motion"] = small["motion"] * scale
    segments["bandwidth_space"] = small["bandwidth_space"] * squares
    adjacency = np.empty(len(first), ADJACENCY_DTYPE)
    adjacency["first"] = small["id"][first]
    adjacency["second"] = small["id"][second]
    adjacency["length"] = length[order]
    adjacency["contrast"] = _contrast(small, contacts, adjacency, first, second)
    return segments, adjacency


def _contrast(
    segments: NDArray[Any],
    before: NDArray[Any],
    pairs: NDArray[Any],
    first: NDArray[np.int32],
    second: NDArray[np.int32],
) -> NDArray[np.float32]:
    """Return the contrast pairs had in the smaller picture; of new ones, that of their means."""
    apart = segments["colour"][first] - segments["colour"][second]
    contrast = np.sqrt((apart**2).sum(axis=1))
    if len(before):
        pair, known = (rows["first"].astype(np.uint64) << 32 for rows in (pairs, before))
        pair |= pairs["second"]
        known |= before["second"]
        at = np.minimum(np.searchsorted(known, pair), len(known) - 1)
        contrast = np.where(known[at] == pair, before["contrast"][at], contrast)
    return np.asarray(contrast, np.float32)

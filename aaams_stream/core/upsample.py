"""Labels of a smaller picture in the pixels of the frame itself."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import upsample as kernels


def upsample(
    labels: NDArray[np.int32], small: NDArray[np.uint8], rgb: NDArray[np.uint8], tuning: Tuning
) -> NDArray[np.int32]:
    """Return labels (h, w) of `small` (h, w, 3) for the frame itself, `rgb` (H, W, 3).

    Each pixel gets the nearest; at boundaries, of those around it, that of the pixels it looks most
    like, as far as no segment falls apart.
    """
    if labels.shape == rgb.shape[:2]:
        return labels
    shape = rgb.shape[:2]
    nearest = np.empty(shape, np.int32)
    places, wanted = np.empty((2, *shape), np.int32)
    wishes = np.empty(len(rgb), np.int32)
    weights = _weights(tuning.upsample_alike2)
    kernels.choose_labels(labels, small, rgb, weights, nearest, places, wanted, wishes)
    kernels.move_boundaries(nearest, places, wanted, wishes)
    return nearest


@functools.cache
def _weights(alike2: float) -> NDArray[np.float32]:
    """Return a vote's weight by squared distance in RGB, in steps of 16; far off, place decides."""
    return np.exp(-16 * np.arange(1024) / alike2).clip(1e-6).astype(np.float32)

"""Labels of a smaller picture in the pixels of the frame itself."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.roi import OUTSIDE
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import upsample as kernels


def upsample(
    labels: NDArray[np.int32],
    small: NDArray[np.uint8],
    rgb: NDArray[np.uint8],
    tuning: Tuning,
    outside: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """Return labels (h, w) of `small` (h, w, 3) for the frame itself, `rgb` (H, W, 3).

    Each pixel gets the nearest; at boundaries, of those around it, that of the pixels it looks most
    like, as far as no segment falls apart. outside (H, W): of the region of interest.
    """
    if labels.shape == rgb.shape[:2]:
        return labels
    shape = rgb.shape[:2]
    nearest = np.empty(shape, np.int32)
    places, wanted = np.empty((2, *shape), np.int32)
    wishes = np.empty(len(rgb), np.int32)
    weights = _weights(tuning.upsample_alike2)
    if outside is not None:
        labels = _spread(_spread(labels))  # what is outside has no vote
    kernels.choose_labels(labels, small, rgb, weights, nearest, places, wanted, wishes)
    plain = None if outside is None else nearest.copy()
    kernels.move_boundaries(nearest, places, wanted, wishes)
    if outside is not None and plain is not None:
        for found in (nearest, plain):  # where a segment is left with nothing inside, none yields
            found[outside] = OUTSIDE
            if np.bincount(found.reshape(-1), minlength=int(labels.max()) + 1).all():
                return found
    return nearest


def _spread(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """Let labels grow by a pixel to all four sides into what is outside; the first one wins."""
    grown = labels.copy()
    sides = (
        ((slice(1, None), slice(None)), (slice(None, -1), slice(None))),
        ((slice(None), slice(1, None)), (slice(None), slice(None, -1))),
    )
    for one, other in sides:
        for here, there in ((one, other), (other, one)):
            free = grown[here] == OUTSIDE
            grown[here][free] = labels[there][free]
    return grown


@functools.cache
def _weights(alike2: float) -> NDArray[np.float32]:
    """Return a vote's weight by squared distance in RGB, in steps of 16; far off, place decides."""
    return np.exp(-16 * np.arange(1024) / alike2).clip(1e-6).astype(np.float32)

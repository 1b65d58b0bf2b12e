"""How close the mask of an object is to the truth: J and F, as DAVIS measures them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.kernels.metrics import count_near, mark_boundaries

_REACH = 0.008  # of the diagonal: how far apart outlines may lie


def region_similarity(mask: ArrayLike, truth: ArrayLike) -> float:
    """Return J: the pixels both have over those either has; 1 where both are empty."""
    ours, theirs = _checked(mask, truth)
    either = np.count_nonzero(ours | theirs)
    return np.count_nonzero(ours & theirs) / either if either else 1.0


def contour_accuracy(mask: ArrayLike, truth: ArrayLike) -> float:
    """Return F: the harmonic mean of precision and recall of the outline.

    An outline pixel is right with one of the other outline within 0.8 % of the diagonal. 1 where
    there is no outline in either, 0 where there is one in only one of them.
    """
    ours, theirs = _checked(mask, truth)
    judged = np.ones(ours.shape, np.uint8)
    drawn, true = np.empty_like(judged), np.empty_like(judged)
    mark_boundaries(ours.astype(np.uint32), judged, drawn)
    mark_boundaries(theirs.astype(np.uint32), judged, true)
    if not drawn.any() or not true.any():
        return float(drawn.any() == true.any())
    reach = int(np.ceil(_REACH * float(np.hypot(*ours.shape))))
    precision = count_near(drawn, true, reach) / np.count_nonzero(drawn)
    recall = count_near(true, drawn, reach) / np.count_nonzero(true)
    return float(2 * precision * recall / max(precision + recall, 1e-12))


def _checked(mask: ArrayLike, truth: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    ours, theirs = np.asarray(mask, np.bool_), np.asarray(truth, np.bool_)
    if ours.ndim != 2 or ours.shape != theirs.shape:
        raise ValueError(f"masks must be (h, w) and alike, got {ours.shape} and {theirs.shape}")
    return ours, theirs

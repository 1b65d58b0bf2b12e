"""Label maps as a whole."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def apply_lut(labels, lut, out):
    """Write lut (k,) int32 of labels (h, w) int32 to out (h, w), which may be labels itself.

    Labels below 0 stay.
    """
    h, w = labels.shape
    for y in range(h):
        for x in range(w):
            label = labels[y, x]
            out[y, x] = lut[label] if label >= 0 else label

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


@njit(cache=True, nogil=True, error_model="numpy")
def count_labels(labels, area):
    """Count the pixels of each label into area (k,) int64; negative labels are nobody's."""
    h, w = labels.shape
    area[:] = 0
    for y in range(h):
        row = labels[y]
        x = 0
        while x < w:
            label = row[x]
            begin = x
            while x < w and row[x] == label:
                x += 1
            if label >= 0:
                area[label] += x - begin

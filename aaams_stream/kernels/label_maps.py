"""Label maps as a whole."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import empty_marks, list_ends


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
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    area[:] = 0
    for y in range(h):
        row = labels[y]
        start = 0
        for k in range(list_ends(row, marks, ends)):
            stop = ends[k] + 1
            if row[start] >= 0:
                area[row[start]] += stop - start
            start = stop

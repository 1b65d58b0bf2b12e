"""Label maps as a whole."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def apply_lut(labels, lut, out):
    """Write lut (k,) int32 of labels (h, w) int32 to out (h, w), which may be labels itself.

    Labels below 0 stay; there is one in lut at least.
    """
    h, w = labels.shape
    for y in range(h):
        for x in range(w):
            label = labels[y, x]
            # read in any case, and unsigned: so that it goes by lanes
            other = lut[np.uintp(max(label, np.int32(0)))]
            out[y, x] = other if label >= 0 else label


@njit(cache=True, nogil=True, error_model="numpy")
def move_ids(source, begin, lookup, target, at, count):
    """Write lookup (k,) uint32 of `count` frames of source into target, both (pixels, t) uint32.

    From frame `begin` of the one to frame `at` of the other. Ids that the lookup does not have
    become 0; returns how many pixels those were.
    """
    strangers = 0
    for i in range(source.shape[0]):
        for t in range(count):
            name = source[i, begin + t]
            known = name < lookup.size
            target[i, at + t] = lookup[name] if known else np.uint32(0)
            strangers += not known
    return strangers

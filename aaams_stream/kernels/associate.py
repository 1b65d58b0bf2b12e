"""Regions of a frame and tracks of the frame before."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import add_pair, find_slot


@njit(cache=True, nogil=True, error_model="numpy")
def count_overlaps(regions, warped, labels, pairs):
    """Count pixels that regions of this frame share with tracks of the frame before.

    regions, warped, labels (h, w); warped and labels are rows of the track table, or negative.
    Fills pairs of region and track: sums are the pixels for which the track was predicted, and
    those that also bear it.
    """
    h, w = regions.shape
    slots = pairs.slots
    sums = pairs.sums
    n = np.int64(0)
    for y in range(h):
        last_a = np.int32(-1)
        last_b = np.int32(-1)
        e = np.int64(0)
        x = 0
        while x < w:
            a = regions[y, x]
            own = labels[y, x]
            came = warped[y, x]
            start = x
            while x < w and regions[y, x] == a and labels[y, x] == own and warped[y, x] == came:
                x += 1
            # a vote may have moved a boundary pixel to a segment other than the predicted one
            b = own if own >= 0 else came
            if b < 0:
                continue
            if a != last_a or b != last_b:
                slot = find_slot(a, b, pairs)
                if slots[slot] < 0:
                    n = add_pair(a, b, slot, pairs, n)
                    if n < 0:
                        return n
                e = np.int64(slots[slot])
                last_a = a
                last_b = b
            sums[e, 0] += x - start
            if own >= 0:
                sums[e, 1] += x - start
    return n

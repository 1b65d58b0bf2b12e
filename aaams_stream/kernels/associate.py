"""Regions of a frame and tracks of the frame before."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import (
    add_pair,
    empty_marks,
    find_slot,
    list_ends,
    mark_ends,
)


@njit(cache=True, nogil=True, error_model="numpy")
def find_near(places, frames, expected, units, first_frames, most, mine, theirs, gap):
    """List pairs of a candidate and an older track that would be near it.

    places, expected (n, 2), (m, 2): x and y of candidates and where tracks would be; frames,
    first_frames (n,), (m,) int64: when each was first seen; units (m,): squared pixels that count
    as 1. Writes mine, theirs (n·m,) int64 and gap (n·m,) float64: which two, and how far apart, up
    to `most`. Returns how many pairs there are, those of the first candidate first.
    """
    found = 0
    for i in range(frames.size):
        for j in range(units.size):
            across = places[i, 0] - expected[j, 0]
            down = places[i, 1] - expected[j, 1]
            off = (across * across + down * down) / units[j]
            if off <= most and first_frames[j] < frames[i]:
                mine[found] = i
                theirs[found] = j
                gap[found] = off
                found += 1
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def count_overlaps(regions, part_of_region, warped, labels, pairs):
    """Count pixels that parts of this frame share with tracks of the frame before.

    regions (h, w), each of a part, part_of_region (k,) int32; warped, labels (h, w): rows of the
    track table, or negative. Fills pairs of part and track: sums are the pixels for which the
    track was predicted, and those that also bear it.
    """
    h, w = regions.shape
    slots = pairs.slots
    sums = pairs.sums
    n = np.int64(0)
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    for y in range(h):
        last_a = np.int32(-1)
        last_b = np.int32(-1)
        e = np.int64(0)
        stop = 0
        mark_ends(regions[y], marks)
        mark_ends(warped[y], marks)
        for i in range(list_ends(labels[y], marks, ends)):
            start = stop
            stop = ends[i] + 1
            a = part_of_region[regions[y, start]]
            own = labels[y, start]
            # a vote may have moved a boundary pixel to a segment other than the predicted one
            b = own if own >= 0 else warped[y, start]
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
            sums[e, 0] += stop - start
            if own >= 0:
                sums[e, 1] += stop - start
    return n

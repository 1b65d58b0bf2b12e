"""Regions of a frame and tracks of the frame before."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import (
    REFRESH,
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
    track was predicted, those that also bear it, and those for which it is presumed (REFRESH).
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
            elif own == REFRESH:
                sums[e, 2] += stop - start
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def claim_kept(region, track, kept, track_of):
    """Write the track that most kept pixels of each region bear to track_of (m,), else -1.

    region, track, kept (n,): pairs and the pixels they share. Ties go to the lowest track.
    """
    most = np.zeros(track_of.size, np.int64)
    track_of[:] = -1
    for i in range(region.size):
        r = region[i]
        if kept[i] > most[r] or (kept[i] == most[r] > 0 and track[i] < track_of[r]):
            most[r] = kept[i]
            track_of[r] = track[i]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def comes_before(i, j, region, track, overlap):
    """Tell whether pair i comes before j: the larger overlap, then the lower track and region."""
    if overlap[i] != overlap[j]:
        return overlap[i] > overlap[j]
    if track[i] != track[j]:
        return track[i] < track[j]
    return region[i] < region[j]


@njit(cache=True, nogil=True, error_model="numpy")
def adopt_orphans(region, track, overlap, region_area, track_area, share, track_of, alive):
    """Let tracks without a kept pixel live on in the region that covers most of their place.

    Pairs as in `claim_kept`; share: how much of the smaller of the two they must have in common.
    Changes track_of (m,) and writes alive (k,) bool: which tracks live on.
    """
    alive[:] = False
    for r in range(track_of.size):
        if track_of[r] >= 0:
            alive[track_of[r]] = True
    orphans = np.empty(region.size, np.int64)
    n = 0
    for i in range(region.size):
        if not alive[track[i]] and track_of[region[i]] < 0:
            orphans[n] = i
            n += 1
    step = 1
    while 3 * step < n:
        step = 3 * step + 1
    while step > 0:  # Shell's sort: few, as a rule
        for i in range(step, n):
            pair = orphans[i]
            j = i
            while j >= step and comes_before(pair, orphans[j - step], region, track, overlap):
                orphans[j] = orphans[j - step]
                j -= step
            orphans[j] = pair
        step //= 3
    for k in range(n):
        i = orphans[k]
        a = region[i]
        b = track[i]
        enough = overlap[i] >= share * min(region_area[a], track_area[b])
        if enough and not alive[b] and track_of[a] < 0:
            track_of[a] = b
            alive[b] = True


@njit(cache=True, nogil=True, error_model="numpy")
def find_descent(region, track, overlap, parent, parent_overlap, heir, heir_overlap):
    """Write of each region the track it overlaps most, and of each track the region; -1: none.

    Pairs as in `claim_kept`; parent, parent_overlap (m,), heir, heir_overlap (k,) int64. Ties go to
    the lowest.
    """
    parent[:] = -1
    parent_overlap[:] = 0
    heir[:] = -1
    heir_overlap[:] = 0
    for i in range(region.size):
        a = region[i]
        b = track[i]
        shared = overlap[i]
        if shared > parent_overlap[a] or (shared == parent_overlap[a] and b < parent[a]):
            parent[a] = b
            parent_overlap[a] = shared
        if shared > heir_overlap[b] or (shared == heir_overlap[b] and a < heir[b]):
            heir[b] = a
            heir_overlap[b] = shared

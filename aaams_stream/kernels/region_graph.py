"""The regions of a label map: components, adjacency and statistics.

Region moments are rows of 13: pixels, density weight, mean colour (3), centred colour scatter (6),
mean motion against the scene (2).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import add_pair, find_root, find_slot


@njit(cache=True, nogil=True, error_model="numpy")
def label_components(owner, labels):
    """Label the 4-connected components of equal `owner` from 0 in raster order; return how many.

    owner (h, w) int32; writes labels (h, w) int32. Works on runs of equal pixels: a run joins
    every run above it that it touches and equals.
    """
    h, w = owner.shape
    parent = np.empty(h * w, np.int32)  # of runs; a root is the first run of its component
    runs = 0
    for y in range(h):
        x = 0
        while x < w:
            own = owner[y, x]
            run = np.int32(runs)
            runs += 1
            parent[run] = run
            last = np.int32(-1)
            while x < w and owner[y, x] == own:
                labels[y, x] = run
                if y > 0 and owner[y - 1, x] == own and labels[y - 1, x] != last:
                    last = labels[y - 1, x]
                    a = find_root(parent, last)
                    b = find_root(parent, run)
                    if a < b:
                        parent[b] = a
                    else:
                        parent[a] = b
                x += 1
    number = np.empty(runs, np.int32)
    n = 0
    for run in range(runs):
        root = find_root(parent, np.int32(run))
        if root == run:
            number[run] = n
            n += 1
        else:
            number[run] = number[root]
    for y in range(h):
        for x in range(w):
            labels[y, x] = number[labels[y, x]]
    return n


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def add_run(m, row_l, row_a, row_b, weights, l0, a0, b0, begin, end):
    """Add a run of pixels of one row to the sums m (13,) of its region, about a colour."""
    weight = np.float64(0.0)
    sl = np.float64(0.0)
    sa = np.float64(0.0)
    sb = np.float64(0.0)
    ll = np.float64(0.0)
    la = np.float64(0.0)
    lb = np.float64(0.0)
    aa = np.float64(0.0)
    ab = np.float64(0.0)
    bb = np.float64(0.0)
    for x in range(np.uintp(begin), np.uintp(end)):
        rho = np.float64(weights[x])
        dl = row_l[x] - l0
        da = row_a[x] - a0
        db = row_b[x] - b0
        weight += rho
        sl += rho * dl
        sa += rho * da
        sb += rho * db
        ll += rho * dl * dl
        la += rho * dl * da
        lb += rho * dl * db
        aa += rho * da * da
        ab += rho * da * db
        bb += rho * db * db
    m[0] += end - begin
    m[1] += weight
    m[2] += sl
    m[3] += sa
    m[4] += sb
    m[5] += ll
    m[6] += la
    m[7] += lb
    m[8] += aa
    m[9] += ab
    m[10] += bb


@njit(cache=True, nogil=True, error_model="numpy")
def measure_regions(planes, density, labels, moments):
    """Sum density-weighted colour moments of each region into moments (k, 13) float64, zeroed.

    One pass, run by run: deviations are taken from a region's first pixel, close enough to its
    mean for float64, and moved to the mean at the end.
    """
    h, w = labels.shape
    start = np.empty((moments.shape[0], 3), np.float64)
    for y in range(h):
        row = labels[y]
        x = 0
        while x < w:
            r = row[x]
            m = moments[r]
            if m[0] == 0.0:
                for k in range(3):
                    start[r, k] = planes[k, y, x]
            begin = x
            while x < w and row[x] == r:
                x += 1
            add_run(
                m,
                planes[0, y],
                planes[1, y],
                planes[2, y],
                density[y],
                start[r, 0],
                start[r, 1],
                start[r, 2],
                begin,
                x,
            )
    for r in range(moments.shape[0]):
        m = moments[r]
        dl = m[2] / m[1]
        da = m[3] / m[1]
        db = m[4] / m[1]
        m[5] -= m[2] * dl
        m[6] -= m[2] * da
        m[7] -= m[2] * db
        m[8] -= m[3] * da
        m[9] -= m[3] * db
        m[10] -= m[4] * db
        m[2] = start[r, 0] + dl
        m[3] = start[r, 1] + da
        m[4] = start[r, 2] + db


@njit(cache=True, nogil=True, error_model="numpy")
def coordinate_sums(labels, sums):
    """Sum x and y over the pixels of each region into sums (k, 2) float64, zeroed."""
    h, w = labels.shape
    for y in range(h):
        row = labels[y]
        x = 0
        while x < w:
            r = row[x]
            begin = x
            while x < w and row[x] == r:
                x += 1
            sums[r, 0] += np.float64((x - begin) * (begin + x - 1)) * 0.5
            sums[r, 1] += np.float64((x - begin) * y)


@njit(cache=True, nogil=True, error_model="numpy")
def measure_motion(flow, scene, labels, moments):
    """Write the mean motion of each region to its moments (k, 13), whose areas are known.

    flow (h, w, 2): to where each pixel was in the frame before; scene (2,): the same for the scene
    as a whole, which is taken off.
    """
    h, w = labels.shape
    for y in range(h):
        x = 0
        while x < w:
            r = labels[y, x]
            back_x = np.float64(0.0)
            back_y = np.float64(0.0)
            while x < w and labels[y, x] == r:
                back_x += flow[y, x, 0]
                back_y += flow[y, x, 1]
                x += 1
            moments[r, 11] -= back_x
            moments[r, 12] -= back_y
    for r in range(moments.shape[0]):
        moments[r, 11] = moments[r, 11] / moments[r, 0] + scene[0]
        moments[r, 12] = moments[r, 12] / moments[r, 0] + scene[1]


@njit(cache=True, nogil=True, error_model="numpy")
def find_edges(gradient, labels, pairs):
    """List pairs of touching regions with contact length and gradient summed along it.

    gradient (h, w): how much of an edge each pixel is. Fills pairs of regions, the lower first:
    sums are the pixel pairs in contact and the gradient there.
    """
    h, w = labels.shape
    slots = pairs.slots
    first = pairs.first
    second = pairs.second
    sums = pairs.sums
    n = np.int64(0)
    e = np.int64(0)
    for y in range(h):
        row = labels[y]
        below = labels[min(y + 1, h - 1)]
        for x in range(w):
            a = row[x]
            right = row[min(x + 1, w - 1)]
            if a == right and a == below[x]:
                continue
            for step in range(2):
                v = y + step
                u = x + 1 - step
                b = below[x] if step else right
                if a == b:
                    continue
                low = min(a, b)
                high = max(a, b)
                if n == 0 or first[e] != low or second[e] != high:  # not the contact just met
                    slot = find_slot(low, high, pairs)
                    if slots[slot] < 0:
                        n = add_pair(low, high, slot, pairs, n)
                        if n < 0:
                            return n
                    e = np.int64(slots[slot])
                sums[e, 0] += 1.0
                sums[e, 1] += 0.5 * (np.float64(gradient[y, x]) + np.float64(gradient[v, u]))
    return n


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def cast_votes(r, name, votes, leader, lead):
    """Cast so many equal votes in election r (Boyer and Moore's, as if one by one)."""
    if leader[r] == name:
        lead[r] += votes
    elif votes <= lead[r]:
        lead[r] -= votes
    else:
        leader[r] = name
        lead[r] = votes - lead[r]


@njit(cache=True, nogil=True, error_model="numpy")
def find_origins(regions, labels, warped, track_of, prior_track):
    """Tell of each connected region which track it bears, and where it came from.

    regions (h, w); labels, warped (h, w): rows of the track table or negative. track_of[r] becomes
    the track most of its labelled pixels bear if there are any, else -1; prior_track[r] the one
    that was predicted for most of it (Boyer-Moore vote: exact for a majority), else -1.
    """
    h, w = regions.shape
    k = track_of.size
    track_of[:] = -1
    prior_track[:] = -1
    lead = np.zeros(k, np.int64)
    prior_lead = np.zeros(k, np.int64)
    for y in range(h):
        x = 0
        while x < w:
            r = regions[y, x]
            label = labels[y, x]
            came = warped[y, x]
            start = x
            while x < w and regions[y, x] == r and labels[y, x] == label and warped[y, x] == came:
                x += 1
            if label >= 0:
                cast_votes(r, label, x - start, track_of, lead)
            cast_votes(r, came, x - start, prior_track, prior_lead)


@njit(cache=True, nogil=True, error_model="numpy")
def pool_moments(moments, segment_of_region, sums):
    """Sum the moments of regions over the segments they are part of, as raw sums.

    moments (k, 13); segment_of_region (k,) int32. Writes sums (n, 10): weight,
    weighted colour (3) and products of colour (6).
    """
    sums[:] = 0.0
    for r in range(segment_of_region.size):
        m = moments[r]
        s = sums[segment_of_region[r]]
        s[0] += m[1]
        k = 4
        for i in range(3):
            s[1 + i] += m[1] * m[2 + i]
            for j in range(i, 3):
                s[k] += m[1 + k] + m[1] * m[2 + i] * m[2 + j]
                k += 1

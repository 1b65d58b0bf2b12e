"""The regions of a label map: components, adjacency and statistics.

Region moments are rows of 13: pixels, density weight, mean colour (3), centred colour scatter (6),
mean motion against the scene (2).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import (
    REFRESH,
    add_pair,
    empty_marks,
    filled,
    find_root,
    find_slot,
    list_ends,
    list_marked,
    mark_ends,
    sum_flow,
)


@njit(cache=True, nogil=True, error_model="numpy")
def label_components(owner, labels):
    """Label the 4-connected components of equal `owner` from 0 in raster order; return how many.

    owner (h, w) int32; writes labels (h, w) int32. Works on runs of equal pixels: a run joins
    every run above it that it touches and equals.
    """
    h, w = owner.shape
    parent = np.empty(h * w, np.int32)  # of runs; a root is the first run of its component
    ends = np.empty(h * w + 1, np.int32)
    marks = empty_marks(w)
    runs = 0
    above = 0  # the run above; those of a row follow those of the row before
    for y in range(h):
        row = owner[y]
        first = runs
        runs += list_ends(row, marks, ends[first:])
        start = 0
        for k in range(first, runs):
            run = np.int32(k)
            parent[run] = run
            stop = ends[k]
            x = start
            while y > 0 and x <= stop:
                if owner[y - 1, x] == row[start]:
                    a = find_root(parent, np.int32(above))
                    b = find_root(parent, run)
                    if a < b:
                        parent[b] = a
                    else:
                        parent[a] = b
                x = min(ends[above], stop) + 1
                above += ends[above] <= stop
            start = stop + 1
        above = first
    number = np.empty(runs, np.int32)
    n = 0
    for run in range(runs):
        root = find_root(parent, np.int32(run))
        if root == run:
            number[run] = n
            n += 1
        else:
            number[run] = number[root]
    run = 0
    for y in range(h):
        row = labels[y]
        start = 0
        while start < w:
            stop = ends[run] + 1
            component = number[run]
            for x in range(start, stop):
                row[x] = component
            start = stop
            run += 1
    return n


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def add_run(m, row_l, row_a, row_b, weights, l0, a0, b0, begin, end):
    """Add a run of pixels of one row to the sums m (13,) of its region, about a colour.

    Colours of a region are close to each other, and a run is short: float32 will do.
    """
    weight = np.float32(0.0)
    sl = np.float32(0.0)
    sa = np.float32(0.0)
    sb = np.float32(0.0)
    ll = np.float32(0.0)
    la = np.float32(0.0)
    lb = np.float32(0.0)
    aa = np.float32(0.0)
    ab = np.float32(0.0)
    bb = np.float32(0.0)
    for x in range(np.uintp(begin), np.uintp(end)):
        rho = weights[x]
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


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def measure_regions(planes, density, labels, moments, sums):
    """Sum density-weighted colour moments of each region into moments (k, 13) float64, zeroed.

    density (h, w), or (1, w) where all rows are alike. Also sums x and y over the pixels into sums
    (k, 2) float64, zeroed. One pass, run by run: deviations are taken from a region's first pixel,
    close enough to its mean for float64, and moved to the mean at the end.
    """
    h, w = labels.shape
    start = np.empty((moments.shape[0], 3), np.float32)
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    for y in range(h):
        row = labels[y]
        begin = 0
        for k in range(list_ends(row, marks, ends)):
            stop = ends[k] + 1
            r = row[begin]
            m = moments[r]
            if m[0] == 0.0:
                for c in range(3):
                    start[r, c] = planes[c, y, begin]
            add_run(
                m,
                planes[0, y],
                planes[1, y],
                planes[2, y],
                density[min(y, density.shape[0] - 1)],
                start[r, 0],
                start[r, 1],
                start[r, 2],
                begin,
                stop,
            )
            sums[r, 0] += np.float64((stop - begin) * (begin + stop - 1)) * 0.5
            sums[r, 1] += np.float64((stop - begin) * y)
            begin = stop
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
def measure_motion(flow, scene, labels, moments):
    """Write the mean motion of each region to its moments (k, 13), whose areas are known.

    flow (h, w, 2): to where each pixel was in the frame before; scene (2,): the same for the scene
    as a whole, which is taken off.
    """
    h, w = labels.shape
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    for y in range(h):
        row = labels[y]
        motion = flow[y].reshape(2 * w)
        begin = 0
        for k in range(list_ends(row, marks, ends)):
            stop = ends[k] + 1
            back_x, back_y = sum_flow(motion, begin, stop)
            moments[row[begin], 11] -= back_x
            moments[row[begin], 12] -= back_y
            begin = stop
    for r in range(moments.shape[0]):
        moments[r, 11] = moments[r, 11] / moments[r, 0] + scene[0]
        moments[r, 12] = moments[r, 12] / moments[r, 0] + scene[1]


@njit(cache=True, nogil=True, error_model="numpy")
def find_edges(gradient, smooth, labels, pairs):
    """List pairs of touching regions with contact length and what is summed along it.

    gradient (h, w): how much of an edge each pixel is, whichever way it runs; smooth (3, h, w):
    colours. Fills pairs of regions, the lower first: sums are the pixel pairs in contact, the
    gradient there, and the step in colour from one pixel of a pair to the other. Where a contact
    ends at something else, the gradient is strong and the step is not.
    """
    h, w = labels.shape
    slots = pairs.slots
    first = pairs.first
    second = pairs.second
    sums = pairs.sums
    n = np.int64(0)
    e = np.int64(0)
    marks = empty_marks(w)
    places = np.empty(w + 1, np.int32)
    for y in range(h):
        row = labels[y]
        below = labels[min(y + 1, h - 1)]
        mark_ends(row, marks)
        for x in range(w):
            marks[x] |= row[x] != below[x]
        for k in range(list_marked(marks, places)):
            x = np.int64(places[k])
            a = row[x]
            right = row[min(x + 1, w - 1)]
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
                d0 = smooth[0, y, x] - smooth[0, v, u]
                d1 = smooth[1, y, x] - smooth[1, v, u]
                d2 = smooth[2, y, x] - smooth[2, v, u]
                sums[e, 2] += np.float64(np.sqrt(d0 * d0 + d1 * d1 + d2 * d2))
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
def find_origins(regions, labels, warped, whole, track_of, prior_track, claim):
    """Tell of each connected region which track it bears, and where it came from.

    regions (h, w); labels, warped (h, w): rows of the track table or negative. track_of[r] becomes
    the track most of its labelled pixels bear if there are any, else -1; prior_track[r] the one
    that was predicted for most of it (Boyer-Moore vote: exact for a majority), else -1. Where
    labels say REFRESH, the track predicted is presumed: claim[r] becomes how many such pixels it
    has, and whole (tracks,) int64 how many each track has of these and of labels. A region that
    has most of a track by presumption bears it, if fewer of its pixels bear another.
    """
    h, w = regions.shape
    k = track_of.size
    track_of[:] = -1
    prior_track[:] = -1
    claim[:] = 0
    whole[:] = 0
    lead = np.zeros(k, np.int64)
    prior_lead = np.zeros(k, np.int64)
    presumed = filled(k, -1)
    presumed_lead = np.zeros(k, np.int64)
    labelled = np.zeros(k, np.int64)
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    for y in range(h):
        mark_ends(regions[y], marks)
        mark_ends(warped[y], marks)
        start = 0
        for i in range(list_ends(labels[y], marks, ends)):
            stop = ends[i] + 1
            r = regions[y, start]
            name = labels[y, start]
            prior = warped[y, start]
            if name >= 0:
                cast_votes(r, name, stop - start, track_of, lead)
                labelled[r] += stop - start
                whole[name] += stop - start
            elif name == REFRESH and prior >= 0:
                cast_votes(r, prior, stop - start, presumed, presumed_lead)
                claim[r] += stop - start
                whole[prior] += stop - start
            cast_votes(r, prior, stop - start, prior_track, prior_lead)
            start = stop
    for r in range(k):
        if presumed[r] >= 0 and claim[r] > labelled[r] and 2 * claim[r] > whole[presumed[r]]:
            track_of[r] = presumed[r]


@njit(cache=True, nogil=True, error_model="numpy")
def pool_regions(moments, coordinates, segment_of_region, floor, area, centre, colours, sse):
    """Pool regions over the segments they are part of.

    moments (k, 13); coordinates (k, 2): x and y summed; segment_of_region (k,) int32; floor: ξ.
    Writes of each segment area (n,) int64, centre (n, 2) float64, colours (n, 9) float32, which are
    the mean and the inverse of variance plus ξ, and sse (n,) float64: squared deviations, summed.
    """
    sums = np.zeros((area.size, 10))  # weight, weighted colour (3) and products of colour (6)
    area[:] = 0
    centre[:] = 0.0
    for r in range(segment_of_region.size):
        m = moments[r]
        n = segment_of_region[r]
        s = sums[n]
        area[n] += np.int64(m[0])
        centre[n, 0] += coordinates[r, 0]
        centre[n, 1] += coordinates[r, 1]
        s[0] += m[1]
        k = 4
        for i in range(3):
            s[1 + i] += m[1] * m[2 + i]
            for j in range(i, 3):
                s[k] += m[1 + k] + m[1] * m[2 + i] * m[2 + j]
                k += 1
    for n in range(area.size):
        s = sums[n]
        centre[n, 0] /= area[n]
        centre[n, 1] /= area[n]
        lightness = s[1] / s[0]
        a = s[2] / s[0]
        b = s[3] / s[0]
        ll = s[4] / s[0] - lightness * lightness
        la = s[5] / s[0] - lightness * a
        lb = s[6] / s[0] - lightness * b
        aa = s[7] / s[0] - a * a
        ab = s[8] / s[0] - a * b
        bb = s[9] / s[0] - b * b
        sse[n] = s[0] * (ll + aa + bb)
        ll += floor
        aa += floor
        bb += floor
        c0 = aa * bb - ab * ab
        c1 = lb * ab - la * bb
        c2 = la * ab - lb * aa
        f = 1.0 / (ll * c0 + la * c1 + lb * c2)
        row = colours[n]
        row[0] = lightness
        row[1] = a
        row[2] = b
        row[3] = c0 * f
        row[4] = c1 * f
        row[5] = c2 * f
        row[6] = (ll * bb - lb * lb) * f
        row[7] = (la * lb - ll * ab) * f
        row[8] = (ll * aa - la * la) * f

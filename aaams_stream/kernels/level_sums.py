"""Sums over the tables of a scene: tracks, their motion by time, and pairs that touch.

Rows are added one by one in their order, so that the blocks they come in make no difference.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from aaams_stream.kernels.common import add_pair, find_slot

ROUNDS = 8  # of the fit of the scene's motion; it has settled after five on all clips
HALVINGS = 24  # of an interval in which the median lies


class Rows(NamedTuple):
    """Columns of the table of segments; rows in the order of frames, whole frames."""

    frame: Any  # (n,) int64, counted from the first of the scene
    track: Any  # (n,) int64
    area: Any  # (n,) uint32
    centroid: Any  # (n, 2) float32
    colour: Any  # (n, 3) float32
    spread: Any  # (n, 3) float32
    perimeter: Any  # (n,) uint32
    motion: Any  # (n, 2) float32


class Series(NamedTuple):
    """Motion by time, a list of entries for each track in the order of time."""

    head: Any  # (k,) int32: the first entry of a track, or -1
    tail: Any  # (k,) int32
    following: Any  # (e,) int32
    time: Any  # (e,) int32: frame over the stride
    sums: Any  # (e, 3) float64: area, area times motion against the scene


@njit(cache=True, nogil=True, error_model="numpy")
def weighted_median(values, weights, n):
    """Return the least value with half of the weight at or below it, to seven digits."""
    low = np.float64(0.0)
    high = np.float64(0.0)
    total = np.float64(0.0)
    for i in range(n):
        high = max(high, values[i])
        total += weights[i]
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        below = np.float64(0.0)
        for i in range(n):
            if values[i] <= middle:
                below += weights[i]
        if 2.0 * below >= total:
            high = middle
        else:
            low = middle
    return high


@njit(cache=True, nogil=True, error_model="numpy")
def fit_scene(rows, begin, end, size, unit_sq, moved):
    """Write what is left of the motions of one frame once the scene's own is taken away.

    The motion of the scene is affine in the place, fitted to all segments by area, again and again
    with less weight for what moves otherwise. What is left is divided by √(unit_sq + m²), with m
    the median of what is left: how sure motion is known in this frame. With few segments the fit
    is held to one motion for all, or it would explain each of them.

    rows begin..end - 1 are those of the frame; size: of the picture, the unit of places. Writes
    moved (≥ end - begin, 2) float64.
    """
    n = end - begin
    area = np.empty(n, np.float64)
    weight = np.empty(n, np.float64)
    place = np.empty((n, 2), np.float64)
    left = np.empty(n, np.float64)
    fit = np.zeros((3, 2), np.float64)
    total = np.float64(0.0)
    for i in range(n):
        area[i] = rows.area[begin + i]
        weight[i] = area[i]
        total += area[i]
        place[i, 0] = rows.centroid[begin + i, 0] / size
        place[i, 1] = rows.centroid[begin + i, 1] / size
    mx = np.float64(0.0)
    my = np.float64(0.0)
    for i in range(n):
        mx += area[i] * place[i, 0] / total
        my += area[i] * place[i, 1] / total
    for i in range(n):
        place[i, 0] -= mx
        place[i, 1] -= my
    median = np.float64(0.0)
    for _ in range(ROUNDS):
        s0 = np.float64(0.0)
        sx = np.float64(0.0)
        sy = np.float64(0.0)
        sxx = np.float64(0.0)
        sxy = np.float64(0.0)
        syy = np.float64(0.0)
        for i in range(n):
            w = weight[i]
            s0 += w
            sx += w * place[i, 0]
            sy += w * place[i, 1]
            sxx += w * place[i, 0] * place[i, 0]
            sxy += w * place[i, 0] * place[i, 1]
            syy += w * place[i, 1] * place[i, 1]
        sxx += s0 / n
        syy += s0 / n
        c00 = sxx * syy - sxy * sxy
        c01 = sy * sxy - sx * syy
        c02 = sx * sxy - sy * sxx
        c11 = s0 * syy - sy * sy
        c12 = sx * sy - s0 * sxy
        c22 = s0 * sxx - sx * sx
        det = s0 * c00 + sx * c01 + sy * c02
        for axis in range(2):
            b0 = np.float64(0.0)
            bx = np.float64(0.0)
            by = np.float64(0.0)
            for i in range(n):
                v = weight[i] * rows.motion[begin + i, axis]
                b0 += v
                bx += v * place[i, 0]
                by += v * place[i, 1]
            fit[0, axis] = (c00 * b0 + c01 * bx + c02 * by) / det
            fit[1, axis] = (c01 * b0 + c11 * bx + c12 * by) / det
            fit[2, axis] = (c02 * b0 + c12 * bx + c22 * by) / det
        for i in range(n):
            for axis in range(2):
                moved[i, axis] = (
                    rows.motion[begin + i, axis]
                    - fit[0, axis]
                    - fit[1, axis] * place[i, 0]
                    - fit[2, axis] * place[i, 1]
                )
            left[i] = np.sqrt(moved[i, 0] * moved[i, 0] + moved[i, 1] * moved[i, 1])
        median = weighted_median(left, area, n)
        scale_sq = 2.25 * median * median + 0.01 * unit_sq
        for i in range(n):
            spare = 1.0 + left[i] * left[i] / scale_sq
            weight[i] = area[i] / (spare * spare)
    scale = np.sqrt(unit_sq + median * median)
    for i in range(n):
        moved[i, 0] /= scale
        moved[i, 1] /= scale


@njit(cache=True, nogil=True, error_model="numpy")
def add_row(rows, i, sums):
    """Add row i to the sums of its track: see `gather_segments`."""
    r = rows.track[i]
    area = np.float64(rows.area[i])
    c0 = np.float64(rows.colour[i, 0])
    c1 = np.float64(rows.colour[i, 1])
    c2 = np.float64(rows.colour[i, 2])
    s0 = np.float64(rows.spread[i, 0])
    s1 = np.float64(rows.spread[i, 1])
    s2 = np.float64(rows.spread[i, 2])
    sums[r, 0] += area
    sums[r, 1] += area * c0
    sums[r, 2] += area * c1
    sums[r, 3] += area * c2
    sums[r, 4] += area * (c0 * c0 + s0 * s0)
    sums[r, 5] += area * c0 * c1
    sums[r, 6] += area * c0 * c2
    sums[r, 7] += area * (c1 * c1 + s1 * s1)
    sums[r, 8] += area * c1 * c2
    sums[r, 9] += area * (c2 * c2 + s2 * s2)
    sums[r, 10] += area * (s0 * s0 + s1 * s1 + s2 * s2)
    sums[r, 11] += np.float64(rows.perimeter[i])


@njit(cache=True, nogil=True, error_model="numpy")
def add_colours(rows, sums):
    """Add all rows to the sums of their tracks, without their motion."""
    for i in range(rows.frame.size):
        add_row(rows, i, sums)


@njit(cache=True, nogil=True, error_model="numpy")
def gather_segments(rows, size, unit_sq, sums, span, series, state, bins):
    """Add rows of whole frames to the sums of their tracks.

    sums (k, 12): volume, colour (3) and its second moments (6), and the variance within, summed
    over pixels, then the perimeter. span (k, 2) int64: first and last frame. state (2,) int64:
    frames per entry of a series, and how many entries there are. Where the scene has grown beyond
    `bins` entries, two and two become one. size, unit_sq: see `fit_scene`.
    """
    begin = np.int64(0)
    end = np.int64(0)
    moved = np.empty((0, 2), np.float64)
    for i in range(rows.frame.size):
        if i == end:
            begin = end
            while end < rows.frame.size and rows.frame[end] == rows.frame[begin]:
                end += 1
            if end - begin > moved.shape[0]:
                moved = np.empty((2 * (end - begin), 2), np.float64)
            fit_scene(rows, begin, end, size, unit_sq, moved)
        while rows.frame[i] // state[0] >= bins:
            state[0] *= 2
            state[1] = halve(series, state[1])
        r = rows.track[i]
        area = np.float64(rows.area[i])
        add_row(rows, i, sums)
        if series.head[r] < 0:
            span[r, 0] = rows.frame[i]
        span[r, 1] = rows.frame[i]
        time = rows.frame[i] // state[0]
        e = series.tail[r]
        if e < 0 or series.time[e] != time:
            new = state[1]
            state[1] += 1
            if e < 0:
                series.head[r] = new
            else:
                series.following[e] = new
            series.tail[r] = new
            series.following[new] = -1
            series.time[new] = time
            series.sums[new, 0] = 0.0
            series.sums[new, 1] = 0.0
            series.sums[new, 2] = 0.0
            e = new
        series.sums[e, 0] += area
        series.sums[e, 1] += area * moved[i - begin, 0]
        series.sums[e, 2] += area * moved[i - begin, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def halve(series, entries):
    """Let two moments of time become one in all series; returns how many entries are left.

    Entries are put in the order of their tracks; what was left free between is free again.
    """
    following = series.following
    time = series.time
    sums = series.sums
    old_following = np.empty(entries, np.int32)
    old_time = np.empty(entries, np.int32)
    old_sums = np.empty((entries, 3), np.float64)
    for e in range(entries):
        old_following[e] = following[e]
        old_time[e] = time[e]
        for c in range(3):
            old_sums[e, c] = sums[e, c]
    n = np.int64(0)
    for r in range(series.head.size):
        e = series.head[r]
        if e < 0:
            continue
        series.head[r] = n
        last = np.int64(-1)
        while e >= 0:
            half = old_time[e] // 2
            if last >= 0 and time[last] == half:
                for c in range(3):
                    sums[last, c] += old_sums[e, c]
            else:
                if last >= 0:
                    following[last] = n
                time[n] = half
                for c in range(3):
                    sums[n, c] = old_sums[e, c]
                last = n
                n += 1
            e = old_following[e]
        following[last] = -1
        series.tail[r] = last
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def gather_contacts(first, second, length, contrast, pairs, count):
    """Add rows of the table of contacts to `pairs`, which has room; return how many there are.

    Sums: length, and contrast times length.
    """
    for i in range(first.size):
        slot = find_slot(first[i], second[i], pairs)
        if pairs.slots[slot] < 0:
            count = add_pair(first[i], second[i], slot, pairs, count)
        row = pairs.slots[slot]
        sides = np.float64(length[i])
        pairs.sums[row, 0] += sides
        pairs.sums[row, 1] += sides * np.float64(contrast[i])
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def refill(pairs, count):
    """Enter the first `count` rows of a table of pairs into its empty slots."""
    for row in range(count):
        slot = find_slot(pairs.first[row], pairs.second[row], pairs)
        pairs.slots[slot] = row


@njit(cache=True, nogil=True, error_model="numpy")
def fade_contacts(old, old_sums, fade, new, new_sums, pairs, sums):
    """Write the union of two tables of pairs, both in order, and old sums that fade plus new ones.

    old, new: (m,) and (n,) uint64 in which each pair is once; sums (·, 2) float64. Writes pairs and
    sums (at least m + n rows); returns how many there are.
    """
    i = 0
    j = 0
    count = 0
    while i < old.size or j < new.size:
        if j == new.size or (i < old.size and old[i] <= new[j]):
            pairs[count] = old[i]
            for c in range(2):
                sums[count, c] = fade * old_sums[i, c]
            if j < new.size and new[j] == old[i]:
                for c in range(2):
                    sums[count, c] += new_sums[j, c]
                j += 1
            i += 1
        else:
            pairs[count] = new[j]
            for c in range(2):
                sums[count, c] = new_sums[j, c]
            j += 1
        count += 1
    return count

"""Two motions in one segment, told apart.

Labels (h, w) are int32 rows of the track table, negative where nothing is known; flow (h, w, 2)
float32 says to where each pixel was in the frame before. Motion varies little from one pixel to
the next, so statistics look at every `stride`-th pixel of every `stride`-th row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class Limits(NamedTuple):
    """When two motions are two."""

    samples: Any  # pixels that must be looked at
    share: Any  # of them that either motion must have
    gap_sq: Any  # squared pixels between the two
    explained: Any  # share of the variance that the two must explain


@njit(cache=True, nogil=True, error_model="numpy")
def measure_flow(labels, flow, stride, sums):
    """Sum 1, x, y, xx, xy and yy of the flow over the pixels of each label: sums (k, 6) float64."""
    h, w = labels.shape
    sums[:] = 0.0
    for y in range(stride // 2, h, stride):
        for x in range(stride // 2, w, stride):
            label = labels[y, x]
            if label < 0:
                continue
            back_x = np.float64(flow[y, x, 0])
            back_y = np.float64(flow[y, x, 1])
            s = sums[label]
            s[0] += 1.0
            s[1] += back_x
            s[2] += back_y
            s[3] += back_x * back_x
            s[4] += back_x * back_y
            s[5] += back_y * back_y


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def nearer(back_x, back_y, pair):
    """Return which of the two flows of a pair (4,) is nearer, 0 or 1; ties go to the first."""
    ax = back_x - pair[0]
    ay = back_y - pair[1]
    bx = back_x - pair[2]
    by = back_y - pair[3]
    return int(bx * bx + by * by < ax * ax + ay * ay)


@njit(cache=True, nogil=True, error_model="numpy")
def begin_pairs(sums, limits, chosen, pairs, counts, means, variances):
    """Choose the labels whose flow varies enough for two motions, and where to look for the two.

    sums (k, 6) as from `measure_flow`; limits: `Limits`. Writes chosen (k,) int32: a row of what
    follows, or -1; pairs (k, 4): the mean less and plus one standard deviation, along the direction
    in which it varies most; counts, variances (k,) and means (k, 2). Returns how many are chosen.
    """
    # the least variance that two motions so far apart and so uneven can have
    least = limits.share * (1.0 - limits.share) * limits.gap_sq
    n = 0
    for label in range(chosen.size):
        chosen[label] = -1
        count = sums[label, 0]
        if count < limits.samples:
            continue
        x = sums[label, 1] / count
        y = sums[label, 2] / count
        xx = sums[label, 3] / count - x * x
        xy = sums[label, 4] / count - x * y
        yy = sums[label, 5] / count - y * y
        if xx + yy < least:
            continue
        angle = 0.5 * np.arctan2(2.0 * xy, xx - yy)
        longest = np.sqrt(0.5 * (xx + yy) + np.hypot(0.5 * (xx - yy), xy))
        across = longest * np.cos(angle)
        down = longest * np.sin(angle)
        pairs[n, 0] = x - across
        pairs[n, 1] = y - down
        pairs[n, 2] = x + across
        pairs[n, 3] = y + down
        counts[n] = count
        means[n, 0] = x
        means[n, 1] = y
        variances[n] = xx + yy
        chosen[label] = n
        n += 1
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def judge_pairs(chosen, limits, counts, means, variances, shares, motion, grown, pairs):
    """Leave those chosen whose two motions are two, the one that stays first; return how many.

    Rows as from `begin_pairs`; shares (n, 2): how many of the pixels each of the two has; motion
    (k, 2) and grown (k,) bool of the labels: of late, and whether there is any. Of the two the one
    nearer to that stays; of a newborn the one nearer to the mean of all.
    """
    apart = 0
    for label in range(chosen.size):
        r = chosen[label]
        if r < 0:
            continue
        first = shares[r, 0] / counts[r]
        second = shares[r, 1] / counts[r]
        across = pairs[r, 0] - pairs[r, 2]
        down = pairs[r, 1] - pairs[r, 3]
        gap_sq = across * across + down * down
        between = first * second * gap_sq
        enough = gap_sq >= limits.gap_sq and min(first, second) >= limits.share
        if not enough or between < limits.explained * variances[r]:
            chosen[label] = -1
            continue
        apart += 1
        x = -motion[label, 0] if grown[label] else means[r, 0]
        y = -motion[label, 1] if grown[label] else means[r, 1]
        if nearer(x, y, pairs[r]):
            for k in range(2):
                pairs[r, k], pairs[r, 2 + k] = pairs[r, 2 + k], pairs[r, k]
    return apart


@njit(cache=True, nogil=True, error_model="numpy")
def gather_flow(labels, flow, stride, chosen, rows, back):
    """List the pixels of chosen labels: their row to rows (n,) int32, their flow to back (n, 2).

    chosen (k,) int32: the row of a label, or -1; back is float32.
    """
    h, w = labels.shape
    n = 0
    if not rows.size:
        return
    for y in range(stride // 2, h, stride):
        for x in range(stride // 2, w, stride):
            label = labels[y, x]
            if label >= 0 and chosen[label] >= 0:
                rows[n] = chosen[label]
                back[n, 0] = flow[y, x, 0]
                back[n, 1] = flow[y, x, 1]
                n += 1


@njit(cache=True, nogil=True, error_model="numpy")
def part_flow(rows, back, rounds, pairs, shares):
    """Find two flows in each row, as 2-means does.

    rows (n,) and back (n, 2) as `gather_flow` lists them; pairs (m, 4) float64: two flows, x and y
    of each, to begin with, which are improved; shares (m, 2) float64: how many of the pixels were
    nearer to each of the two in the last of the rounds.
    """
    sums = np.empty((pairs.shape[0], 2, 2))
    for _ in range(rounds):
        sums[:] = 0.0
        shares[:] = 0.0
        for i in range(rows.size):
            r = rows[i]
            back_x = np.float64(back[i, 0])
            back_y = np.float64(back[i, 1])
            side = nearer(back_x, back_y, pairs[r])
            shares[r, side] += 1.0
            sums[r, side, 0] += back_x
            sums[r, side, 1] += back_y
        for r in range(pairs.shape[0]):
            for side in range(2):
                if shares[r, side] > 0.0:
                    pairs[r, 2 * side] = sums[r, side, 0] / shares[r, side]
                    pairs[r, 2 * side + 1] = sums[r, side, 1] / shares[r, side]


@njit(cache=True, nogil=True, error_model="numpy")
def unlabel_second_motion(labels, flow, chosen, pairs, count, name):
    """Write `name` over the pixels of chosen labels whose flow is nearer to the second of a pair.

    chosen (k,) int32: the row of a label in pairs (m, 4) float64, or -1; count: how many are.
    """
    h, w = labels.shape
    if count == 0:
        return
    for y in range(h):
        for x in range(w):
            label = labels[y, x]
            if label < 0 or chosen[label] < 0:
                continue
            if nearer(np.float64(flow[y, x, 0]), np.float64(flow[y, x, 1]), pairs[chosen[label]]):
                labels[y, x] = name

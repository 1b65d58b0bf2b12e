"""Two motions in one segment, told apart.

Labels (h, w) are int32 rows of the track table, negative where nothing is known; flow (h, w, 2)
float32 says to where each pixel was in the frame before. Motion varies little from one pixel to
the next, so statistics look at every `stride`-th pixel of every `stride`-th row.
"""

from __future__ import annotations

import numpy as np
from numba import njit


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
def gather_flow(labels, flow, stride, chosen, rows, back):
    """List the pixels of chosen labels: their row to rows (n,) int32, their flow to back (n, 2).

    chosen (k,) int32: the row of a label, or -1; back is float32.
    """
    h, w = labels.shape
    n = 0
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
def unlabel_second_motion(labels, flow, chosen, pairs, name):
    """Write `name` over the pixels of chosen labels whose flow is nearer to the second of a pair.

    chosen (k,) int32: the row of a label in pairs (m, 4) float64, or -1.
    """
    h, w = labels.shape
    for y in range(h):
        for x in range(w):
            label = labels[y, x]
            if label < 0 or chosen[label] < 0:
                continue
            if nearer(np.float64(flow[y, x, 0]), np.float64(flow[y, x, 1]), pairs[chosen[label]]):
                labels[y, x] = name

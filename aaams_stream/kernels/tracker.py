"""Loops over the pixels of a frame in which an object is followed."""

from __future__ import annotations

import numpy as np
from numba import njit

BINS_L, BINS_AB = 16, 28  # of the colour histograms: 6 units of L, 5 of a and b


@njit(cache=True, nogil=True, error_model="numpy")
def colour_bins(planes, out):
    """Write the histogram bin (h, w) int32 of every pixel; planes (3, h, pitch) L*a*b*."""
    h, w = out.shape
    for y in range(h):
        for x in range(w):
            i = min(max(int(planes[0, y, x] * (BINS_L / 100.0)), 0), BINS_L - 1)
            j = min(max(int((planes[1, y, x] + 70.0) * (BINS_AB / 140.0)), 0), BINS_AB - 1)
            k = min(max(int((planes[2, y, x] + 70.0) * (BINS_AB / 140.0)), 0), BINS_AB - 1)
            out[y, x] = (i * BINS_AB + j) * BINS_AB + k


@njit(cache=True, nogil=True, error_model="numpy")
def shrink(planes, cell, out):
    """Write the means (c, h', w') float32 of squares of `cell` pixels; planes (c, h, w)."""
    channels, h, w = out.shape
    for c in range(channels):
        for y in range(h):
            for x in range(w):
                total = np.float64(0.0)
                for v in range(y * cell, (y + 1) * cell):
                    for u in range(x * cell, (x + 1) * cell):
                        total += planes[c, v, u]
                out[c, y, x] = total / (cell * cell)


@njit(cache=True, nogil=True, error_model="numpy")
def find_shift(before, weight, now, box, guess, reach, most, pull):
    """Find how far the weighted part of a picture moved: the shift with least difference.

    before, now (3, h, w) float32; weight (h, w) float32, 0 outside box (4,): x0, y0, x1, y1. All
    shifts within `reach` of guess (2,) x, y are tried. Absolute differences count up to `most`, as
    much as places outside the picture; `pull` a pixel draws to the guess. Returns x, y.
    """
    h, w = weight.shape
    best = np.float64(np.inf)
    best_x = guess[0]
    best_y = guess[1]
    for dy in range(guess[1] - reach, guess[1] + reach + 1):
        for dx in range(guess[0] - reach, guess[0] + reach + 1):
            away = np.sqrt(np.float64((dx - guess[0]) ** 2 + (dy - guess[1]) ** 2))
            total = pull * away
            for y in range(box[1], box[3]):
                if total >= best:
                    break
                v = y + dy
                for x in range(box[0], box[2]):
                    if weight[y, x] <= 0.0:
                        continue
                    u = x + dx
                    gap = most
                    if 0 <= u < w and 0 <= v < h:
                        gap = np.float64(0.0)
                        for c in range(3):
                            gap += abs(before[c, y, x] - now[c, v, u])
                        gap = min(gap, most)
                    total += weight[y, x] * gap
            if total < best:
                best = total
                best_x = dx
                best_y = dy
    return best_x, best_y


@njit(cache=True, nogil=True, error_model="numpy")
def warp_belief(belief, labels, motion, shift, outside, out):
    """Warp a map of belief into the next frame: half by each segment's motion, half by `shift`.

    belief, out (h, w) float32; labels (h, w) int32, rows of motion (k, 2) float32; shift (2,)
    float64; outside: the belief in what was out of the picture.
    """
    h, w = belief.shape
    for y in range(h):
        for x in range(w):
            i = labels[y, x]
            total = np.float64(0.0)
            for way in range(2):
                mx = np.float64(motion[i, 0]) if way == 0 else shift[0]
                my = np.float64(motion[i, 1]) if way == 0 else shift[1]
                u = int(np.floor(x - mx + 0.5))
                v = int(np.floor(y - my + 0.5))
                if 0 <= u < w and 0 <= v < h:
                    total += belief[v, u]
                else:
                    total += outside
            out[y, x] = 0.5 * total


@njit(cache=True, nogil=True, error_model="numpy")
def blur(values, reach, spare):
    """Blur values (h, w) float32 in place by a box of 2·reach + 1 pixels; spare (h, w) is used."""
    h, w = values.shape
    side = 2 * reach + 1
    for y in range(h):
        total = np.float64(0.0)
        for x in range(-reach, reach + 1):
            total += values[y, min(max(x, 0), w - 1)]
        for x in range(w):
            spare[y, x] = total / side
            total += values[y, min(x + reach + 1, w - 1)]
            total -= values[y, max(x - reach, 0)]
    column = np.zeros(w, np.float64)
    for y in range(-reach, reach + 1):
        for x in range(w):
            column[x] += spare[min(max(y, 0), h - 1), x]
    for y in range(h):
        for x in range(w):
            values[y, x] = column[x] / side
            column[x] += spare[min(y + reach + 1, h - 1), x]
            column[x] -= spare[max(y - reach, 0), x]


@njit(cache=True, nogil=True, error_model="numpy")
def count_colours(belief, bins, box, far, inside, outside):
    """Add up the colours of the object and of what is around it.

    belief (h, w) float32; bins (h, w) int32; box (4,): pixels outside it count `far`. Adds to
    inside and outside (n,) float64.
    """
    h, w = belief.shape
    for y in range(h):
        for x in range(w):
            near = box[0] <= x < box[2] and box[1] <= y < box[3]
            inside[bins[y, x]] += belief[y, x]
            outside[bins[y, x]] += (1.0 - belief[y, x]) * (1.0 if near else far)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_evidence(labels, bins, odds, warped, colour, place):
    """Add up over each segment the colour's log odds and the belief warped there.

    labels, bins (h, w) int32; odds (n,) float64; warped (h, w) float32; writes colour, place (k,).
    """
    h, w = labels.shape
    colour[:] = 0.0
    place[:] = 0.0
    for y in range(h):
        for x in range(w):
            colour[labels[y, x]] += odds[bins[y, x]]
            place[labels[y, x]] += warped[y, x]


@njit(cache=True, nogil=True, error_model="numpy")
def decide_pixels(labels, bins, odds, warped, verdict, mean, trust, least, most, out, share):
    """Decide each pixel: the log odds of its segment, and how it differs from its segment's mean.

    verdict (k,) float64: log odds of the segments; mean (k, 2) float64: their log odds by place
    and by colour alone; trust (2,) float64: weights of both. warped (h, w) float32 is kept `least`
    away from 0 and 1. A pixel differs by at most `most`, so that no segment is cut of which all
    is certain. Writes out (h, w) float32 and share (k,) float64, its sums.
    """
    h, w = labels.shape
    share[:] = 0.0
    for y in range(h):
        for x in range(w):
            i = labels[y, x]
            q = min(max(np.float64(warped[y, x]), least), 1.0 - least)
            own = trust[0] * (np.log(q / (1.0 - q)) - mean[i, 0])
            own += trust[1] * (odds[bins[y, x]] - mean[i, 1])
            value = verdict[i] + min(max(own, -most), most)
            out[y, x] = 1.0 / (1.0 + np.exp(-value))
            share[i] += out[y, x]

"""Boundaries of warped labels, decided again; pixels without a label that join a neighbour.

Labels (h, w) are int32 rows of the track table, negative where nothing is known. Floats are
float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from aaams_stream.kernels.common import LANES


class Poll(NamedTuple):
    """Whom a pixel asks, and how votes weigh."""

    warped: Any  # (h, w) label predicted for each pixel, or -1
    planes: Any  # (3, h, pitch) L*a*b*
    colour_scale: Any  # 1/(64 σr²)
    reach: Any  # int: pixels
    stay: Any  # head start of the label that was predicted


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def colour_weight(dl, da, db, scale):
    """exp(-32·scale·|Δcolour|²), as a polynomial: no branch and no call, so loops vectorise."""
    s = min((dl * dl + da * da + db * db) * scale, np.float32(1.0))
    p = np.float32(1.0) - s + np.float32(0.5) * s * s
    p = p * p
    p = p * p
    p = p * p
    p = p * p
    return p * p


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def weigh_square(colours, pitch, labels, h, w, y, x, reach, colour_scale, first, second):
    """Sum the weights of the pixels within reach of (y, x), itself included, that bear a label.

    colours (3·h·pitch,) and labels (h·w,) are flat. Returns the sums of the labels `first` and
    `second`. The square lies inside the picture; its rows are read in whole lanes, which end
    before the picture does.
    """
    plane = np.uintp(h * pitch)
    here = np.uintp(y * pitch + x)
    own_l = colours[here]
    own_a = colours[here + plane]
    own_b = colours[here + plane + plane]
    side = np.int32(2 * reach + 1)
    none = np.float32(0.0)
    total = np.float32(0.0)
    other = np.float32(0.0)
    for v in range(y - reach, y + reach + 1):
        at = np.uintp(v * w + x - reach)
        at_l = np.uintp(v * pitch + x - reach)
        at_a = at_l + plane
        at_b = at_a + plane
        for j in range(np.uintp(LANES)):
            dl = colours[at_l + j] - own_l
            da = colours[at_a + j] - own_a
            db = colours[at_b + j] - own_b
            weight = colour_weight(dl, da, db, colour_scale)
            weight = weight if np.int32(j) < side else none
            total += weight if labels[at + j] == first else none
            other += weight if labels[at + j] == second else none
    return total, other


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_corner(planes, labels, y, x, reach, colour_scale, name):
    """Sum the weights as `weigh_square` does, of one label, where the picture ends nearby."""
    h, w = labels.shape
    total = np.float32(0.0)
    for v in range(max(y - reach, 0), min(y + reach + 1, h)):
        for u in range(max(x - reach, 0), min(x + reach + 1, w)):
            if labels[v, u] == name:
                dl = planes[0, v, u] - planes[0, y, x]
                da = planes[1, v, u] - planes[1, y, x]
                db = planes[2, v, u] - planes[2, y, x]
                total += colour_weight(dl, da, db, colour_scale)
    return total


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def poll_neighbours(
    y, x, labels, flat_labels, warped, planes, colours, colour_scale, reach, stay, names, sums
):
    """Sum the kernel weights of the pixels around (y, x) for each label next to it.

    Weights are exp(-32·scale·|Δcolour|²) within `reach` pixels, at most 7; the label predicted
    for the pixel has a head start. flat_labels and colours are labels and planes, flat.
    Writes names and sums (6,); returns how many labels there are, its own first. A pixel with a
    label and no other beside it has no sums.
    """
    h, w = labels.shape
    own = labels[y, x]
    for k in range(6):
        names[k] = -1
    names[0] = own
    n = int(own >= 0)
    for step in range(4):
        v = min(max(y + (step == 0) - (step == 1), 0), h - 1)
        u = min(max(x + (step == 2) - (step == 3), 0), w - 1)
        name = labels[np.uintp(v), np.uintp(u)]  # unsigned: not checked for counting from the end
        known = name < 0
        for k in range(4):
            known |= names[k] == name
        names[n] = name  # no branch: one that is known will be written over
        n += not known
    names[n] = -1
    if n <= int(own >= 0):
        return n
    inside = y >= reach and y + reach < h and x >= reach and x + reach < w
    if inside and (y + reach) * w + x - reach + LANES <= h * w:
        for k in range(0, n, 2):
            sums[k], sums[k + 1] = weigh_square(
                colours,
                planes.shape[2],
                flat_labels,
                h,
                w,
                y,
                x,
                reach,
                colour_scale,
                names[k],
                names[k + 1],
            )
    else:
        for k in range(n):
            sums[k] = weigh_corner(planes, labels, y, x, reach, colour_scale, names[k])
    if own >= 0:
        sums[0] -= np.float32(1.0)  # the pixel itself has no vote
    for k in range(n):
        if names[k] == warped[y, x]:
            sums[k] += stay
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def relabel_boundary(labels, poll, out):
    """Re-estimate pixels on the boundary of segments: the neighbour segment with most weight.

    Reads labels, writes out: all pixels at once. Pixels without a label stay without.
    """
    warped, planes, colour_scale, reach, stay = poll
    h, w = labels.shape
    flat_labels = labels.reshape(labels.size)
    colours = planes.reshape(planes.size)
    names = np.empty(6, np.int32)
    sums = np.empty(6, np.float32)
    edge = np.empty(w, np.bool_)
    for y in range(h):
        row = labels[y]
        above = labels[max(y - 1, 0)]
        below = labels[min(y + 1, h - 1)]
        for x in range(w):
            edge[x] = (row[x] != above[x]) | (row[x] != below[x])
        for x in range(w - 1):
            edge[x] |= row[x] != row[x + 1]
        for x in range(1, w):
            edge[x] |= row[x] != row[x - 1]
        for x in range(w):
            out[y, x] = row[x]
            if row[x] < 0 or not edge[x]:
                continue
            n = poll_neighbours(
                y,
                x,
                labels,
                flat_labels,
                warped,
                planes,
                colours,
                colour_scale,
                reach,
                stay,
                names,
                sums,
            )
            best = 0
            for k in range(1, n):
                if sums[k] > sums[best]:
                    best = k
            out[y, x] = names[best]


@njit(cache=True, nogil=True, error_model="numpy")
def write_joined(pixels, joined, reach, labels, ask):
    """Write the labels joined, where there is one; mark in ask (h, w) what lies within reach."""
    h, w = labels.shape
    ask[:] = False
    for i in range(pixels.size):
        if joined[i] < 0:
            continue
        y = pixels[i] // w
        x = pixels[i] % w
        labels[y, x] = joined[i]
        for v in range(max(y - reach, 0), min(y + reach + 1, h)):
            for u in range(max(x - reach, 0), min(x + reach + 1, w)):
                ask[v, u] = True


@njit(cache=True, nogil=True, error_model="numpy")
def grow_labels(pixels, labels, poll, enough, rounds):
    """Let pixels without a label join the neighbour segment with most weight, if it is `enough`.

    pixels (m,): flat indices into labels (h, w), which is written. In a round all pixels read the
    same labels; one is asked again only if another within its reach has joined, since otherwise
    its answer would be the same.
    """
    warped, planes, colour_scale, reach, stay = poll
    h, w = labels.shape
    joined = np.empty(pixels.size, np.int32)
    ask = np.ones((h, w), np.bool_)
    flat_ask = ask.reshape(ask.size)
    flat_labels = labels.reshape(labels.size)
    colours = planes.reshape(planes.size)
    names = np.empty(6, np.int32)
    sums = np.empty(6, np.float32)
    for _ in range(rounds):
        for i in range(pixels.size):
            joined[i] = -1
            if flat_labels[pixels[i]] >= 0 or not flat_ask[pixels[i]]:
                continue
            y = np.int64(np.uint32(pixels[i]) // np.uint32(w))  # in half the time of int64
            x = pixels[i] - y * w
            n = poll_neighbours(
                y,
                x,
                labels,
                flat_labels,
                warped,
                planes,
                colours,
                colour_scale,
                reach,
                stay,
                names,
                sums,
            )
            most = np.float32(0.0)
            for k in range(n):
                if sums[k] >= enough and sums[k] > most:
                    most = sums[k]
                    joined[i] = names[k]
        write_joined(pixels, joined, reach, labels, ask)

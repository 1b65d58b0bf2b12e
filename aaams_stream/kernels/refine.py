"""Boundaries of warped labels, decided again; pixels without a label that join a neighbour.

Labels (h, w) are int32 rows of the track table, negative where nothing is known. Floats are
float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from aaams_stream.kernels.common import empty_marks, list_marked, mark_ends

# Pixels around a boundary pixel that vote. Larger: smoother outlines, thin things vanish. It cannot
# be tuned: `weigh_square` names the five rows of the square.
REACH = 2
_NONE, _SEVERAL = -1, -2
_LANES = 8  # read of each row of the square


class Poll(NamedTuple):
    """Whom a pixel asks, and how votes weigh."""

    warped: Any  # (h, w) label predicted for each pixel, or -1
    planes: Any  # (3, h, pitch) L*a*b*
    colour_scale: Any  # 1/(64 σr²)
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


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def weigh_pixel(colours, at, plane, own_l, own_a, own_b, colour_scale):
    """Return the weight of the pixel at a flat index under a colour."""
    dl = colours[at] - own_l
    da = colours[at + plane] - own_a
    db = colours[at + plane + plane] - own_b
    return colour_weight(dl, da, db, colour_scale)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def weigh_square(colours, pitch, labels, h, w, y, x, colour_scale, first, second):
    """Sum the weights of the pixels within REACH of (y, x), itself included, that bear a label.

    colours (3·h·pitch,) and labels (h·w,) are flat. Returns the sums of the labels `first` and
    `second`. The square lies inside the picture; its rows are read in whole lanes, which end
    before the picture does. Its five rows are weighed side by side: lanes are summed up once.
    """
    plane = np.uintp(h * pitch)
    here = np.uintp(y * pitch + x)
    own_l = colours[here]
    own_a = colours[here + plane]
    own_b = colours[here + plane + plane]
    none = np.float32(0.0)
    total = np.float32(0.0)
    other = np.float32(0.0)
    a = np.uintp((y - REACH) * pitch + x - REACH)
    b = a + np.uintp(pitch)
    c = b + np.uintp(pitch)
    d = c + np.uintp(pitch)
    e = d + np.uintp(pitch)
    p = np.uintp((y - REACH) * w + x - REACH)
    q = p + np.uintp(w)
    r = q + np.uintp(w)
    s = r + np.uintp(w)
    t = s + np.uintp(w)
    for j in range(np.uintp(_LANES)):
        wa = weigh_pixel(colours, a + j, plane, own_l, own_a, own_b, colour_scale)
        wb = weigh_pixel(colours, b + j, plane, own_l, own_a, own_b, colour_scale)
        wc = weigh_pixel(colours, c + j, plane, own_l, own_a, own_b, colour_scale)
        wd = weigh_pixel(colours, d + j, plane, own_l, own_a, own_b, colour_scale)
        we = weigh_pixel(colours, e + j, plane, own_l, own_a, own_b, colour_scale)
        for_first = wa if labels[p + j] == first else none
        for_first += wb if labels[q + j] == first else none
        for_first += wc if labels[r + j] == first else none
        for_first += wd if labels[s + j] == first else none
        for_first += we if labels[t + j] == first else none
        for_second = wa if labels[p + j] == second else none
        for_second += wb if labels[q + j] == second else none
        for_second += wc if labels[r + j] == second else none
        for_second += wd if labels[s + j] == second else none
        for_second += we if labels[t + j] == second else none
        within = np.int32(j) < np.int32(2 * REACH + 1)
        total += for_first if within else none
        other += for_second if within else none
    return total, other


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_corner(planes, labels, y, x, colour_scale, name):
    """Sum the weights as `weigh_square` does, of one label, where the picture ends nearby."""
    h, w = labels.shape
    total = np.float32(0.0)
    for v in range(max(y - REACH, 0), min(y + REACH + 1, h)):
        for u in range(max(x - REACH, 0), min(x + REACH + 1, w)):
            if labels[v, u] == name:
                dl = planes[0, v, u] - planes[0, y, x]
                da = planes[1, v, u] - planes[1, y, x]
                db = planes[2, v, u] - planes[2, y, x]
                total += colour_weight(dl, da, db, colour_scale)
    return total


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def is_inside(y, x, h, w):
    """Tell whether `weigh_square` may read around (y, x)."""
    inside = y >= REACH and y + REACH < h and x >= REACH and x + REACH < w
    return inside and (y + REACH) * w + x - REACH + _LANES <= h * w


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def one_other(own, a, b, c, d):
    """Return the one label other than its own beside a pixel; _NONE or _SEVERAL if not just one."""
    other = np.int32(_NONE)
    for name in (a, b, c, d):
        if name >= 0 and name != own and name != other:
            other = name if other == _NONE else np.int32(_SEVERAL)
    return other


@njit(cache=True, nogil=True, error_model="numpy")
def poll_neighbours(
    y, x, labels, flat_labels, warped, planes, colours, colour_scale, stay, names, sums
):
    """Sum the kernel weights of the pixels around (y, x) for each label next to it.

    Weights are exp(-32·scale·|Δcolour|²) within REACH pixels; the label predicted for the pixel
    has a head start. flat_labels and colours are labels and planes, flat.
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
    if is_inside(y, x, h, w):
        for k in range(0, n, 2):
            sums[k], sums[k + 1] = weigh_square(
                colours,
                planes.shape[2],
                flat_labels,
                h,
                w,
                y,
                x,
                colour_scale,
                names[k],
                names[k + 1],
            )
    else:
        for k in range(n):
            sums[k] = weigh_corner(planes, labels, y, x, colour_scale, names[k])
    if own >= 0:
        sums[0] -= np.float32(1.0)  # the pixel itself has no vote
    for k in range(n):
        if names[k] == warped[y, x]:
            sums[k] += stay
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def relabel_boundary(first, last, labels, poll, unlabelled, out, fringe):
    """Re-estimate pixels on the boundary of segments: the neighbour segment with most weight.

    Reads labels, writes the rows from `first` to before `last` of out: all pixels at once. Pixels
    without a label stay without; those that bear `unlabelled` are listed in fringe, int32, a place
    for each pixel of these rows, as flat indices. Returns how many.
    """
    warped, planes, colour_scale, stay = poll
    h, w = labels.shape
    flat_labels = labels.reshape(labels.size)
    colours = planes.reshape(planes.size)
    names = np.empty(6, np.int32)
    sums = np.empty(6, np.float32)
    marks = empty_marks(w)
    places = np.empty(w + 1, np.int32)
    left_out = 0
    for y in range(first, last):
        row = labels[y]
        above = labels[max(y - 1, 0)]
        below = labels[min(y + 1, h - 1)]
        for x in range(w):
            out[y, x] = row[x]
            marks[x] = (row[x] != above[x]) | (row[x] != below[x]) | (row[x] < 0)
        mark_ends(row, marks)
        for x in range(1, w):
            marks[x] |= row[x] != row[x - 1]
        for i in range(list_marked(marks, places)):
            x = np.int64(places[i])
            if row[x] < 0:
                fringe[left_out] = y * w + x
                left_out += row[x] == unlabelled
                continue
            other = one_other(
                row[x], below[x], above[x], row[min(x + 1, w - 1)], row[max(x - 1, 0)]
            )
            if other == _NONE:
                continue
            if other >= 0 and is_inside(y, x, h, w):  # as most have it: the same in half the time
                mine, theirs = weigh_square(
                    colours, planes.shape[2], flat_labels, h, w, y, x, colour_scale, row[x], other
                )
                mine -= np.float32(1.0)
                mine += stay if warped[y, x] == row[x] else np.float32(0.0)
                theirs += stay if warped[y, x] == other else np.float32(0.0)
                out[y, x] = other if theirs > mine else row[x]
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
                stay,
                names,
                sums,
            )
            best = 0
            for k in range(1, n):
                if sums[k] > sums[best]:
                    best = k
            out[y, x] = names[best]
    return left_out


@njit(cache=True, nogil=True, error_model="numpy")
def write_joined(pixels, joined, labels, ask):
    """Write the labels joined, where there is one; mark in ask (h, w) what lies within REACH."""
    h, w = labels.shape
    ask[:] = False
    for i in range(pixels.size):
        if joined[i] < 0:
            continue
        y = pixels[i] // w
        x = pixels[i] % w
        labels[y, x] = joined[i]
        for v in range(max(y - REACH, 0), min(y + REACH + 1, h)):
            for u in range(max(x - REACH, 0), min(x + REACH + 1, w)):
                ask[v, u] = True


@njit(cache=True, nogil=True, error_model="numpy")
def grow_labels(pixels, labels, poll, enough, rounds):
    """Let pixels without a label join the neighbour segment with most weight, if it is `enough`.

    pixels (m,): flat indices into labels (h, w), which is written. In a round all pixels read the
    same labels; one is asked again only if another within REACH has joined, since otherwise its
    answer would be the same.
    """
    warped, planes, colour_scale, stay = poll
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
            x = np.int64(pixels[i]) - y * w
            own = np.int32(_NONE)
            other = one_other(
                own,
                labels[min(y + 1, h - 1), x],
                labels[max(y - 1, 0), x],
                labels[y, min(x + 1, w - 1)],
                labels[y, max(x - 1, 0)],
            )
            if other == _NONE:
                continue
            if other >= 0 and is_inside(y, x, h, w):
                theirs, _ = weigh_square(
                    colours, planes.shape[2], flat_labels, h, w, y, x, colour_scale, other, own
                )
                theirs += stay if warped[y, x] == other else np.float32(0.0)
                if theirs >= enough:
                    joined[i] = other
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
                stay,
                names,
                sums,
            )
            most = np.float32(0.0)
            for k in range(n):
                if sums[k] >= enough and sums[k] > most:
                    most = sums[k]
                    joined[i] = names[k]
        write_joined(pixels, joined, labels, ask)

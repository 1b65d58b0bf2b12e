"""Loops over the pixels of a frame in which an object is followed.

Most work inside a box (4,) int64: x0, y0, x1, y1, the surroundings of the object; arrays of a box
have the size of the box.
"""

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
def find_shift(before, weight, now, box, guess, reach, step, most, pull):
    """Find how far the weighted part of a picture moved: the shift with least difference.

    before, now (3, h, w) float32; weight (h, w) float32, 0 outside box (4,): x0, y0, x1, y1. All
    shifts within `reach` of guess (2,) x, y are tried, the nearest first, on each `step`-th row and
    column. Absolute differences count up to `most`, as much as places outside the picture; `pull`
    a pixel draws to the guess. Returns x, y.
    """
    h, w = weight.shape
    best = np.float64(np.inf)
    best_x = guess[0]
    best_y = guess[1]
    for ring in range(reach + 1):
        for j in range(-ring, ring + 1):
            for i in range(-ring, ring + 1):
                if max(abs(i), abs(j)) != ring:
                    continue
                total = pull * np.sqrt(np.float64(i * i + j * j))
                for y in range(box[1], box[3], step):
                    if total >= best:
                        break
                    v = y + guess[1] + j
                    for x in range(box[0], box[2], step):
                        if weight[y, x] <= 0.0:
                            continue
                        u = x + guess[0] + i
                        gap = most
                        if 0 <= u < w and 0 <= v < h:
                            gap = np.float64(0.0)
                            for c in range(3):
                                gap += abs(before[c, y, x] - now[c, v, u])
                            gap = min(gap, most)
                        total += weight[y, x] * gap
                if total < best:
                    best = total
                    best_x = guess[0] + i
                    best_y = guess[1] + j
    return best_x, best_y


@njit(cache=True, nogil=True, error_model="numpy")
def warp_belief(belief, planes, then, flow, box, shift, outside, out):
    """Warp a map of belief into the next frame along the flow, and by `shift` alone.

    belief (h, w) float32; planes, then (3, h, pitch) float32: L*a*b* of this frame and the one
    before; flow (h', w', 2) float32: from each pixel of the box to where it was; shift (2,)
    float64; outside: weight of the belief at the rim for what was out of the picture. Writes out
    (3, h', w') float32: the belief along the flow, that by the shift, and how much the colour
    changed along the flow.
    """
    h, w = belief.shape
    _, rows, columns = out.shape
    for y in range(rows):
        for x in range(columns):
            u = int(np.floor(box[0] + x + flow[y, x, 0] + 0.5))
            v = int(np.floor(box[1] + y + flow[y, x, 1] + 0.5))
            out[2, y, x] = 20.0
            out[0, y, x] = belief[min(max(v, 0), h - 1), min(max(u, 0), w - 1)]
            if not (0 <= u < w and 0 <= v < h):
                out[0, y, x] *= outside
            else:
                gap = np.float64(0.0)
                for c in range(3):
                    gap += abs(planes[c, box[1] + y, box[0] + x] - then[c, v, u])
                out[2, y, x] = min(gap, 60.0)
            u = int(np.floor(box[0] + x - shift[0] + 0.5))
            v = int(np.floor(box[1] + y - shift[1] + 0.5))
            out[1, y, x] = belief[min(max(v, 0), h - 1), min(max(u, 0), w - 1)]
            if not (0 <= u < w and 0 <= v < h):
                out[1, y, x] *= outside


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
def count_colours(belief, bins, box, far, stride, inside, outside):
    """Add up the colours of the object and of what is around it.

    belief (h, w) float32; bins (h, w) int32; box (4,): pixels outside it count `far`, and of them
    each `stride`-th row and column alone is read. Adds to inside and outside (n,) float64.
    """
    h, w = belief.shape
    for y in range(box[1], box[3]):
        for x in range(box[0], box[2]):
            inside[bins[y, x]] += belief[y, x]
            outside[bins[y, x]] += 1.0 - belief[y, x]
    for y in range(0, h, stride):
        for x in range(0, w, stride):
            if box[1] <= y < box[3] and box[0] <= x < box[2]:
                continue
            outside[bins[y, x]] += (1.0 - belief[y, x]) * far * stride * stride


@njit(cache=True, nogil=True, error_model="numpy")
def sum_evidence(labels, bins, odds, warped, flow, box, sums):
    """Add up over the part of each segment in the box what its pixels say.

    labels, bins (h, w) int32; odds (2, n) float64 of colours; warped (3, h', w') float32 and flow
    (h', w', 2) float32 of the box. Writes sums (k, 8) float64: pixels, log odds by the colours of
    first and of late, the three of warped, flow x, y.
    """
    sums[:] = 0.0
    for y in range(box[1], box[3]):
        for x in range(box[0], box[2]):
            i = labels[y, x]
            b = bins[y, x]
            v = y - box[1]
            u = x - box[0]
            sums[i, 0] += 1.0
            sums[i, 1] += odds[0, b]
            sums[i, 2] += odds[1, b]
            sums[i, 3] += warped[0, v, u]
            sums[i, 4] += warped[1, v, u]
            sums[i, 5] += warped[2, v, u]
            sums[i, 6] += flow[v, u, 0]
            sums[i, 7] += flow[v, u, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def compare_layers(belief, planes, then, labels, box, models, flow, change, pace, out, sums):
    """Ask of each pixel whether it came along with the object or with the ground.

    belief (h, w) float32 and then (3, h, pitch) are of the frame before, planes of this one;
    models (2, 6) float64: where a pixel of the object and one of the ground was, as
    u = m0 + m1 x + m2 y, v = m3 + m4 x + m5 y; flow (h', w', 2), and the change (h', w') of colour
    along it. pace: L*a*b* units (sum over channels) by which a likelihood falls to 1/e. Writes out
    (h', w') float32: log odds by colour and by where it would have been; sums (k, 2): those by
    colour alone, and both, over segments.
    """
    h, w = belief.shape
    sums[:] = 0.0
    gap = np.zeros(3, np.float64)
    was = np.zeros(3, np.float64)
    fall = np.exp(-np.arange(24 * 16 + 1) / (16.0 * pace))
    for y in range(box[1], box[3]):
        for x in range(box[0], box[2]):
            i = int(x + flow[y - box[1], x - box[0], 0] + 0.5)
            j = int(y + flow[y - box[1], x - box[0], 1] + 0.5)
            gap[2] = min(np.float64(change[y - box[1], x - box[0]]), 24.0)
            was[2] = belief[min(max(j, 0), h - 1), min(max(i, 0), w - 1)]
            for way in range(2):
                m = models[way]
                u = m[0] + m[1] * x + m[2] * y
                v = m[3] + m[4] * x + m[5] * y
                gone = u < -0.5 or v < -0.5 or u > w - 0.5 or v > h - 0.5
                u = min(max(u, 0.0), w - 1.001)
                v = min(max(v, 0.0), h - 1.001)
                i = int(u)
                j = int(v)
                below = min(j + 1, h - 1)
                a = u - i
                b = v - j
                total = np.float64(0.0)
                for c in range(3):
                    seen = (1.0 - b) * ((1.0 - a) * then[c, j, i] + a * then[c, j, i + 1])
                    seen += b * ((1.0 - a) * then[c, below, i] + a * then[c, below, i + 1])
                    total += abs(planes[c, y, x] - seen)
                gap[way] = min(total, 24.0)
                was[way] = belief[int(v + 0.5), int(u + 0.5)]
                if gone:  # nobody knows how it looked there
                    gap[way] = 12.0
                    was[way] *= 0.5
            k = labels[y, x]
            colour = (gap[1] - gap[0]) / pace
            along = (
                0.8 * was[0] * fall[int(16.0 * gap[0])] + 0.2 * was[2] * fall[int(16.0 * gap[2])]
            )
            ground = (1.0 - was[1]) * fall[int(16.0 * gap[1])] + 0.1 * was[1]
            both = np.log((along + 0.02) / (ground + 0.02))
            out[y - box[1], x - box[0]] = both
            sums[k, 0] += colour
            sums[k, 1] += both


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_pixels(bins, odds, warped, layers, box, trust, least, out):
    """Write what each pixel says by itself: log odds (h', w') float32 of place, layers and colour.

    bins (h, w) int32; odds (n,) float64 of colours; warped (3, h', w') float32, of which the mean
    of the first two is the place, kept `least` away from 0 and 1; layers (h', w') float32; trust
    (3,) float64: their weights.
    """
    for y in range(box[1], box[3]):
        for x in range(box[0], box[2]):
            v = y - box[1]
            u = x - box[0]
            q = 0.5 * (np.float64(warped[0, v, u]) + warped[1, v, u])
            q = min(max(q, least), 1.0 - least)
            value = trust[0] * np.log(q / (1.0 - q)) + trust[1] * layers[v, u]
            out[v, u] = value + trust[2] * odds[bins[y, x]]


@njit(cache=True, nogil=True, error_model="numpy")
def compare_parts(centre, colour, parts, near, alike, out):
    """Add up the remembered parts that resemble each segment.

    centre (n, 2), colour (n, 3); parts (m, 7): x, y, L, a, b, area, share; near, alike: 1 over
    twice the squared reach in pixels and in colour. Writes out (n, 2): weights of parts of the
    object and of others.
    """
    for i in range(len(centre)):
        inside = np.float64(0.0)
        outside = np.float64(0.0)
        for j in range(len(parts)):
            gap = near * ((centre[i, 0] - parts[j, 0]) ** 2 + (centre[i, 1] - parts[j, 1]) ** 2)
            if gap > 8.0:
                continue
            for c in range(3):
                gap += alike * (colour[i, c] - parts[j, 2 + c]) ** 2
            if gap > 8.0:
                continue
            weight = np.exp(-gap) * parts[j, 5]
            inside += weight * parts[j, 6]
            outside += weight * (1.0 - parts[j, 6])
        out[i, 0] = inside
        out[i, 1] = outside


@njit(cache=True, nogil=True, error_model="numpy")
def smooth_bins(values, mix, spare):
    """Blur a histogram (BINS_L, BINS_AB, BINS_AB) float64 in place along each axis.

    mix (r,) float64: the weights of a bin and those beside it, on either side alike; what would
    leave stays at the rim. spare has the shape of values.
    """
    n = values.shape
    for axis in range(3):
        for i in range(n[0]):
            for j in range(n[1]):
                for k in range(n[2]):
                    total = mix[0] * values[i, j, k]
                    for r in range(1, len(mix)):
                        if axis == 0:
                            total += mix[r] * values[max(i - r, 0), j, k]
                            total += mix[r] * values[min(i + r, n[0] - 1), j, k]
                        elif axis == 1:
                            total += mix[r] * values[i, max(j - r, 0), k]
                            total += mix[r] * values[i, min(j + r, n[1] - 1), k]
                        else:
                            total += mix[r] * values[i, j, max(k - r, 0)]
                            total += mix[r] * values[i, j, min(k + r, n[2] - 1)]
                    spare[i, j, k] = total
        values[:] = spare


@njit(cache=True, nogil=True, error_model="numpy")
def decide_pixels(own, labels, box, verdict, most, belief, share):
    """Write belief (h, w) float32, 0 outside the box, and its sums over segments, share (k,).

    verdict (k,) float64: log odds of the segments. A pixel differs from its segment as much as its
    own (h', w') differs from the mean of its segment, but by at most `most`, so that no segment is
    cut of which all is certain.
    """
    count = np.zeros(len(verdict), np.float64)
    mean = np.zeros(len(verdict), np.float64)
    for y in range(box[1], box[3]):
        for x in range(box[0], box[2]):
            count[labels[y, x]] += 1.0
            mean[labels[y, x]] += own[y - box[1], x - box[0]]
    for i in range(len(verdict)):
        mean[i] /= max(count[i], 1.0)
    belief[:] = 0.0
    share[:] = 0.0
    for y in range(box[1], box[3]):
        for x in range(box[0], box[2]):
            i = labels[y, x]
            gap = own[y - box[1], x - box[0]] - mean[i]
            value = verdict[i] + min(max(gap, -most), most)
            if value > 12.0 or value < -12.0:
                b = 1.0 if value > 0.0 else 0.0
            else:
                b = 1.0 / (1.0 + np.exp(-value))
            belief[y, x] = b
            share[i] += b


@njit(cache=True, nogil=True, error_model="numpy")
def enlarge_belief(belief, labels, ids, names, box, mask):
    """Decide the pixels of a frame from belief at half its size.

    belief (h', w') float32 and labels (h', w') int32, rows of names (k,) uint32; ids (h, w)
    uint32. A pixel mixes the four nearest of its own segment, or all four where none is. Writes
    mask (h, w) bool; box: where the object may be, at half the size.
    """
    h, w = ids.shape
    rows, columns = belief.shape
    mask[:] = False
    for y in range(2 * box[1], min(2 * box[3], h)):
        for x in range(2 * box[0], min(2 * box[2], w)):
            v = y >> 1
            u = x >> 1
            other_v = min(max(v + (1 if y & 1 else -1), 0), rows - 1)
            other_u = min(max(u + (1 if x & 1 else -1), 0), columns - 1)
            sure = 0
            for way in range(4):
                a = v if way < 2 else other_v
                b = u if way % 2 == 0 else other_u
                sure += 1 if belief[a, b] > 0.5 else 0
            if sure == 0 or sure == 4:  # they agree, whatever their segments are
                mask[y, x] = sure == 4
                continue
            own = np.float64(0.0)
            own_weight = np.float64(0.0)
            both = np.float64(0.0)
            for way in range(4):
                a = v if way < 2 else other_v
                b = u if way % 2 == 0 else other_u
                weight = (3.0 if way < 2 else 1.0) * (3.0 if way % 2 == 0 else 1.0)
                both += weight * belief[a, b]
                if names[labels[a, b]] == ids[y, x]:
                    own += weight * belief[a, b]
                    own_weight += weight
            if own_weight > 0.0:
                mask[y, x] = own > 0.5 * own_weight
            else:
                mask[y, x] = both > 8.0

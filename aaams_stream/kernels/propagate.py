"""From one frame to the next: carried labels, boundary votes, statistics of segments.

Labels (h, w) are int32 rows of the segment table, -1 where nothing is known. Floats are float32.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

_LANES = 16  # pixels per chunk of a window row: two vectors, no remainder


@njit(cache=True, error_model="numpy")
def trace_row(y, flow, columns, h, nearest, corner, part_x, part_y):
    """Find where the pixels of row y came from.

    flow (2w,): x and y of each vector in turn, which vectorises as (w, 2) would not; columns (w,):
    0, 1, 2... Writes flat indices (w,) int32: nearest, -1 if outside the picture, and corner, the
    upper left of the four pixels around; part_x, part_y (w,): how far it is from there to the next.
    """
    w = columns.size
    none = np.float32(0.0)
    half = np.float32(0.5)
    right = np.float32(w - 1)
    bottom = np.float32(h - 1)
    last_x = np.int32(max(w - 2, 0))
    last_y = np.int32(max(h - 2, 0))
    pitch = np.int32(w)
    row = np.float32(y)
    for x in range(w):
        sx = columns[x] + flow[2 * x]
        sy = row + flow[2 * x + 1]
        nx = np.floor(sx + half)
        ny = np.floor(sy + half)
        within = (nx >= none) & (ny >= none) & (nx <= right) & (ny <= bottom)
        nx = min(max(nx, none), right)
        ny = min(max(ny, none), bottom)
        place = np.int32(ny) * pitch + np.int32(nx)
        nearest[x] = place if within else np.int32(-1)
        sx = min(max(sx, none), right)
        sy = min(max(sy, none), bottom)
        x0 = min(np.int32(sx), last_x)
        y0 = min(np.int32(sy), last_y)
        corner[x] = y0 * pitch + x0
        part_x[x] = sx - np.float32(x0)
        part_y[x] = sy - np.float32(y0)


@njit(cache=True, error_model="numpy")
def compare_row(before, h, corner, part_x, part_y, row_l, row_a, row_b, gap):
    """Write how far colours lie from those where they came from, squared, to gap (w,).

    before (3hw,): the planes of the frame before; corner, part_x, part_y (w,) as `trace_row` found
    them; row_l, row_a, row_b (w,): the colours now.
    """
    w = gap.size
    plane = np.uintp(before.size // 3)
    # unsigned offsets: a signed index would be checked for counting from the end
    right = np.uintp(w > 1)
    down = np.uintp(w if h > 1 else 0)
    one = np.float32(1.0)
    for x in range(w):
        fx = part_x[x]
        fy = part_y[x]
        at = np.uintp(corner[x])
        top = before[at] * (one - fx) + before[at + right] * fx
        low = before[at + down] * (one - fx) + before[at + down + right] * fx
        dl = top * (one - fy) + low * fy - row_l[x]
        at += plane
        top = before[at] * (one - fx) + before[at + right] * fx
        low = before[at + down] * (one - fx) + before[at + down + right] * fx
        da = top * (one - fy) + low * fy - row_a[x]
        at += plane
        top = before[at] * (one - fx) + before[at + right] * fx
        low = before[at + down] * (one - fx) + before[at + down + right] * fx
        db = top * (one - fy) + low * fy - row_b[x]
        gap[x] = dl * dl + da * da + db * db


@njit(cache=True, parallel=True, error_model="numpy")
def carry_labels(
    before,
    planes_before,
    density_before,
    planes,
    flow,
    tolerance_sq,
    colours,
    watched,
    outlier_sq,
    inlier_sq,
    strange_sq,
    prior,
    labels,
    density,
    inside,
    strange,
):
    """Carry labels along the motion; keep those whose pixel still has its earlier colour.

    before (h, w): labels of the frame before; flow (h, w, 2): where each pixel came from. prior
    gets the carried label, or -1 from outside the picture; labels the same where the colour at
    the source (bilinear) lies within the tolerance and, in watched (k,) segments, is no outlier
    among the colours (k, 9) of its segment; also where it has changed, as in blur or new light,
    but lies well inside them; else -1; density the carried density. inside (h,)
    counts in each row the pixels that came from inside the picture, strange (h,) those of them
    that changed by more than the root of `strange_sq`. Each loop over a row does one thing: the
    first vectorises, the second has no branch.
    """
    h, w = before.shape
    flat_labels = before.reshape(before.size)
    flat_density = density_before.reshape(density_before.size)
    flat_planes = planes_before.reshape(planes_before.size)
    columns = np.arange(w).astype(np.float32)
    for y in prange(h):
        nearest = np.empty(w, np.int32)
        corner = np.empty(w, np.int32)
        part_x = np.empty(w, np.float32)
        part_y = np.empty(w, np.float32)
        gap = np.empty(w, np.float32)
        row_l = planes[0, y]
        row_a = planes[1, y]
        row_b = planes[2, y]
        trace_row(y, flow[y].reshape(2 * w), columns, h, nearest, corner, part_x, part_y)
        compare_row(flat_planes, h, corner, part_x, part_y, row_l, row_a, row_b, gap)
        came = 0
        differ = 0
        for x in range(w):
            if nearest[x] < 0:
                prior[y, x] = -1
                labels[y, x] = -1
                density[y, x] = np.float32(0.0)
                continue
            at = np.uintp(nearest[x])
            label = flat_labels[at]
            prior[y, x] = label
            density[y, x] = flat_density[at]
            came += 1
            changed = gap[x] > tolerance_sq
            differ += gap[x] > strange_sq
            kept = label
            if changed or watched[np.uintp(label)]:
                m = colours[np.uintp(label)]
                dl = row_l[x] - m[0]
                da = row_a[x] - m[1]
                db = row_b[x] - m[2]
                off = (
                    (m[3] * dl + np.float32(2.0) * (m[4] * da + m[5] * db)) * dl
                    + (m[6] * da + np.float32(2.0) * m[7] * db) * da
                    + m[8] * db * db
                )
                kept = label if off <= (inlier_sq if changed else outlier_sq) else np.int32(-1)
            labels[y, x] = kept
        inside[y] = came
        strange[y] = differ


@njit(cache=True, fastmath=True, error_model="numpy", inline="always")
def colour_weight(dl, da, db, scale):
    """exp(-32·scale·|Δcolour|²), as a polynomial: no branch and no call, so loops vectorise."""
    s = min((dl * dl + da * da + db * db) * scale, np.float32(1.0))
    p = np.float32(1.0) - s + np.float32(0.5) * s * s
    p = p * p
    p = p * p
    p = p * p
    p = p * p
    return p * p


@njit(cache=True, fastmath=True, error_model="numpy")
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
        for j in range(np.uintp(_LANES)):
            dl = colours[at_l + j] - own_l
            da = colours[at_a + j] - own_a
            db = colours[at_b + j] - own_b
            weight = colour_weight(dl, da, db, colour_scale)
            weight = weight if np.int32(j) < side else none
            total += weight if labels[at + j] == first else none
            other += weight if labels[at + j] == second else none
    return total, other


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy", inline="always")
def poll_neighbours(
    y, x, labels, flat_labels, prior, planes, colours, colour_scale, reach, stay, names, sums
):
    """Sum the kernel weights of the pixels around (y, x) for each label next to it.

    Weights are exp(-32·scale·|Δcolour|²) within `reach` pixels, at most 7; the carried label of
    the pixel has a head start of `stay`. flat_labels and colours are labels and planes, flat.
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
    if inside and (y + reach) * w + x - reach + _LANES <= h * w:
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
        if names[k] == prior[y, x]:
            sums[k] += stay
    return n


@njit(cache=True, parallel=True, error_model="numpy")
def vote_boundaries(labels, prior, planes, colour_scale, reach, stay, out):
    """Decide pixels on the boundary of segments afresh: the neighbour segment with most weight.

    Reads labels, writes out: all pixels at once. Pixels without a label stay without.
    """
    h, w = labels.shape
    flat_labels = labels.reshape(labels.size)
    colours = planes.reshape(planes.size)
    for y in prange(h):
        names = np.empty(6, np.int32)
        sums = np.empty(6, np.float32)
        row = labels[y]
        above = labels[max(y - 1, 0)]
        below = labels[min(y + 1, h - 1)]
        edge = np.empty(w, np.bool_)
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
                prior,
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


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, parallel=True, error_model="numpy")
def join_neighbours(pixels, labels, prior, planes, colour_scale, reach, stay, enough, rounds):
    """Let pixels without a label join the neighbour segment with most weight, if it is `enough`.

    pixels (m,): flat indices into labels (h, w), which is written. In a round all pixels read the
    same labels; one is asked again only if another within its reach has joined, since otherwise
    its answer would be the same.
    """
    h, w = labels.shape
    joined = np.empty(pixels.size, np.int32)
    ask = np.ones((h, w), np.bool_)
    flat_ask = ask.reshape(ask.size)
    flat_labels = labels.reshape(labels.size)
    colours = planes.reshape(planes.size)
    for _ in range(rounds):
        for i in prange(pixels.size):
            names = np.empty(6, np.int32)
            sums = np.empty(6, np.float32)
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
                prior,
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


@njit(cache=True, error_model="numpy")
def number_clusters(labels, flow, owner, ripe, area, motion):
    """Let labels number the carried clusters, and newcomers those that follow, in raster order.

    labels (h, w); flow (h, w, 2) points back in time. Writes owner (h, w) int32, ripe (h, w)
    uint8: 1 where a label is, and of each label area (k,) int64 and mean motion (k, 2) float64.
    Returns the pixels (m,) int32 without a label: pixel i of them is cluster k + i.
    """
    h, w = labels.shape
    new = np.empty(labels.size, np.int32)
    n = 0
    area[:] = 0
    motion[:] = 0.0
    for y in range(h):
        x = 0
        while x < w:
            label = labels[y, x]
            if label < 0:
                owner[y, x] = area.size + n
                ripe[y, x] = 0
                new[n] = y * w + x
                n += 1
                x += 1
                continue
            start = x
            back_x = np.float64(0.0)
            back_y = np.float64(0.0)
            while x < w and labels[y, x] == label:
                owner[y, x] = label
                ripe[y, x] = 1
                back_x += flow[y, x, 0]
                back_y += flow[y, x, 1]
                x += 1
            area[label] += x - start
            motion[label, 0] -= back_x
            motion[label, 1] -= back_y
    for i in range(area.size):
        if area[i] > 0:
            motion[i, 0] /= area[i]
            motion[i, 1] /= area[i]
    return new[:n].copy()


@njit(cache=True, error_model="numpy", inline="always")
def cast_votes(r, name, votes, leader, lead):
    """Cast so many equal votes in election r (Boyer and Moore's, as if one by one)."""
    if leader[r] == name:
        lead[r] += votes
    elif votes <= lead[r]:
        lead[r] -= votes
    else:
        leader[r] = name
        lead[r] = votes - lead[r]


@njit(cache=True, error_model="numpy")
def survey_leaves(leaves, labels, prior, old, home):
    """Tell of each connected region whether it holds carried pixels, and where it came from.

    leaves (h, w): regions; labels, prior (h, w) as carried. old[r] becomes the label most of its
    carried pixels bear if there are any, else -1; home[r] the label that was predicted for
    most of it (Boyer-Moore vote: exact for a majority), else -1.
    """
    h, w = leaves.shape
    k = old.size
    old[:] = -1
    home[:] = -1
    lead_old = np.zeros(k, np.int64)
    lead_home = np.zeros(k, np.int64)
    for y in range(h):
        x = 0
        while x < w:
            r = leaves[y, x]
            label = labels[y, x]
            came = prior[y, x]
            start = x
            while x < w and leaves[y, x] == r and labels[y, x] == label and prior[y, x] == came:
                x += 1
            if label >= 0:
                cast_votes(r, label, x - start, old, lead_old)
            cast_votes(r, came, x - start, home, lead_home)


@njit(cache=True, error_model="numpy")
def count_overlaps(pieces, prior, labels, capacity):
    """Count pixels that pieces of this frame share with carried segments.

    pieces, prior, labels (h, w); prior may be -1. capacity: a power of two, more than twice the
    number of pairs. Returns piece, label (m,) int32, overlap (m,) int64: pixels for which the
    label was predicted, and kept (m,) int64: those that also bear it; in raster order.
    """
    h, w = pieces.shape
    mask = capacity - 1
    slots = np.full(capacity, -1, np.int32)
    piece = np.empty(capacity // 2, np.int32)
    label = np.empty(capacity // 2, np.int32)
    overlap = np.zeros(capacity // 2, np.int64)
    kept = np.zeros(capacity // 2, np.int64)
    n = 0
    for y in range(h):
        last_a = np.int32(-1)
        last_b = np.int32(-1)
        e = 0
        x = 0
        while x < w:
            a = pieces[y, x]
            own = labels[y, x]
            came = prior[y, x]
            start = x
            while x < w and pieces[y, x] == a and labels[y, x] == own and prior[y, x] == came:
                x += 1
            # a vote may have moved a boundary pixel to a segment other than the predicted one
            b = own if own >= 0 else came
            if b < 0:
                continue
            if a != last_a or b != last_b:
                slot = (np.int64(a) * 73856093 ^ np.int64(b) * 19349663) & mask
                while slots[slot] >= 0 and (piece[slots[slot]] != a or label[slots[slot]] != b):
                    slot = (slot + 1) & mask
                if slots[slot] < 0:
                    if n >= capacity // 2:
                        return piece[:0], label[:0], overlap[:0], kept[:0]
                    slots[slot] = n
                    piece[n] = a
                    label[n] = b
                    n += 1
                e = slots[slot]
                last_a = a
                last_b = b
            overlap[e] += x - start
            if own >= 0:
                kept[e] += x - start
    return piece[:n].copy(), label[:n].copy(), overlap[:n].copy(), kept[:n].copy()

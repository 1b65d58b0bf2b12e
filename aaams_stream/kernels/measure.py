"""One pass over a frame for all that consumers learn about its segments."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import add_pair, empty_marks, find_slot, list_ends, row_to_lab


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def add_run(sums, row_l, row_a, row_b, start, stop):
    """Add the colours of a run of pixels of one row to the sums (6,) of its segment."""
    sl = np.float64(0.0)
    sa = np.float64(0.0)
    sb = np.float64(0.0)
    sll = np.float64(0.0)
    saa = np.float64(0.0)
    sbb = np.float64(0.0)
    for x in range(np.uintp(start), np.uintp(stop)):
        cl = np.float64(row_l[x])
        ca = np.float64(row_a[x])
        cb = np.float64(row_b[x])
        sl += cl
        sa += ca
        sb += cb
        sll += cl * cl
        saa += ca * ca
        sbb += cb * cb
    sums[0] += sl
    sums[1] += sa
    sums[2] += sb
    sums[3] += sll
    sums[4] += saa
    sums[5] += sbb


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def measure_motion(labels, flow, area, sums):
    """Add up the motion of every segment, run by run.

    labels (h, w) int32, rows of the outputs; flow (h, w, 2) float32, pointing back in time. Writes
    area (k,) int64 and sums (k, 2) float64 of the motion in x and y.
    """
    h, w = labels.shape
    area[:] = 0
    sums[:] = 0.0
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    for y in range(h):
        row = labels[y]
        motion = flow[y].reshape(2 * w)  # x and y of each vector in turn
        start = 0
        for k in range(list_ends(row, marks, ends)):
            stop = ends[k] + 1
            i = row[start]
            area[i] += stop - start
            su = np.float64(0.0)
            sv = np.float64(0.0)
            for x in range(np.uintp(start), np.uintp(stop)):
                su += motion[x + x]
                sv += motion[x + x + np.uintp(1)]
            sums[i, 0] -= su
            sums[i, 1] -= sv
            start = stop


@njit(cache=True, nogil=True, error_model="numpy")
def invert_precisions(precision, colour, space):
    """Write the bandwidths, upper triangles (k, 6) and (k, 3), of precisions (k, 10), float32."""
    for i in range(precision.shape[0]):
        ll = np.float64(precision[i, 0])
        la = np.float64(precision[i, 1])
        lb = np.float64(precision[i, 2])
        aa = np.float64(precision[i, 3])
        ab = np.float64(precision[i, 4])
        bb = np.float64(precision[i, 5])
        c0 = aa * bb - ab * ab
        c1 = lb * ab - la * bb
        c2 = la * ab - lb * aa
        f = 1.0 / (ll * c0 + la * c1 + lb * c2)
        colour[i, 0] = c0 * f
        colour[i, 1] = c1 * f
        colour[i, 2] = c2 * f
        colour[i, 3] = (ll * bb - lb * lb) * f
        colour[i, 4] = (la * lb - ll * ab) * f
        colour[i, 5] = (ll * aa - la * la) * f
        xx = np.float64(precision[i, 6])
        xy = np.float64(precision[i, 7])
        yy = np.float64(precision[i, 8])
        f = 1.0 / (xx * yy - xy * xy)
        space[i, 0] = yy * f
        space[i, 1] = -xy * f
        space[i, 2] = xx * f


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def distance(here, x, there, u):
    """Return how far the colours of two pixels lie apart: of rows (3, w), at x and at u."""
    dl = np.float64(here[0, x]) - there[0, u]
    da = np.float64(here[1, x]) - there[1, u]
    db = np.float64(here[2, x]) - there[2, u]
    return np.sqrt(dl * dl + da * da + db * db)


@njit(cache=True, nogil=True, error_model="numpy")
def add_sides(a, b, count, gap, pairs, n):
    """Count sides that two segments share, and the colour distance `gap` across all of them.

    Returns the number of pairs, -1 if there are too many.
    """
    if n < 0:
        return n
    if a > b:
        a, b = b, a
    slot = find_slot(a, b, pairs)
    if pairs.slots[slot] < 0:
        n = add_pair(a, b, slot, pairs, n)
        if n < 0:
            return n
    pairs.sums[pairs.slots[slot], 0] += count
    pairs.sums[pairs.slots[slot], 1] += gap
    return n


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def measure_segments(labels, frame, response, names, ids, shapes, pairs):
    """Measure every segment, and find the pairs that share pixel sides, run by run.

    labels (h, w) int32, rows of the outputs; frame (h, w, 3) uint8, and `records.Response` for its
    levels: their colours are found a row at a time, and none is written down. Writes ids (h, w)
    uint32, the name (k,) of each pixel's segment, and fills `records.Shapes`, and pairs of
    segments, the lower first: their sums are the sides they share and the colour distances across
    those.
    """
    area, perimeter, bbox, places, colours = shapes
    h, w = labels.shape
    n = np.int64(0)
    area[:] = 0
    perimeter[:] = 0
    places[:] = 0.0
    colours[:] = 0.0
    for i in range(area.size):
        bbox[i, 0] = w
        bbox[i, 1] = h
        bbox[i, 2] = 0
        bbox[i, 3] = 0
    marks = empty_marks(w)
    ends = np.empty((2, w + 1), np.int32)  # of the runs in this line and the one before
    lab = np.empty((2, 3, w), np.float32)  # the colours of both
    linear = np.empty((3, w), np.float32)
    root = np.empty((3, w), np.float32)
    for y in range(h):
        here = ends[y % 2]
        above = ends[1 - y % 2]
        now = lab[y % 2]
        before = lab[1 - y % 2]
        row_l = now[0]
        row_a = now[1]
        row_b = now[2]
        row_to_lab(frame[y].reshape(3 * w), response, linear, root, row_l, row_a, row_b)
        named = ids[y]
        outer = (y == 0) + (y == h - 1)
        up = 0  # the run above
        start = 0
        for k in range(list_ends(labels[y], marks, here)):
            i = labels[y, start]
            stop = here[k] + 1
            size = stop - start
            name = names[i]
            for x in range(start, stop):
                named[x] = name
            add_run(colours[i], row_l, row_a, row_b, start, stop)
            area[i] += size
            perimeter[i] += outer * size + (start == 0) + (stop == w)
            bbox[i, 0] = min(bbox[i, 0], start)
            bbox[i, 1] = min(bbox[i, 1], y)
            bbox[i, 2] = max(bbox[i, 2], stop)
            bbox[i, 3] = y + 1
            places[i, 0] += 0.5 * size * (start + stop - 1)
            places[i, 1] += np.float64(y) * size
            if start > 0:
                gap = distance(now, start, now, start - 1)
                n = add_sides(i, labels[y, start - 1], 1, gap, pairs, n)
            x = start
            while y > 0 and x < stop:
                until = min(above[up] + 1, stop)
                if labels[y - 1, x] != i:
                    gap = np.float64(0.0)
                    for u in range(x, until):
                        gap += distance(now, u, before, u)
                    n = add_sides(i, labels[y - 1, x], until - x, gap, pairs, n)
                x = until
                up += above[up] + 1 == until
            if n < 0:
                return n
            start = stop
    for e in range(n):
        perimeter[pairs.first[e]] += np.int64(pairs.sums[e, 0])
        perimeter[pairs.second[e]] += np.int64(pairs.sums[e, 0])
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def mean_rows(rows, values, means):
    """Write the mean (k, c) float32 of the values (n, c) float32 of each row; rows (n,) int32."""
    count = np.zeros(means.shape[0], np.int64)
    sums = np.zeros(means.shape, np.float64)
    for i in range(rows.size):
        k = rows[i]
        count[k] += 1
        for c in range(values.shape[1]):
            sums[k, c] += values[i, c]
    for k in range(count.size):
        for c in range(values.shape[1]):
            means[k, c] = sums[k, c] / count[k]


@njit(cache=True, nogil=True, error_model="numpy")
def find_rows(ids, names, out):
    """Write for each pixel the row of its id in names (k,) uint32, ascending; all are there.

    ids (h, w) uint32; out (h, w) int32. Asks once for a run of equal ids.
    """
    h, w = ids.shape
    for y in range(h):
        last = np.uint32(0)
        row = np.int32(-1)
        for x in range(w):
            if row < 0 or ids[y, x] != last:
                last = ids[y, x]
                row = np.int32(np.searchsorted(names, last))
            out[y, x] = row


@njit(cache=True, nogil=True, error_model="numpy")
def find_runs(ids, names, rows, lengths):
    """Write the runs of equal ids along each line, in raster order; return how many there are.

    ids (h, w) uint32, all of them in names (k,) uint32, ascending. Writes rows uint32, where in
    names each run's id is, and lengths uint16; both have room for a run a pixel. Lines are no
    longer than 65535.
    """
    h, w = ids.shape
    recent = np.zeros(1024, np.uint32)  # ids begin at 1
    place = np.zeros(1024, np.uint32)
    ends = np.zeros(-(-w // 8) * 8, np.uint8)  # whether a run ends at a pixel
    eights = ends.view(np.uint64)  # mostly none in eight does
    n = 0
    for y in range(h):
        for x in range(w - 1):
            ends[x] = ids[y, x] != ids[y, x + 1]
        ends[w - 1] = 1
        start = 0
        for e in range(eights.size):
            if eights[e] == 0:
                continue
            for x in range(8 * e, 8 * e + 8):
                if ends[x]:
                    name = ids[y, x]
                    slot = name & np.uint32(1023)
                    if recent[slot] != name:
                        recent[slot] = name
                        place[slot] = np.searchsorted(names, name)
                    rows[n] = place[slot]
                    lengths[n] = x + 1 - start
                    n += 1
                    start = x + 1
    return n

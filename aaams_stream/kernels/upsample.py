"""The labels of a smaller picture in the pixels of a larger one: only boundaries are decided."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import empty_marks, list_marked


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def alike(row, u, red, green, blue, weights):
    """Return how much pixel u of a row (3w,) of the smaller picture looks like a colour."""
    at = np.uintp(u) * np.uintp(3)  # unsigned: not checked for counting from the end
    dr = np.int32(row[at]) - red
    dg = np.int32(row[at + np.uintp(1)]) - green
    db = np.int32(row[at + np.uintp(2)]) - blue
    step = min((dr * dr + dg * dg + db * db) >> 4, np.int32(weights.size - 1))
    return weights[np.uintp(step)]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def poll(name, name_a, name_b, name_c, name_d, a, b, c, d):
    """Sum the votes for a name."""
    none = np.float32(0.0)
    total = a if name_a == name else none
    total += b if name_b == name else none
    total += c if name_c == name else none
    total += d if name_d == name else none
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def choose_labels(small, small_rgb, rgb, weights, nearest, places, wanted, wishes):
    """Write for each pixel the label nearest to it, and where another looks more like it.

    small (h, w) int32, small_rgb (h, w, 3) and rgb (H, W, 3) uint8; weights (n,) float32: that of
    a vote by its squared distance in RGB, in steps of 16. Writes nearest (H, W) int32 and, for each
    row, wishes (H,) int32: how many of its pixels want another label; these come first in places
    and wanted (H, W) int32, their columns and what they want. It can happen only where the four
    small pixels around a pixel differ: there these vote, each for its label, by how near and how
    alike they are; ties go to the nearest, then to the first. A row owns its output.
    """
    h, w = small.shape
    high, wide = nearest.shape
    column = np.empty(wide, np.uint32)  # the nearest; unsigned, so that rows are gathered in lanes
    place = np.empty(wide, np.float32)
    first = np.zeros(w + 1, np.int32)  # pixel to the right of each small one's middle
    for x in range(wide):
        at = (2 * x + 1) * w // (2 * wide)
        place[x] = np.float32((x + 0.5) * w / wide - 0.5)
        column[x] = at
        first[max(at - (place[x] < at), 0) + 1] = x + 1
    for u in range(1, w + 1):
        first[u] = max(first[u], first[u - 1])
    none = np.float32(0.0)
    mixed = empty_marks(w)
    between = np.empty(w + 1, np.int32)
    open_ = np.empty(wide, np.uint32)
    left = np.empty(wide, np.uint32)
    n = np.int64(0)
    last = np.int64(-1)
    for y in range(high):
        row = (2 * y + 1) * h // (2 * high)
        middle = np.float32((y + 0.5) * h / high - 0.5)
        above = max(row - (middle < row), 0)
        below = min(above + 1, h - 1)
        far_row = abs(middle - np.float32(above))
        near_above = np.float32(1.5) - far_row
        near_below = np.float32(0.5) + far_row if above + 1 < h else none
        upper = small[above]
        lower = small[below]
        upper_rgb = small_rgb[above].reshape(3 * w)
        lower_rgb = small_rgb[below].reshape(3 * w)
        colours = rgb[y].reshape(3 * wide)
        if above != last:  # else the same small pixels are around
            last = above
            for u in range(w - 1):
                label = upper[u]
                mixed[u] = (upper[u + 1] != label) | (lower[u] != label) | (lower[u + 1] != label)
            mixed[w - 1] = upper[w - 1] != lower[w - 1]
            n = np.int64(0)
            for m in range(list_marked(mixed, between)):
                for x in range(first[between[m]], first[between[m] + 1]):
                    open_[n] = x
                    left[n] = between[m]
                    n += 1
        line = small[row]
        out = nearest[y]
        for x in range(wide):
            out[x] = line[column[x]]
        asked = np.int32(0)
        for i in range(n):
            x = open_[i]
            u = left[i]
            beside = min(u + np.uint32(1), np.uint32(w - 1))
            far = abs(place[x] - np.float32(u))
            near = np.float32(1.5) - far
            # beyond the rim nobody votes
            next_to = np.float32(0.5) + far if u + np.uint32(1) < np.uint32(w) else none
            at = np.uintp(x) * np.uintp(3)
            red = np.int32(colours[at])
            green = np.int32(colours[at + np.uintp(1)])
            blue = np.int32(colours[at + np.uintp(2)])
            a = near_above * near * alike(upper_rgb, u, red, green, blue, weights)
            b = near_above * next_to * alike(upper_rgb, beside, red, green, blue, weights)
            c = near_below * near * alike(lower_rgb, u, red, green, blue, weights)
            d = near_below * next_to * alike(lower_rgb, beside, red, green, blue, weights)
            name_a = upper[u]
            name_b = upper[beside]
            name_c = lower[u]
            name_d = lower[beside]
            best = out[x]
            most = poll(best, name_a, name_b, name_c, name_d, a, b, c, d)
            for name in (name_a, name_b, name_c, name_d):  # without a branch: half would be wrong
                total = poll(name, name_a, name_b, name_c, name_d, a, b, c, d)
                best = name if total > most else best
                most = max(total, most)
            places[y, asked] = x
            wanted[y, asked] = best
            asked += np.int32(best != out[x])
        wishes[y] = asked


@njit(cache=True, nogil=True, error_model="numpy")
def move_boundaries(labels, places, wanted, wishes):
    """Give pixels the label they want, as far as every segment stays in one piece.

    labels (h, w) int32, changed in place; places, wanted and wishes as in `choose_labels`. A pixel
    changes only if one of its four neighbours has the wanted label, and if its old segment hangs
    together around it. Goes down the picture and up again, so that boundaries move either way.
    """
    h, w = labels.shape
    for turn in range(2 * h):
        y = turn if turn < h else 2 * h - 1 - turn
        for k in range(wishes[y]):
            i = k if turn < h else wishes[y] - 1 - k
            x = places[y, i]
            old = labels[y, x]
            new = wanted[y, i]
            if old == new:
                continue
            up = y > 0
            down = y < h - 1
            left = x > 0
            right = x < w - 1
            east = right and labels[y, x + 1] == old
            north = up and labels[y - 1, x] == old
            west = left and labels[y, x - 1] == old
            south = down and labels[y + 1, x] == old
            # how many strands of the old segment meet here: one can go without breaking it
            strands = (
                int(east)
                - int(east and north and labels[y - 1, x + 1] == old)
                + int(north)
                - int(north and west and labels[y - 1, x - 1] == old)
                + int(west)
                - int(west and south and labels[y + 1, x - 1] == old)
                + int(south)
                - int(south and east and labels[y + 1, x + 1] == old)
            )
            touches = (
                (right and labels[y, x + 1] == new)
                or (up and labels[y - 1, x] == new)
                or (left and labels[y, x - 1] == new)
                or (down and labels[y + 1, x] == new)
            )
            if touches and strands == 1:
                labels[y, x] = new

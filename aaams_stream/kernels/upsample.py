"""The labels of a smaller picture in the pixels of a larger one: only boundaries are decided."""

from __future__ import annotations

import numpy as np
from numba import njit


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
    last = np.int32(weights.size - 1)
    column = np.empty(wide, np.uint32)  # the nearest; unsigned, so that rows are gathered in lanes
    left = np.empty(wide, np.uint32)
    place = np.empty(wide, np.float32)
    for x in range(wide):
        at = (2 * x + 1) * w // (2 * wide)
        place[x] = np.float32((x + 0.5) * w / wide - 0.5)
        column[x] = at
        left[x] = max(at - (place[x] < at), 0)
    mixed = np.empty(w, np.uint8)
    open_ = np.empty(wide, np.uint32)
    labels = np.empty(4, np.int32)
    votes = np.empty(4, np.float32)
    for y in range(high):
        row = (2 * y + 1) * h // (2 * high)
        at = np.float32((y + 0.5) * h / high - 0.5)
        above = max(row - (at < row), 0)
        below = min(above + 1, h - 1)
        for u in range(w - 1):
            label = small[above, u]
            mixed[u] = (
                (small[above, u + 1] != label)
                | (small[below, u] != label)
                | (small[below, u + 1] != label)
            )
        mixed[w - 1] = small[above, w - 1] != small[below, w - 1]
        line = small[row]
        out = nearest[y]
        for x in range(wide):
            out[x] = line[column[x]]
        n = 0
        for x in range(wide):
            open_[n] = x
            n += mixed[left[x]]
        asked = np.int32(0)
        for i in range(n):
            x = open_[i]
            red = np.int32(rgb[y, x, 0])
            green = np.int32(rgb[y, x, 1])
            blue = np.int32(rgb[y, x, 2])
            for k in range(4):
                v = above + k // 2
                u = np.int64(left[x]) + k % 2
                near_row = np.float32(1.5) - abs(at - np.float32(v))
                near = near_row * (np.float32(1.5) - abs(place[x] - np.float32(u)))
                inside = v < h and u < w
                v = min(v, h - 1)
                u = min(u, w - 1)
                dr = np.int32(small_rgb[v, u, 0]) - red
                dg = np.int32(small_rgb[v, u, 1]) - green
                db = np.int32(small_rgb[v, u, 2]) - blue
                step = min((dr * dr + dg * dg + db * db) >> 4, last)
                labels[k] = small[v, u]
                votes[k] = near * weights[step] if inside else np.float32(0.0)
            best = out[x]
            most = np.float32(0.0)
            for j in range(4):
                most += votes[j] if labels[j] == best else np.float32(0.0)
            for k in range(4):
                total = np.float32(0.0)
                for j in range(4):
                    total += votes[j] if labels[j] == labels[k] else np.float32(0.0)
                if total > most:
                    most = total
                    best = labels[k]
            if best != out[x]:
                places[y, asked] = x
                wanted[y, asked] = best
                asked += np.int32(1)
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

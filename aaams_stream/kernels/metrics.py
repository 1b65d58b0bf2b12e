"""Compiled loops of the metrics: distances to boundaries, boundaries, pairs of labels."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import add_pair, find_slot


@njit(cache=True, nogil=True, error_model="numpy")
def squared_distances(marked, out):
    """Write each pixel's squared Euclidean distance to the nearest marked pixel.

    marked (h, w) uint8, not zero where marked, at least one pixel is. Writes out (h, w) int64.

    Two passes, linear in the pixels, exact in integers: distances within a column, then the lower
    envelope of the parabolas they root along each row (Felzenszwalb and Huttenlocher; the integer
    form of the crossing is Meijster's).
    """
    height, width = marked.shape
    far = height + width  # farther than any pixel: an unmarked column never wins

    for x in range(width):
        out[0, x] = 0 if marked[0, x] else far
    for y in range(1, height):
        for x in range(width):
            out[y, x] = 0 if marked[y, x] else min(out[y - 1, x] + 1, far)
    for y in range(height - 2, -1, -1):
        for x in range(width):
            out[y, x] = min(out[y, x], out[y + 1, x] + 1)

    heights = np.empty(width, dtype=np.int64)
    roots = np.empty(width, dtype=np.int64)  # columns whose parabolas form the envelope
    starts = np.empty(width, dtype=np.int64)  # where each of them begins to be the lowest
    for y in range(height):
        for x in range(width):
            heights[x] = out[y, x] * out[y, x]
        last = 0
        roots[0] = 0
        starts[0] = 0
        for x in range(1, width):
            while last >= 0:
                offset = starts[last] - roots[last]
                beyond = starts[last] - x
                if offset * offset + heights[roots[last]] <= beyond * beyond + heights[x]:
                    break
                last -= 1
            if last < 0:
                last = 0
                roots[0] = x
                starts[0] = 0
            else:
                root = roots[last]
                crossing = (x * x - root * root + heights[x] - heights[root]) // (2 * (x - root))
                if crossing + 1 < width:
                    last += 1
                    roots[last] = x
                    starts[last] = crossing + 1
        for x in range(width - 1, -1, -1):
            offset = x - roots[last]
            out[y, x] = offset * offset + heights[roots[last]]
            if x == starts[last]:
                last -= 1


@njit(cache=True, nogil=True, error_model="numpy")
def count_pairs(ids, truth, rgb, pairs):
    """Count the pixels of every pair of id and truth label, and add up their colours.

    ids, truth (h, w) uint32; rgb (h, w, 3) uint8, or (0, 0, 3) for no colours. Fills pairs of id
    and label: sums are the pixels and the sums of R, G and B.
    """
    height, width = ids.shape
    coloured = rgb.shape[0] > 0
    slots = pairs.slots
    sums = pairs.sums
    n = np.int64(0)
    e = np.int64(0)
    for y in range(height):
        for x in range(width):
            a = ids[y, x]
            b = truth[y, x]
            if n == 0 or pairs.first[e] != a or pairs.second[e] != b:  # most are like the last
                slot = find_slot(a, b, pairs)
                if slots[slot] < 0:
                    n = add_pair(a, b, slot, pairs, n)
                    if n < 0:
                        return n
                e = np.int64(slots[slot])
            sums[e, 0] += 1.0
            if coloured:
                for c in range(3):
                    sums[e, c + 1] += rgb[y, x, c]
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def mark_boundaries(labels, judged, out):
    """Mark the pixels with another label to the left, right, above or below.

    labels (h, w) uint32, judged and out (h, w) uint8. Only where both pixels are judged.
    """
    height, width = labels.shape
    for y in range(height):
        for x in range(width):
            out[y, x] = 0
    for y in range(height):
        for x in range(width):
            if not judged[y, x]:
                continue
            if x + 1 < width and judged[y, x + 1] and labels[y, x] != labels[y, x + 1]:
                out[y, x] = 1
                out[y, x + 1] = 1
            if y + 1 < height and judged[y + 1, x] and labels[y, x] != labels[y + 1, x]:
                out[y, x] = 1
                out[y + 1, x] = 1


@njit(cache=True, nogil=True, error_model="numpy")
def count_near(marked, others, reach):
    """Return how many marked pixels have one of the others within `reach` pixels, Euclidean.

    marked, others (h, w) uint8, not zero where marked; reach a whole number.
    """
    height, width = marked.shape
    near = 0
    for y in range(height):
        for x in range(width):
            if not marked[y, x]:
                continue
            if others[y, x]:
                near += 1
                continue
            hit = False
            for j in range(max(0, y - reach), min(height, y + reach + 1)):
                left = reach * reach - (j - y) * (j - y)
                for i in range(max(0, x - reach), min(width, x + reach + 1)):
                    if others[j, i] and (i - x) * (i - x) <= left:
                        hit = True
                        break
                if hit:
                    break
            if hit:
                near += 1
    return near

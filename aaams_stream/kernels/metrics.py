"""Compiled loops of the metrics: an exact Euclidean distance transform."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
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

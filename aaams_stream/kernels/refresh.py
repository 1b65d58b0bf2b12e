"""Labels that are dropped in turn, so that their pixels are re-estimated."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def drop_labels(labels, lut, tile_lut, side, period, turn):
    """Write lut (k,) int32 of labels (h, w) over them, in tiles whose turn it is that of tile_lut.

    side: pixels of a tile; each is due once in so many turns as `period` says. Labels below 0 stay.
    """
    h, w = labels.shape
    for y in range(h):
        row = labels[y]
        for start in range(0, w, side):
            due = (5 * (y // side) + 3 * (start // side)) % period == turn
            names = tile_lut if due else lut
            for x in range(start, min(start + side, w)):
                label = row[x]
                # read in any case, and unsigned: so that it goes by lanes
                other = names[np.uintp(max(label, np.int32(0)))]
                row[x] = other if label >= 0 else label

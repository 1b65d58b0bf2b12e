"""A kernel that counts pairs, and how it is run by those who look for pairs."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.core.pairs import find_pairs
from aaams_stream.kernels import common


@njit(error_model="numpy")
def count_pairs(a, b, values, pairs):
    """Count pairs and sum values over them, as kernels do; return how many there are, or -1.

    a, b (n,) int32; values (n,) float64.
    """
    n = np.int64(0)
    for i in range(a.size):
        slot = common.find_slot(a[i], b[i], pairs)
        if pairs.slots[slot] < 0:
            n = common.add_pair(a[i], b[i], slot, pairs, n)
            if n < 0:
                return n
        row = pairs.slots[slot]
        pairs.sums[row, 0] += 1.0
        pairs.sums[row, 1] += values[i]
    return n


def counted(rows, expected):
    """Find the pairs of rows (a, b, value); return them, their sums, and the room of each try."""
    tries = []

    def scan(a, b, values, pairs):
        tries.append(len(pairs.first))
        return count_pairs(a, b, values, pairs)

    a, b, values = np.array(rows, np.float64).reshape(-1, 3).T
    columns = a.astype(np.int32), b.astype(np.int32), values.copy()
    found = find_pairs(scan, *columns, expected=expected)
    pairs = zip(found.first.tolist(), found.second.tolist(), strict=True)
    return list(pairs), found.sums.tolist(), tries

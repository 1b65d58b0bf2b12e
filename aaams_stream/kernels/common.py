"""What kernels share: never called from Python, and compiled into each caller.

Without `cache=True`: two processes that compile their callers at once would write to one index of
numba's, which is not made for it. Without fastmath: what is linked into many must round alike.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LANES = 16  # pixels per chunk of a window row: two vectors, no remainder


@njit(error_model="numpy")
def find_root(parent, c):
    """Return the root of `c` in a forest of parents (n,), halving the path on the way."""
    while parent[c] != c:
        parent[c] = parent[parent[c]]
        c = parent[c]
    return c


@njit(error_model="numpy", inline="always")
def pair_row(a, b, pairs, n):
    """Return the row of the pair a, b among the n there are in `records.Pairs`.

    A new one is added as row n, so that the answer is n itself; -1 if there is no room for it.
    """
    slots = pairs.slots
    first = pairs.first
    second = pairs.second
    mask = slots.size - 1
    slot = (np.int64(a) * 73856093 ^ np.int64(b) * 19349663) & mask
    while slots[slot] >= 0 and (first[slots[slot]] != a or second[slots[slot]] != b):
        slot = (slot + 1) & mask
    row = np.int64(slots[slot])
    if row < 0 and n < first.size:
        row = n
        slots[slot] = n
        first[n] = a
        second[n] = b
    return row

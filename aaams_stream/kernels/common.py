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


@njit(error_model="numpy")
def find_slot(a, b, pairs):
    """Return the slot of the pair a, b in `records.Pairs`: its own, or the free one it would take.

    Its row is what stands in the slot once `add_pair` has filled it: read there, and not returned
    by a helper, a pair takes two thirds of the time.
    """
    slots = pairs.slots
    first = pairs.first
    second = pairs.second
    mask = slots.size - 1
    slot = (np.int64(a) * 73856093 ^ np.int64(b) * 19349663) & mask
    while slots[slot] >= 0 and (first[slots[slot]] != a or second[slots[slot]] != b):
        slot = (slot + 1) & mask
    return slot


@njit(error_model="numpy")
def add_pair(a, b, slot, pairs, n):
    """Let a new pair a, b be row n; return the number of pairs, -1 if there is no room."""
    if n == pairs.first.size:
        return np.int64(-1)
    pairs.slots[slot] = n
    pairs.first[n] = a
    pairs.second[n] = b
    return n + 1

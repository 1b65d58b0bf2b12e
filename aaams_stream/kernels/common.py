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
def new_pairs(expected):
    """Return an empty table of pairs with room for at least `expected`.

    A hash table of rows, slots (c,) int32, and the rows: first, second (c / 2,) int32 and two sums
    of each pair (c / 2, 2) float64. Rows are in the order in which pairs were met.
    """
    capacity = 64
    while capacity < 2 * expected:
        capacity *= 2
    half = capacity // 2
    return (
        np.full(capacity, -1, np.int32),
        np.empty(half, np.int32),
        np.empty(half, np.int32),
        np.zeros((half, 2), np.float64),
    )


@njit(error_model="numpy")
def find_slot(slots, first, second, a, b):
    """Return the slot of the pair a, b: its own, or the free one where it belongs."""
    mask = slots.size - 1
    slot = (np.int64(a) * 73856093 ^ np.int64(b) * 19349663) & mask
    while slots[slot] >= 0 and (first[slots[slot]] != a or second[slots[slot]] != b):
        slot = (slot + 1) & mask
    return slot


@njit(error_model="numpy")
def pair_row(a, b, slots, first, second, n):
    """Return the row of the pair a, b among the n there are; n itself if it was added as the last.

    There must be room for one more: see `larger_pairs`.
    """
    slot = find_slot(slots, first, second, a, b)
    if slots[slot] < 0:
        slots[slot] = n
        first[n] = a
        second[n] = b
    return np.int64(slots[slot])


@njit(error_model="numpy")
def larger_pairs(first, second, sums):
    """Return a full table of pairs as one four times as large."""
    n = first.size
    more = new_pairs(4 * n)
    more[1][:n] = first
    more[2][:n] = second
    more[3][:n] = sums
    for row in range(n):
        more[0][find_slot(more[0], more[1], more[2], first[row], second[row])] = row
    return more

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


@njit(error_model="numpy")
def filled(n, value):
    """Return n times a value, int32: np.full takes a second to compile."""
    out = np.empty(n, np.int32)
    for i in range(n):
        out[i] = value
    return out


@njit(error_model="numpy")
def numbers(first, last):
    """Return the numbers from `first` to before `last`, int32."""
    out = np.empty(last - first, np.int32)
    for i in range(last - first):
        out[i] = first + i
    return out


@njit(error_model="numpy")
def empty_marks(w):
    """Return room for the marks of a row: whole words, as `list_marked` reads them."""
    return np.zeros(-(-w // 8) * 8, np.uint8)


@njit(error_model="numpy")
def mark_ends(row, marks):
    """Mark the pixels of a row (w,) whose neighbour to the right differs."""
    for x in range(row.size - 1):
        marks[x] |= row[x] != row[x + 1]


@njit(error_model="numpy")
def list_marked(marks, places):
    """Write the places that are marked to places (w + 1,) int32 and clear the marks.

    Returns how many there are. Mostly none of eight pixels is marked, which one look tells.
    """
    eights = marks.view(np.uint64)
    n = np.int64(0)  # as plain Python, 0 plus a mark of uint8 would be uint8
    for e in range(eights.size):
        if eights[e] != 0:
            for x in range(8 * e, 8 * e + 8):
                places[n] = x
                n += np.int64(marks[x])
            eights[e] = 0
    return n


@njit(error_model="numpy")
def list_ends(row, marks, ends):
    """Write the last pixel of each run of equal values of a row (w,); return how many runs.

    ends (w + 1,) int32; marks as from `empty_marks`, all clear before and after.
    """
    mark_ends(row, marks)
    marks[row.size - 1] = 1
    return list_marked(marks, ends)

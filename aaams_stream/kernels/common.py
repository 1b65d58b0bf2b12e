"""What kernels share: never called from Python, and compiled into each caller.

Without `cache=True`: two processes that compile their callers at once would write to one index of
numba's, which is not made for it. Without fastmath: what is linked into many must round alike.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LANES = 16  # pixels per chunk of a window row: two vectors, no remainder

# Label of a pixel that is re-estimated in its segment's turn: that segment is presumed to be there.
REFRESH = -3

# Bits of a float, divided by three, with two thirds of its exponent's bias: near the cube root.
_ROOT_BITS = np.int32(709921077)
# CIE: the root gives way to a straight line in the dark.
_DARK = np.float32(216.0 / 24389.0)
_DARK_SLOPE = np.float32(24389.0 / (27.0 * 116.0))
_DARK_OFFSET = np.float32(16.0 / 116.0)


@njit(error_model="numpy")
def row_to_lab(row, response, linear, root, lightness, green_red, blue_yellow):
    """Write the L*a*b* colours of a row of levels (3w,), red, green and blue in turn.

    response: `records.Response`; linear and root (3, w) float32 are room to work in. Every inner
    loop does one thing to a row, so that it vectorises. Within .0001 of the exact root.
    """
    light, matrix = response
    w = linear.shape[1]
    red = linear[0]
    green = linear[1]
    blue = linear[2]
    for x in range(np.uintp(w)):
        at = np.uintp(3) * np.uintp(x)  # unsigned: not checked for counting from the end
        red[x] = light[row[at]]
        green[x] = light[row[at + np.uintp(1)]]
        blue[x] = light[row[at + np.uintp(2)]]
    share = lightness  # what it holds before the last loop is not needed there
    share_bits = share.view(np.int32)
    for k in range(3):
        m0 = matrix[k, 0]
        m1 = matrix[k, 1]
        m2 = matrix[k, 2]
        for x in range(w):
            share[x] = m0 * red[x] + m1 * green[x] + m2 * blue[x]
        guess = root[k]
        guess_bits = guess.view(np.int32)
        for x in range(w):
            third = np.float32(share_bits[x]) * np.float32(1.0 / 3.0)
            guess_bits[x] = np.int32(third) + _ROOT_BITS
        for x in range(w):
            t = share[x]
            r = guess[x]
            cube = r * r * r  # two steps of Halley's method: 3 %, 1e-5, exact
            r = r * (cube + t + t) / (cube + cube + t)
            cube = r * r * r
            r = r * (cube + t + t) / (cube + cube + t)
            guess[x] = r if t > _DARK else t * _DARK_SLOPE + _DARK_OFFSET
    for x in range(w):
        lightness[x] = np.float32(116.0) * root[1, x] - np.float32(16.0)
        green_red[x] = np.float32(500.0) * (root[0, x] - root[1, x])
        blue_yellow[x] = np.float32(200.0) * (root[1, x] - root[2, x])


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
    ones = np.uint64(0x0101010101010101)
    n = np.int64(0)
    for e in range(eights.size):
        left = eights[e]
        while left != 0:
            mark = left & (~left + np.uint64(1))  # the lowest bit: of the first byte that is marked
            # the lowest bits of the bytes before it; each of them leaves 1 when divided by 255
            before = ((mark - np.uint64(1)) & ones) % np.uint64(255)
            places[n] = 8 * e + np.int64(before)
            n += 1
            left ^= mark
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


@njit(error_model="numpy")
def sum_flow(flow, start, stop):
    """Return the sums of x and y, float64, over the vectors from `start` to before `stop`.

    flow (2w,): x and y of each vector in turn. Four sums take turns: one would wait for itself.
    """
    ax = np.float64(0.0)
    ay = np.float64(0.0)
    bx = np.float64(0.0)
    by = np.float64(0.0)
    cx = np.float64(0.0)
    cy = np.float64(0.0)
    dx = np.float64(0.0)
    dy = np.float64(0.0)
    first = np.uintp(2 * start)  # unsigned: not checked for counting from the end
    fours = (stop - start) // 4
    for k in range(np.uintp(fours)):
        at = first + np.uintp(8) * np.uintp(k)
        ax += flow[at]
        ay += flow[at + np.uintp(1)]
        bx += flow[at + np.uintp(2)]
        by += flow[at + np.uintp(3)]
        cx += flow[at + np.uintp(4)]
        cy += flow[at + np.uintp(5)]
        dx += flow[at + np.uintp(6)]
        dy += flow[at + np.uintp(7)]
    for x in range(np.uintp(start + 4 * fours), np.uintp(stop)):
        ax += flow[np.uintp(2) * np.uintp(x)]
        ay += flow[np.uintp(2) * np.uintp(x) + np.uintp(1)]
    return (ax + bx) + (cx + dx), (ay + by) + (cy + dy)


@njit(error_model="numpy")
def bhattacharyya(a, b, floor):
    """d_B between the colour distributions of two region moments (Alg. 2), Σ = Var + floor·I."""
    fa = 1.0 / a[1]
    fb = 1.0 / b[1]
    a0 = a[5] * fa + floor
    a1 = a[6] * fa
    a2 = a[7] * fa
    a3 = a[8] * fa + floor
    a4 = a[9] * fa
    a5 = a[10] * fa + floor
    b0 = b[5] * fb + floor
    b1 = b[6] * fb
    b2 = b[7] * fb
    b3 = b[8] * fb + floor
    b4 = b[9] * fb
    b5 = b[10] * fb + floor
    det_a = a0 * (a3 * a5 - a4 * a4) - a1 * (a1 * a5 - a4 * a2) + a2 * (a1 * a4 - a3 * a2)
    det_b = b0 * (b3 * b5 - b4 * b4) - b1 * (b1 * b5 - b4 * b2) + b2 * (b1 * b4 - b3 * b2)
    m0 = 0.5 * (a0 + b0)
    m1 = 0.5 * (a1 + b1)
    m2 = 0.5 * (a2 + b2)
    m3 = 0.5 * (a3 + b3)
    m4 = 0.5 * (a4 + b4)
    m5 = 0.5 * (a5 + b5)
    c0 = m3 * m5 - m4 * m4
    c1 = m2 * m4 - m1 * m5
    c2 = m1 * m4 - m2 * m3
    det = m0 * c0 + m1 * c1 + m2 * c2
    d0 = a[2] - b[2]
    d1 = a[3] - b[3]
    d2 = a[4] - b[4]
    quad = (
        c0 * d0 * d0
        + (m0 * m5 - m2 * m2) * d1 * d1
        + (m0 * m3 - m1 * m1) * d2 * d2
        + 2.0 * (c1 * d0 * d1 + c2 * d0 * d2 + (m1 * m2 - m0 * m4) * d1 * d2)
    ) / det
    # Rounding takes equal distributions below 0, and the root of that would be no number.
    return max(0.125 * quad + 0.5 * np.log(det / np.sqrt(det_a * det_b)), 0.0)


@njit(error_model="numpy")
def push(keys, items, size, key, item):
    """Put (key, item) on the binary heap; ties leave in order of item. Returns the new size."""
    i = size
    while i > 0:
        up = (i - 1) // 2
        if keys[up] < key or (keys[up] == key and items[up] <= item):
            break
        keys[i] = keys[up]
        items[i] = items[up]
        i = up
    keys[i] = key
    items[i] = item
    return size + 1


@njit(error_model="numpy")
def pop(keys, items, size):
    """Drop the least entry (read it at 0 first). Returns the new size."""
    size -= 1
    key = keys[size]
    item = items[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            keys[right] < keys[child]
            or (keys[right] == keys[child] and items[right] < items[child])
        ):
            child = right
        if key < keys[child] or (key == keys[child] and item <= items[child]):
            break
        keys[i] = keys[child]
        items[i] = items[child]
        i = child
    keys[i] = key
    items[i] = item
    return size


@njit(error_model="numpy")
def heap_with_room(keys, items, size):
    """Heap arrays with room for one more entry: the same, or copies of twice the size."""
    if size < keys.size:
        return keys, items
    more_keys = np.empty(2 * keys.size, np.float64)
    more_items = np.empty(2 * keys.size, np.int64)
    for i in range(size):  # to assign a slice takes a second to compile
        more_keys[i] = keys[i]
        more_items[i] = items[i]
    return more_keys, more_items

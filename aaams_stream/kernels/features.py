"""Light to colours, and the gradient of colour. Floats are float32; a row owns its output."""

from __future__ import annotations

import numpy as np
from numba import njit

# Bits of a float, divided by three, with two thirds of its exponent's bias: near the cube root.
_ROOT_BITS = np.int32(709921077)
# CIE: the root gives way to a straight line in the dark.
_DARK = np.float32(216.0 / 24389.0)
_DARK_SLOPE = np.float32(24389.0 / (27.0 * 116.0))
_DARK_OFFSET = np.float32(16.0 / 116.0)


@njit(cache=True, nogil=True, error_model="numpy")
def light_to_lab(light, matrix, far, planes):
    """Write the L*a*b* colours of linear RGB light (h, w, 3) to planes (3, h, pitch).

    matrix (3, 3): RGB to XYZ, as shares of white. Padding beyond w gets the colour `far`. Every
    inner loop does one thing to a row, so that it vectorises. Within .0001 of the exact root.
    """
    h, w, _ = light.shape
    root = np.empty((3, w), np.float32)
    for y in range(h):
        row = light[y].reshape(3 * w)  # a stride the compiler knows, so that it vectorises
        for k in range(3):
            m0 = matrix[k, 0]
            m1 = matrix[k, 1]
            m2 = matrix[k, 2]
            share = planes[k, y]
            for x in range(w):
                share[x] = m0 * row[3 * x] + m1 * row[3 * x + 1] + m2 * row[3 * x + 2]
            share_bits = share.view(np.int32)
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
        lightness = planes[0, y]
        green_red = planes[1, y]
        blue_yellow = planes[2, y]
        for x in range(w):
            lightness[x] = np.float32(116.0) * root[1, x] - np.float32(16.0)
            green_red[x] = np.float32(500.0) * (root[0, x] - root[1, x])
            blue_yellow[x] = np.float32(200.0) * (root[1, x] - root[2, x])
        for x in range(w, planes.shape[2]):
            lightness[x] = far
            green_red[x] = far
            blue_yellow[x] = far


@njit(cache=True, nogil=True, error_model="numpy")
def gradient_magnitude(smooth, magnitude):
    """Write the length of the colour gradient of smooth (3, h, w) to magnitude (h, w).

    Sobel's: the central difference, smoothed across; beyond the border the picture is mirrored.
    """
    _, h, w = smooth.shape
    eighth = np.float32(0.125)
    across = np.empty(w + 2, np.float32)  # a pixel more on either side
    down = np.empty(w + 2, np.float32)
    for y in range(h):
        total = magnitude[y]
        for x in range(w):
            total[x] = np.float32(0.0)
        for k in range(3):
            above = smooth[k, max(y - 1, 0)]
            here = smooth[k, y]
            below = smooth[k, min(y + 1, h - 1)]
            for x in range(w):
                across[x + 1] = above[x] + here[x] + here[x] + below[x]
                down[x + 1] = below[x] - above[x]
            across[0] = across[1]
            across[w + 1] = across[w]
            down[0] = down[1]
            down[w + 1] = down[w]
            for x in range(w):
                dx = (across[x + 2] - across[x]) * eighth
                dy = (down[x] + down[x + 1] + down[x + 1] + down[x + 2]) * eighth
                total[x] += dx * dx + dy * dy
        for x in range(w):
            total[x] = np.sqrt(total[x])

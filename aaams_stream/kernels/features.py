"""Light to colours, and the gradient of colour. Floats are float32; a row owns its output."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import row_to_lab


@njit(cache=True, nogil=True, error_model="numpy")
def levels_to_lab(levels, response, far, planes):
    """Write the L*a*b* colours of sRGB levels (h, w, 3), uint8 or uint16, to planes (3, h, pitch).

    response: `records.Response` with the light of each level. Padding beyond w gets the colour
    `far`.
    """
    h, w, _ = levels.shape
    linear = np.empty((3, w), np.float32)
    root = np.empty((3, w), np.float32)
    for y in range(h):
        row = levels[y].reshape(3 * w)  # a stride the compiler knows, so that it vectorises
        lightness = planes[0, y]
        green_red = planes[1, y]
        blue_yellow = planes[2, y]
        row_to_lab(row, response, linear, root, lightness, green_red, blue_yellow)
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

"""Clusters of the frame before among the pixels of the next."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def number_clusters(labels, flow, owner, adaptive, area, motion):
    """Let labels number the transported clusters, and newcomers those that follow, in raster order.

    labels (h, w); flow (h, w, 2) points back in time. Writes owner (h, w) int32, adaptive (h, w)
    uint8: 1 where a label is, and of each label area (k,) int64 and mean motion (k, 2) float64.
    Returns the pixels (m,) int32 without a label: pixel i of them is cluster k + i.
    """
    h, w = labels.shape
    new = np.empty(labels.size, np.int32)
    n = 0
    area[:] = 0
    motion[:] = 0.0
    for y in range(h):
        x = 0
        while x < w:
            label = labels[y, x]
            if label < 0:
                owner[y, x] = area.size + n
                adaptive[y, x] = 0
                new[n] = y * w + x
                n += 1
                x += 1
                continue
            start = x
            back_x = np.float64(0.0)
            back_y = np.float64(0.0)
            while x < w and labels[y, x] == label:
                owner[y, x] = label
                adaptive[y, x] = 1
                back_x += flow[y, x, 0]
                back_y += flow[y, x, 1]
                x += 1
            area[label] += x - start
            motion[label, 0] -= back_x
            motion[label, 1] -= back_y
    for i in range(area.size):
        if area[i] > 0:
            motion[i, 0] /= area[i]
            motion[i, 1] /= area[i]
    return new[:n].copy()

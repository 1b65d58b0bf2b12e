"""The modes that segments stand on."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def densest_pixels(labels, density, best):
    """Write the flat index of each region's densest pixel to best (k,) int64, ties to the first."""
    best[:] = -1
    top = np.empty(best.size, np.float32)
    dens = density.reshape(density.size)
    flat = labels.reshape(labels.size)
    for p in range(flat.size):
        r = flat[p]
        if best[r] < 0 or dens[p] > top[r]:
            best[r] = p
            top[r] = dens[p]


@njit(cache=True, nogil=True, error_model="numpy")
def densest_clusters(labels, which, clusters, best):
    """Write the densest of the clusters that stand in each region to best (k,) int32, else -1.

    labels (h, w); which (m,) int32: rows of clusters. Ties go to the last.
    """
    h, w = labels.shape
    best[:] = -1
    position = clusters.position
    rho = clusters.rho
    for c in which:
        x = min(max(int(np.rint(position[c, 3])), 0), w - 1)
        y = min(max(int(np.rint(position[c, 4])), 0), h - 1)
        r = labels[y, x]
        if best[r] < 0 or rho[c] >= rho[best[r]]:
            best[r] = c

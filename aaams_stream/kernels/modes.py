"""The modes that segments stand on."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import empty_marks, list_ends


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def highest(row, start, stop):
    """Return the highest of the values from `start` to before `stop`."""
    most = row[start]
    for x in range(np.uintp(start), np.uintp(stop)):
        most = max(most, row[x])
    return most


@njit(cache=True, nogil=True, error_model="numpy")
def densest_pixels(regions, segment_of_region, density, best):
    """Write the flat index of each segment's densest pixel to best (n,) int64, ties to the first.

    regions (h, w), each of a segment, segment_of_region (k,) int32.
    """
    h, w = regions.shape
    best[:] = -1
    top = np.empty(best.size, np.float32)
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    for y in range(h):
        row = density[y]
        start = 0
        for k in range(list_ends(regions[y], marks, ends)):
            stop = ends[k] + 1
            densest = highest(row, start, stop)
            r = segment_of_region[regions[y, start]]
            if best[r] < 0 or densest > top[r]:  # seldom: only then it matters where
                at = start
                while row[at] < densest:
                    at += 1
                best[r] = y * w + at
                top[r] = densest
            start = stop


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


@njit(cache=True, nogil=True, error_model="numpy")
def take_modes(winner, densest, pixels, clusters, base, position, precision, trajectory, density):
    """Write the mode of each segment: its cluster's or, without one, that of its densest pixel.

    winner (k,) as from `densest_clusters`, densest (k,) as from `densest_pixels`; base (10,): the
    precision of a mode without a cluster. Writes rows as in `records.Clusters`.
    """
    w = pixels.density.shape[1]
    for i in range(winner.size):
        c = winner[i]
        if c >= 0:
            for k in range(5):
                position[i, k] = clusters.position[c, k]
            for k in range(10):
                precision[i, k] = clusters.precision[c, k]
            for k in range(15):
                trajectory[i, k] = clusters.trajectory[c, k]
            density[i] = clusters.rho[c]
            continue
        y = densest[i] // w
        x = densest[i] - y * w
        began = pixels.start[y, x]
        for k in range(3):
            position[i, k] = pixels.planes[k, y, x] + clusters.bearing[began, k]
        position[i, 3] = np.float32(x) + clusters.bearing[began, 3]
        position[i, 4] = np.float32(y) + clusters.bearing[began, 4]
        density[i] = pixels.density[y, x]
        for k in range(10):
            precision[i, k] = base[k]
        for k in range(15):
            trajectory[i, k] = np.float32(0.0)
        trajectory[i, 0] = density[i]
        for k in range(5):
            trajectory[i, 1 + k] = position[i, k]

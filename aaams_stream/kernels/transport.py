"""Clusters of the frame before among the pixels of the next."""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import empty_marks, list_ends, sum_flow


@njit(cache=True, nogil=True, error_model="numpy")
def move_clusters(here, tracks, motion, fade, least, clusters):
    """Let the clusters of tracks go along with their motion (k, 2), trajectories fading.

    here (m,) int32: rows of tracks, `records.Transported`, and of clusters. A pixel that
    bears a label has arrived: its bearing is 0. least: members a transported cluster has.
    """
    for c in range(motion.shape[0]):
        for k in range(5):
            clusters.bearing[c, k] = np.float32(0.0)
    for c in here:
        for k in range(5):
            clusters.position[c, k] = tracks.mode[c, k]
        for k in range(15):
            mean = 1 <= k < 6
            clusters.trajectory[c, k] = tracks.trajectory[c, k] * (
                np.float32(1.0) if mean else fade
            )
        for k in range(2):
            clusters.position[c, 3 + k] += np.float32(motion[c, k])
            clusters.trajectory[c, 4 + k] += np.float32(motion[c, k])
        for k in range(10):
            clusters.precision[c, k] = tracks.precision[c, k]
        clusters.members[c] = max(tracks.area[c], least)


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
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    for y in range(h):
        row = labels[y]
        mine = owner[y]
        motion_row = flow[y].reshape(2 * w)
        for x in range(w):
            mine[x] = row[x]
            adaptive[y, x] = row[x] >= 0
        stop = 0
        for k in range(list_ends(row, marks, ends)):
            start = stop
            stop = ends[k] + 1
            label = row[start]
            if label < 0:
                for x in range(start, stop):
                    mine[x] = area.size + n
                    new[n] = y * w + x
                    n += 1
                continue
            back_x, back_y = sum_flow(motion_row, start, stop)
            area[label] += stop - start
            motion[label, 0] -= back_x
            motion[label, 1] -= back_y
    for i in range(area.size):
        if area[i] > 0:
            motion[i, 0] /= area[i]
            motion[i, 1] /= area[i]
    return new[:n].copy()

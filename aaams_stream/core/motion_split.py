"""Segments in which two motions are found fall apart: one of the two is not what they were.

A thing that moves leaves its identity on what it uncovers if that has its colours, and what it
covers climbs onto it. Colour cannot tell, but in the frames that follow the two move apart.
"""

from __future__ import annotations

import numpy as np

from aaams_stream.core.propagate import RELABEL, Propagated
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import motion_split as kernels


def split_by_motion(seen: Propagated, state: SegmenterState, tuning: Tuning) -> None:
    """Drop the labels of pixels that move unlike their segment did, where a second motion is.

    Of the two motions in a segment the one nearer to its own of late stays; of one that was just
    born, the more common.
    """
    if not tuning.split_motions:
        return
    labels, flow, tracks = seen.pixels.kept, seen.pixels.flow, state.tracks
    sums = np.empty((len(tracks.ids), 6))
    kernels.measure_flow(labels, flow, tuning.split_stride, sums)
    rows = np.flatnonzero(sums[:, 0] >= tuning.split_min_samples)
    count = sums[rows, 0]
    mean = sums[rows, 1:3] / count[:, None]
    xx, xy, yy = (sums[rows, 3:] / count[:, None] - mean[:, [0, 0, 1]] * mean[:, [0, 1, 1]]).T
    variance = xx + yy
    # the least variance that two motions so far apart and so uneven can have
    able = variance >= tuning.split_min_share * (1 - tuning.split_min_share) * tuning.split_gap**2
    if not able.any():
        return
    rows, mean, xx, xy, yy = rows[able], mean[able], xx[able], xy[able], yy[able]
    count, variance = count[able], variance[able]
    angle = 0.5 * np.arctan2(2 * xy, xx - yy)  # the direction in which it varies most
    longest = 0.5 * variance + np.hypot(0.5 * (xx - yy), xy)
    step = np.sqrt(longest)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    pairs = np.hstack([mean - step, mean + step])
    chosen = np.full(len(tracks.ids), -1, np.int32)
    chosen[rows] = np.arange(rows.size)
    members = np.empty(int(count.sum()), np.int32)
    back = np.empty((members.size, 2), np.float32)
    kernels.gather_flow(labels, flow, tuning.split_stride, chosen, members, back)
    shares = np.empty((rows.size, 2))
    kernels.part_flow(members, back, tuning.split_rounds, pairs, shares)

    gap2 = ((pairs[:, :2] - pairs[:, 2:]) ** 2).sum(axis=1)
    shares /= count[:, None]
    between = shares.prod(axis=1) * gap2
    apart = (gap2 >= tuning.split_gap**2) & (shares.min(axis=1) >= tuning.split_min_share)
    apart &= between >= tuning.split_explained * variance
    grown = tracks.first_frame[rows] < state.index - 1
    own = np.where(grown[:, None], -tracks.motion[rows], mean)
    off = ((pairs.reshape(-1, 2, 2) - own[:, None]) ** 2).sum(axis=2)
    swapped = off[:, 1] < off[:, 0]
    pairs[swapped] = pairs[swapped][:, [2, 3, 0, 1]]
    chosen[rows] = np.where(apart, np.arange(rows.size), -1)
    if apart.any():
        kernels.unlabel_second_motion(labels, flow, chosen, pairs, RELABEL)

"""Segments that move two ways fall apart: one of the two is not what they were.

A thing that moves leaves its identity on what it uncovers if that has its colours, and what it
covers climbs onto it. Colour cannot tell, but in the frames that follow the two move apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.associate import Table
from aaams_stream.kernels import motion_split

_STRIDE = 2  # motion is known at half the resolution
_ROUNDS = 4
_LEAST = 25  # pixels that are looked at: of fewer the motion is not sure
_GAP = 3.0  # pixels a frame between the two motions
_SMALLER = 0.15  # of the pixels: the least share of either
_EXPLAINED = 0.85  # of the variance: two motions, not one that varies, as in a turn


def drop_strays(
    labels: NDArray[np.int32], flow: NDArray[np.float32], table: Table, index: int, name: int
) -> None:
    """Write `name` over the pixels that move unlike their segment did, where a second motion is.

    labels (h, w): rows of the table as carried into frame `index`; flow (h, w, 2) points back in
    time. Of the two motions in a segment the one nearer to its own of late stays; of one that was
    just born, the more common.
    """
    sums = np.empty((len(table.ids), 6))
    motion_split.measure_flow(labels, flow, _STRIDE, sums)
    rows = np.flatnonzero(sums[:, 0] >= _LEAST)
    count = sums[rows, 0]
    mean = sums[rows, 1:3] / count[:, None]
    xx, xy, yy = (sums[rows, 3:] / count[:, None] - mean[:, [0, 0, 1]] * mean[:, [0, 1, 1]]).T
    variance = xx + yy
    # the least variance that two motions so far apart and so uneven can have
    able = variance >= _SMALLER * (1 - _SMALLER) * _GAP**2
    if not able.any():
        return
    rows, mean, xx, xy, yy = rows[able], mean[able], xx[able], xy[able], yy[able]
    count, variance = count[able], variance[able]
    angle = 0.5 * np.arctan2(2 * xy, xx - yy)  # the direction in which it varies most
    longest = 0.5 * variance + np.hypot(0.5 * (xx - yy), xy)
    step = np.sqrt(longest)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    pairs = np.hstack([mean - step, mean + step])
    chosen = np.full(len(table.ids), -1, np.int32)
    chosen[rows] = np.arange(rows.size)
    members = np.empty(int(count.sum()), np.int32)
    back = np.empty((members.size, 2), np.float32)
    motion_split.gather_flow(labels, flow, _STRIDE, chosen, members, back)
    shares = np.empty((rows.size, 2))
    motion_split.part_flow(members, back, _ROUNDS, pairs, shares)

    gap2 = ((pairs[:, :2] - pairs[:, 2:]) ** 2).sum(axis=1)
    shares /= count[:, None]
    between = shares.prod(axis=1) * gap2
    apart = (gap2 >= _GAP**2) & (shares.min(axis=1) >= _SMALLER)
    apart &= between >= _EXPLAINED * variance
    grown = table.born[rows] < index - 1
    own = np.where(grown[:, None], -table.motion[rows], mean)
    off = ((pairs.reshape(-1, 2, 2) - own[:, None]) ** 2).sum(axis=2)
    swapped = off[:, 1] < off[:, 0]
    pairs[swapped] = pairs[swapped][:, [2, 3, 0, 1]]
    chosen[rows] = np.where(apart, np.arange(rows.size), -1)
    if apart.any():
        motion_split.drop_second(labels, flow, chosen, pairs, name)

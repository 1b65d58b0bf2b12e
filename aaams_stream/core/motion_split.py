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
    count = len(tracks.ids)
    sums = np.empty((count, 6))
    kernels.measure_flow(labels, flow, tuning.split_stride, sums)
    limits = kernels.Limits(
        tuning.split_min_samples,
        tuning.split_min_share,
        tuning.split_gap**2,
        tuning.split_explained,
    )
    chosen = np.empty(count, np.int32)
    pairs, means = np.empty((count, 4)), np.empty((count, 2))
    counts, variances = np.empty((2, count))
    found = kernels.begin_pairs(sums, limits, chosen, pairs, counts, means, variances)
    members = np.empty(int(counts[:found].sum()), np.int32)
    back = np.empty((members.size, 2), np.float32)
    kernels.gather_flow(labels, flow, tuning.split_stride, chosen, members, back)
    shares = np.empty((found, 2))
    kernels.part_flow(members, back, tuning.split_rounds, pairs[:found], shares)
    grown = tracks.first_frame < state.index - 1
    apart = kernels.judge_pairs(
        chosen, limits, counts, means, variances, shares, tracks.motion, grown, pairs
    )
    kernels.unlabel_second_motion(labels, flow, chosen, pairs, apart, RELABEL)

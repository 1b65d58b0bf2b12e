"""Segments that the optical flow lost, found as a whole.

Dense flow is found from coarse to fine, and loses what is small and moves unlike its surroundings.
A segment is a better template than a square patch: it holds one thing.
"""

from __future__ import annotations

import numpy as np

from aaams_stream.core.features import Picture
from aaams_stream.core.propagate import Propagated
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import recover as kernels
from aaams_stream.params import Params


def recover_lost_segments(
    seen: Propagated, picture: Picture, state: SegmenterState, params: Params, tuning: Tuning
) -> None:
    """Give pixels that nothing explains to segments which were there if they moved otherwise.

    A segment moves only where at least half of it then finds its colour among pixels without a
    label: no pixel that is explained changes hands.
    """
    tracks = state.tracks
    missing = tracks.area - seen.area
    lost = (missing > tuning.missing * tracks.area) & (tracks.area >= tuning.recover_min_area)
    rows = np.flatnonzero(lost)
    if not rows.size or not tuning.recover_lost:
        return
    wanted = np.full(len(tracks.ids), -1, np.int32)
    wanted[rows] = np.arange(rows.size)
    samples = np.empty((rows.size, tuning.recover_samples), np.int32)
    found = np.empty(rows.size, np.int64)
    kernels.sample_segments(state.labels, wanted, tracks.area[rows], samples, found)
    guess = np.rint(tracks.motion[rows]).astype(np.int64)
    tolerance_sq = np.float32(params.stream.tolerance2)
    search = kernels.Search(
        samples, found, guess, tuning.recover_reach, tuning.recover_pace, tolerance_sq
    )
    shift = np.empty((rows.size, 2), np.int64)
    matches = np.empty(rows.size, np.int64)
    kernels.search_segments(search, state.smooth, picture.smooth, seen.pixels.kept, shift, matches)
    moved = np.flatnonzero(matches > 0)
    if not moved.size:
        return
    wanted[:] = -1
    wanted[rows[moved]] = np.arange(moved.size)
    given = kernels.move_segments(
        state.pixels, wanted, shift[moved], picture.smooth, tolerance_sq, seen.pixels
    )
    seen.explained += int(given)

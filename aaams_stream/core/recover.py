"""Segments that the motion mislaid are sought as a whole.

Dense motion is found from coarse to fine, and loses what is small and moves unlike its
surroundings. A segment is a better template than a square patch: it holds one thing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.state import SegmenterState
from aaams_stream.kernels import recover

_MISSING = 0.4  # of its pixels: a segment that misses more is sought
_LEAST = 40  # pixels: a smaller one looks like too much else
_SAMPLES = 32  # pixels of a segment that are compared
_REACH = 32  # pixels around where its motion would bring it
_PACE = 4  # pixels between the first tries


def seek_mislaid(
    planes: NDArray[np.float32],
    state: SegmenterState,
    tolerance2: float,
    flow: NDArray[np.float32],
    prior: NDArray[np.int32],
    labels: NDArray[np.int32],
    density: NDArray[np.float32],
    carried: NDArray[np.int64],
) -> int:
    """Give pixels that nothing explains to segments which were there if they moved otherwise.

    planes (3, h, w): the smoothed colours of this frame; flow, prior, labels and density as carried
    into it, changed in place; carried (k,): the pixels of each label. A segment moves only where at
    least half of it then finds its colour among pixels without a label: no pixel that is explained
    changes hands. Returns how many pixels were given.
    """
    table = state.table
    missing = table.area - carried
    rows = np.flatnonzero((missing > _MISSING * table.area) & (table.area >= _LEAST))
    wanted = np.full(len(table.ids), -1, np.int32)
    wanted[rows] = np.arange(rows.size)
    samples = np.empty((rows.size, _SAMPLES), np.int32)
    found = np.empty(rows.size, np.int64)
    recover.sample_segments(state.labels, wanted, table.area[rows], samples, found)
    guess = np.rint(table.motion[rows]).astype(np.int64)
    shift = np.empty((rows.size, 2), np.int64)
    matches = np.empty(rows.size, np.int64)
    tolerance_sq = np.float32(tolerance2)
    recover.seek_segments(
        samples,
        found,
        state.smooth,
        planes,
        labels,
        tolerance_sq,
        guess,
        _REACH,
        _PACE,
        shift,
        matches,
    )
    moved = np.flatnonzero(matches > 0)
    wanted[:] = -1
    wanted[rows[moved]] = np.arange(moved.size)
    given: int = recover.move_segments(
        state.labels,
        wanted,
        shift[moved],
        state.smooth,
        state.density,
        planes,
        tolerance_sq,
        flow,
        prior,
        labels,
        density,
    )
    return given

"""What consumers learn about the segments of a frame."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.mean_shift import Modes
from aaams_stream.core.state import SegmenterState
from aaams_stream.kernels import measure
from aaams_stream.model import ADJACENCY_DTYPE, SEGMENT_DTYPE, EventKind


def describe(
    state: SegmenterState, planes: NDArray[np.float32], flow: NDArray[np.float32] | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the segment table (SEGMENT_DTYPE) and the adjacency (ADJACENCY_DTYPE) of the frame.

    state: after the frame; planes (3, h, pitch): its L*a*b* colours; flow (h, w, 2): to where each
    pixel was in the frame before, None where nothing is known of it.
    """
    if flow is None:
        flow = np.zeros((*state.labels.shape, 2), np.float32)
    return _segments(state, planes, flow), _adjacency(state, planes)


def remember_parents(
    before: SegmenterState | None, after: SegmenterState, events: NDArray[Any]
) -> NDArray[np.uint32]:
    """Return rows of id and parent for those split off, as long as they live or may come back."""
    split = events[events["kind"] == EventKind.SPLIT]
    rows = np.stack([split["id"], split["other"]], axis=1)
    if before is not None:
        rows = np.concatenate([before.parents, rows])
    known = np.concatenate([after.table.ids, after.lost.ids])
    return rows[np.isin(rows[:, 0], known)]


def _segments(
    state: SegmenterState, planes: NDArray[np.float32], flow: NDArray[np.float32]
) -> NDArray[Any]:
    table = state.table
    count = len(table.ids)
    area, perimeter = np.empty((2, count), np.int64)
    bbox = np.empty((count, 4), np.int32)
    sums = np.empty((count, 10))
    measure.measure_segments(state.labels, planes, flow, area, bbox, sums, perimeter)
    sums /= area[:, None]
    variance = sums[:, 5:8] - sums[:, 2:5] ** 2
    modes = Modes(table.location, table.precision, table.moments, table.density)
    bandwidth = modes.bandwidths()
    rows = np.zeros(count, SEGMENT_DTYPE)
    rows["id"] = table.ids
    rows["area"] = area
    rows["mode"] = table.location
    rows["bandwidth_colour"] = bandwidth[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    rows["bandwidth_space"] = bandwidth[:, [3, 3, 4], [3, 4, 4]]
    rows["bbox"] = bbox
    rows["density"] = table.density
    rows["centroid"] = sums[:, :2]
    rows["colour"] = sums[:, 2:5]
    rows["colour_spread"] = np.sqrt(np.maximum(variance, 0.0))
    rows["perimeter"] = perimeter
    rows["motion"] = sums[:, 8:]
    rows["age"] = state.index - 1 - table.born
    here = state.parents[np.isin(state.parents[:, 0], table.ids)]
    rows["parent"][np.searchsorted(table.ids, here[:, 0])] = here[:, 1]
    return rows


def _adjacency(state: SegmenterState, planes: NDArray[np.float32]) -> NDArray[Any]:
    count = len(state.table.ids)
    capacity = 1 << (8 * count).bit_length()  # a plane map has less than three pairs a segment
    while True:
        first, second, length, contrast = measure.find_contacts(state.labels, planes, capacity)
        if first.size or count == 1:
            break
        capacity *= 4  # segments in several parts may touch more often
    order = np.lexsort((second, first))
    rows = np.empty(len(order), ADJACENCY_DTYPE)
    rows["first"] = state.table.ids[first[order]]
    rows["second"] = state.table.ids[second[order]]
    rows["length"] = length[order]
    rows["contrast"] = contrast[order] / length[order]
    return rows

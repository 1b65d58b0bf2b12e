"""What consumers learn about the segments of a frame; each figure is measured once.

Colours, shapes and contacts come from the pixels of the frame itself, modes and motion from the
picture that was segmented, which may be smaller.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import packed
from aaams_stream.core.features import RESPONSE
from aaams_stream.core.pairs import find_pairs
from aaams_stream.core.state import SegmenterState
from aaams_stream.kernels import measure as kernels
from aaams_stream.kernels.records import Shapes
from aaams_stream.model import ADJACENCY_DTYPE, SEGMENT_DTYPE, EventKind

_CONTACTS = 4  # a plane map has less than three pairs a segment


class Tables(NamedTuple):
    """The tables of one frame."""

    segments: NDArray[Any]  # (k,) SEGMENT_DTYPE, rows in order of id
    adjacency: NDArray[Any]  # (n,) ADJACENCY_DTYPE, rows in order of both ids


def measure(
    state: SegmenterState,
    labels: NDArray[np.int32],
    frame: NDArray[np.uint8],
    flow: NDArray[np.float32] | None,
) -> tuple[NDArray[np.uint32], Tables]:
    """Return the ids (H, W) of a frame, and its tables.

    state: after the frame; labels (H, W): its labels in the frame's own pixels; frame (H, W, 3);
    flow (h, w, 2): to where each pixel of the picture that was segmented was in the frame before,
    None where nothing is known of it.
    """
    count = len(state.tracks.ids)
    rows = _modes_and_motion(state, flow)
    ids = np.empty(labels.shape, np.uint32)
    shapes = Shapes(
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty((count, 4), np.int32),
        np.empty((count, 2)),
        np.empty((count, 6)),
    )
    pixels = labels, frame, RESPONSE, state.tracks.ids, ids
    found = find_pairs(kernels.measure_segments, *pixels, shapes, expected=_CONTACTS * count)
    area = shapes.area[:, None]
    colours = shapes.colours / area
    rows["area"] = shapes.area
    rows["perimeter"] = shapes.perimeter
    rows["bbox"] = shapes.bbox
    rows["centroid"] = shapes.places / area
    rows["colour"] = colours[:, :3]
    rows["colour_spread"] = np.sqrt(np.maximum(colours[:, 3:] - colours[:, :3] ** 2, 0.0))
    if labels.shape != state.labels.shape:
        _scale(rows, np.array(labels.shape[::-1]) / state.labels.shape[::-1])
    order = np.lexsort((found.second, found.first))
    length, gaps = found.sums[order].T
    adjacency = np.empty(len(order), ADJACENCY_DTYPE)
    adjacency["first"] = state.tracks.ids[found.first[order]]
    adjacency["second"] = state.tracks.ids[found.second[order]]
    adjacency["length"] = length
    adjacency["contrast"] = gaps / length
    if state.masked:  # nothing is told of what lies outside the region of interest
        rows, adjacency = rows[1:], adjacency[adjacency["first"] > 0]
    return ids, Tables(rows, adjacency)


def remember_parents(
    before: SegmenterState | None, after: SegmenterState, events: NDArray[Any]
) -> NDArray[np.uint32]:
    """Return rows of id and parent for those split off, as long as they live or may come back."""
    split = events[events["kind"] == EventKind.SPLIT]
    rows = np.stack([split["id"], split["other"]], axis=1)
    if before is not None:
        rows = np.concatenate([before.parents, rows])
    if not len(rows):
        return rows
    known = np.sort(np.concatenate([after.tracks.ids, after.lost.ids]))
    at = np.minimum(np.searchsorted(known, rows[:, 0]), known.size - 1)
    return np.asarray(rows[known[at] == rows[:, 0]])


def _modes_and_motion(state: SegmenterState, flow: NDArray[np.float32] | None) -> NDArray[Any]:
    """Return the table with all that does not depend on the frame's own pixels."""
    tracks = state.tracks
    count = len(tracks.ids)
    bandwidth_colour = np.empty((count, 6), np.float32)
    bandwidth_space = np.empty((count, 3), np.float32)
    kernels.invert_precisions(tracks.precision, bandwidth_colour, bandwidth_space)
    rows = np.zeros(count, SEGMENT_DTYPE)
    rows["id"] = tracks.ids
    rows["mode"] = tracks.mode
    rows["bandwidth_colour"] = bandwidth_colour
    rows["bandwidth_space"] = bandwidth_space
    rows["density"] = tracks.density
    if flow is not None:
        area = np.empty(count, np.int64)
        sums = np.empty((count, 2))
        kernels.measure_motion(state.labels, flow, area, sums)
        rows["motion"] = sums / area[:, None]
    rows["age"] = state.index - 1 - tracks.first_frame
    at = np.searchsorted(tracks.ids, state.parents[:, 0])
    at[at == count] = 0
    here = tracks.ids[at] == state.parents[:, 0]
    rows["parent"][at[here]] = state.parents[here, 1]
    return rows


def _scale(rows: NDArray[Any], scale: NDArray[np.float64]) -> None:
    """Bring places, motion and bandwidths to the pixels of the frame."""
    rows["mode"][:, packed.PLACE] = packed.scaled_places(rows["mode"][:, packed.PLACE], scale)
    rows["motion"] = rows["motion"] * scale
    rows["bandwidth_space"] = rows["bandwidth_space"] * packed.scale_products(scale)

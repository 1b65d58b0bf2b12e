"""Labels of the frame before, propagated along the optical flow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.prepare import Prepared
from aaams_stream.core.roi import OUTSIDE, keep_apart
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.threads import side_by_side
from aaams_stream.kernels import common
from aaams_stream.kernels import propagate as kernels
from aaams_stream.kernels.records import Prediction

UNLABELLED = -1  # label of a pixel that the frame before does not explain
RELABEL = -2  # label of a pixel that is to be re-estimated, though it was explained
REFRESH = common.REFRESH  # the same in its segment's turn: that is presumed to be there still

_WORTH = 0.015  # of a pixel, as `side_by_side` counts


@dataclass(slots=True)
class Propagated:
    """What the frame before says about this one: memory that the next steps write into."""

    pixels: Prediction
    area: NDArray[np.int64]  # (k,) pixels that each track kept along the flow
    explained: int  # pixels that are what they were
    scene_change: bool


def propagate(prepared: Prepared, state: SegmenterState) -> Propagated:
    """Warp the labels of the frame before along the flow; keep those whose colour agrees."""
    tracks, labels = state.tracks, state.labels
    params, tuning = prepared.params, prepared.tuning
    motion = prepared.motion_since(state.half_luma, state.smooth)
    pixels = Prediction(
        motion.flow, np.empty_like(labels), np.empty_like(labels), np.empty_like(state.density)
    )
    squares = (params.stream.tolerance2, tuning.strange**2, tuning.outlier**2, tuning.inlier**2)
    watched = state.scene_ids % tuning.watch == state.scene_frame % tuning.watch
    limits = kernels.Limits(*map(np.float32, squares))
    inside, strange = np.empty((2, len(labels)), np.int64)
    areas: list[NDArray[np.int64]] = []  # of the parts of the picture

    def warp(first: int, last: int) -> None:
        area = np.empty(len(tracks.ids), np.int64)
        kernels.warp_labels(
            first,
            last,
            state.pixels,
            motion,
            prepared.picture.smooth,
            tracks.colours,
            watched,
            limits,
            pixels,
            area,
            inside,
            strange,
        )
        areas.append(area)

    side_by_side(warp, labels.shape[0], worth=labels.shape[1] * _WORTH)
    area = np.sum(areas, axis=0)
    beyond, outside = 0, prepared.outside
    if outside is not None:  # it is where it was, and says nothing of the scene
        keep_apart(pixels.warped, outside, UNLABELLED)
        keep_apart(pixels.kept, outside, UNLABELLED)
        beyond = area[OUTSIDE] = int(np.count_nonzero(outside))
    explained = int(area.sum()) - beyond
    few = explained < tuning.scene_change_share * (labels.size - beyond)
    scene_change = few and bool(2 * strange.sum() >= inside.sum() - beyond)
    return Propagated(pixels, area, explained, scene_change)

"""A frame as all objects look at it, at half its size."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.pool import rows_of
from aaams_stream.kernels import tracker as kernels

if TYPE_CHECKING:
    from aaams_stream.model import FrameSegmentation
    from aaams_stream.objects.tuning import TrackerTuning


@dataclass(frozen=True, slots=True)
class View:
    """What is known of a frame before any object is looked for; lengths at half its size."""

    frame: FrameSegmentation
    labels: NDArray[np.int32]  # (h, w) row of each pixel's segment
    names: NDArray[np.uint32]  # (k,) ids of the segments
    area: NDArray[np.float64]  # (k,) pixels of each
    centre: NDArray[np.float64]  # (k, 2) x, y of each
    boxes: NDArray[np.float64]  # (k, 4) x0, y0, x1, y1 of each
    planes: NDArray[np.float32]  # (3, h, pitch) L*a*b*
    bins: NDArray[np.int32]  # (h, w) of colour
    luma: NDArray[np.uint8]  # (h, w)
    small: NDArray[np.float32]  # (3, h', w') the picture in cells
    cell: int  # pixels a side
    outside: bool = False  # whether the first segment is what has no id: it is of no object

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        h, w = self.labels.shape
        return h, w


def look(frame: FrameSegmentation, tuning: TrackerTuning) -> View:
    """Return what all objects need to know of a frame, which must bring its picture."""
    if frame.rgb is None:
        raise ValueError("the frame must bring its picture; take it from stream or replay")
    luma = features.half_luma(frame.rgb)
    h, w = luma.shape
    planes = features.lab_planes(features.resized(frame.rgb, (h, w)))
    bins = np.empty((h, w), np.int32)
    kernels.colour_bins(planes, bins)
    outside = not frame.ids.all()
    if outside:
        frame = dataclasses.replace(frame, segments=_with_outside(frame, planes))
    labels = rows_of(np.ascontiguousarray(frame.ids[::2, ::2]), frame.segments["id"])
    cell = max(1, round(tuning.match_cell * float(np.hypot(h, w))))
    small = np.empty((3, h // cell, w // cell), np.float32)
    kernels.shrink(planes, cell, small)
    area = np.bincount(labels.reshape(-1), minlength=len(frame.segments)).astype(np.float64)
    names = frame.segments["id"].copy()
    centre = frame.segments["centroid"].astype(np.float64) / 2
    boxes = frame.segments["bbox"].astype(np.float64) / 2
    return View(frame, labels, names, area, centre, boxes, planes, bins, luma, small, cell, outside)


def _with_outside(frame: FrameSegmentation, planes: NDArray[np.float32]) -> NDArray[Any]:
    """Return the table of segments with a row in front for what lies outside of all, with id 0."""
    rows = np.zeros(len(frame.segments) + 1, frame.segments.dtype)
    rows[1:] = frame.segments
    rows["perimeter"][0] = 1  # nobody's contacts are counted by it
    y, x = np.nonzero(frame.ids[::2, ::2] == 0)
    if len(x):
        rows["area"][0] = 4 * len(x)
        rows["centroid"][0] = 2 * x.mean(), 2 * y.mean()
        rows["bbox"][0] = 2 * np.array([x.min(), y.min(), x.max() + 1, y.max() + 1])
        rows["colour"][0] = planes[:, y, x].mean(axis=1)
    return rows

"""What consumers learn about the segments of a frame."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.climb import Modes
from aaams_stream.kernels import carry
from aaams_stream.model import SEGMENT_DTYPE
from aaams_stream.state import SegmenterState


def describe(state: SegmenterState) -> NDArray[Any]:
    """Return the segment table of the frame (SEGMENT_DTYPE)."""
    table = state.table
    area = np.empty(len(table.ids), np.int64)
    rows = np.zeros(len(table.ids), SEGMENT_DTYPE)
    bbox = np.empty((len(table.ids), 4), np.int32)
    carry.measure_boxes(state.labels, area, bbox)
    modes = Modes(table.location, table.precision, table.moments, table.density)
    bandwidth = modes.bandwidths()
    rows["id"] = table.ids
    rows["area"] = area
    rows["mode"] = table.location
    rows["bandwidth_colour"] = bandwidth[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    rows["bandwidth_space"] = bandwidth[:, [3, 3, 4], [3, 4, 4]]
    rows["bbox"] = bbox
    rows["density"] = table.density
    return rows

"""A frame with its segments as one picture, for snapshots and the window."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream.draw import video
from aaams_stream.live import LiveFrame

VIEWS = ("boundaries", "colours", "ids", "motion")
_REACH = 6.0  # frames ahead to which an arrow points
_LEAST = 0.4  # pixels a frame below which a segment stands still
_ARROW = (255, 90, 60)


def paint_view(shown: LiveFrame, view: str, opacity: float) -> NDArray[np.uint8]:
    """Return the picture (h, w, 3) with a view laid over it: nothing at 0, opaque at 1."""
    rgb, ids = shown.frame.rgb, shown.segmentation.ids
    if view == "ids":
        layer = video.id_colours(ids)
        layer[video.boundaries(ids)] = 255
    elif view == "motion":
        layer = _arrows(shown)
    else:
        layer = video.paint(rgb, ids, view)
    return np.asarray(cv2.addWeighted(layer, opacity, rgb, 1 - opacity, 0), np.uint8)


def _arrows(shown: LiveFrame) -> NDArray[np.uint8]:
    layer = shown.frame.rgb.copy()
    rows = shown.segmentation.segments
    moving = np.hypot(*rows["motion"].T) >= _LEAST
    for row in rows[moving]:
        tip = row["centroid"] + _REACH * row["motion"]
        a, b = ((round(float(x)), round(float(y))) for x, y in (row["centroid"], tip))
        cv2.arrowedLine(layer, a, b, _ARROW, 1, cv2.LINE_AA, tipLength=0.3)
        cv2.circle(layer, a, 2, _ARROW, -1, cv2.LINE_AA)
    return layer

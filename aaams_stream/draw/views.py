"""Segments over the picture they were found in: boundaries, mean colours, ids, motion."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

VIEWS = ("boundaries", "colours", "ids", "objects")
LIVE_VIEWS = ("boundaries", "colours", "ids", "objects", "motion")

_LINE = np.array([255, 214, 10], dtype=np.uint8)  # amber, as the live page has it
_WIDE_SPAN = 1 << 22  # ids further apart than this are counted by sorting
_REACH = 6.0  # frames ahead to which an arrow points
_LEAST_MOTION = 0.4  # pixels a frame below which a segment stands still
_ARROW = (255, 90, 60)
_TINT = 0.5  # of a group's colour over the picture
_FAINT = 0.18  # of white, on the lines between segments of one group


def draw_view(
    rgb: NDArray[np.uint8],
    ids: NDArray[np.uint32],
    view: str = "boundaries",
    *,
    opacity: float | None = None,
    segments: NDArray[Any] | None = None,
    fine: NDArray[np.uint32] | None = None,
) -> NDArray[np.uint8]:
    """Return `rgb` (h, w, 3) with the segments `ids` (h, w) shown as `view` says.

    boundaries: a line between segments. colours: each segment in its mean colour. ids: each
    identity in a colour of its own, the same in every frame, with white lines between. motion: an
    arrow for each segment that moves, by its row in `segments`, the table of the frame. objects:
    each group tinted in a colour of its own, with faint lines between its segments `fine` (h, w).

    Where ids are 0 the picture stays as it is.

    opacity: of the view over the picture, from nothing at 0 to all at 1. By default all, but ids
    let half of the picture through between their lines, or nobody could tell what they are of.
    """
    if view == "boundaries":
        layer = draw_boundaries(rgb, ids)
    elif view == "colours":
        layer = _where_ids(mean_colours(rgb, ids), ids, rgb)
    elif view == "ids":
        layer = id_colours(ids)
        if opacity is None:
            layer = ((rgb.astype(np.uint16) + layer) // 2).astype(np.uint8)
        layer = _where_ids(layer, ids, rgb)
        layer[boundaries(ids)] = 255
    elif view == "objects":
        layer = _draw_groups(rgb, ids, fine, _TINT if opacity is None else 1.0)
    elif view == "motion" and segments is not None:
        layer = _draw_arrows(rgb, segments)
    else:
        raise ValueError(f"view must be one of {', '.join(VIEWS)}, got {view!r}")
    if opacity is None:
        return layer
    return np.asarray(cv2.addWeighted(layer, opacity, rgb, 1 - opacity, 0), np.uint8)


def draw_boundaries(
    rgb: NDArray[np.uint8] | NDArray[np.uint16], ids: NDArray[np.uint32]
) -> NDArray[np.uint8]:
    """Return the picture (h, w, 3) with a line between segments; uint16 is brought to 8 bits.

    One rule for images, films, snapshots, the window and the page: one pixel wide, in one amber.
    A line that is dark on bright ground and bright on dark shows a little better in a still, but
    falls to pieces where the ground changes and flickers in a film; a second line around it would
    cover small segments. The other pixels are those of the picture.
    """
    drawn = (rgb if rgb.dtype == np.uint8 else rgb >> 8).astype(np.uint8)
    drawn[boundaries(ids)] = _LINE
    return drawn


def boundaries(ids: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return where a pixel's segment differs from that to its right or below."""
    edge = np.zeros(ids.shape, dtype=bool)
    edge[:, :-1] = ids[:, :-1] != ids[:, 1:]
    edge[:-1] |= ids[:-1] != ids[1:]
    return edge


def mean_colours(rgb: NDArray[np.uint8], ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return every pixel in the mean colour of its segment."""
    low = int(ids.min())
    if int(ids.max()) - low < _WIDE_SPAN:
        index = (ids - np.uint32(low)).ravel().astype(np.intp)
    else:
        index = np.unique(ids, return_inverse=True)[1].ravel()
    counts = np.maximum(np.bincount(index), 1)
    means = [np.bincount(index, rgb[:, :, k].ravel()) / counts for k in range(3)]
    table = np.rint(np.stack(means, axis=1)).astype(np.uint8)
    return table[index].reshape(rgb.shape)


def id_colours(ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return a bright colour for each id, far from those of the ids next to it."""
    mixed = ids * np.uint32(2654435761)
    mixed ^= mixed >> np.uint32(15)
    colours = np.empty((*ids.shape, 3), dtype=np.uint8)
    for k in range(3):
        colours[..., k] = (mixed >> np.uint32(8 * k)) & np.uint32(255)
    return colours


def group_colours(ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return a clear colour for each group: hues far from each other, none dark or grey."""
    mixed = ids * np.uint32(2654435761)
    mixed ^= mixed >> np.uint32(15)
    hsv = np.empty((*ids.shape, 3), np.uint8)
    hsv[..., 0] = (mixed & np.uint32(0xFFFF)) * np.uint32(180) >> np.uint32(16)  # OpenCV's degrees
    hsv[..., 1] = 150 + ((mixed >> np.uint32(16)) & np.uint32(1)) * np.uint32(90)
    hsv[..., 2] = 190 + ((mixed >> np.uint32(17)) & np.uint32(1)) * np.uint32(65)
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), np.uint8)


def _draw_groups(
    rgb: NDArray[np.uint8],
    groups: NDArray[np.uint32],
    fine: NDArray[np.uint32] | None,
    tint: float,
) -> NDArray[np.uint8]:
    present, index = np.unique(groups, return_inverse=True)
    colours = group_colours(present[None])[0][index.reshape(groups.shape)]
    layer = np.asarray(cv2.addWeighted(colours, tint, rgb, 1 - tint, 0), np.uint8)
    layer = _where_ids(layer, groups, rgb)
    if fine is not None:
        lines = boundaries(fine)
        layer[lines] = np.rint(layer[lines] * (1 - _FAINT) + 255 * _FAINT).astype(np.uint8)
    layer[boundaries(groups)] = 255
    return layer


def _where_ids(
    layer: NDArray[np.uint8], ids: NDArray[np.uint32], rgb: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return a layer with the picture itself where there is no id."""
    return layer if ids.all() else np.where(ids[..., None] > 0, layer, rgb)


def _draw_arrows(rgb: NDArray[np.uint8], segments: NDArray[Any]) -> NDArray[np.uint8]:
    layer = rgb.copy()
    moving = np.hypot(*segments["motion"].T) >= _LEAST_MOTION
    for row in segments[moving]:
        tip = row["centroid"] + _REACH * row["motion"]
        a, b = ((round(float(x)), round(float(y))) for x, y in (row["centroid"], tip))
        cv2.arrowedLine(layer, a, b, _ARROW, 1, cv2.LINE_AA, tipLength=0.3)
        cv2.circle(layer, a, 2, _ARROW, -1, cv2.LINE_AA)
    return layer

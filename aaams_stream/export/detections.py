"""A frame as the detections of supervision (extra `supervision`), with compact masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.pool import rows_of
from aaams_stream.export.tables import needed
from aaams_stream.kernels import rle
from aaams_stream.model import FrameSegmentation

if TYPE_CHECKING:
    from aaams_stream.store import Volume

# Columns of the segment table that go along.
_DATA = ("area", "centroid", "colour", "motion", "age", "parent")


def as_detections(frame: FrameSegmentation | Volume, t: int | None = None) -> Any:
    """Return the segments of a frame as `supervision.Detections`.

    frame: one that `Segmenter.step`, `stream` or `replay` gave, or a volume, or a view of one, of
    which `t` is the frame. Row i is row i of the segment table: `tracker_id` is its id, `mask` a
    CompactMask, which takes the room of its outline, `xyxy` its box with the last pixel inside, as
    supervision has it. `data` holds area (pixels), centroid (x, y), colour (L, a, b), motion
    (pixels since the frame before), age (frames) and parent (id), `class_name` what a row stands
    for; `metadata` the number of the frame and its time in seconds::

        detections = as_detections(volume.only(volume.objects(5)), 0)
        supervision.MaskAnnotator(color_lookup=supervision.ColorLookup.TRACK).annotate(
            picture, detections
        )
    """
    supervision = needed("supervision", "supervision")
    compact = needed("supervision.detection.compact_mask", "supervision")
    if isinstance(frame, FrameSegmentation):
        if t is not None:
            raise ValueError("a frame is one by itself; only of a volume `t` names one")
        rows, ids, unit = frame.segments, frame.ids, "supervoxel"
        seen: dict[str, Any] = {"frame": frame.index, "time": frame.time}
    else:
        if t is None:
            raise ValueError("of a volume, say which frame: as_detections(volume, t)")
        rows, ids, unit = frame.segments(t), frame.ids[t], frame.unit
        index = t % frame.frame_count
        seen = {"frame": index, "time": float(frame.times[index])}
    boxes = np.ascontiguousarray(rows["bbox"])
    masks = compact.CompactMask(
        _runs(rows_of(ids, np.append(np.uint32(0), rows["id"])) - np.int32(1), boxes),
        (boxes[:, [3, 2]] - boxes[:, [1, 0]]).astype(np.int32),
        boxes[:, :2].astype(np.int32),
        (int(ids.shape[0]), int(ids.shape[1])),
    )
    data = {name: rows[name].copy() for name in _DATA}
    return supervision.Detections(
        xyxy=(boxes - np.array([0, 0, 1, 1])).astype(np.float32),
        mask=masks,
        class_id=np.zeros(len(rows), np.int64),
        tracker_id=rows["id"].astype(np.int64),
        data={"class_name": np.full(len(rows), unit), **data},
        metadata=seen,
    )


def _runs(labels: NDArray[np.int32], boxes: NDArray[np.int32]) -> list[NDArray[np.int32]]:
    """Return the runs of each row's mask within its box; label i is row i."""
    bounds = np.zeros(len(boxes) + 1, np.int64)
    names = np.arange(len(boxes), dtype=np.int32)
    room = 1 << 16
    while True:
        out = np.empty(room, np.int32)
        if rle.find_crop_runs(labels, names, boxes, out, bounds):
            return [part.copy() for part in np.split(out[: bounds[-1]], bounds[1:-1])[: len(boxes)]]
        room *= 4

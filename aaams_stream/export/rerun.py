"""A volume as a recording for Rerun (extra `rerun`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from aaams_stream.export.selection import Chosen
from aaams_stream.export.tables import needed

_CLASSES = 2**16  # Rerun colours by class, of which there are so many; classes are ids modulo this


def write_rrd(chosen: Chosen, path: Path, step: Callable[[], None]) -> None:
    """Write the picture, where it is stored, the ids, and a box per segment with its motion.

    Timelines `frame` and `time`; a box is labelled with its id.
    """
    rerun = needed("rerun", "rerun")
    volume = chosen.volume
    recording = rerun.RecordingStream("aaams_stream", recording_id=volume.path.name)
    with recording:
        recording.save(path)
        for t in chosen:
            recording.set_time("frame", sequence=t)
            recording.set_time("time", duration=float(volume.times[t]))
            if volume.video is not None:
                recording.log("video", rerun.Image(volume.video[t]).compress(jpeg_quality=90))
            classes = (chosen.ids(t) % _CLASSES).astype(np.uint16)
            recording.log("video/ids", rerun.SegmentationImage(classes))
            rows = chosen.segments(t)
            names = (rows["id"] % _CLASSES).astype(np.uint16)
            boxes = rows["bbox"].astype(np.float32)
            recording.log(
                "video/boxes",
                rerun.Boxes2D(
                    array=boxes,
                    array_format=rerun.Box2DFormat.XYXY,
                    class_ids=names,
                    labels=[str(name) for name in rows["id"]],
                    show_labels=False,
                ),
            )
            origins = rows["centroid"] - rows["motion"]
            recording.log(
                "video/motion",
                rerun.Arrows2D(origins=origins, vectors=rows["motion"], class_ids=names),
            )
            step()
        recording.flush()
        recording.disconnect()

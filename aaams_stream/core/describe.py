"""A labelled frame as users get it: ids in its own pixels, and tables. Only reads.

A stream does this on a thread behind the labels; see `run/stages.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.measure import measure
from aaams_stream.core.prepare import Prepared, Watch
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.stopwatch import stopwatch
from aaams_stream.core.upsample import upsample
from aaams_stream.model import FrameSegmentation


@dataclass(frozen=True, slots=True)
class Labelled:
    """A frame whose labels are decided."""

    prepared: Prepared
    state: SegmenterState  # after the frame
    events: NDArray[Any]  # EVENT_DTYPE
    explained: float  # share of the pixels that are what they were
    flow: NDArray[np.float32] | None  # (h, w, 2) to where each pixel was, None after a cold start

    @property
    def count(self) -> int:
        """How many segments there are."""
        return self.state.tracks.count


def describe(labelled: Labelled, watch: Watch = stopwatch) -> FrameSegmentation:
    """Return what the segmenter made of a frame."""
    prepared, state = labelled.prepared, labelled.state
    frame = prepared.frame
    seconds = dict(prepared.seconds)
    clock = watch(seconds)
    outside = None if prepared.roi is None else prepared.roi.outside(frame.shape[:2])
    labels = upsample(state.labels, prepared.small, frame, prepared.tuning, outside)
    if labels is not state.labels:
        clock("scale")
    ids, tables = measure(state, labels, frame, labelled.flow)
    clock("table")
    if prepared.roi is not None:
        ids = prepared.roi.paste(ids)
        prepared.roi.shift(tables.segments)
    stats = {"segments": float(len(tables.segments)), "warm": labelled.explained, **seconds}
    return FrameSegmentation(state.index - 1, prepared.time, ids, *tables, labelled.events, stats)

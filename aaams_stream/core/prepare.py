"""What a frame shows before anything is known of labels: its picture, and how it moved.

A stream does this on a thread that runs ahead of the labels; see `run/stages.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.features import Picture
from aaams_stream.core.flow import backward_flow
from aaams_stream.core.scale import processing_params, processing_shape
from aaams_stream.core.stopwatch import Clock, stopwatch
from aaams_stream.core.tuning import DEFAULT, Tuning
from aaams_stream.params import Params

Watch = Callable[[dict[str, float]], Clock]  # makes the clock that fills in seconds by stage


@dataclass(frozen=True, slots=True)
class Prepared:
    """A frame ready to be labelled, once: its flow is written over."""

    frame: NDArray[np.uint8]  # (h, w, 3)
    time: float | None
    small: NDArray[np.uint8]  # the frame at the size at which it is segmented
    picture: Picture  # of that
    params: Params  # for that size
    tuning: Tuning
    before: NDArray[np.uint8] | None  # luma of the frame that `flow` leads to
    flow: NDArray[np.float32] | None  # as `backward_flow` gives it, where it was sought ahead
    seconds: dict[str, float]  # spent, by stage

    def flow_since(self, before: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the flow since the frame of which this is the luma, for the caller to change.

        Which frame that is is told by the array itself: where a state was restored, or a frame
        left out in between, what was sought ahead leads elsewhere, and it is sought here.
        """
        if self.flow is not None and self.before is before:
            return self.flow
        picture = self.picture
        return backward_flow(
            picture.half_luma, before, picture.shape, self.params.stream.flow, self.tuning
        )


class Preparer:
    """Prepares the frames of a stream in turn; `params` may be replaced between frames."""

    def __init__(self, params: Params, tuning: Tuning = DEFAULT, watch: Watch = stopwatch) -> None:
        self.params = params
        self._tuning = tuning
        self._watch = watch
        self._before: NDArray[np.uint8] | None = None

    def prepare(self, rgb: Any, time: float | None = None) -> Prepared:
        """Prepare the next frame, (h, w) or (h, w, 3) uint8, and find its flow since the last."""
        prepared = prepare(rgb, time, self.params, self._tuning, self._watch)
        before, self._before = self._before, prepared.picture.half_luma
        if before is None or before.shape != self._before.shape:
            return prepared
        clock = self._watch(prepared.seconds)
        flow = prepared.flow_since(before)
        clock("flow")
        return dataclasses.replace(prepared, before=before, flow=flow)


def prepare(
    rgb: Any, time: float | None, params: Params, tuning: Tuning, watch: Watch = stopwatch
) -> Prepared:
    """Return what one frame shows by itself; its flow is left to be sought."""
    given = features.as_rgb(rgb)
    if given.dtype != np.uint8:
        raise ValueError(f"a frame must be uint8, got {given.dtype}")
    frame = np.ascontiguousarray(given, np.uint8)  # kernels are compiled for no other layout
    seconds: dict[str, float] = {}
    clock = watch(seconds)
    shape = processing_shape(frame.shape, params.stream.scale, tuning)
    small = features.resized(frame, shape)
    if small is not frame:
        params = processing_params(params, small.size / frame.size, tuning)
        clock("scale")
    picture = features.picture(small, features.half_luma(frame))
    clock("features")
    return Prepared(frame, time, small, picture, params, tuning, None, None, seconds)

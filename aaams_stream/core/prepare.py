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
from aaams_stream.core.flow import backward_flow, trace_pixels
from aaams_stream.core.roi import Roi
from aaams_stream.core.scale import processing_params, processing_shape
from aaams_stream.core.stopwatch import Clock, stopwatch
from aaams_stream.core.tuning import DEFAULT, Tuning
from aaams_stream.kernels.records import Motion
from aaams_stream.params import Params

Watch = Callable[[dict[str, float]], Clock]  # makes the clock that fills in seconds by stage


@dataclass(frozen=True, slots=True)
class Prepared:
    """A frame ready to be labelled, once: its motion is written over."""

    frame: NDArray[np.uint8]  # (h, w, 3); of a region of interest, the box around it
    time: float | None
    small: NDArray[np.uint8]  # the frame at the size at which it is segmented
    picture: Picture  # of that
    params: Params  # for that size
    tuning: Tuning
    before: Picture | None  # of the frame that `motion` leads to
    motion: Motion | None  # where it was sought ahead
    seconds: dict[str, float]  # spent, by stage
    roi: Roi | None = None

    @property
    def outside(self) -> NDArray[np.bool_] | None:
        """Which pixels of the picture lie outside the region of interest; None: none."""
        return None if self.roi is None else self.roi.outside(self.picture.shape)

    def motion_since(self, half_luma: NDArray[np.uint8], smooth: NDArray[np.float32]) -> Motion:
        """Return the motion since the frame of which this is a picture, for the caller to change.

        Which frame that is is told by the arrays themselves: where a state was restored or scaled,
        or a frame left out in between, what was sought ahead leads elsewhere, and it is sought
        here.
        """
        picture, before, motion = self.picture, self.before, self.motion
        if motion is not None and before is not None and before.half_luma is half_luma:
            if before.smooth is smooth:
                return motion
            flow = motion.flow
        else:
            quality = self.params.stream.flow
            flow = backward_flow(picture.half_luma, half_luma, picture.shape, quality, self.tuning)
            if self.outside is not None:
                flow[self.outside] = 0  # it stays where it is, whatever moves there
        return trace_pixels(flow, smooth, picture.smooth)


class Preparer:
    """Prepares the frames of a stream in turn; `params` may be replaced between frames."""

    def __init__(
        self,
        params: Params,
        tuning: Tuning = DEFAULT,
        watch: Watch = stopwatch,
        roi: Roi | None = None,
    ) -> None:
        self.params = params
        self._roi = roi
        self._tuning = tuning
        self._watch = watch
        self._before: Picture | None = None

    def prepare(self, rgb: Any, time: float | None = None) -> Prepared:
        """Prepare the next frame, (h, w) or (h, w, 3) uint8, and find its motion since the last."""
        prepared = prepare(rgb, time, self.params, self._tuning, self._watch, self._roi)
        before, self._before = self._before, prepared.picture
        # after another scale the state is scaled too, and what it compares with is not known here
        if before is None or before.shape != self._before.shape:
            return prepared
        clock = self._watch(prepared.seconds)
        motion = prepared.motion_since(before.half_luma, before.smooth)
        clock("flow")
        return dataclasses.replace(prepared, before=before, motion=motion)


def prepare(
    rgb: Any,
    time: float | None,
    params: Params,
    tuning: Tuning,
    watch: Watch = stopwatch,
    roi: Roi | None = None,
) -> Prepared:
    """Return what one frame shows by itself; its flow is left to be sought."""
    given = features.as_rgb(rgb)
    if given.dtype != np.uint8:
        raise ValueError(f"a frame must be uint8, got {given.dtype}")
    # kernels are compiled for no other layout, nor for what may only be read
    frame = np.require(given, np.uint8, ["C", "W"])
    if roi is not None:
        frame = roi.crop(frame)
    seconds: dict[str, float] = {}
    clock = watch(seconds)
    shape = processing_shape(frame.shape, params.stream.scale, tuning)
    small = features.resized(frame, shape)
    if small is not frame:
        params = processing_params(params, small.size / frame.size, tuning)
        clock("scale")
    picture = features.picture(small, features.half_luma(frame))
    outside = None if roi is None else roi.outside(picture.shape)
    if outside is not None:
        picture = features.painted(picture, outside)
    clock("features")
    return Prepared(frame, time, small, picture, params, tuning, None, None, seconds, roi)

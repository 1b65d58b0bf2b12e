"""Motion since the frame before, which needs no labels: it may be sought ahead of the segmenter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.upsample import working_shape
from aaams_stream.model import Frame
from aaams_stream.params import Params


@dataclass(frozen=True, slots=True)
class Glimpse:
    """The brightness of a frame and, where it was sought ahead, its motion since another."""

    grey: NDArray[np.uint8]  # as `features.brightness` gives it
    before: NDArray[np.uint8] | None = None  # that of the other frame
    quality: str = ""
    flow: NDArray[np.float32] | None = None  # as `features.flow_back` gives it

    def flow_back(
        self, before: NDArray[np.uint8], shape: tuple[int, int], quality: str
    ) -> NDArray[np.float32]:
        """Return what `features.flow_back` does: what was sought ahead, if it was the same.

        That is a copy, for the caller to change. Which frame came before is told by the array
        itself: one that was dropped in between, or a state that was restored, has another.
        """
        same = self.before is before and self.quality == quality
        if same and self.flow is not None and self.flow.shape[:2] == shape:
            return self.flow.copy()
        return features.flow_back(self.grey, before, shape, quality)


def with_glimpses(frames: Iterable[Frame], params: Params) -> Iterator[tuple[Frame, Glimpse]]:
    """Yield each frame with its motion since the one before; `params` are the segmenter's.

    For a thread that runs ahead of the segmenter. The motion found is the same to the last bit.
    """
    before = None
    quality = params.stream.flow
    for frame in frames:
        grey = features.brightness(frame.rgb)
        flow = None
        if before is not None and before.shape == grey.shape:
            shape = working_shape(frame.rgb.shape, params.stream.scale)
            flow = features.flow_back(grey, before, shape, quality)
        yield frame, Glimpse(grey, before, quality, flow)
        before = grey

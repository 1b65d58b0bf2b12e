"""The demo clip, segmented, and where its things really are: for those who follow them."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

import aaams_stream as aaams
from aaams_stream.model import FrameSegmentation
from aaams_stream.source.demo import SURFACES, demo_frame

FRAMES = 16


def truth_of(t: int, surface: str = "balloon") -> NDArray[np.bool_]:
    """Return the mask (h, w) of a thing in frame t."""
    return demo_frame(t).truth == SURFACES.index(surface)


def segmented_demo() -> list[FrameSegmentation]:
    """Return the frames of the clip, each with its picture."""
    segmenter = aaams.Segmenter()
    frames = []
    for t in range(FRAMES):
        rgb = demo_frame(t).rgb
        frames.append(dataclasses.replace(segmenter.step(rgb, t / 24), rgb=rgb))
    return frames

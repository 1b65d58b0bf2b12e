"""The size at which a frame is segmented, and the settings and constants for it."""

from __future__ import annotations

import dataclasses
import functools

from aaams_stream.core.tuning import DEFAULT, Tuning
from aaams_stream.params import Params


def processing_shape(
    shape: tuple[int, ...], scale: float, tuning: Tuning = DEFAULT
) -> tuple[int, int]:
    """Return the height and width in which a frame of `shape` (h, w, …) is segmented."""
    h, w = shape[:2]
    least = max(scale, min(1.0, tuning.min_side / min(h, w)))
    return round(h * least), round(w * least)


@functools.lru_cache(maxsize=8)  # asked for every frame
def processing_params(params: Params, share: float, tuning: Tuning = DEFAULT) -> Params:
    """Return the settings for a picture with `share` of the frame's pixels.

    Lengths and sizes in the settings are in pixels of the frame.
    """
    share = max(share, tuning.min_length_share)
    least = tuning.min_length2
    space = params.space
    return params.updated(
        {
            "space": {
                "sigma2": max(space.sigma2 * share, min(space.sigma2, least)),
                "epsilon2": max(space.epsilon2 * share, min(space.epsilon2, least)),
            },
            "post": {"min_size": max(round(params.post.min_size * share), 1)},
        }
    )


@functools.lru_cache(maxsize=8)  # asked for every frame
def processing_tuning(tuning: Tuning, segments: int) -> Tuning:
    """Return the constants for so many segments a frame: finer where more than usual are wanted."""
    if segments <= tuning.usual_segments:
        return tuning
    share = tuning.usual_segments / segments
    return dataclasses.replace(
        tuning,
        min_birth=share * tuning.min_birth,
        least_birth=max(round(share * tuning.least_birth), 1),
        faint=share * tuning.faint,
        noise_level=share**2 * tuning.noise_level,  # it goes with the roots of size and contrast
    )

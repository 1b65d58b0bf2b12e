"""The size at which a frame is segmented, and the settings for it."""

from __future__ import annotations

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

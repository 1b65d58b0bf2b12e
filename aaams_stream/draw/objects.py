"""Objects that are followed, over their picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaams_stream.draw.views import boundaries

_TINT = 0.5  # of the object's colour over the picture


def draw_objects(
    rgb: NDArray[np.uint8], labels: NDArray[np.uint8], colours: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return the picture (h, w, 3) with each object tinted and outlined.

    labels (h, w): number of the object, 0 where there is none; colours (256, 3).
    """
    drawn = rgb.copy()
    inside = labels > 0
    tint = colours[labels[inside]]
    drawn[inside] = (_TINT * tint + (1 - _TINT) * rgb[inside]).astype(np.uint8)
    drawn[boundaries(labels.astype(np.uint32))] = 255
    return drawn

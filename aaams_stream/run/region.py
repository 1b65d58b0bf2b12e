"""The region of interest as users name it: a picture of it, or an array."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from aaams_stream.core.roi import Roi


def read_roi(given: Roi | str | Path | ArrayLike | None) -> Roi | None:
    """Return the region of interest that a file or an array shows; None where none is given.

    A pixel of a picture is inside where any of its colours is above 0, and it is not transparent.
    """
    from aaams_stream.core.roi import as_roi
    from aaams_stream.source.images import read_image

    if not isinstance(given, str | Path):
        return as_roi(given)
    picture: NDArray[np.uint8] | NDArray[np.uint16] = read_image(given)
    if picture.ndim == 2:
        return as_roi(picture, str(given))
    inside = picture[..., :3].any(axis=2)
    if picture.shape[2] == 4:
        inside &= picture[..., 3] > 0
    return as_roi(inside, str(given))

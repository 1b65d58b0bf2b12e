"""Label maps, planes and flows that fit on a line."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import ArrayLike, NDArray

_NEGATIVE = {".": -1, "!": -2}


def label_maps(least: int, most: int, side: int = 9) -> st.SearchStrategy[NDArray[np.int32]]:
    """Draw maps (h, w) int32 with values from `least` to `most`."""
    shapes = hnp.array_shapes(min_dims=2, max_dims=2, max_side=side)
    return hnp.arrays(np.int32, shapes, elements=st.integers(least, most))


def drawn(*rows: str) -> NDArray[np.int32]:
    """Return the map whose rows are strings: digits are labels, . is -1 and ! is -2."""
    return np.array([[_NEGATIVE.get(c) or int(c) for c in row] for row in rows], np.int32)


def grey_planes(lightness: ArrayLike) -> NDArray[np.float32]:
    """Return L*a*b* planes (3, h, w) of greys."""
    planes = np.zeros((3, *np.shape(lightness)), np.float32)
    planes[0] = lightness
    return planes


def even_flow(labels: NDArray[np.int32], dx: float = 0.0, dy: float = 0.0) -> NDArray[np.float32]:
    """Return a flow (h, w, 2) of one vector everywhere, as large as the map."""
    flow = np.empty((*labels.shape, 2), np.float32)
    flow[...] = dx, dy
    return flow

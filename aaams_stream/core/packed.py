"""What the columns of packed arrays mean, and the algebra on them.

Symmetric matrices are upper triangles: LL, La, Lb, aa, ab, bb and xx, xy, yy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

PLACE = slice(3, 5)  # of a position (n, 5), L, a, b, x, y

WEIGHT = 0  # of a trajectory (n, 15)
MEAN = slice(1, 6)
MEAN_PLACE = slice(4, 6)
SPACE_SCATTER = slice(12, 15)

COLOUR_PRECISION = slice(0, 6)  # of a precision (n, 10)
SPACE_PRECISION = slice(6, 9)
ROOT_DET = 9

MEAN_COLOUR = slice(0, 3)  # of the colours of a segment (n, 9)
INVERSE_VARIANCE = slice(3, 9)

FULL = [[0, 1, 2], [1, 3, 4], [2, 4, 5]]  # a symmetric 3x3 matrix from its upper triangle
ROW, COLUMN = np.triu_indices(3)
DIAGONAL = (ROW == COLUMN).astype(np.float64)


def inverted(upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverses of symmetric 3x3 matrices; upper triangles (k, 6) in and out.

    Written out: LAPACK takes a microsecond a matrix.
    """
    ll, la, lb, aa, ab, bb = upper.T
    rows = np.stack(
        [
            aa * bb - ab * ab,
            lb * ab - la * bb,
            la * ab - lb * aa,
            ll * bb - lb * lb,
            la * lb - ll * ab,
            ll * aa - la * la,
        ],
        axis=1,
    )
    return np.asarray(rows / (ll * rows[:, 0] + la * rows[:, 1] + lb * rows[:, 2])[:, None])


def bandwidths(precision: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return Σ (k, 5, 5), block-diagonal over colour and space, of precisions (k, 10)."""
    full = np.zeros((len(precision), 5, 5), np.float32)
    full[:, :3, :3] = inverted(precision[:, COLOUR_PRECISION].astype(np.float64))[:, FULL]
    xx, xy, yy = precision[:, SPACE_PRECISION].T.astype(np.float64)
    full[:, 3:, 3:] = (np.array([[yy, -xy], [-xy, xx]]) / (xx * yy - xy * xy)).T
    return full


def colour_gap_sq(mine: NDArray[np.float32], theirs: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return how many squared σ (n,) of their own lie between their mean colours and mine.

    mine, theirs (n, 9): colours of segments.
    """
    x, y, z = (mine[:, MEAN_COLOUR] - theirs[:, MEAN_COLOUR].astype(np.float64)).T
    xx, xy, xz, yy, yz, zz = theirs[:, INVERSE_VARIANCE].astype(np.float64).T
    return np.asarray((xx * x + 2 * (xy * y + xz * z)) * x + (yy * y + 2 * yz * z) * y + zz * z * z)


def scaled_places(places: NDArray[Any], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where places x, y lie after scaling; a pixel's place is its centre."""
    return np.asarray((places + 0.5) * scale - 0.5)


def scale_products(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by what xx, xy and yy grow when x and y are scaled."""
    x, y = scale
    return np.array([x * x, x * y, y * y])

"""Pixel grids as the kernels see them, and as points that the reference understands."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.clusters import ClusterGrid
from aaams_stream.kernels.records import Scales
from support import reference

SIGMA2_COLOUR, SIGMA2_SPACE = 20.0, 16.0
DOMAINS = [
    reference.Domain(3, SIGMA2_COLOUR**0.5, 2.0),
    reference.Domain(2, SIGMA2_SPACE**0.5, 4.0),
]
BASE = reference.base_bandwidth(DOMAINS)
SCALES = Scales(
    np.float32(1 / SIGMA2_COLOUR),
    np.float32(1 / SIGMA2_SPACE),
    np.float32(2.0**2),
    np.float32(4.0**2),
    np.float32(0.25 * SIGMA2_COLOUR),
    np.float32(0.25 * SIGMA2_SPACE),
    9,
    1,
)


def blurred_noise(
    height: int, width: int, seed: int = 0, contrast: float = 40.0
) -> NDArray[np.uint8]:
    """Return a picture (h, w, 3) in which every pixel differs and neighbours are alike.

    contrast: standard deviation in grey levels; 10 leaves a lot to merge, 40 next to nothing.
    """
    rng = np.random.default_rng(seed)
    rough = rng.normal(size=(height, width, 3))
    for axis in (0, 1):
        for _ in range(2):
            rough = (np.roll(rough, 1, axis) + rough + np.roll(rough, -1, axis)) / 3
    rough = 128 + contrast * rough / rough.std()
    return np.clip(np.rint(rough), 0, 255).astype(np.uint8)


def as_points(planes: NDArray[np.float32], width: int) -> NDArray[np.float64]:
    """Return every pixel as a row L, a, b, x, y, in raster order."""
    h = planes.shape[1]
    y, x = np.indices((h, width))
    colours = planes[:, :, :width].reshape(3, h * width)
    return np.concatenate([colours, [x.ravel()], [y.ravel()]]).T.astype(np.float64)


def make_grid(
    height: int, width: int, seed: int = 0, contrast: float = 40.0
) -> tuple[ClusterGrid, NDArray[np.float64]]:
    """Return a fresh grid over blurred noise, and its pixels as points."""
    planes = features.lab_planes(blurred_noise(height, width, seed, contrast))
    return ClusterGrid.of_pixels(planes, width), as_points(planes, width)


def random_bandwidth(rng: np.random.Generator, stretch: float = 1.0) -> NDArray[np.float64]:
    """Return a tilted block-diagonal Σ (5, 5) of about the base bandwidth's size."""
    out = np.zeros((5, 5))
    for part, domain in zip(reference.slices(DOMAINS), DOMAINS, strict=True):
        root = rng.normal(size=(domain.size, domain.size)) * domain.sigma * stretch
        out[part, part] = root @ root.T / domain.size + 0.25 * domain.sigma**2 * np.eye(domain.size)
    return out


def precision_row(bandwidth: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return Σ (5, 5) as the kernels keep it: both inverses and 1/√det."""
    inverse = np.linalg.inv(bandwidth)
    colour = inverse[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    space = inverse[[3, 3, 4], [3, 4, 4]]
    root = 1 / np.sqrt(np.linalg.det(bandwidth))
    return np.concatenate([colour, space, [root]]).astype(np.float32)


def full_matrix(row: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the upper triangles of both domains (9 or more values) as a matrix (5, 5)."""
    out = np.zeros((5, 5))
    out[:3, :3] = row[np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])]
    out[3:, 3:] = row[np.array([[6, 7], [7, 8]])]
    return out

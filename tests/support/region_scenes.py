"""Small label maps with colours, and what regions are like when one looks at every pixel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.features import Picture
from aaams_stream.kernels import region_graph

FLOOR = 5.0  # ξ of the colours

Scene = tuple[
    NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]
]  # planes, density, gradient, labels


def components(owner: NDArray[np.integer]) -> tuple[NDArray[np.int32], int]:
    """Return the connected components of a label map, and how many there are."""
    labels = np.empty(owner.shape, np.int32)
    count = region_graph.label_components(np.ascontiguousarray(owner, np.int32), labels)
    return labels, int(count)


def random_scene(seed: int, height: int = 7, width: int = 8, owners: int = 4) -> Scene:
    """Return noise and its regions.

    Colours are quarters and densities sixteenths: runs are summed in float32, here without a
    rounding, so that all that follows can be compared to the last digits.
    """
    rng = np.random.default_rng(seed)
    planes = (rng.integers(0, 241, (3, height, 16)) / 4).astype(np.float32)
    density = (rng.integers(1, 17, (height, width)) / 16).astype(np.float32)
    gradient = rng.uniform(0.1, 9, (height, width)).astype(np.float32)
    labels, _ = components(rng.integers(0, owners, (height, width)))
    return planes, density, gradient, labels


def picture_of(planes: NDArray[np.float32], gradient: NDArray[np.float32]) -> Picture:
    """Return a picture with these planes, of which nothing else is asked."""
    smooth = np.ascontiguousarray(planes[:, :, : gradient.shape[1]])
    return Picture(planes, smooth, gradient, np.zeros((0, 0), np.uint8))


def measured(
    planes: NDArray[np.float32], density: NDArray[np.float32], labels: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the moments (k, 13) of regions, and x and y summed over their pixels (k, 2)."""
    count = int(labels.max()) + 1
    moments, sums = np.zeros((count, 13)), np.zeros((count, 2))
    region_graph.measure_regions(planes, density, labels, moments, sums)
    return moments, sums


def explicit(
    planes: NDArray[np.float32], density: NDArray[np.float32], mask: NDArray[np.bool_]
) -> tuple[int, float, NDArray[np.float64], NDArray[np.float64]]:
    """Return pixels, density weight, mean colour and Σ of a region, from its pixels."""
    colours = planes[:, :, : mask.shape[1]][:, mask].T.astype(np.float64)
    rho = density[mask].astype(np.float64)
    mean = rho @ colours / rho.sum()
    centred = colours - mean
    sigma = np.einsum("p,pa,pb->ab", rho, centred, centred) / rho.sum() + FLOOR * np.eye(3)
    return int(mask.sum()), float(rho.sum()), mean, sigma


def contacts(
    gradient: NDArray[np.float32], labels: NDArray[np.integer]
) -> dict[tuple[int, int], tuple[int, float]]:
    """Return contact length and gradient of each touching pair, by looking at all pixel pairs."""
    found: dict[tuple[int, int], tuple[int, float]] = {}
    h, w = labels.shape
    for y in range(h):
        for x in range(w):
            for v, u in ((y, x + 1), (y + 1, x)):
                if v < h and u < w and labels[y, x] != labels[v, u]:
                    low, high = sorted((int(labels[y, x]), int(labels[v, u])))
                    length, contrast = found.get((low, high), (0, 0.0))
                    mean = (float(gradient[y, x]) + float(gradient[v, u])) / 2
                    found[low, high] = (length + 1, contrast + mean)
    return found

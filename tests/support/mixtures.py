"""Drawn point scenes: mixtures of stretched and turned Gaussians, most with known labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Mixture:
    """Points (n, d), the component each came from, and the long axis of every component."""

    points: NDArray[np.float64]
    labels: NDArray[np.int64]
    axes: NDArray[np.float64]


def blobs(
    centres: list[list[float]], count: int = 60, spread: float = 0.5, seed: int = 0
) -> Mixture:
    """Round components of equal size."""
    axes = [[1.0] + [0.0] * (len(centres[0]) - 1)] * len(centres)
    return _mixture(centres, axes, spread, spread, count, seed)


def cigars_2d(count: int = 400, seed: int = 0) -> Mixture:
    """Three long, thin components that lie along different directions."""
    centres = [[0.0, 0.0], [0.0, 6.0], [14.0, 3.0]]
    axes = [[1.0, 0.15], [1.0, 0.15], [0.1, 1.0]]
    return _mixture(centres, axes, 3.0, 0.45, count, seed)


def cigars_3d(count: int = 500, seed: int = 0) -> Mixture:
    """Three long, thin components in space, one along each of three skew directions."""
    centres = [[0.0, 0.0, 0.0], [0.0, 6.0, 1.0], [14.0, 3.0, 4.0]]
    axes = [[1.0, 0.2, 0.0], [1.0, 0.0, 0.3], [0.0, 0.3, 1.0]]
    return _mixture(centres, axes, 3.0, 0.5, count, seed)


def skewed_clouds(seed: int, dims: int = 2, count: int = 50) -> NDArray[np.float64]:
    """Return two skewed, overlapping clouds and a few stragglers (2·count + 8, dims)."""
    rng = np.random.default_rng(seed)
    turn = rng.normal(size=(dims, dims))
    near = rng.normal(size=(count, dims)) @ turn
    far = rng.normal(size=(count, dims)) @ turn.T + 5.0
    return np.concatenate([near, far, rng.uniform(-6, 9, size=(8, dims))])


def _mixture(
    centres: list[list[float]],
    axes: list[list[float]],
    long: float,
    short: float,
    count: int,
    seed: int,
) -> Mixture:
    rng = np.random.default_rng(seed)
    units = np.array([np.array(axis) / np.linalg.norm(axis) for axis in axes])
    parts = []
    for centre, axis in zip(centres, units, strict=True):
        along = rng.normal(scale=long, size=(count, 1)) * axis
        noise = rng.normal(scale=short, size=(count, len(centre)))
        across = noise - noise @ axis[:, None] * axis
        parts.append(np.array(centre) + along + across)
    labels = np.repeat(np.arange(len(centres)), count)
    return Mixture(np.concatenate(parts), labels, units)

"""The working memory of Alg. 1 on a pixel grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels.records import Clusters, Pixels, Scales
from aaams_stream.params import Params


@dataclass(slots=True)
class ClusterGrid:
    """The pixels of one frame and the clusters on them; kernels write into its arrays."""

    pixels: Pixels
    clusters: Clusters
    density_scale: float = 1.0  # density of one unit of weight

    @classmethod
    def of_pixels(cls, planes: NDArray[np.float32], width: int) -> ClusterGrid:
        """Return a grid in which every pixel is a cluster that has not moved yet.

        planes (3, h, pitch): rows hold `width` pixels.
        """
        h, n = planes.shape[1], planes.shape[1] * width
        start = np.arange(n, dtype=np.int32).reshape(h, width)
        density = np.empty((h, width), np.float32)
        return cls.begin(planes, density, start, n, np.empty(start.shape, np.uint8))

    @classmethod
    def begin(
        cls,
        planes: NDArray[np.float32],
        density: NDArray[np.float32],
        start: NDArray[np.int32],
        count: int,
        adaptive: NDArray[np.uint8],
    ) -> ClusterGrid:
        """Return a grid of `count` clusters in which each pixel belongs to that of start (h, w)."""
        return cls(
            Pixels(planes, density, start, start.copy(), adaptive),
            Clusters(
                position=np.empty((count, 5), np.float32),
                rho=np.empty(count, np.float32),
                shift=np.empty((count, 5), np.float32),
                bearing=np.empty((count, 5), np.float32),
                trajectory=np.empty((count, 15), np.float32),
                precision=np.empty((count, 10), np.float32),
                parent=np.arange(count, dtype=np.int32),
                members=np.ones(count, np.int32),
                changed=np.zeros(count, np.bool_),
            ),
        )

    def alive(self, which: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return those of the given clusters that no other has absorbed."""
        return np.asarray(which[self.clusters.parent[which] == which])


def kernel_scales(params: Params, tuning: Tuning, thin: int = 1) -> Scales:
    """Return the numbers of the settings as kernels want them; thin: every so many rows count."""
    colour, space = params.colour, params.space
    return Scales(
        np.float32(1 / colour.sigma2),
        np.float32(1 / space.sigma2),
        np.float32(colour.epsilon2),
        np.float32(space.epsilon2),
        np.float32(tuning.variance_floor * colour.sigma2),
        np.float32(tuning.variance_floor * space.sigma2),
        tuning.adaptive_members,
        thin,
    )


def base_precision(params: Params) -> NDArray[np.float32]:
    """Return the row of precisions that stands for the base bandwidth."""
    c, s = 1 / params.colour.sigma2, 1 / params.space.sigma2
    return np.array([c, 0, 0, c, 0, c, s, 0, s, c**1.5 * s], np.float32)

"""The modes that segments stand on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import packed
from aaams_stream.core.clusters import ClusterGrid, base_precision
from aaams_stream.core.state import TrackTable
from aaams_stream.core.transport import ABOVE_ANY, Advanced
from aaams_stream.kernels import modes as kernels
from aaams_stream.params import Params


@dataclass(frozen=True, slots=True)
class Modes:
    """The mode that each segment stands on; row i is segment i."""

    position: NDArray[np.float32]  # (k, 5) L, a, b, x, y
    precision: NDArray[np.float32]  # (k, 10) inverse bandwidth, as in kernels.records.Clusters
    trajectory: NDArray[np.float32]  # (k, 15) likewise
    density: NDArray[np.float32]  # (k,) ρ at the mode


def densest_pixels(
    regions: NDArray[np.int32], segment_of_region: NDArray[np.int32], density: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Return the flat index (k,) of the densest pixel of each segment of regions (h, w)."""
    densest = np.empty(int(segment_of_region.max()) + 1, np.int64)
    kernels.densest_pixels(regions, segment_of_region, density, densest)
    return densest


def find_modes(
    labels: NDArray[np.int32],
    densest: NDArray[np.int64],
    grid: ClusterGrid,
    which: NDArray[np.int32],
    params: Params,
) -> Modes:
    """Find the mode of each segment of labels (h, w) among the given clusters.

    densest (k,): the densest pixel of each segment. A segment may hold several clusters, and a
    part of one. Its mode is the densest of those that stand inside it; a part cut off from its
    mode gets its densest pixel and the base bandwidth.
    """
    count = len(densest)
    winner = np.empty(count, np.int32)
    kernels.densest_clusters(labels, which, grid.clusters, winner)
    modes = Modes(
        np.empty((count, 5), np.float32),
        np.empty((count, 10), np.float32),
        np.empty((count, 15), np.float32),
        np.empty(count, np.float32),
    )
    kernels.take_modes(
        winner,
        densest,
        grid.pixels,
        grid.clusters,
        base_precision(params),
        modes.position,
        modes.precision,
        modes.trajectory,
        modes.density,
    )
    return modes


def transported_modes(
    labels: NDArray[np.int32],
    densest: NDArray[np.int64],
    ids: NDArray[np.uint32],
    advanced: Advanced,
    tracks: TrackTable,
    params: Params,
) -> Modes:
    """Find the modes of a warm frame: a transported one if it still stands in its own segment.

    labels (h, w): rows of ids (k,); densest as in `find_modes`; tracks: of the frame before.
    """
    grid, here = advanced.grid, advanced.transported
    row = np.searchsorted(ids, tracks.ids[here])
    row[row == len(ids)] = 0
    inside = labels[_nearest_pixels(grid.clusters.position[here], labels.shape)] == row
    inside &= ids[row] == tracks.ids[here]
    strays = np.zeros(grid.clusters.rho.size, np.bool_)
    strays[here[~inside]] = True
    modes = find_modes(labels, densest, grid, advanced.alive[~strays[advanced.alive]], params)
    density = np.where(modes.density > 1, modes.density - ABOVE_ANY, modes.density)
    return dataclasses.replace(modes, density=density)


def _nearest_pixels(
    position: NDArray[np.float32], shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row and column of the pixels on which clusters stand."""
    x, y = np.rint(position[:, packed.PLACE]).astype(np.int64).T
    return np.clip(y, 0, shape[0] - 1), np.clip(x, 0, shape[1] - 1)

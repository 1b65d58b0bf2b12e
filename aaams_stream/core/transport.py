"""Clusters of the frame before move on; pixels without a label join them or found new ones.

Alg. 1 in a warm frame: clusters that were transported stand still and are not absorbed; only the
newcomers climb.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.clusters import ClusterGrid, base_precision, kernel_scales
from aaams_stream.core.features import Picture
from aaams_stream.core.mean_shift import climb, iteration, merge_moved, shift_clusters
from aaams_stream.core.propagate import Propagated
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.threads import side_by_side
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import mean_shift
from aaams_stream.kernels import transport as kernels
from aaams_stream.kernels.records import Transported
from aaams_stream.params import Params

# Added to the density of a transported cluster, whose own is at most 1: in every merge the denser
# survives, so no newcomer absorbs it.
ABOVE_ANY = np.float32(1.0)


@dataclass(frozen=True, slots=True)
class Advanced:
    """The clusters of a warm frame once its newcomers have found their place."""

    grid: ClusterGrid
    alive: NDArray[np.int32]  # (m,) all clusters left
    transported: NDArray[np.int32]  # (n,) those of the frame before: rows of its tracks
    motion: NDArray[np.float64]  # (k, 2) how far each track of the frame before has moved


def advance(
    labels: NDArray[np.int32],
    seen: Propagated,
    picture: Picture,
    state: SegmenterState,
    params: Params,
    tuning: Tuning,
) -> Advanced:
    """Let the clusters of the frame before move on, and find a cluster for every other pixel.

    labels (h, w): rows of the tracks, or negative.
    """
    tracks = state.tracks
    count = len(tracks.ids)
    start = np.empty_like(labels)
    adaptive = np.empty(labels.shape, np.uint8)
    area = np.empty(count, np.int64)
    motion = np.empty((count, 2))
    unlabelled = kernels.number_clusters(labels, seen.pixels.flow, start, adaptive, area, motion)
    grid = ClusterGrid.begin(
        picture.planes, seen.pixels.density, start, count + unlabelled.size, adaptive
    )
    grid.density_scale = state.density_scale
    here = np.flatnonzero(area).astype(np.int32)
    _transport(grid, here, motion, state, params, tuning)
    alive = _join_newcomers(grid, here, unlabelled, params, tuning)
    return Advanced(grid, alive, here, motion)


def _transport(
    grid: ClusterGrid,
    here: NDArray[np.int32],
    motion: NDArray[np.float64],
    state: SegmenterState,
    params: Params,
    tuning: Tuning,
) -> None:
    """Move the clusters of the tracks that have a pixel: with the motion, then one shift.

    Old trajectory points fade with the kernel in time, and go along with the motion, so that Σ
    describes the segment and not its path.
    """
    tracks, clusters = state.tracks, grid.clusters
    scales = kernel_scales(params, tuning, tuning.warm_thin)
    kernels.move_clusters(
        here,
        Transported(tracks.mode, tracks.trajectory, tracks.precision, tracks.area),
        motion,
        np.float32(np.exp(-0.5 / params.time.sigma2)),
        tuning.adaptive_members,
        clusters,
    )
    shift_clusters(grid, here, scales)
    mean_shift.refresh_bandwidths(here, clusters, scales)
    clusters.rho[here] += ABOVE_ANY


def _join_newcomers(
    grid: ClusterGrid,
    here: NDArray[np.int32],
    unlabelled: NDArray[np.int32],
    params: Params,
    tuning: Tuning,
) -> NDArray[np.int32]:
    """Run Alg. 1 on the pixels without a label, the last clusters; return all clusters alive."""
    pixels, clusters = grid.pixels, grid.clusters
    known = clusters.rho.size - unlabelled.size
    new = np.arange(known, clusters.rho.size, dtype=np.int32)
    scales = kernel_scales(params, tuning, tuning.warm_thin)
    density_scale = np.float32(grid.density_scale * scales.thin)
    base = base_precision(params)

    def found_some(start: int, stop: int) -> None:
        mine = unlabelled[start:stop], new[start:stop]
        mean_shift.first_step(*mine, pixels, clusters, base, density_scale, scales.thin)

    side_by_side(found_some, new.size)
    merges = merge_moved(grid, new, scales)
    alive, moving = grid.alive(np.concatenate([here, new])), grid.alive(new)
    first = iteration(new.size, merges, alive, moving, clusters.shift, (new.size, 0, 0))
    few = _limited(params, tuning.warm_iterations)
    alive, _ = climb(grid, unlabelled, alive, moving, [first], few, scales)
    return alive


@functools.lru_cache(maxsize=8)  # asked for every frame
def _limited(params: Params, iterations: int) -> Params:
    most = min(params.core.max_iterations, iterations)
    return params.updated({"core": {"max_iterations": most}})

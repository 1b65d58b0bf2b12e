"""Alg. 1 on a pixel grid: the order in which clusters climb and merge.

An iteration moves every cluster that has not converged, all from the same state, then merges one
by one, densest first. So the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.clusters import ClusterGrid, base_precision, kernel_scales
from aaams_stream.core.stopwatch import Clock, no_clock
from aaams_stream.core.threads import side_by_side
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import agglomerate
from aaams_stream.kernels import mean_shift as kernels
from aaams_stream.kernels.records import Scales
from aaams_stream.params import Params

_CUTOFF = 2.0  # windows end at this many σ
_BAND = 64  # rows that the first merge pass treats as a unit
_PARTNERS = 16  # merge candidates a cluster may collect in one iteration


@dataclass(frozen=True, slots=True)
class History:
    """What each iteration did; row 0 is the first shift of every pixel."""

    moved: NDArray[np.int64]  # (i,) clusters that were shifted
    merges: NDArray[np.int64]  # (i,)
    clusters: NDArray[np.int64]  # (i,) clusters left afterwards
    largest_shift: NDArray[np.float64]  # (i,) of those that survived
    mean_shift: NDArray[np.float64]  # (i,)
    updates: NDArray[np.int64]  # (i, 3) of the moved: scalar, partial and full updates


class Iteration(NamedTuple):
    """What one iteration did: a row of `History`."""

    moved: int
    merges: int
    clusters: int
    largest_shift: float
    mean_shift: float
    updates: tuple[int, ...]


def cluster_pixels(
    planes: NDArray[np.float32],
    width: int,
    params: Params,
    tuning: Tuning,
    clock: Clock = no_clock,
    outside: NDArray[np.bool_] | None = None,
) -> tuple[ClusterGrid, NDArray[np.int32], History]:
    """Run Alg. 1 from single pixels on L*a*b* planes (3, h, pitch) whose rows hold `width` pixels.

    Returns the grid, the clusters left in order of index, and what each iteration did.
    `clock(stage)` is called when a stage ends, for timing. outside (h, w): of the region of
    interest, in a colour of its own; nothing is measured by its density.
    """
    grid = ClusterGrid.of_pixels(planes, width)
    pixels, clusters = grid.pixels, grid.clusters
    scales = kernel_scales(params, tuning)
    n = clusters.rho.size
    half_widths, space_weights = base_window(params.space.sigma2)
    colour_scale = np.float32(1 / (64 * params.colour.sigma2))
    window = (planes, half_widths, space_weights, colour_scale)

    def shift(top: int, end: int) -> None:
        kernels.first_shift(*window, top, end, clusters.bearing, pixels.density)

    side_by_side(shift, planes.shape[1], worth=width)
    if outside is not None:
        pixels.density[outside] = 0
    grid.density_scale = 1.0 / float(pixels.density.max())
    np.multiply(pixels.density, np.float32(grid.density_scale), out=pixels.density)
    kernels.seed_clusters(pixels, clusters, scales)
    clock("first shift")
    everyone = np.arange(n, dtype=np.int32)
    agglomerate.begin_trajectories(everyone, clusters)
    merges = _merge_first(grid, scales)
    alive = np.flatnonzero(clusters.parent == everyone).astype(np.int32)
    clusters.shift[alive] = clusters.bearing[alive]
    clusters.precision[alive] = base_precision(params)
    first = iteration(n, merges, alive, alive, clusters.shift, (n, 0, 0))
    clock("merge")
    alive, history = climb(grid, everyone, alive, alive, [first], params, scales, clock)
    return grid, alive, history


def climb(
    grid: ClusterGrid,
    unsettled: NDArray[np.int32],
    alive: NDArray[np.int32],
    moving: NDArray[np.int32],
    rows: list[Iteration],
    params: Params,
    scales: Scales,
    clock: Clock = no_clock,
) -> tuple[NDArray[np.int32], History]:
    """Iterate Alg. 1 until the clusters of `moving` have converged or merges have settled.

    `unsettled` are the pixels that may still change hands; `alive` are all clusters, those that
    stand still included; `rows` the iterations so far, the last of which has just merged. Returns
    the clusters left and the history.
    """
    clusters = grid.clusters
    while True:
        # Survivors of a merge refresh their bandwidth also when they had converged.
        kernels.refresh_bandwidths(alive[clusters.changed[alive]], clusters, scales)
        agglomerate.refresh_owners(unsettled, grid.pixels, clusters, scales)
        moving = moving[_lengths(clusters.shift, moving) > params.core.delta]
        settled = rows[-1].merges < params.core.min_merge_share * alive.size
        clock("refresh")
        if moving.size == 0 or settled or len(rows) >= params.core.max_iterations:
            break
        kind = shift_clusters(grid, moving, scales)
        clock("shift")
        clusters.changed[alive] = False
        clusters.changed[moving] = True
        merges = merge_moved(grid, moving, scales)
        moved = moving.size
        alive, moving = grid.alive(alive), grid.alive(moving)
        updates = tuple(np.bincount(kind, minlength=3).tolist())
        rows.append(iteration(moved, merges, alive, moving, clusters.shift, updates))
        clock("merge")
    return alive, History(*(np.array(column) for column in zip(*rows, strict=True)))


def _merge_first(grid: ClusterGrid, scales: Scales) -> int:
    """Merge single pixels: in bands of rows, which the picture alone decides, then across."""
    planes, clusters = grid.pixels.planes, grid.clusters
    h = planes.shape[1]
    bands = -(-h // _BAND)
    band = -(-h // bands)
    merges = np.zeros(bands, np.int64)

    def merge(first: int, last: int) -> None:
        for b in range(first, last):
            rows = b * band, min((b + 1) * band, h)
            merges[b] = agglomerate.merge_band(*rows, planes, clusters, scales)

    side_by_side(merge, -(-h // band), worth=clusters.rho.size // bands)
    return int(merges.sum() + agglomerate.merge_seams(band, planes, clusters, scales))


def shift_clusters(
    grid: ClusterGrid, which: NDArray[np.int32], scales: Scales
) -> NDArray[np.uint8]:
    """Move the given clusters one step each and add the places to their trajectories.

    Returns which update each one made: 0 scalar, 1 partial, 2 full.
    """
    kind = np.empty(which.size, np.uint8)

    def shift(start: int, stop: int) -> None:
        mine = slice(start, stop)
        kernels.shift_clusters(which[mine], grid.pixels, grid.clusters, scales, kind[mine])

    side_by_side(shift, which.size)
    agglomerate.extend_trajectories(which, grid.clusters)
    return kind


def merge_moved(grid: ClusterGrid, moving: NDArray[np.int32], scales: Scales) -> int:
    """Merge the clusters that have just moved with those they meet; return how many merged."""
    partners = np.empty((moving.size, _PARTNERS), np.int32)
    found = np.empty(moving.size, np.int32)

    def seek(start: int, stop: int) -> None:
        mine = slice(start, stop)
        agglomerate.find_partners(
            moving[mine], grid.pixels, grid.clusters, scales, partners[mine], found[mine]
        )

    side_by_side(seek, moving.size)
    order = np.empty(moving.size, np.int32)
    rank = np.arange(moving.size, dtype=np.int32)
    agglomerate.order_by_density(rank, grid.clusters.rho[moving], order)
    return int(agglomerate.merge_partners(order, moving, partners, found, grid.clusters))


def base_window(sigma2: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Half width of each row of the disc within the cutoff, and the weights of its pixels."""
    radius = int(_CUTOFF * math.sqrt(sigma2))
    steps = np.arange(-radius, radius + 1)
    distance2 = steps[:, None] ** 2 + steps**2
    inside = distance2 <= _CUTOFF**2 * sigma2
    weights = np.where(inside, np.exp(-0.5 * distance2 / sigma2), 0.0)
    return inside.sum(axis=1) // 2, weights.astype(np.float32)


def iteration(
    moved: int,
    merges: int,
    alive: NDArray[np.int32],
    moving: NDArray[np.int32],
    shift: NDArray[np.float32],
    updates: tuple[int, ...],
) -> Iteration:
    """Return what one iteration did; `alive` and `moving` are the clusters left after it."""
    lengths = _lengths(shift, moving) if moving.size else np.zeros(1)
    largest, mean = float(lengths.max()), float(lengths.mean())
    return Iteration(moved, int(merges), alive.size, largest, mean, updates)


def _lengths(shift: NDArray[np.float32], which: NDArray[np.int32]) -> NDArray[np.float32]:
    lengths = np.empty(which.size, np.float32)
    kernels.measure_shifts(which, shift, lengths)
    return lengths

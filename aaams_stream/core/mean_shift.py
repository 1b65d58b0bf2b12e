"""Alg. 1 on a pixel grid: the order in which clusters climb and merge.

An iteration moves every cluster that has not converged, all from the same state, then merges one
by one, densest first. So the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import agglomerate, mean_shift, region_graph
from aaams_stream.params import Params

FLOOR = 0.25  # ξ of Eq. 6 as a share of σ²
FULL = [[0, 1, 2], [1, 3, 4], [2, 4, 5]]  # a symmetric 3x3 matrix from its upper triangle
RIPE = 9  # members from which a cluster has a bandwidth of its own: max(dim r, dim s)²
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


@dataclass(slots=True)
class Field:
    """The pixels of one frame and the clusters on them, as Alg. 1 works on them.

    A cluster is a row of the per-cluster arrays; only those of clusters that are alive mean
    anything.
    """

    planes: NDArray[np.float32]  # (3, h, pitch) L*a*b*
    density: NDArray[np.float32]  # (h, w) ρ with the base bandwidth, 1 at its maximum
    bearing: NDArray[np.float32]  # (n, 5) first shift of the pixels that began as this cluster
    location: NDArray[np.float32]  # (n, 5) L, a, b, x, y: where each cluster stands
    rho: NDArray[np.float32]  # (n,) density there
    shift: NDArray[np.float32]  # (n, 5) last shift
    moments: NDArray[np.float32]  # (n, 15) trajectory, as in kernels.window
    precision: NDArray[np.float32]  # (n, 10) inverse bandwidth, as in kernels.window
    parent: NDArray[np.int32]  # (n,) union-find: itself while a cluster lives
    start: NDArray[np.int32]  # (h, w) the cluster each pixel began as
    owner: NDArray[np.int32]  # (h, w) the cluster of each pixel
    count: NDArray[np.int32]  # (n,) members
    unit: float = 1.0  # density of one unit of weight
    changed: NDArray[np.bool_] = field(init=False)  # (n,) bandwidth is out of date
    ripe: NDArray[np.uint8] = field(init=False)  # (h, w) cluster has a bandwidth of its own

    def __post_init__(self) -> None:
        self.changed = np.zeros(self.rho.size, np.bool_)
        self.ripe = np.empty(self.owner.shape, np.uint8)

    @classmethod
    def allocate(cls, planes: NDArray[np.float32], width: int) -> Field:
        """Return a field in which every pixel is a cluster that has not moved yet."""
        h, n = planes.shape[1], planes.shape[1] * width
        start = np.arange(n, dtype=np.int32).reshape(h, width)
        return cls.begin(planes, np.empty((h, width), np.float32), start, n)

    @classmethod
    def begin(
        cls,
        planes: NDArray[np.float32],
        density: NDArray[np.float32],
        start: NDArray[np.int32],
        clusters: int,
        unit: float = 1.0,
    ) -> Field:
        """Return a field in which each pixel belongs to the cluster of start (h, w)."""
        return cls(
            planes=planes,
            density=density,
            bearing=np.empty((clusters, 5), np.float32),
            location=np.empty((clusters, 5), np.float32),
            rho=np.empty(clusters, np.float32),
            shift=np.empty((clusters, 5), np.float32),
            moments=np.empty((clusters, 15), np.float32),
            precision=np.empty((clusters, 10), np.float32),
            parent=np.arange(clusters, dtype=np.int32),
            start=start,
            owner=start.copy(),
            count=np.ones(clusters, np.int32),
            unit=unit,
        )


@dataclass(frozen=True, slots=True)
class Scales:
    """The numbers of Params that kernels want, as they want them."""

    colour: np.float32  # 1/σ²
    space: np.float32
    epsilon_colour: np.float32  # ε²
    epsilon_space: np.float32
    floor_colour: np.float32  # ξ
    floor_space: np.float32

    @classmethod
    def of(cls, params: Params) -> Scales:
        """Return the scales of `params`."""
        colour, space = params.colour, params.space
        return cls(
            *(
                np.float32(value)
                for value in (
                    1 / colour.sigma2,
                    1 / space.sigma2,
                    colour.epsilon2,
                    space.epsilon2,
                    FLOOR * colour.sigma2,
                    FLOOR * space.sigma2,
                )
            )
        )


Clock = Callable[[str], None]


def stopwatch(seconds: dict[str, float], now: Callable[[], float] = time.perf_counter) -> Clock:
    """Return a function that adds the time since its last call to a named stage."""
    last = now()

    def clock(stage: str) -> None:
        nonlocal last
        moment = now()
        seconds[stage] = seconds.get(stage, 0.0) + moment - last
        last = moment

    return clock


def cluster_pixels(
    planes: NDArray[np.float32],
    width: int,
    params: Params,
    clock: Clock = lambda stage: None,
) -> tuple[Field, NDArray[np.int32], History]:
    """Run Alg. 1 from single pixels on L*a*b* planes (3, h, pitch) whose rows hold `width` pixels.

    Returns the field, the clusters left in order of index, and what each iteration did.
    `clock(stage)` is called when a stage ends, for timing.
    """
    pixels = Field.allocate(planes, width)
    scales = Scales.of(params)
    n = pixels.rho.size
    half_widths, space_weights = base_window(params.space.sigma2)
    mean_shift.first_shift(
        planes,
        half_widths,
        space_weights,
        np.float32(1 / (64 * params.colour.sigma2)),
        pixels.bearing,
        pixels.density,
    )
    pixels.unit = 1.0 / float(pixels.density.max())
    pixels.density *= np.float32(pixels.unit)
    mean_shift.seed_clusters(
        planes,
        pixels.bearing,
        pixels.density,
        scales.colour,
        scales.space,
        pixels.location,
        pixels.rho,
    )
    clock("first shift")
    agglomerate.begin_trajectories(pixels.parent, pixels.location, pixels.rho, pixels.moments)
    merges = agglomerate.merge_first(
        _BAND,
        planes,
        scales.epsilon_colour,
        scales.epsilon_space,
        scales.colour,
        scales.space,
        pixels.location,
        pixels.bearing,
        pixels.rho,
        pixels.parent,
        pixels.count,
        pixels.moments,
        pixels.changed,
    )
    alive = np.flatnonzero(pixels.parent == np.arange(n, dtype=np.int32)).astype(np.int32)
    pixels.shift[alive] = pixels.bearing[alive]
    pixels.precision[alive] = base_precision(params)
    first = history_row(n, merges, alive, alive, pixels.shift, (n, 0, 0))
    clock("merge")
    everywhere = np.arange(n, dtype=np.int32)
    alive, history = climb(pixels, everywhere, alive, alive, params, [first], clock)
    return pixels, alive, history


def climb(
    pixels: Field,
    unsettled: NDArray[np.int32],
    alive: NDArray[np.int32],
    moving: NDArray[np.int32],
    params: Params,
    rows: list[Any],
    clock: Clock,
    limit: int | None = None,
) -> tuple[NDArray[np.int32], History]:
    """Iterate Alg. 1 until the clusters of `moving` have converged or merges have settled.

    `unsettled` are the pixels that may still change hands; `alive` are all clusters, those that
    stand still included; `rows` the iterations so far, the last of which has just merged; `limit`
    ends it sooner than the settings do. Returns the clusters left and the history.
    """
    scales = Scales.of(params)
    last = min(params.core.max_iterations, limit or params.core.max_iterations)
    while True:
        # Survivors of a merge refresh their bandwidth also when they had converged.
        touched = alive[pixels.changed[alive]]
        refresh_bandwidths(pixels, touched, scales)
        agglomerate.refresh_owners(
            unsettled, pixels.owner, pixels.parent, pixels.count, RIPE, pixels.ripe
        )
        moving = moving[_lengths(pixels.shift, moving) > params.core.delta]
        settled = rows[-1][1] < params.core.min_merge_share * alive.size
        clock("refresh")
        if moving.size == 0 or settled or len(rows) >= last:
            break
        kind = shift_clusters(pixels, moving, scales)
        clock("shift")
        pixels.changed[alive] = False
        pixels.changed[moving] = True
        merges = merge_moved(pixels, moving, scales)
        moved = moving.size
        alive = alive[pixels.parent[alive] == alive]
        moving = moving[pixels.parent[moving] == moving]
        updates = np.bincount(kind, minlength=3)
        rows.append(history_row(moved, merges, alive, moving, pixels.shift, updates))
        clock("merge")
    return alive, History(*(np.array(column) for column in zip(*rows, strict=True)))


def shift_clusters(pixels: Field, clusters: NDArray[np.int32], scales: Scales) -> NDArray[np.uint8]:
    """Move the given clusters one step each and add the places to their trajectories.

    Returns which update each one made: 0 scalar, 1 partial, 2 full.
    """
    kind = np.empty(clusters.size, np.uint8)
    mean_shift.shift_clusters(
        clusters,
        pixels.planes,
        pixels.owner,
        pixels.ripe,
        pixels.density,
        scales.colour,
        scales.space,
        pixels.precision,
        RIPE,
        pixels.count,
        pixels.location,
        pixels.shift,
        pixels.rho,
        kind,
    )
    agglomerate.extend_trajectories(clusters, pixels.location, pixels.rho, pixels.moments)
    return kind


def refresh_bandwidths(pixels: Field, clusters: NDArray[np.int32], scales: Scales) -> None:
    """Bring the bandwidths of the given clusters up to date with their trajectories."""
    mean_shift.refresh_bandwidths(
        clusters,
        pixels.moments,
        pixels.count,
        RIPE,
        scales.floor_colour,
        scales.floor_space,
        pixels.precision,
    )


def merge_moved(pixels: Field, moving: NDArray[np.int32], scales: Scales) -> int:
    """Merge the clusters that have just moved with those they meet; return how many merged."""
    partners = np.empty((moving.size, _PARTNERS), np.int32)
    found = np.empty(moving.size, np.int32)
    agglomerate.find_partners(
        moving,
        pixels.planes,
        pixels.owner,
        pixels.start,
        scales.epsilon_colour,
        scales.epsilon_space,
        scales.colour,
        scales.space,
        pixels.location,
        pixels.shift,
        pixels.bearing,
        pixels.rho,
        partners,
        found,
    )
    order = np.empty(moving.size, np.int32)
    agglomerate.order_by_density(np.arange(moving.size, dtype=np.int32), pixels.rho[moving], order)
    return int(
        agglomerate.merge_partners(
            order,
            moving,
            partners,
            found,
            pixels.rho,
            pixels.parent,
            pixels.count,
            pixels.moments,
            pixels.changed,
        )
    )


@dataclass(frozen=True, slots=True)
class Modes:
    """The mode that each segment stands on; row i is segment i."""

    location: NDArray[np.float32]  # (k, 5) L, a, b, x, y
    precision: NDArray[np.float32]  # (k, 10) inverse bandwidth, as in kernels.window
    moments: NDArray[np.float32]  # (k, 15) trajectory, as in kernels.window
    density: NDArray[np.float32]  # (k,) ρ at the mode

    def bandwidths(self) -> NDArray[np.float32]:
        """Return Σ (k, 5, 5), block-diagonal over colour and space."""
        full = np.zeros((len(self.precision), 5, 5), np.float32)
        full[:, :3, :3] = inverted(self.precision[:, :6].astype(np.float64))[:, FULL]
        xx, xy, yy = self.precision[:, 6:9].T.astype(np.float64)
        full[:, 3:, 3:] = (np.array([[yy, -xy], [-xy, xx]]) / (xx * yy - xy * xy)).T
        return full


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


def nearest_pixels(
    location: NDArray[np.float32], shape: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row and column of the pixels on which clusters stand."""
    row = np.clip(np.rint(location[:, 4]).astype(np.int64), 0, shape[0] - 1)
    column = np.clip(np.rint(location[:, 3]).astype(np.int64), 0, shape[1] - 1)
    return row, column


def densest_pixels(labels: NDArray[np.int32], density: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the flat index (k,) of the densest pixel of each segment of labels (h, w)."""
    densest = np.empty(int(labels.max()) + 1, np.int64)
    region_graph.densest_pixels(labels, density, densest)
    return densest


def densest_of_all(
    densest: NDArray[np.int64], density: NDArray[np.float32], segments: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Return what densest_pixels does for segments made of pieces whose densest pixels are known.

    densest, segments (n,): of each piece its densest pixel and the segment, dense from 0.
    """
    # Densest last, of equals the first in raster order, so that it is the one that stays.
    order = np.lexsort((-densest, density.reshape(-1)[densest]))
    joined = np.empty(int(segments.max()) + 1, np.int64)
    joined[segments[order]] = densest[order]
    return joined


def find_modes(
    labels: NDArray[np.int32],
    densest: NDArray[np.int64],
    pixels: Field,
    clusters: NDArray[np.int32],
    params: Params,
) -> Modes:
    """Find the mode of each segment of labels (h, w) among the given clusters.

    densest (k,): the densest pixel of each segment. A segment may hold several clusters, and a
    piece of one. Its mode is the densest of those that stand inside it; a piece cut off from its
    mode gets its densest pixel and the base bandwidth.
    """
    y, x = np.divmod(densest, labels.shape[1])
    location = np.stack([*pixels.planes[:, y, x], x, y], axis=1).astype(np.float32)
    location += pixels.bearing[pixels.start[y, x]]
    density = pixels.density[y, x]
    moments = np.zeros((len(densest), 15), np.float32)
    moments[:, 0] = density
    moments[:, 1:6] = location
    precision = np.tile(base_precision(params), (len(densest), 1))

    winner = np.empty(len(densest), np.int32)
    region_graph.densest_clusters(labels, clusters, pixels.location, pixels.rho, winner)
    held = np.flatnonzero(winner >= 0)
    winner = winner[held]
    location[held] = pixels.location[winner]
    precision[held] = pixels.precision[winner]
    moments[held] = pixels.moments[winner]
    density[held] = pixels.rho[winner]
    return Modes(location, precision, moments, density)


def base_window(sigma2: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Half width of each row of the disc within the cutoff, and the weights of its pixels."""
    radius = int(_CUTOFF * math.sqrt(sigma2))
    steps = np.arange(-radius, radius + 1)
    distance2 = steps[:, None] ** 2 + steps**2
    inside = distance2 <= _CUTOFF**2 * sigma2
    weights = np.where(inside, np.exp(-0.5 * distance2 / sigma2), 0.0)
    return inside.sum(axis=1) // 2, weights.astype(np.float32)


def base_precision(params: Params) -> NDArray[np.float32]:
    """Return the row of kernels.window's precisions that stands for the base bandwidth."""
    c, s = 1 / params.colour.sigma2, 1 / params.space.sigma2
    return np.array([c, 0, 0, c, 0, c, s, 0, s, c**1.5 * s], np.float32)


def history_row(
    moved: int,
    merges: int,
    alive: NDArray[np.int32],
    moving: NDArray[np.int32],
    shift: NDArray[np.float32],
    updates: Any,
) -> tuple[int, int, int, float, float, tuple[int, ...]]:
    """Return what one iteration did, as a row of History."""
    lengths = _lengths(shift, moving) if moving.size else np.zeros(1)
    largest, mean = float(lengths.max()), float(lengths.mean())
    return moved, int(merges), alive.size, largest, mean, tuple(int(k) for k in updates)


def _lengths(shift: NDArray[np.float32], clusters: NDArray[np.int32]) -> NDArray[np.float32]:
    lengths = np.empty(clusters.size, np.float32)
    mean_shift.measure_shifts(clusters, shift, lengths)
    return lengths

"""AAAMS on a pixel grid: Alg. 1 jointly over colour and space, then Alg. 2.

The climb and the merges are kernels; here is the order of things. An iteration moves every cluster
that has not converged, all from the same state, then merges one by one, densest first. So the
result does not depend on the number of threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream import features
from aaams_stream.hierarchy import MergeTree, build_tree
from aaams_stream.kernels import agglomerate, regions, window
from aaams_stream.params import Params, resolve

_RIPE = 9  # members from which a cluster has a bandwidth of its own: max(dim r, dim s)²
_FLOOR = 0.25  # ξ of Eq. 6 as a share of σ²
_CUTOFF = 2.0  # windows end at this many σ
_BAND = 64  # rows that the first merge pass treats as a unit
_PARTNERS = 16  # merge candidates a cluster may collect in one iteration


@dataclass(frozen=True, slots=True)
class History:
    """What each iteration did; row 0 is the first shift of every pixel."""

    moved: NDArray[np.int64]  # (i,) clusters that were shifted
    merges: NDArray[np.int64]  # (i,)
    clusters: NDArray[np.int64]  # (i,) clusters left afterwards
    shift: NDArray[np.float64]  # (i,) mean length of the shifts of those that survived
    updates: NDArray[np.int64]  # (i, 3) of the moved: scalar, partial and full updates


@dataclass(frozen=True, slots=True)
class Clusters:
    """What Alg. 1 leaves: the partition, and every cluster's mode, bandwidth and density.

    Per-cluster arrays have one row per pixel; only the rows of `alive` mean anything.
    """

    owner: NDArray[np.int32]  # (h, w) the cluster of each pixel
    density: NDArray[np.float32]  # (h, w) ρ with the base bandwidth, 1 at its maximum
    bearing: NDArray[np.float32]  # (n, 5) first shift of each pixel
    alive: NDArray[np.int32]  # (k,) clusters left
    location: NDArray[np.float32]  # (n, 5) L, a, b, x, y
    precision: NDArray[np.float32]  # (n, 10) as in kernels.window
    rho: NDArray[np.float32]  # (n,) density where the cluster stands
    history: History


@dataclass(frozen=True, slots=True)
class ImageSegmentation:
    """A partition of an image with the modes and bandwidths behind it; row i is segment i."""

    labels: NDArray[np.uint32]  # (h, w) dense from 0 in raster order, each 4-connected
    modes: NDArray[np.float32]  # (k, 5) L, a, b, x, y of the densest mode in the segment
    bandwidths: NDArray[np.float32]  # (k, 5, 5) Σ of that mode's cluster, block-diagonal
    densities: NDArray[np.float32]  # (k,) ρ at the mode, 1 at the image's maximum
    n_iter: int
    history: History
    tree: MergeTree
    stats: dict[str, float]  # seconds of wall time per stage

    @property
    def count(self) -> int:
        """How many segments there are."""
        return len(self.modes)


def segment_image(
    rgb: Any,
    params: Params | str | Path | None = None,
    *,
    segments: int | None = None,
) -> ImageSegmentation:
    """Segment one image: (h, w), (h, w, 3) or (h, w, 4), uint8 or uint16, from 1x1 upwards.

    `params` is a Params, a path to a TOML file, or None for the defaults. `segments` asks for
    about that many segments, by cutting the merge tree there instead of at the level of `params`.
    The same image gives the same labels bit for bit, for any number of threads.
    """
    params = resolve(params)
    stats: dict[str, float] = {}
    clock = _stopwatch(stats)
    pixels = features.as_rgb(rgb)
    if segments is not None and segments < 1:
        raise ValueError(f"segments must be >= 1, got {segments}")
    planes = features.lab_planes(pixels)
    strength = features.edge_strength(planes, pixels.shape[1])
    clock("features")
    clusters = cluster_pixels(planes, pixels.shape[1], params, clock)
    tree = build_tree(
        clusters.owner,
        planes,
        clusters.density,
        strength,
        params.post,
        _FLOOR * params.colour.sigma2,
    )
    if segments is None:
        labels = tree.cut(level=params.post.threshold)
    else:
        labels = tree.cut(segments=segments)
    modes, bandwidths, densities = describe_segments(labels, clusters, planes, params)
    clock("post")
    return ImageSegmentation(
        labels,
        modes,
        bandwidths,
        densities,
        n_iter=len(clusters.history.merges),
        history=clusters.history,
        tree=tree,
        stats=stats,
    )


def cluster_pixels(
    planes: NDArray[np.float32],
    width: int,
    params: Params,
    clock: Callable[[str], None] = lambda stage: None,
) -> Clusters:
    """Run Alg. 1 on L*a*b* planes (3, h, pitch) whose rows hold `width` pixels.

    `clock(stage)` is called when a stage ends, for timing.
    """
    h, w = planes.shape[1], width
    n = h * w
    sigma2_colour, sigma2_space = params.colour.sigma2, params.space.sigma2
    scales = np.float32(1 / sigma2_colour), np.float32(1 / sigma2_space)
    vicinity = np.float32(params.colour.epsilon2), np.float32(params.space.epsilon2)
    floors = np.float32(_FLOOR * sigma2_colour), np.float32(_FLOOR * sigma2_space)

    bearing = np.empty((n, 5), np.float32)
    density = np.empty((h, w), np.float32)
    half_widths, space_weights = _base_window(sigma2_space)
    window.first_shift(
        planes, half_widths, space_weights, np.float32(1 / (64 * sigma2_colour)), bearing, density
    )
    density /= density.max()
    location = np.empty((n, 5), np.float32)
    rho = np.empty(n, np.float32)
    window.seed_clusters(planes, bearing, density, *scales, location, rho)
    clock("first shift")

    parent = np.arange(n, dtype=np.int32)
    owner = parent.reshape(h, w).copy()
    count = np.ones(n, np.int32)
    moments = np.zeros((n, 15), np.float32)
    changed = np.zeros(n, np.bool_)
    ripe = np.empty((h, w), np.uint8)
    agglomerate.extend_trajectories(parent, location, rho, moments)
    merges = agglomerate.merge_first(
        _BAND, planes, *vicinity, *scales, location, bearing, rho, parent, count, moments, changed
    )
    alive = np.flatnonzero(parent == np.arange(n, dtype=np.int32)).astype(np.int32)
    shift = np.empty((n, 5), np.float32)
    shift[alive] = bearing[alive]
    precision = np.empty((n, 10), np.float32)
    precision[alive] = _base_precision(sigma2_colour, sigma2_space)
    moving = alive
    rows = [_history_row(n, merges, alive, moving, shift, (n, 0, 0))]
    clock("merge")

    while True:
        # Survivors of a merge refresh their bandwidth also when they had converged.
        touched = alive[changed[alive]]
        window.refresh_bandwidths(touched, moments, count, _RIPE, *floors, precision)
        agglomerate.refresh_owners(owner, parent, count, _RIPE, ripe)
        moving = moving[np.linalg.norm(shift[moving], axis=1) > params.core.delta]
        settled = merges < params.core.min_merge_share * alive.size
        clock("refresh")
        if moving.size == 0 or settled or len(rows) >= params.core.max_iterations:
            break
        kind = np.empty(moving.size, np.uint8)
        window.shift_clusters(
            moving, planes, owner, ripe, density, *scales, precision, _RIPE, count, location,
            shift, rho, kind,
        )  # fmt: skip
        agglomerate.extend_trajectories(moving, location, rho, moments)
        clock("shift")
        changed[alive] = False
        changed[moving] = True
        partners = np.empty((moving.size, _PARTNERS), np.int32)
        found = np.empty(moving.size, np.int32)
        agglomerate.find_partners(
            moving, planes, owner, *vicinity, *scales, location, shift, bearing, partners, found
        )
        order = np.argsort(-rho[moving], kind="stable")
        merges = agglomerate.merge_partners(
            order, moving, partners, found, rho, parent, count, moments, changed
        )
        moved = moving.size
        alive = alive[parent[alive] == alive]
        moving = moving[parent[moving] == moving]
        rows.append(
            _history_row(moved, merges, alive, moving, shift, np.bincount(kind, minlength=3))
        )
        clock("merge")

    history = History(*(np.array(column) for column in zip(*rows, strict=True)))
    return Clusters(owner, density, bearing, alive, location, precision, rho, history)


def describe_segments(
    labels: NDArray[np.uint32],
    clusters: Clusters,
    planes: NDArray[np.float32],
    params: Params,
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Return mode (k, 5), bandwidth (k, 5, 5) and density (k,) of each segment.

    A segment may hold several clusters, and a piece of one. Its mode is the densest of those that
    stand inside it; a piece cut off from its mode gets its densest pixel and the base bandwidth.
    """
    h, w = labels.shape
    densest = np.empty(int(labels.max()) + 1, np.int64)
    regions.densest_pixels(labels, clusters.density, densest)
    y, x = np.divmod(densest, w)
    modes = clusters.bearing[densest]
    modes[:, :3] += planes[:, y, x].T
    modes[:, 3] += x
    modes[:, 4] += y
    densities = clusters.density[y, x]
    precisions = np.tile(
        _base_precision(params.colour.sigma2, params.space.sigma2), (len(densest), 1)
    )

    # Densest last, so that it is the one that stays.
    order = clusters.alive[np.argsort(clusters.rho[clusters.alive], kind="stable")]
    places = clusters.location[order]
    column = np.clip(np.rint(places[:, 3]).astype(np.int64), 0, w - 1)
    row = np.clip(np.rint(places[:, 4]).astype(np.int64), 0, h - 1)
    home = labels[row, column]
    modes[home] = places
    densities[home] = clusters.rho[order]
    precisions[home] = clusters.precision[order]
    return modes, _bandwidths(precisions), densities


def _base_window(sigma2: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Half width of each row of the disc within the cutoff, and the weights of its pixels."""
    radius = int(_CUTOFF * math.sqrt(sigma2))
    steps = np.arange(-radius, radius + 1)
    distance2 = steps[:, None] ** 2 + steps**2
    inside = distance2 <= _CUTOFF**2 * sigma2
    weights = np.where(inside, np.exp(-0.5 * distance2 / sigma2), 0.0)
    return inside.sum(axis=1) // 2, weights.astype(np.float32)


def _base_precision(sigma2_colour: float, sigma2_space: float) -> NDArray[np.float32]:
    c, s = 1 / sigma2_colour, 1 / sigma2_space
    return np.array([c, 0, 0, c, 0, c, s, 0, s, c**1.5 * s], np.float32)


def _bandwidths(precisions: NDArray[np.float32]) -> NDArray[np.float32]:
    """Invert rows of kernels.window's precisions into block-diagonal Σ (k, 5, 5)."""
    full = np.zeros((len(precisions), 5, 5))
    full[:, :3, :3] = precisions[:, [[0, 1, 2], [1, 3, 4], [2, 4, 5]]]
    full[:, 3:, 3:] = precisions[:, [[6, 7], [7, 8]]]
    return np.linalg.inv(full).astype(np.float32)


def _history_row(
    moved: int,
    merges: int,
    alive: NDArray[np.int32],
    moving: NDArray[np.int32],
    shift: NDArray[np.float32],
    updates: Any,
) -> tuple[int, int, int, float, tuple[int, ...]]:
    mean = float(np.linalg.norm(shift[moving], axis=1).mean()) if moving.size else 0.0
    return moved, int(merges), alive.size, mean, tuple(int(k) for k in updates)


def _stopwatch(seconds: dict[str, float]) -> Callable[[str], None]:
    """Return a function that adds the time since its last call to a named stage."""
    last = time.perf_counter()

    def clock(stage: str) -> None:
        nonlocal last
        now = time.perf_counter()
        seconds[stage] = seconds.get(stage, 0.0) + now - last
        last = now

    return clock

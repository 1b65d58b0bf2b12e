"""Alg. 2 on images: from clusters to connected regions, and from regions to a merge tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.mean_shift import inverted
from aaams_stream.kernels import merge_tree, region_graph
from aaams_stream.params import PostParams

_SPARSE = 8  # pixels: the motion of the scene is looked at in such a grid
_ROW, _COLUMN = np.triu_indices(3)
_DIAGONAL = (_ROW == _COLUMN).astype(np.float64)


@dataclass(frozen=True, slots=True)
class MergeTree:
    """Every partition from the connected clusters up to one region.

    Merge i lets region `survivor[i]` absorb region `absorbed[i]` at `level[i]`; a partition is a
    prefix of the merges. The first `forced` merges enforce the minimum size and belong to every
    partition. Levels may dip below an earlier one; a cut at a level ends before the first merge
    above it.
    """

    leaves: NDArray[np.int32]  # (h, w) connected clusters, dense from 0
    survivor: NDArray[np.int32]  # (m,)
    absorbed: NDArray[np.int32]  # (m,)
    level: NDArray[np.float64]  # (m,)
    forced: int

    def __post_init__(self) -> None:
        if not self.survivor.shape == self.absorbed.shape == self.level.shape:
            raise ValueError(
                f"survivor {self.survivor.shape}, absorbed {self.absorbed.shape} and level "
                f"{self.level.shape} must have one row per merge"
            )
        if not 0 <= self.forced <= self.level.size:
            raise ValueError(f"forced must lie in 0..{self.level.size}, got {self.forced}")

    @property
    def finest(self) -> int:
        """How many regions the finest partition has."""
        return self.level.size + 1 - self.forced

    def level_of(self, segments: int) -> float:
        """Return the least level at which a cut has at most so many segments."""
        merges = max(self.level.size + 1 - segments, self.forced)
        return float(self.level[self.forced : merges].max(initial=0.0))

    def cut(self, *, level: float | None = None, segments: int | None = None) -> NDArray[np.uint32]:
        """Return the partition (h, w) at a merge level, or of a number of segments.

        Labels are dense from 0 in raster order. A number beyond the finest partition gives the
        finest one; level 0 does too.
        """
        labels = np.empty(self.leaves.shape, np.uint32)
        holders = self.holders(level=level, segments=segments)
        region_graph.rename(self.leaves, holders, labels.view(np.int32))
        return labels

    def holders(
        self, *, level: float | None = None, segments: int | None = None
    ) -> NDArray[np.int32]:
        """Return the segment (k,) of the same partition that holds each leaf."""
        if (level is None) == (segments is None):
            raise ValueError("give either a level or a number of segments")
        if segments is not None:
            if segments < 1:
                raise ValueError(f"segments must be >= 1, got {segments}")
            merges = max(self.level.size + 1 - segments, self.forced)
        elif level is None or not level >= 0:
            raise ValueError(f"level must be >= 0, got {level}")
        else:
            above = np.flatnonzero(self.level[self.forced :] > level)
            merges = self.forced + int(above[0]) if above.size else self.level.size
            if level == 0:
                merges = self.forced
        holders = np.empty(int(self.leaves.max()) + 1, np.int32)
        merge_tree.hold_leaves(self.survivor, self.absorbed, merges, holders)
        return holders


@dataclass(frozen=True, slots=True)
class RegionGraph:
    """Connected regions of a label map, their colour statistics and their contacts."""

    leaves: NDArray[np.int32]  # (h, w) dense from 0 in raster order
    moments: NDArray[np.float64]  # (k, 13) as in kernels.regions
    places: NDArray[np.float64]  # (k, 2) x and y summed over the pixels
    first: NDArray[np.int32]  # (m,) of each pair in contact the lower region
    second: NDArray[np.int32]  # (m,)
    length: NDArray[np.float64]  # (m,) pixel pairs in contact
    contrast: NDArray[np.float64]  # (m,) edge strength summed over them

    def merged(
        self,
        params: PostParams,
        least: tuple[int, int],
        floor: float,
        old: NDArray[np.int32],
        home: NDArray[np.int32],
        limits: NDArray[np.float64],
        bulk: float = np.inf,
    ) -> MergeTree:
        """Merge regions closest first, as far as `limits` allow; see kernels.merging.

        least: the least size of a new region, and of an old one; bulk: the share of the image
        above which regions merge less readily.
        """
        criterion = (
            merge_tree.PLAIN if params.criterion == "bhattacharyya" else merge_tree.SIZE_AWARE
        )
        survivor, absorbed, level, forced = merge_tree.merge_regions(
            self.moments.copy(),
            self.first,
            self.second,
            self.length.copy(),
            self.contrast.copy(),
            np.array(least, np.float64),
            criterion,
            floor,
            bulk,
            old.copy(),
            home.copy(),
            limits,
        )
        return MergeTree(self.leaves, survivor, absorbed, level, forced)

    def areas(self, holders: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the pixels (n,) of the segments of a coarser partition; holders as in a tree."""
        return np.bincount(holders, weights=self.moments[:, 0]).astype(np.int64)

    def centres(self, holders: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the mean x, y (n, 2) of the same segments."""
        sums = [
            np.bincount(holders, weights=place) for place in (*self.places.T, self.moments[:, 0])
        ]
        return np.stack(sums[:2], axis=1) / sums[2][:, None]

    def colours(
        self, holders: NDArray[np.int32], floor: float
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return the colours (n, 9) of the segments of a coarser partition and their spread (n,).

        holders (k,): the segment of each region, dense from 0. A row of colours is the mean (3) and
        the inverse of the variance plus `floor` (6); the spread is the sum of squared deviations
        from the mean.
        """
        sums = np.empty((int(holders.max()) + 1, 10))
        merge_tree.pool_moments(self.moments, holders, sums)
        total = sums[:, 0].copy()
        sums /= sums[:, :1]
        mean = sums[:, 1:4]
        variance = sums[:, 4:] - mean[:, _ROW] * mean[:, _COLUMN]
        inverse = inverted(variance + floor * _DIAGONAL)
        rows = np.hstack([mean, inverse]).astype(np.float32)
        return rows, total * variance[:, [0, 3, 5]].sum(axis=1)


def connect_regions(
    owner: NDArray[np.int32],
    planes: NDArray[np.float32],
    density: NDArray[np.float32],
    strength: NDArray[np.float32],
    flow: NDArray[np.float32] | None = None,
) -> RegionGraph:
    """Split clusters into connected regions and find which of them touch.

    owner (h, w): the cluster of each pixel; density, strength (h, w); planes (3, h, pitch); flow
    (h, w, 2): to where each pixel was in the frame before, None where nothing moves.
    """
    leaves = np.empty(owner.shape, np.int32)
    count = region_graph.label_components(owner, leaves)
    moments = np.zeros((count, 13))
    region_graph.measure_regions(planes, density, leaves, moments)
    if flow is not None:
        scene = np.median(flow[::_SPARSE, ::_SPARSE].reshape(-1, 2), axis=0).astype(np.float64)
        region_graph.measure_motion(flow, scene, leaves, moments)
    places = np.zeros((count, 2))
    region_graph.sum_places(leaves, places)
    capacity = 1 << int(2 * region_graph.count_contacts(leaves) + 1).bit_length()
    return RegionGraph(
        leaves, moments, places, *region_graph.find_edges(strength, leaves, capacity)
    )


def build_tree(
    graph: RegionGraph, params: PostParams, least: int, floor: float, bulk: float = np.inf
) -> MergeTree:
    """Merge regions below the size `least`, then closest first until one is left.

    floor is added to colour variances, as ξ is in Eq. 6; bulk as in `RegionGraph.merged`.
    """
    new = np.full(len(graph.moments), -1, np.int32)
    return graph.merged(params, (least, least), floor, new, new, np.full(3, np.inf), bulk)

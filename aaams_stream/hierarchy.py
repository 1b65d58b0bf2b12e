"""Alg. 2 on images: from clusters to connected regions, and from regions to a merge tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import regions
from aaams_stream.params import PostParams


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

    def cut(self, *, level: float | None = None, segments: int | None = None) -> NDArray[np.uint32]:
        """Return the partition (h, w) at a merge level, or of a number of segments.

        Labels are dense from 0 in raster order. A number beyond the finest partition gives the
        finest one; level 0 does too.
        """
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
        labels = np.empty(self.leaves.shape, np.uint32)
        regions.cut_tree(self.survivor, self.absorbed, merges, self.leaves, labels)
        return labels


def build_tree(
    owner: NDArray[np.int32],
    planes: NDArray[np.float32],
    density: NDArray[np.float32],
    strength: NDArray[np.float32],
    params: PostParams,
    floor: float,
) -> MergeTree:
    """Split clusters into connected regions and merge those closest first.

    owner (h, w): the cluster of each pixel; density, strength (h, w); planes (3, h, pitch).
    floor is added to colour variances, as ξ is in Eq. 6.
    """
    leaves = np.empty(owner.shape, np.int32)
    count = regions.label_components(owner, leaves)
    moments = np.zeros((count, 11))
    regions.measure_regions(planes, density, leaves, moments)
    capacity = 1 << int(2 * regions.count_contacts(leaves) + 1).bit_length()
    first, second, length, contrast = regions.find_edges(strength, leaves, capacity)
    criterion = regions.PLAIN if params.criterion == "bhattacharyya" else regions.SIZE_AWARE
    survivor, absorbed, level, forced = regions.merge_regions(
        moments, first, second, length, contrast, params.min_size, criterion, floor
    )
    return MergeTree(leaves, survivor, absorbed, level, forced)

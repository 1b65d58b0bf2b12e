"""Alg. 2: every partition of a picture, from its connected regions up to one segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.region_graph import RegionGraph
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import label_maps
from aaams_stream.kernels import merge_tree as kernels
from aaams_stream.kernels.merge_tree import Criterion, MergeLimits, Origins
from aaams_stream.params import Params


@dataclass(frozen=True, slots=True)
class MergeTree:
    """Every partition from the connected clusters up to one region.

    Merge i lets region `survivor[i]` absorb region `absorbed[i]` at `level[i]`; a partition is a
    prefix of the merges. The first `forced` merges enforce the minimum size and belong to every
    partition. Levels may dip below an earlier one; a cut at a level ends before the first merge
    above it.
    """

    regions: NDArray[np.int32]  # (h, w) connected clusters, dense from 0
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
        return self._count - self.forced

    @property
    def _count(self) -> int:
        """How many regions there are; each merge takes one off."""
        return int(self.regions.max()) + 1

    def level_of(self, segments: int) -> float:
        """Return the least level at which a cut has at most so many segments."""
        merges = max(self._count - segments, self.forced)
        return float(self.level[self.forced : merges].max(initial=0.0))

    def cut(self, *, level: float | None = None, segments: int | None = None) -> NDArray[np.uint32]:
        """Return the partition (h, w) at a merge level, or of a number of segments.

        Labels are dense from 0 in raster order. A number beyond the finest partition gives the
        finest one; level 0 does too.
        """
        labels = np.empty(self.regions.shape, np.uint32)
        lut = self.segment_of_region(level=level, segments=segments)
        label_maps.apply_lut(self.regions, lut, labels.view(np.int32))
        return labels

    def segment_of_region(
        self, *, level: float | None = None, segments: int | None = None
    ) -> NDArray[np.int32]:
        """Return for each region (k,) its segment in the same partition."""
        if (level is None) == (segments is None):
            raise ValueError("give either a level or a number of segments")
        if segments is not None:
            if segments < 1:
                raise ValueError(f"segments must be >= 1, got {segments}")
            merges = min(max(self._count - segments, self.forced), self.level.size)
        elif level is None or not level >= 0:
            raise ValueError(f"level must be >= 0, got {level}")
        else:
            above = np.flatnonzero(self.level[self.forced :] > level)
            merges = self.forced + int(above[0]) if above.size else self.level.size
            if level == 0:
                merges = self.forced
        found = np.empty(int(self.regions.max()) + 1, np.int32)
        kernels.segments_of_regions(self.survivor, self.absorbed, merges, found)
        return found


def build_tree(
    graph: RegionGraph, params: Params, tuning: Tuning, min_area: int, bulk: bool = False
) -> MergeTree:
    """Merge regions below `min_area`, then closest first until one is left.

    bulk: whether what is large merges less readily; see `merge_regions`.
    """
    new = np.full(len(graph.moments), -1, np.int32)
    none = np.zeros(len(graph.moments), np.int64)
    everything = MergeLimits(np.inf, np.inf, np.inf)
    criterion = merge_criterion(params, tuning, bulk)
    return merge_regions(
        graph, Origins(new, new, none, none, none > 0), (min_area, min_area), criterion, everything
    )


def merge_criterion(params: Params, tuning: Tuning, bulk: bool) -> Criterion:
    """Return how far apart regions are; with `bulk`, those that would be large farther."""
    plain = params.post.criterion == "bhattacharyya"
    wanted = params.stream.segments if bulk else 0
    return Criterion(
        kind=kernels.PLAIN if plain else kernels.SIZE_AWARE,
        floor=tuning.variance_floor * params.colour.sigma2,
        bulk_share=tuning.bulk / wanted if wanted else np.inf,
        unit_share=tuning.unit_share,
        unit_edge=tuning.unit_edge,
        parting_sq=tuning.parting_sq,
        moving_sq=tuning.moving_sq,
        faint=tuning.faint if bulk and not plain else 0.0,
        along=tuning.along,
    )


def merge_regions(
    graph: RegionGraph,
    origins: Origins,
    min_area: tuple[int, int],
    criterion: Criterion,
    limits: MergeLimits,
) -> MergeTree:
    """Merge regions closest first, as far as `limits` allow.

    min_area: the least size of a new region, and of one that bears a track. All levels go into the
    kernel as floats.
    """
    moments = graph.moments.copy()
    if graph.outside:
        moments[0, 0] = 0  # sizes are shares of what is inside
    survivor, absorbed, level, forced = kernels.merge_regions(
        moments,
        graph.contacts._replace(
            length=graph.contacts.length.copy(),
            contrast=graph.contacts.contrast.copy(),
            step=graph.contacts.step.copy(),
        ),
        Origins(
            origins.track_of.copy(),
            origins.prior_track.copy(),
            origins.claim.copy(),
            origins.whole,
            origins.grown,
        ),
        np.array(min_area, np.float64),
        criterion,
        limits,
    )
    return MergeTree(graph.regions, survivor, absorbed, level, forced)

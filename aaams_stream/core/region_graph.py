"""The region adjacency graph (RAG) of a label map: connected regions and who touches whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.features import Picture
from aaams_stream.core.pairs import find_pairs
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import merge_tree as merging
from aaams_stream.kernels import region_graph as kernels
from aaams_stream.kernels.merge_tree import Contacts, Origins


@dataclass(frozen=True, slots=True)
class Regions:
    """Statistics of regions, or of segments made of them; row i is one of them."""

    area: NDArray[np.int64]  # (n,)
    centre: NDArray[np.float64]  # (n, 2) x, y
    colours: NDArray[np.float32]  # (n, 9) mean and inverse of variance plus ξ
    colour_sse: NDArray[np.float64]  # (n,) squared deviations from the mean, summed


@dataclass(frozen=True, slots=True)
class RegionGraph:
    """Connected regions of a label map, their colour statistics and their contacts."""

    regions: NDArray[np.int32]  # (h, w) dense from 0, in raster order before singles joined
    moments: NDArray[np.float64]  # (k, 13) as in kernels.region_graph
    coordinate_sums: NDArray[np.float64]  # (k, 2) x and y summed over the pixels
    contacts: Contacts

    def pooled(self, segment_of_region: NDArray[np.int32], floor: float) -> Regions:
        """Return the statistics of segments made of regions; floor: ξ of their colours."""
        count = int(segment_of_region.max()) + 1
        pooled = Regions(
            np.empty(count, np.int64),
            np.empty((count, 2)),
            np.empty((count, 9), np.float32),
            np.empty(count),
        )
        kernels.pool_regions(
            self.moments,
            self.coordinate_sums,
            segment_of_region,
            floor,
            pooled.area,
            pooled.centre,
            pooled.colours,
            pooled.colour_sse,
        )
        return pooled


@dataclass(frozen=True, slots=True)
class Partition:
    """The regions of a frame and the parts they were merged to."""

    graph: RegionGraph
    part_of_region: NDArray[np.int32]  # (k,) dense from 0


def build_rag(
    owner: NDArray[np.int32],
    picture: Picture,
    density: NDArray[np.float32],
    tuning: Tuning,
    flow: NDArray[np.float32] | None = None,
    singles: bool = True,
) -> RegionGraph:
    """Split clusters into connected regions and find which of them touch.

    owner (h, w): the cluster of each pixel; density (h, w), or (1, w) if all rows are alike: how
    much each weighs; flow (h, w, 2): to where each pixel was in the frame before, None where
    nothing moves; singles: whether regions of one pixel stay, or join one beside them at once.
    """
    regions = np.empty(owner.shape, np.int32)
    count = kernels.label_components(owner, regions)
    moments, sums = np.zeros((count, 13)), np.zeros((count, 2))
    kernels.measure_regions(picture.planes, density, regions, moments, sums)
    if flow is not None:
        sparse = flow[:: tuning.scene_stride, :: tuning.scene_stride].reshape(-1, 2).T
        middle = [(sparse.shape[1] - 1) // 2, sparse.shape[1] // 2]
        scene = np.partition(sparse, middle, axis=1)[:, middle].mean(axis=1, dtype=np.float64)
        kernels.measure_motion(flow, scene, regions, moments)
    if not singles:
        count = int(merging.join_singles(regions, moments, sums))
        moments, sums = moments[:count], sums[:count]
    expected = 4 * count  # a plane map has less than three pairs a region
    views = picture.gradient, picture.smooth
    found = find_pairs(kernels.find_edges, *views, regions, expected=expected, sums=3)
    along = np.ascontiguousarray(found.sums.T)
    contacts = Contacts(found.first.copy(), found.second.copy(), *along)
    return RegionGraph(regions, moments, sums, contacts)


def find_origins(
    graph: RegionGraph,
    labels: NDArray[np.int32],
    warped: NDArray[np.int32],
    grown: NDArray[np.bool_],
) -> Origins:
    """Return which track each region bears, and which was predicted for it.

    grown: which of the tracks are past their first frames.
    """
    track_of, prior_track = np.empty((2, len(graph.moments)), np.int32)
    claim, whole = np.empty(len(graph.moments), np.int64), np.empty(grown.size, np.int64)
    kernels.find_origins(graph.regions, labels, warped, whole, track_of, prior_track, claim)
    return Origins(track_of, prior_track, claim, whole, grown)

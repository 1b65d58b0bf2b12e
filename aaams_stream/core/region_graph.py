"""The region adjacency graph (RAG) of a label map: connected regions and who touches whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.features import Picture
from aaams_stream.core.pairs import find_pairs
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import label_maps
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
    outside: bool = False  # whether region 0 is what lies outside the region of interest

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
    outside: NDArray[np.bool_] | None = None,
) -> RegionGraph:
    """Split clusters into connected regions and find which of them touch.

    owner (h, w): the cluster of each pixel; density (h, w), or (1, w) if all rows are alike: how
    much each weighs; flow (h, w, 2): to where each pixel was in the frame before, None where
    nothing moves; singles: whether regions of one pixel stay, or join one beside them at once;
    outside (h, w): what lies outside the region of interest is region 0, however many pieces it
    has, and touches no other.
    """
    regions = np.empty(owner.shape, np.int32)
    count = kernels.label_components(owner, regions)
    if outside is not None:
        count = _outside_first(regions, outside, count)
        singles = True  # one of them may have none but the outside beside it
    moments, sums = np.zeros((count, 13)), np.zeros((count, 2))
    kernels.measure_regions(picture.planes, density, regions, moments, sums)
    if flow is not None:
        sparse = _sparse(flow, tuning.scene_stride, outside)
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
    if outside is not None:
        inner = np.minimum(contacts.first, contacts.second) > 0
        contacts = Contacts(*(np.ascontiguousarray(column[inner]) for column in contacts))
    return RegionGraph(regions, moments, sums, contacts, outside is not None)


def _outside_first(regions: NDArray[np.int32], outside: NDArray[np.bool_], count: int) -> int:
    """Make all of the outside region 0, the others following in order; return how many there are.

    regions (h, w) is changed in place; none of them lies on both sides.
    """
    inner = np.ones(count, np.bool_)
    inner[regions[outside]] = False
    lut = np.where(inner, np.cumsum(inner), 0).astype(np.int32)
    label_maps.apply_lut(regions, lut, regions)
    return 1 + int(inner.sum())


def _sparse(
    flow: NDArray[np.float32], stride: int, outside: NDArray[np.bool_] | None
) -> NDArray[np.float32]:
    """Return (2, n) of the flow, every so many pixels, of what is inside."""
    sparse = flow[::stride, ::stride]
    if outside is not None:
        inside = ~outside[::stride, ::stride]
        if inside.any():
            return sparse[inside].T
    return sparse.reshape(-1, 2).T


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

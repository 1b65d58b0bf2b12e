"""Tracks, lost tracks and states made by hand, and what a frame says about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.core.associate import Association, associate
from aaams_stream.core.clusters import base_precision
from aaams_stream.core.packed import COLOUR_PRECISION, MEAN_COLOUR, PLACE
from aaams_stream.core.propagate import Propagated
from aaams_stream.core.region_graph import Partition, RegionGraph, Regions
from aaams_stream.core.state import LostTracks, SegmenterState, TrackTable
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels.merge_tree import Contacts
from aaams_stream.kernels.records import Prediction
from aaams_stream.model import EventKind
from aaams_stream.params import Params
from support.region_scenes import components

PARAMS = Params().updated({"time": {"epsilon2": 9.0}})  # three frames to come back
NOW, NEXT = 10, 100  # the frame that is associated, and the next id that is free
NOBODY = (90, 90, 90, 0, 0)  # a mode that is like no track


def modes_at(places: ArrayLike) -> NDArray[np.float32]:
    """Return modes (k, 5) L, a, b, x, y."""
    return np.array(places, np.float32).reshape(-1, 5)


def precisions(count: int) -> NDArray[np.float32]:
    """Return so many base bandwidths, inverted."""
    return np.tile(base_precision(PARAMS), (count, 1))


def colours_of(modes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the colours of segments whose mean is their mode, with the base bandwidth."""
    return np.hstack([modes[:, MEAN_COLOUR], precisions(len(modes))[:, COLOUR_PRECISION]])


def places_of(modes: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return x, y of modes."""
    return modes[:, PLACE].astype(np.float64)


def tracks_of(areas: Sequence[int] | NDArray[np.int64]) -> TrackTable:
    """Return a table in which row i is track 11 + i, first seen in frame i."""
    k = len(areas)
    modes = modes_at([(10 * i, 0, 0, 4 * i, 0) for i in range(k)])
    return TrackTable(
        ids=np.arange(11, 11 + k, dtype=np.uint32),
        first_frame=np.arange(k),
        area=np.array(areas, np.int64),
        mode=modes,
        precision=precisions(k),
        trajectory=np.zeros((k, 15), np.float32),
        density=np.ones(k, np.float32),
        colours=colours_of(modes),
        colour_sse=np.zeros(k),
        refreshed=np.zeros(k, np.int64),
        max_area=np.array(areas, np.float64),
        motion=np.zeros((k, 2)),
        predicted_centre=places_of(modes),
    )


def lost_at(
    *rows: tuple[float, ...], area: int = 8, motion: tuple[float, float] = (0, 0)
) -> LostTracks:
    """Return lost tracks of rows (id, frame last seen, L, x)."""
    ids, last_seen, lightness, x = np.array(rows, np.float64).reshape(-1, 4).T
    zero = np.zeros(len(rows))
    modes = modes_at(np.stack([lightness, zero, zero, x, zero], axis=1))
    return LostTracks(
        ids=ids.astype(np.uint32),
        first_frame=np.full(len(rows), 2),
        last_seen=last_seen.astype(np.int64),
        area=np.full(len(rows), area),
        predicted_centre=places_of(modes),
        colours=colours_of(modes),
        motion=np.tile(np.array(motion, np.float64), (len(rows), 1)),
    )


def state_of(
    labels: NDArray[np.int32],
    tracks: TrackTable,
    *,
    index: int = NOW,
    lost: LostTracks | None = None,
    level: float = 1.0,
    smooth: NDArray[np.float32] | None = None,
    density: NDArray[np.float32] | None = None,
) -> SegmenterState:
    """Return the state of a segmenter that has seen `index` frames; the last had these labels."""
    h, w = labels.shape
    return SegmenterState(
        index=index,
        next_id=NEXT,
        level=level,
        density_scale=1.0,
        labels=labels,
        smooth=np.zeros((3, h, w), np.float32) if smooth is None else smooth,
        density=np.ones((h, w), np.float32) if density is None else density,
        half_luma=np.zeros(((h + 1) // 2, (w + 1) // 2), np.uint8),
        tracks=tracks,
        lost=LostTracks.empty() if lost is None else lost,
    )


def propagated(
    kept: NDArray[np.int32],
    tracks: TrackTable,
    *,
    warped: NDArray[np.int32] | None = None,
    flow: NDArray[np.float32] | None = None,
) -> Propagated:
    """Return a prediction in which pixels keep these labels; nothing moves unless told.

    Its arrays are its own: the steps of the segmenter write into them.
    """
    pixels = Prediction(
        np.zeros((*kept.shape, 2), np.float32) if flow is None else flow.copy(),
        (kept if warped is None else warped).copy(),
        kept.copy(),
        np.ones(kept.shape, np.float32),
    )
    area = np.bincount(kept[kept >= 0], minlength=len(tracks.ids))
    return Propagated(pixels, area, int(area.sum()), scene_change=False)


def partition_of(parts: NDArray[np.int32]) -> Partition:
    """Return the connected regions of a map of parts, and to which of these each belongs."""
    regions, count = components(parts)
    part_of_region = np.empty(count, np.int32)
    part_of_region[regions] = parts
    none = np.empty(0, np.int32)
    contacts = Contacts(none, none, np.empty(0), np.empty(0), np.empty(0))
    graph = RegionGraph(regions, np.zeros((count, 13)), np.zeros((count, 2)), contacts)
    return Partition(graph, part_of_region)


def associated(
    labels: NDArray[np.int32],
    warped: NDArray[np.int32],
    refined: NDArray[np.int32] | None = None,
    *,
    areas: Sequence[int] | NDArray[np.int64] | None = None,
    tracks: TrackTable | None = None,
    lost: LostTracks | None = None,
    at: Sequence[tuple[float, ...]] | None = None,
    index: int = NOW,
) -> Association:
    """Associate maps: the regions of a frame, the tracks predicted, those that pixels kept.

    refined: `warped` unless given; areas: of the tracks, those in `warped` unless given; tracks:
    other ones altogether; at: modes of the regions, like no track unless given.
    """
    if areas is None:
        areas = np.bincount(warped[warped >= 0], minlength=int(warped.max()) + 1)
    tracks = tracks_of(areas) if tracks is None else tracks
    refined = warped if refined is None else refined
    size = np.bincount(labels.ravel())
    modes = modes_at([NOBODY] * len(size) if at is None else at)
    regions = Regions(size, places_of(modes), colours_of(modes), np.zeros(len(size)))
    seen = propagated(refined, tracks, warped=warped)
    state = state_of(warped, tracks, index=index, lost=lost)
    return associate(partition_of(labels), regions, refined, seen, state, PARAMS, Tuning())


def events_of(result: Any) -> list[tuple[EventKind, int, int]]:
    """Return the events of an association or a segmentation as tuples."""
    return [(EventKind(kind), id_, other) for kind, id_, other in result.events.tolist()]

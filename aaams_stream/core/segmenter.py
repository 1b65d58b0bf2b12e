"""The segmenter: one frame in, one frame out, warm-started from the frame before.

A frame goes through the same few steps. Labels are propagated along the flow; pixels that kept
their colour join their earlier cluster at once (temporal agglomeration). Segments that the flow
lost are found as a whole, and what moves unlike its segment did is dropped. Boundaries are
re-estimated. The pixels left over climb as in a single image, among clusters that bring their modes
and bandwidths with them: they join one of those or found a new one. What is new must then survive
the tests of Alg. 2; old clusters move on, and their trajectories fade.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.core.associate import Association, associate
from aaams_stream.core.describe import Labelled, describe
from aaams_stream.core.features import Picture
from aaams_stream.core.mean_shift import cluster_pixels
from aaams_stream.core.measure import remember_parents
from aaams_stream.core.merge_tree import build_tree, merge_criterion, merge_regions
from aaams_stream.core.modes import (
    Modes,
    densest_pixels,
    find_modes,
    transported_modes,
)
from aaams_stream.core.motion_split import split_by_motion
from aaams_stream.core.prepare import Prepared, Watch, prepare
from aaams_stream.core.propagate import Propagated, propagate
from aaams_stream.core.recover import recover_lost_segments
from aaams_stream.core.refine import refine_boundaries
from aaams_stream.core.refresh import schedule_refresh
from aaams_stream.core.region_graph import Partition, Regions, build_rag, find_origins
from aaams_stream.core.roi import Roi, as_roi
from aaams_stream.core.scale import processing_tuning
from aaams_stream.core.state import LostTracks, SegmenterState, TrackTable
from aaams_stream.core.stopwatch import Clock, stopwatch
from aaams_stream.core.transport import Advanced, advance
from aaams_stream.core.tuning import DEFAULT, Tuning
from aaams_stream.kernels import label_maps
from aaams_stream.kernels.merge_tree import MergeLimits
from aaams_stream.model import EVENT_DTYPE, EventKind, FrameSegmentation
from aaams_stream.params import Params, resolve


class Segmenter:
    """Segments a stream frame by frame; every object part keeps one identity.

    The same frames give the same ids bit for bit, for any number of threads. `params` may be
    replaced between frames: with another `stream.scale` the state is scaled before the next one,
    and every identity lives on. `state` can be kept, and given to another segmenter.

    Args:
        params: settings, a path to a TOML file or the name of a set; None for the defaults.
        segments: the wanted number of segments a frame, instead of the settings'.
        state: of another segmenter with the same settings, to go on where that one stopped.
        tuning: constants of the method.
        watch: makes the clock that tells how long stages take.
        roi: the region of interest, (h, w), above 0 where it is: the rest of each frame has id 0.

    Raises:
        ConfigError: the settings are wrong, or the region of interest is empty.
        ValueError: the state is of another region of interest.

    Example:
        >>> import aaams_stream as aaams
        >>> from aaams_stream.source.demo import demo_frame
        >>> segmenter = aaams.Segmenter(segments=40)
        >>> for t in range(3):
        ...     frame = segmenter.step(demo_frame(t).rgb[::2, ::2])
        >>> frame.index, frame.ids.shape, (frame.ids > 0).all()
        (2, (120, 160), np.True_)
    """

    def __init__(
        self,
        params: Params | str | Path | None = None,
        *,
        segments: int | None = None,
        state: SegmenterState | None = None,
        tuning: Tuning = DEFAULT,
        watch: Watch = stopwatch,
        roi: Roi | ArrayLike | None = None,
    ) -> None:
        self.roi = as_roi(roi)
        self.params = resolve(params)
        if segments is not None:
            self.params = self.params.updated({"stream": {"segments": segments}})
        self.state = state
        self.tuning = tuning
        self._watch = watch

    def step(self, rgb: Any, time: float | None = None) -> FrameSegmentation:
        """Segment the next frame.

        Frames may come from anywhere, as long as they keep their size: any iterable will do for
        `map(segmenter.step, frames)`, and for `aaams_stream.stream`, which uses several threads.

        Args:
            rgb: the picture, (h, w) or (h, w, 3) uint8, of the size of the first.
            time: its presentation time in seconds, which is passed on.

        Returns:
            Ids, tables and events of the frame; final.

        Raises:
            ValueError: the array is no picture, or of another size than those before.
        """
        prepared = prepare(rgb, time, self.params, self.tuning, self._watch, self.roi)
        return describe(self.label(prepared), self._watch)

    def label(self, prepared: Prepared) -> Labelled:
        """Decide the labels of the next frame: all of `step` that needs the frame before.

        For threads ahead and behind that do the rest, `prepare` and `describe`. The frame brings
        its own settings.
        """
        state, frame_shape = self.state, prepared.frame.shape[:2]
        if state is not None and state.masked != (prepared.outside is not None):
            raise ValueError("the state is of a stream with another region of interest")
        if state is not None and state.frame_shape not in (None, frame_shape):
            raise _size_error(frame_shape, state.frame_shape)
        if state is not None and state.labels.shape != prepared.picture.shape:
            if state.frame_shape is None:
                raise _size_error(prepared.picture.shape, state.labels.shape)
            state = state.resized(prepared.picture.shape)  # another scale, not another size
        labelled = label_frame(prepared, state, self._watch)
        self.state = labelled.state
        return labelled

    def sees_scene_change(self, prepared: Prepared) -> bool:
        """Whether `label` would take the next frame for the first of another scene.

        Nothing is changed by it: the frame can still be labelled.
        """
        state = self.state
        if state is None or state.labels.shape != prepared.picture.shape:
            return False
        apart = dataclasses.replace(prepared, motion=None)  # what was sought ahead is for `label`
        return propagate(apart, state).scene_change


def _size_error(given: tuple[int, ...], before: tuple[int, ...] | None) -> ValueError:
    return ValueError(
        f"frames must keep their size: got one of shape {given}, those before it were "
        f"{before}; scale it, or begin a new Segmenter"
    )


def label_frame(
    prepared: Prepared, state: SegmenterState | None, watch: Watch = stopwatch
) -> Labelled:
    """Decide the labels of one frame: state in, state out."""
    picture, params = prepared.picture, prepared.params
    tuning = processing_tuning(prepared.tuning, params.stream.segments)
    clock = watch(prepared.seconds)
    seen = None
    if state is not None:
        seen = propagate(prepared, state)
        if not seen.scene_change:
            recover_lost_segments(seen, picture, state, params, tuning)
        clock("motion")
    outside = prepared.outside
    if state is None or seen is None or seen.scene_change:
        new, events = _cold_start(picture, state, params, tuning, clock, outside)
        explained, flow = 0.0, None
    else:
        new, events = _warm_start(picture, seen, state, params, tuning, clock, outside)
        explained, flow = seen.explained / _inside(picture, outside), seen.pixels.flow
    h, w = prepared.frame.shape[:2]
    parents = remember_parents(state, new, events)
    new = dataclasses.replace(new, parents=parents, frame_shape=(h, w))
    return Labelled(prepared, new, events, explained, flow)


def _cold_start(
    picture: Picture,
    state: SegmenterState | None,
    params: Params,
    tuning: Tuning,
    clock: Clock,
    outside: NDArray[np.bool_] | None,
) -> tuple[SegmenterState, NDArray[Any]]:
    """Segment a frame as a single image; after a scene change every identity is new."""
    grid, alive, _ = cluster_pixels(
        picture.planes, picture.shape[1], params, tuning, clock, outside
    )
    density = grid.pixels.density
    graph = build_rag(grid.pixels.owner, picture, density, tuning, outside=outside)
    min_area = _min_areas(_inside(picture, outside), params, tuning)[0]
    clear = dataclasses.replace(tuning, faint=0.0)
    tree = build_tree(graph, params, clear, min_area, bulk=True)
    level = params.post.threshold
    if params.stream.segments:
        level = tree.level_of(params.stream.segments + graph.outside)
        if level < tuning.noise_level:  # no edge is sought below the noise to reach a number
            tree = build_tree(graph, params, tuning, min_area, bulk=True)
            level = tuning.noise_level
    segment_of_region = tree.segment_of_region(level=level)
    labels = np.empty_like(graph.regions)
    label_maps.apply_lut(graph.regions, segment_of_region, labels)
    densest = densest_pixels(graph.regions, segment_of_region, density)
    modes = find_modes(labels, densest, grid, alive, params)
    segments = graph.pooled(segment_of_region, _colour_floor(params, tuning))
    next_id, index = (1, 0) if state is None else (state.next_id, state.index)
    born = np.arange(next_id, next_id + len(segments.area) - graph.outside, dtype=np.uint32)
    ids = np.append(np.uint32(0), born) if graph.outside else born
    events = [(EventKind.BIRTH, int(i), 0) for i in born]
    if state is not None:
        events.insert(0, (EventKind.CUT, 0, 0))
    first_frame = np.full(len(ids), index, np.int64)
    clock("regions")
    new = SegmenterState(
        index=index + 1,
        next_id=next_id + len(born),
        level=level,
        density_scale=grid.density_scale,
        labels=labels,
        smooth=picture.smooth,
        density=density,
        half_luma=picture.half_luma,
        tracks=_track_table(ids, first_frame, first_frame, segments, modes),
        lost=LostTracks.empty(),
        first_index=index,
        first_id=next_id,
    )
    return new, np.array(events, EVENT_DTYPE)


def _warm_start(
    picture: Picture,
    seen: Propagated,
    state: SegmenterState,
    params: Params,
    tuning: Tuning,
    clock: Clock,
    outside: NDArray[np.bool_] | None,
) -> tuple[SegmenterState, NDArray[Any]]:
    """Segment a frame from what the frame before left."""
    refreshed = schedule_refresh(seen, state, params, tuning)
    split_by_motion(seen, state, tuning)
    refined = refine_boundaries(seen, picture, params, tuning, outside)
    clock("boundaries")
    advanced = advance(refined, seen, picture, state, params, tuning)
    clock("newcomers")
    partition = _merge(advanced, refined, seen, picture, state, (params, tuning), outside)
    clock("regions")
    parts = partition.graph.pooled(partition.part_of_region, _colour_floor(params, tuning))
    found = associate(partition, parts, refined, seen, state, params, tuning)
    new = _next_state(found, partition, advanced, refreshed, picture, state, params, tuning)
    clock("identity")
    return new, found.events


def _merge(
    advanced: Advanced,
    refined: NDArray[np.int32],
    seen: Propagated,
    picture: Picture,
    state: SegmenterState,
    settings: tuple[Params, Tuning],
    outside: NDArray[np.bool_] | None,
) -> Partition:
    """Merge the connected regions of a warm frame as far as the level of the stream allows."""
    params, tuning = settings
    ones = np.ones((1, refined.shape[1]), np.float32)
    flow = seen.pixels.flow if tuning.motion_in_merging else None
    min_areas = _min_areas(_inside(picture, outside), params, tuning)
    owner, singles = advanced.grid.pixels.owner, min(min_areas) <= 1
    graph = build_rag(owner, picture, ones, tuning, flow, singles, outside)
    grown = state.index - state.tracks.first_frame > tuning.settle
    origins = find_origins(graph, refined, seen.pixels.warped, grown)
    few = state.tracks.count < params.stream.segments
    limits = MergeLimits(
        state.level,
        state.level * (1.0 if few else tuning.one_origin),
        state.level * tuning.two_tracks,
    )
    if state.level > tuning.noise_level:  # the number wanted is met without what is faint
        tuning = dataclasses.replace(tuning, faint=0.0)
    criterion = merge_criterion(params, tuning, bulk=True)
    tree = merge_regions(graph, origins, min_areas, criterion, limits)
    part_of_region = tree.segment_of_region(level=np.inf)
    return Partition(graph, part_of_region)


def _next_state(
    found: Association,
    partition: Partition,
    advanced: Advanced,
    refreshed: NDArray[np.bool_],
    picture: Picture,
    state: SegmenterState,
    params: Params,
    tuning: Tuning,
) -> SegmenterState:
    """Return the state after a warm frame: parts of one identity become one segment."""
    tracks, density = state.tracks, advanced.grid.pixels.density
    ids, first, row = np.unique(found.ids, return_index=True, return_inverse=True)
    regions = partition.graph.regions
    segment_of_region = row.astype(np.int32)[partition.part_of_region]
    labels = np.empty_like(regions)
    label_maps.apply_lut(regions, segment_of_region, labels)
    densest = densest_pixels(regions, segment_of_region, density)
    modes = transported_modes(labels, densest, ids, advanced, tracks, params)
    segments = partition.graph.pooled(segment_of_region, _colour_floor(params, tuning))
    row_before = found.track_of[first]
    rested = (row_before >= 0) & ~refreshed[row_before]
    last_refresh = np.where(rested, tracks.refreshed[row_before], state.index)
    table = _track_table(ids, found.first_frame[first], last_refresh, segments, modes)
    level = state.level
    if params.stream.segments:
        pull = (table.count / params.stream.segments) ** tuning.level_pull
        level = max(level * pull, tuning.noise_level)
    return SegmenterState(
        index=state.index + 1,
        next_id=found.next_id,
        level=level,
        density_scale=state.density_scale,
        labels=labels,
        smooth=picture.smooth,
        density=density,
        half_luma=picture.half_luma,
        tracks=table.after(tracks, row_before, advanced.motion, state.index, tuning),
        lost=found.lost,
        first_index=state.first_index,
        first_id=state.first_id,
    )


def _track_table(
    ids: NDArray[np.uint32],
    first_frame: NDArray[np.int64],
    refreshed: NDArray[np.int64],
    segments: Regions,
    modes: Modes,
) -> TrackTable:
    return TrackTable(
        ids=ids,
        first_frame=first_frame,
        area=segments.area,
        mode=modes.position,
        precision=modes.precision,
        trajectory=modes.trajectory,
        density=modes.density,
        colours=segments.colours,
        colour_sse=segments.colour_sse,
        refreshed=refreshed,
        max_area=segments.area.astype(np.float64),
        motion=np.zeros((len(ids), 2)),
        predicted_centre=segments.centre,
    )


def _inside(picture: Picture, outside: NDArray[np.bool_] | None) -> int:
    """Return how many pixels are segmented."""
    return picture.gradient.size - (0 if outside is None else int(np.count_nonzero(outside)))


def _min_areas(pixels: int, params: Params, tuning: Tuning) -> tuple[int, int]:
    """Return how many of so many pixels a new segment must have, and an old one to live on.

    Where more than usual are wanted, most are hardly larger than `post.min_size`: with less an old
    one lives on all the same, or it would die of a pixel and be born again.
    """
    share, least = round(tuning.min_birth * pixels), params.post.min_size
    new = max(share, least, tuning.least_birth)
    if params.stream.segments > tuning.usual_segments:
        least = min(least, tuning.least_survival)
    return new, max(round(tuning.min_survival * new), least)


def _colour_floor(params: Params, tuning: Tuning) -> float:
    return tuning.variance_floor * params.colour.sigma2

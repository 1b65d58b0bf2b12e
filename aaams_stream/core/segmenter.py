"""The segmenter: one frame in, one frame out, warm-started from the frame before.

A frame goes through the same few steps. Motion carries the labels along; pixels that kept their
colour join their earlier cluster at once (temporal agglomeration). Segments that the motion mislaid
are sought as a whole, and what moves unlike its segment did is dropped. Boundaries are decided
afresh.
The pixels left over climb as in a single image, among clusters that bring their modes and
bandwidths with them: they join one of those or found a new one. What is new must then survive the
tests of Alg. 2; old clusters move on, and their trajectories fade.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.associate import Lost, Table, settle
from aaams_stream.core.flow import Glimpse
from aaams_stream.core.mean_shift import (
    FLOOR,
    RIPE,
    Clock,
    Field,
    Modes,
    Scales,
    base_precision,
    climb,
    cluster_pixels,
    densest_of_all,
    densest_pixels,
    find_modes,
    history_row,
    merge_moved,
    nearest_pixels,
    refresh_bandwidths,
    shift_clusters,
    stopwatch,
)
from aaams_stream.core.measure import describe, remember_parents
from aaams_stream.core.motion_split import drop_strays
from aaams_stream.core.recover import seek_mislaid
from aaams_stream.core.region_graph import RegionGraph, build_tree, connect_regions
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.upsample import enlarged, working_params, working_shape
from aaams_stream.kernels import agglomerate, mean_shift, propagate, recover, region_graph
from aaams_stream.model import EVENT_DTYPE, EventKind, FrameSegmentation
from aaams_stream.params import Params, resolve

_UNKNOWN = -1  # label of a pixel that the frame before does not explain
_AFRESH = -2  # label of a pixel whose turn it is to be decided afresh
_VOTE_REACH = 2
_VOTE_ROUNDS = 4
_VOTE_STAY = np.float32(1.0)  # the pixel's earlier self votes like one neighbour of equal colour
_VOTE_JOIN = 2.0  # a pixel without a label joins where so many neighbours of equal colour are
_WARM_ITERATIONS = 2  # newcomers that have not joined by then are sorted out as regions
_SAME_HOME = 3.0  # pieces of one segment stay together up to this multiple of the level
_OLD_PAIR = 0.25  # two old segments merge below this share of the level
_OUTLIER = 2.25  # σ: a carried pixel further from its segment's colours is decided afresh
_INLIER = 1.25  # σ: a pixel that changed but lies nearer to them stays in its segment
_WATCH = 2  # frames in which every segment is searched for outliers once
_NOISE = 0.1  # merge level below which a difference is not worth a segment
_PULL = 0.25  # how hard the level is pulled towards the wanted number of segments
_BIRTH = 1.5e-4  # of the picture: the least size of a new segment
_KEEP = 0.25  # of that: the least size of an old one
_BULK = 9.0  # times the mean size wanted: what would be larger merges less readily
_REST = 6  # frames before a coarse segment is decided afresh again
_TILE = 48  # pixels: large segments are decided afresh in squares of this side
_LARGE = 1.0  # a segment is large above this multiple of the share of a picture that is due
# A cut: less than this share of the picture can be explained, and half of it is quite different.
_CUT_SHARE = 0.3
_STRANGE = 8.0  # L*a*b* units


class Segmenter:
    """Segments a stream frame by frame; every object part keeps one identity.

    `params` is a Params, a path to a TOML file, or None for the defaults; `segments` overrides
    the wanted number of segments a frame. `state`, taken from another segmenter with the same
    parameters, goes on where that one stopped. The same frames give the same ids bit for bit, for
    any number of threads. `params` may be replaced between frames: with another `stream.scale` the
    state is scaled before the next one, and every identity lives on.
    """

    def __init__(
        self,
        params: Params | str | Path | None = None,
        *,
        segments: int | None = None,
        state: SegmenterState | None = None,
    ) -> None:
        self.params = resolve(params)
        if segments is not None:
            self.params = self.params.updated({"stream": {"segments": segments}})
        self.state = state
        self._frame_shape: tuple[int, ...] | None = None  # of the last frame

    def step(
        self, rgb: Any, time: float | None = None, glimpse: Glimpse | None = None
    ) -> FrameSegmentation:
        """Segment the next frame, (h, w) or (h, w, 3) uint8; `time` in seconds is passed on.

        glimpse: what another thread saw of this frame ahead; the result is the same without.
        """
        frame = features.as_rgb(rgb)
        if frame.dtype != np.uint8:
            raise ValueError(f"a frame must be uint8, got {frame.dtype}")
        shape = working_shape(frame.shape, self.params.stream.scale)
        if self.state is not None and self.state.labels.shape != shape:
            if frame.shape == self._frame_shape:
                self.state = self.state.resized(shape)
            else:
                raise ValueError(
                    f"frames must keep their size: a frame of shape {frame.shape[:2]} is segmented "
                    f"at {shape}, those before it were at {self.state.labels.shape}; scale it, or "
                    "begin a new Segmenter"
                )
        self._frame_shape = frame.shape
        plain = np.ascontiguousarray(frame, np.uint8)  # kernels are compiled for no other layout
        result, self.state = step(plain, time, self.params, self.state, glimpse)
        return result


@dataclass(frozen=True, slots=True)
class _Picture:
    """One frame as planes."""

    planes: NDArray[np.float32]  # (3, h, pitch)
    smooth: NDArray[np.float32]  # (3, h, w) less noisy: what is compared over time
    strength: NDArray[np.float32]  # (h, w)
    glimpse: Glimpse


@dataclass(frozen=True, slots=True)
class _Prediction:
    """What the frame before says about this one."""

    flow: NDArray[np.float32]  # (h, w, 2) to where each pixel was
    prior: NDArray[np.int32]  # (h, w) label predicted for each pixel, or -1
    labels: NDArray[np.int32]  # (h, w) the same where the colour agrees, else -1
    density: NDArray[np.float32]  # (h, w)
    share: float  # of pixels explained
    cut: bool  # another scene begins


def step(
    frame: NDArray[np.uint8],
    time: float | None,
    params: Params,
    state: SegmenterState | None,
    glimpse: Glimpse | None = None,
) -> tuple[FrameSegmentation, SegmenterState]:
    """Segment one frame: state in, state out; at the share of its size that the settings name."""
    seconds: dict[str, float] = {}
    clock = stopwatch(seconds)
    small = features.scaled(frame, working_shape(frame.shape, params.stream.scale))
    if small is not frame:
        params = working_params(params, small.size / frame.size)
        clock("scale")
    planes = features.lab_planes(small)
    smooth = features.smoothed(planes, small.shape[1])
    glimpse = glimpse or Glimpse(features.brightness(frame))
    picture = _Picture(planes, smooth, features.slope(smooth), glimpse)
    clock("features")
    prediction = None
    if state is not None:
        prediction = _predict(picture, state, params)
        clock("motion")
    if state is None or prediction is None or prediction.cut:
        new, events = _cold(picture, params, state, clock)
        share, flow = 0.0, None
    else:
        new, events = _warm(picture, prediction, params, state, clock)
        share, flow = prediction.share, prediction.flow
    new = dataclasses.replace(new, parents=remember_parents(state, new, events))
    segments, adjacency = describe(new, planes, flow)
    clock("table")
    labels = new.labels
    if small is not frame:
        labels, segments, adjacency = enlarged(labels, segments, adjacency, small, frame)
        clock("scale")
    ids = np.empty(labels.shape, np.uint32)
    region_graph.rename(labels, new.table.ids.view(np.int32), ids.view(np.int32))
    stats = {"segments": float(len(segments)), "warm": share, **seconds}
    return FrameSegmentation(new.index - 1, time, ids, segments, adjacency, events, stats), new


def _predict(picture: _Picture, state: SegmenterState, params: Params) -> _Prediction:
    """Carry the labels of the frame before along the motion."""
    flow = picture.glimpse.flow_back(state.grey, state.labels.shape, params.stream.flow)
    prior = np.empty_like(state.labels)
    labels = np.empty_like(state.labels)
    density = np.empty_like(state.density)
    inside, strange = np.empty((2, len(labels)), np.int64)
    propagate.carry_labels(
        state.labels,
        state.smooth,
        state.density,
        picture.smooth,
        flow,
        np.float32(params.stream.tolerance2),
        state.table.colours,
        state.table.ids % _WATCH == state.index % _WATCH,
        np.float32(_OUTLIER**2),
        np.float32(_INLIER**2),
        np.float32(_STRANGE**2),
        prior,
        labels,
        density,
        inside,
        strange,
    )
    carried = np.empty(len(state.table.ids), np.int64)
    recover.count_carried(labels, carried)
    explained = int(carried.sum())
    cut = explained < _CUT_SHARE * labels.size and bool(2 * strange.sum() >= inside.sum())
    if not cut:
        tolerance2 = params.stream.tolerance2
        explained += seek_mislaid(
            picture.smooth, state, tolerance2, flow, prior, labels, density, carried
        )
    return _Prediction(flow, prior, labels, density, explained / labels.size, cut)


def _cold(
    picture: _Picture, params: Params, state: SegmenterState | None, clock: Clock
) -> tuple[SegmenterState, NDArray[Any]]:
    """Segment a frame as a single image; after a cut every identity is new."""
    pixels, alive, _ = cluster_pixels(picture.planes, picture.strength.shape[1], params, clock)
    graph = connect_regions(pixels.owner, picture.planes, pixels.density, picture.strength)
    least = _least_sizes(picture.strength.size, params)[0]
    floor = FLOOR * params.colour.sigma2
    tree = build_tree(graph, params.post, least, floor, _bulk(params))
    level = params.post.threshold
    if params.stream.segments:
        level = max(tree.level_of(params.stream.segments), _NOISE)
    labels = tree.cut(level=level).view(np.int32)
    modes = find_modes(labels, densest_pixels(labels, pixels.density), pixels, alive, params)
    count = len(modes.density)
    next_id = 1 if state is None else state.next_id
    index = 0 if state is None else state.index
    ids = np.arange(next_id, next_id + count, dtype=np.uint32)
    born = np.full(count, index, np.int64)
    events = [(EventKind.BIRTH, int(i), 0) for i in ids]
    if state is not None:
        events.insert(0, (EventKind.CUT, 0, 0))
    clock("regions")
    new = SegmenterState(
        index=index + 1,
        next_id=next_id + count,
        level=level,
        unit=pixels.unit,
        labels=labels,
        smooth=picture.smooth,
        density=pixels.density,
        grey=picture.glimpse.grey,
        table=_table(ids, born, tree.holders(level=level), modes, graph, born, params),
        lost=Lost.empty(),
    )
    return new, np.array(events, EVENT_DTYPE)


def _warm(
    picture: _Picture,
    prediction: _Prediction,
    params: Params,
    state: SegmenterState,
    clock: Clock,
) -> tuple[SegmenterState, NDArray[Any]]:
    """Segment a frame from what the frame before left."""
    due = _forget_share(prediction.labels, state, params)
    drop_strays(prediction.labels, prediction.flow, state.table, state.index, _AFRESH)
    labels = _settle_boundaries(picture, prediction, params)
    clock("boundaries")
    pixels, carried, unknown, motion = _advance(picture, prediction, labels, params, state)
    alive = _join_newcomers(pixels, carried, unknown, params, state)
    clock("newcomers")

    ones = np.ones(labels.shape, np.float32)
    graph = connect_regions(pixels.owner, picture.planes, ones, picture.strength, prediction.flow)
    old = np.empty(len(graph.moments), np.int32)
    home = np.empty(len(graph.moments), np.int32)
    propagate.survey_leaves(graph.leaves, labels, prediction.prior, old, home)
    few = len(state.table.ids) < params.stream.segments
    limits = state.level * np.array([1.0, 1.0 if few else _SAME_HOME, _OLD_PAIR])
    least = _least_sizes(labels.size, params)
    floor = FLOOR * params.colour.sigma2
    tree = graph.merged(params.post, least, floor, old, home, limits, _bulk(params))
    holders = tree.holders(level=np.inf)
    pieces = np.empty_like(labels)
    region_graph.rename(graph.leaves, holders, pieces)
    clock("regions")

    densest = densest_pixels(pieces, pixels.density)
    settled = settle(
        pieces,
        prediction.prior,
        labels,
        graph.centres(holders),
        graph.colours(holders, floor)[0],
        graph.areas(holders),
        state.table,
        state.lost,
        state.index,
        state.next_id,
        params,
    )
    ids, first, row = np.unique(settled.ids, return_index=True, return_inverse=True)
    final = np.empty_like(pieces)
    region_graph.rename(pieces, row.astype(np.int32), final)
    row_before = settled.old[first]
    rested = (row_before >= 0) & ~due[row_before]
    checked = np.where(rested, state.table.checked[row_before], state.index)
    densest = densest_of_all(densest, pixels.density, row)
    modes = _carry_modes(final, densest, ids, pixels, carried, alive, params, state)
    holders = row.astype(np.int32)[holders]
    table = _table(ids, settled.born[first], holders, modes, graph, checked, params)
    table = table.after(state.table, row_before, motion, state.index)
    level = state.level
    if params.stream.segments:
        level = max(level * (len(ids) / params.stream.segments) ** _PULL, _NOISE)
    clock("identity")
    new = SegmenterState(
        index=state.index + 1,
        next_id=settled.next_id,
        level=level,
        unit=state.unit,
        labels=final,
        smooth=picture.smooth,
        density=pixels.density,
        grey=picture.glimpse.grey,
        table=table,
        lost=settled.lost,
    )
    return new, settled.events


def _settle_boundaries(
    picture: _Picture, prediction: _Prediction, params: Params
) -> NDArray[np.int32]:
    """Decide boundary pixels afresh, and pixels that look like the segment beside them.

    A fast path past Alg. 1 for the fringe that moving edges leave: such a pixel lies within ε of
    points that have found their mode.
    """
    poll = (
        prediction.prior,
        picture.planes,
        np.float32(1 / (64 * params.colour.sigma2)),
        _VOTE_REACH,
        _VOTE_STAY,
    )
    labels = np.empty_like(prediction.labels)
    propagate.vote_boundaries(prediction.labels, *poll, labels)
    fringe = np.flatnonzero(labels == _UNKNOWN)
    propagate.join_neighbours(fringe, labels, *poll, np.float32(_VOTE_JOIN), _VOTE_ROUNDS)
    return labels


def _forget_share(
    labels: NDArray[np.int32], state: SegmenterState, params: Params
) -> NDArray[np.bool_]:
    """Drop the labels of a share of the picture, so that no early error lives for ever.

    Segments take turns as a whole; those too large for that do so tile by tile, which keeps the
    work of all frames alike. While there are fewer segments than wanted, as much again goes to
    those that spread most in colour. Returns which segments were dropped as a whole.
    """
    table, refresh = state.table, params.stream.refresh
    turn = state.index % refresh
    budget = _LARGE * labels.size / refresh
    large = table.area > budget
    due = (table.ids % refresh == turn) & ~large
    if len(table.ids) < params.stream.segments and state.level > _NOISE:
        rested = (state.index - table.checked >= _REST) & ~large
        coarse = np.argsort(np.where(rested, -table.spread, 0.0), kind="stable")
        due[coarse[rested[coarse] & (np.cumsum(table.area[coarse]) <= budget)]] = True
    kept = np.where(due, np.int32(_AFRESH), np.arange(len(due), dtype=np.int32))
    region_graph.rename(labels, kept, labels)
    h, w = labels.shape
    rows, columns = np.ogrid[: -(-h // _TILE), : -(-w // _TILE)]
    for y, x in np.argwhere((5 * rows + 3 * columns) % refresh == turn) * _TILE:
        tile = labels[y : y + _TILE, x : x + _TILE]
        tile[np.append(large, False)[tile]] = _AFRESH
    return np.asarray(due, np.bool_)


def _least_sizes(pixels: int, params: Params) -> tuple[int, int]:
    """Return how many pixels a new segment must have, and an old one to live on."""
    new = max(round(_BIRTH * pixels), params.post.min_size)
    return new, max(round(_KEEP * new), params.post.min_size)


def _bulk(params: Params) -> float:
    """Return the share of the picture above which regions merge less readily."""
    return _BULK / params.stream.segments if params.stream.segments else np.inf


def _advance(
    picture: _Picture,
    prediction: _Prediction,
    labels: NDArray[np.int32],
    params: Params,
    state: SegmenterState,
) -> tuple[Field, NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Let the carried clusters move on: with the motion, then one mean shift step.

    Returns the field, in which labels number the carried clusters and newcomers those after them,
    the carried clusters that have a pixel, the pixels of the newcomers, and how far each carried
    cluster moved (k, 2). Old trajectory points fade with the kernel in time, and are carried along
    with the motion, so that Σ describes the segment and not its path.
    """
    table = state.table
    scales = Scales.of(params)
    start = np.empty_like(labels)
    ripe = np.empty(labels.shape, np.uint8)
    area = np.empty(len(table.ids), np.int64)
    motion = np.empty((len(table.ids), 2))
    new = propagate.number_clusters(labels, prediction.flow, start, ripe, area, motion)
    pixels = Field.begin(
        picture.planes, prediction.density, start, len(table.ids) + new.size, state.unit
    )
    pixels.bearing[: len(table.ids)] = 0.0  # a carried pixel stands still: it has arrived
    pixels.ripe = ripe
    here = np.flatnonzero(area).astype(np.int32)
    location = table.location[here].copy()
    location[:, 3:] += motion[here]
    moments = table.moments[here] * np.float32(np.exp(-0.5 / params.time.sigma2))
    moments[:, 1:6] = table.moments[here, 1:6]
    moments[:, 4:6] += motion[here].astype(np.float32)
    pixels.location[here] = location
    pixels.moments[here] = moments
    pixels.precision[here] = table.precision[here]
    pixels.count[here] = np.maximum(table.area[here], RIPE)
    shift_clusters(pixels, here, scales)
    refresh_bandwidths(pixels, here, scales)
    pixels.rho[here] += np.float32(1.0)  # above any newcomer: a carried cluster is not absorbed
    return pixels, here, new, motion


def _join_newcomers(
    pixels: Field,
    carried: NDArray[np.int32],
    unknown: NDArray[np.int32],
    params: Params,
    state: SegmenterState,
) -> NDArray[np.int32]:
    """Run Alg. 1 on the pixels without a label, the last clusters; return all clusters alive."""
    known = pixels.rho.size - unknown.size
    new = np.arange(known, pixels.rho.size, dtype=np.int32)
    mean_shift.first_step(
        unknown,
        new,
        pixels.planes,
        base_precision(params),
        np.float32(state.unit),
        pixels.bearing,
        pixels.location,
        pixels.density,
    )
    pixels.rho[known:] = pixels.density.reshape(-1)[unknown]
    pixels.shift[known:] = pixels.bearing[known:]
    pixels.precision[known:] = base_precision(params)
    agglomerate.begin_trajectories(new, pixels.location, pixels.rho, pixels.moments)
    merges = merge_moved(pixels, new, Scales.of(params))
    alive = np.concatenate([carried, new])
    alive = alive[pixels.parent[alive] == alive]
    moving = new[pixels.parent[new] == new]
    first = history_row(new.size, merges, alive, moving, pixels.shift, (new.size, 0, 0))
    alive, _ = climb(
        pixels, unknown, alive, moving, params, [first], lambda stage: None, _WARM_ITERATIONS
    )
    return alive


def _carry_modes(
    labels: NDArray[np.int32],
    densest: NDArray[np.int64],
    ids: NDArray[np.uint32],
    pixels: Field,
    carried: NDArray[np.int32],
    alive: NDArray[np.int32],
    params: Params,
    state: SegmenterState,
) -> Modes:
    """Find the modes of the final segments: a carried one if it still stands in its own."""
    row = np.searchsorted(ids, state.table.ids[carried])
    row[row == len(ids)] = 0
    inside = labels[nearest_pixels(pixels.location[carried], labels.shape)] == row
    inside &= ids[row] == state.table.ids[carried]
    strays = np.zeros(pixels.rho.size, np.bool_)
    strays[carried[~inside]] = True
    modes = find_modes(labels, densest, pixels, alive[~strays[alive]], params)
    return dataclasses.replace(
        modes, density=np.where(modes.density > 1, modes.density - 1, modes.density)
    )


def _table(
    ids: NDArray[np.uint32],
    born: NDArray[np.int64],
    holders: NDArray[np.int32],
    modes: Modes,
    graph: RegionGraph,
    checked: NDArray[np.int64],
    params: Params,
) -> Table:
    colours, spread = graph.colours(holders, FLOOR * params.colour.sigma2)
    area = graph.areas(holders)
    return Table(
        ids=ids,
        born=born,
        area=area,
        peak=area.astype(np.float64),
        motion=np.zeros((len(ids), 2)),
        anchor=graph.centres(holders),
        location=modes.location,
        precision=modes.precision,
        moments=modes.moments,
        density=modes.density,
        colours=colours,
        spread=spread,
        checked=checked,
    )

"""Labels warped along the flow: which pixels are what they were."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.label_maps import drawn, even_flow, grey_planes
from support.tracks import state_of, tracks_of

from aaams_stream.core.flow import trace_pixels
from aaams_stream.core.prepare import prepare
from aaams_stream.core.propagate import propagate
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels.propagate import Limits, keep_row, warp_labels
from aaams_stream.kernels.records import Before, Prediction
from aaams_stream.params import Params


def warped_labels(
    before,
    smooth_before,
    smooth,
    flow,
    *,
    tolerance_sq=9.0,
    colours=None,
    watched=(),
    inlier_sq=-1.0,
    strange_sq=64.0,
):
    """Run warp_labels; return warped, kept, density, inside, strange, area."""
    count = int(before.max()) + 1
    watch = np.zeros(count, np.bool_)
    watch[list(watched)] = True
    if colours is None:
        colours = np.zeros((count, 9), np.float32)
    ramp = np.arange(before.size, dtype=np.float32).reshape(before.shape)
    out = Prediction(flow, np.empty_like(before), np.empty_like(before), np.empty_like(ramp))
    inside, strange = np.empty((2, len(before)), np.int64)
    limits = Limits(*map(np.float32, (tolerance_sq, strange_sq, 4.0, inlier_sq)))
    past = Before(before, np.ascontiguousarray(smooth_before), ramp)
    now = np.ascontiguousarray(smooth)
    area = np.full((2, count), 7, np.int64)
    motion = trace_pixels(flow, past.smooth, now)
    told = past, motion, now, colours, watch, limits, out
    half = len(before) // 2  # rows may be warped in parts
    warp_labels(half, len(before), *told, area[0], inside, strange)
    warp_labels(0, half, *told, area[1], inside, strange)
    return out.warped, out.kept, out.density, inside, strange, area.sum(axis=0)


def random_scene(seed=0, height=7, width=9, count=4):
    """Return labels (h, w) and colours (3, h, w) of a frame."""
    rng = np.random.default_rng(seed)
    before = rng.integers(0, count, (height, width)).astype(np.int32)
    return before, rng.uniform(0, 100, (3, height, width)).astype(np.float32)


# warp_labels: where labels come from.


def test_warp_labels_without_motion_keeps_every_label_and_density():
    before, smooth = random_scene()
    warped, kept, density, inside, strange, _ = warped_labels(
        before, smooth, smooth, even_flow(before)
    )
    np.testing.assert_array_equal(warped, before)
    np.testing.assert_array_equal(kept, before)
    np.testing.assert_array_equal(density.ravel(), np.arange(before.size))
    assert inside.tolist() == [9] * 7
    assert not strange.any()


@pytest.mark.parametrize(("dx", "dy"), [(2, 0), (0, 3), (-4, 1), (8, 6), (-9, 0), (0, 7)])
def test_warp_labels_moves_by_whole_pixels_and_leaves_what_enters_without_a_label(dx, dy):
    """The flow tells where a pixel came from; what came from outside has no label."""
    before, smooth_before = random_scene()
    h, w = before.shape
    y, x = np.indices(before.shape)
    from_inside = (y + dy >= 0) & (y + dy < h) & (x + dx >= 0) & (x + dx < w)
    source = np.clip(y + dy, 0, h - 1), np.clip(x + dx, 0, w - 1)
    smooth = smooth_before[:, source[0], source[1]]
    warped, kept, density, inside, strange, _ = warped_labels(
        before, smooth_before, smooth, even_flow(before, dx, dy)
    )
    np.testing.assert_array_equal(warped, np.where(from_inside, before[source], -1))
    np.testing.assert_array_equal(kept, warped)
    ramp = np.arange(before.size).reshape(before.shape)
    np.testing.assert_array_equal(density, np.where(from_inside, ramp[source], 0))
    np.testing.assert_array_equal(inside, from_inside.sum(axis=1))
    assert not strange.any()


def test_warp_labels_between_pixels_takes_the_nearest_label_and_the_colour_of_all_four():
    before = drawn("0123")
    smooth_before = grey_planes([[0.0, 10.0, 20.0, 30.0]])
    flow = even_flow(before, 0.4)
    warped, kept, *_ = warped_labels(
        before, smooth_before, grey_planes([[4.0, 14.0, 24.0, 30.0]]), flow, tolerance_sq=1e-6
    )
    assert warped.tolist() == [[0, 1, 2, 3]]
    assert kept.tolist() == [[0, 1, 2, 3]]
    warped, kept, *_ = warped_labels(before, smooth_before, smooth_before, flow, tolerance_sq=15.0)
    assert warped.tolist() == [[0, 1, 2, 3]]
    assert kept.tolist() == [[-1, -1, -1, 3]]  # 4 off, but for the last: the edge is replicated


def test_warp_labels_compares_with_bilinear_colours():
    rng = np.random.default_rng(3)
    before, smooth_before = random_scene(3)
    flow = rng.uniform(-1.4, 1.4, (*before.shape, 2)).astype(np.float32)
    h, w = before.shape
    y, x = np.indices(before.shape)
    sy = np.clip(y + flow[:, :, 1].astype(np.float64), 0, h - 1)
    sx = np.clip(x + flow[:, :, 0].astype(np.float64), 0, w - 1)
    y0, x0 = np.minimum(sy.astype(int), h - 2), np.minimum(sx.astype(int), w - 2)
    fy, fx = sy - y0, sx - x0
    smooth = (
        (smooth_before[:, y0, x0] * (1 - fx) + smooth_before[:, y0, x0 + 1] * fx) * (1 - fy)
        + (smooth_before[:, y0 + 1, x0] * (1 - fx) + smooth_before[:, y0 + 1, x0 + 1] * fx) * fy
    ).astype(np.float32)
    warped, kept, *_ = warped_labels(before, smooth_before, smooth, flow, tolerance_sq=1e-6)
    assert (warped >= 0).any()
    np.testing.assert_array_equal(kept, warped)


# warp_labels: which of them are kept.


def test_warp_labels_keeps_a_label_up_to_the_tolerance():
    before = drawn("000")
    smooth = grey_planes([[50.0, 53.0, 53.01]])
    warped, kept, *_ = warped_labels(before, grey_planes([[50.0] * 3]), smooth, even_flow(before))
    assert kept.tolist() == [[0, 0, -1]]
    assert warped.tolist() == [[0, 0, 0]]


def test_warp_labels_has_one_tolerance_for_all_three_channels_together():
    before = drawn("00")
    smooth = np.array([[[2.0, 2.0]], [[2.0, 2.0]], [[1.0, 1.1]]], np.float32)
    kept = warped_labels(before, np.zeros_like(smooth), smooth, even_flow(before))[1]
    assert kept.tolist() == [[0, -1]]


def test_warp_labels_keeps_a_pixel_that_changed_where_its_colour_is_at_home():
    before = np.zeros((1, 4), np.int32)
    colours = np.zeros((1, 9), np.float32)
    colours[0, :3] = 50, 0, 0
    colours[0, [3, 6, 8]] = 1 / 16  # σ of 4
    smooth = grey_planes([[50.0, 54.0, 56.0, 60.0]])
    smooth_before = grey_planes([[20.0, 20.0, 20.0, 20.0]])
    _, kept, *_ = warped_labels(
        before, smooth_before, smooth, even_flow(before), colours=colours, inlier_sq=1.25**2
    )
    assert kept.tolist() == [[0, 0, -1, -1]]


def test_warp_labels_drops_outliers_from_watched_segments_only():
    """Colours of 4 σ² about L = 50 leave the label within 2 σ of it."""
    before = drawn("001", "001")
    colours = np.zeros((2, 9), np.float32)
    colours[:, 0] = 50.0
    colours[:, [3, 6, 8]] = 1 / 4.0
    smooth = grey_planes([[54.0, 54.1, 60.0], [45.9, 46.0, 50.0]])
    for watched, expected in [
        ((), ["001", "001"]),
        ((0,), ["0.1", ".01"]),
        ((1,), ["00.", "001"]),
        ((0, 1), ["0..", ".01"]),
    ]:
        warped, kept, *_ = warped_labels(
            before, smooth, smooth, even_flow(before), colours=colours, watched=watched
        )
        np.testing.assert_array_equal(kept, drawn(*expected), err_msg=str(watched))
        np.testing.assert_array_equal(warped, before)


def test_warp_labels_measures_outliers_by_the_distance_of_mahalanobis():
    rng = np.random.default_rng(1)
    before = np.zeros((12, 15), np.int32)
    smooth = rng.normal(0, 3, (3, 12, 15)).astype(np.float32)
    root = rng.normal(size=(3, 3))
    inverse = np.linalg.inv(root @ root.T + np.eye(3))
    mean = rng.normal(size=3)
    colours = np.hstack([mean, inverse[np.triu_indices(3)]])[None].astype(np.float32)
    kept = warped_labels(before, smooth, smooth, even_flow(before), colours=colours, watched=(0,))[
        1
    ]
    off = smooth - mean[:, None, None]
    distance_sq = np.einsum("iyx,ij,jyx->yx", off, inverse, off)
    sure = np.abs(distance_sq - 4.0) > 1e-3
    np.testing.assert_array_equal((kept == 0)[sure], (distance_sq <= 4.0)[sure])
    assert 0 < (kept == 0).sum() < kept.size


def test_warp_labels_counts_strange_pixels_row_by_row_among_those_from_inside():
    before = drawn("0000", "0000")
    flow = even_flow(before)
    flow[0, 3, 0] = 1.0  # from outside: neither inside nor strange
    smooth = grey_planes([[8.1, 8.0, 0.0, 90.0], [9.0, 9.0, 9.0, 3.1]])
    *_, inside, strange, _ = warped_labels(before, np.zeros_like(smooth), smooth, flow)
    assert inside.tolist() == [3, 4]
    assert strange.tolist() == [1, 3]


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(0, 9))
def test_keep_row_keeps_what_did_not_change_up_to_a_limit_and_counts_it(seed, width, outlier):
    """All numbers are quarters, so that no comparison hangs by a rounding."""
    rng = np.random.default_rng(seed)
    warped = rng.integers(-1, 4, width).astype(np.int32).repeat(rng.integers(1, 12, width))[:width]
    rows = (rng.integers(-16, 17, (3, width)) / 4).astype(np.float32)
    colours = (rng.integers(-4, 5, (4, 9)) / 4).astype(np.float32)
    colours[:, [3, 6, 8]] += 2
    watched = rng.random(4) < 0.5
    gap = rng.integers(0, 8, width).astype(np.float32)
    outlier = round(4 * outlier) / 4
    limits = Limits(*map(np.float32, (4.0, 64.0, outlier, 2.0)))
    kept, area = np.full(width, 9, np.int32), np.zeros(4, np.int64)
    scratch = np.zeros(-(-width // 8) * 8, np.uint8), np.empty(width + 1, np.int32)
    keep_row(warped, colours, watched, limits, *rows, gap, *scratch, kept, area)
    inverse = colours[:, 3:][:, [[0, 1, 2], [1, 3, 4], [2, 4, 5]]].astype(np.float64)
    off = rows.T.astype(np.float64) - colours[warped, :3]
    distance_sq = np.einsum("xi,xij,xj->x", off, inverse[warped], off)
    limit = np.where(gap > 4.0, 2.0, np.where(watched[warped], outlier, np.inf))
    expected = np.where(distance_sq <= limit, warped, -1)
    assert kept.tolist() == expected.tolist()
    assert area.tolist() == [np.count_nonzero(expected == label) for label in range(4)]
    assert not scratch[0].any()


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 40))
def test_warp_labels_counts_what_each_segment_keeps(seed, height, width):
    """Also where runs are short, and where a segment keeps nothing."""
    before, smooth_before = random_scene(seed, height, width, count=5)
    rng = np.random.default_rng(seed)
    changed = rng.random(before.shape) < 0.3
    changed |= before == rng.integers(5)
    smooth = smooth_before + np.where(changed, np.float32(9), np.float32(0))
    shift = rng.integers(-3, 4, 2)
    still, moved = (
        warped_labels(before, smooth_before, smooth, even_flow(before, *step), tolerance_sq=limit)
        for step, limit in (((0, 0), 9.0), (shift, 90.0**2))
    )
    np.testing.assert_array_equal(still[1], np.where(changed, -1, before))
    for _, kept, *_, area in (still, moved):
        assert area.tolist() == [np.count_nonzero(kept == label) for label in range(len(area))]


# propagate.


def grey_frame(levels, tuning):
    """Return a frame of greys, too small to have moved."""
    whole = Params().updated({"stream": {"scale": 1.0}})
    return prepare(np.array(levels, np.uint8), None, whole, tuning)


def test_propagate_tells_what_each_track_has_kept_and_how_much_that_is():
    levels = np.full((12, 20), 100)
    levels[:, 10:] = 160
    labels = np.repeat(np.array([[0, 1]], np.int32), 10, axis=1).repeat(12, axis=0)
    # every segment is watched in every other frame, and the colours made by hand are none of these
    unwatched = dataclasses.replace(Tuning(), outlier=np.inf)
    first = grey_frame(levels, unwatched)
    state = state_of(labels, tracks_of([120, 120]), smooth=first.picture.smooth)
    seen = propagate(first, state)
    np.testing.assert_array_equal(seen.pixels.kept, labels)
    assert seen.area.tolist() == [120, 120]
    assert seen.explained == 240
    levels[:, 10:] = 60
    seen = propagate(grey_frame(levels, unwatched), state)
    assert seen.area[0] > 12 * 7
    assert seen.area[1] == 0
    assert seen.explained == seen.area[0]
    assert not seen.scene_change
    np.testing.assert_array_equal(seen.pixels.warped, labels)


@pytest.mark.parametrize(("share", "scene_change"), [(1.0, True), (0.6, False)])
def test_propagate_finds_a_scene_change_where_most_is_strange_and_little_explained(
    share, scene_change
):
    labels = np.zeros((12, 40), np.int32)
    tuning = dataclasses.replace(Tuning(), outlier=np.inf)
    first = grey_frame(np.full((12, 40), 60), tuning)
    levels = np.full((12, 40), 60)
    levels[:, : round(40 * share)] = 200
    state = state_of(labels, tracks_of([480]), smooth=first.picture.smooth)
    assert propagate(grey_frame(levels, tuning), state).scene_change == scene_change


def test_propagate_watches_segments_by_turns():
    """A segment of another colour than its own is dropped in the frame in which it is watched."""
    labels = np.repeat(np.array([[0, 1, 2]], np.int32), 5, axis=1).repeat(12, axis=0)
    frame = grey_frame(np.full((12, 15), 200), dataclasses.replace(Tuning(), watch=3))
    kept = []
    for index in range(20, 23):
        state = state_of(labels, tracks_of([60] * 3), smooth=frame.picture.smooth, index=index)
        kept.append((propagate(frame, state).area > 0).tolist())
    # tracks 11, 12 and 13 in frames 20, 21 and 22
    assert kept == [[False, True, True], [True, False, True], [True, True, False]]

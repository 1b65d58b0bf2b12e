"""From one frame to the next, kernel by kernel."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support import grids

from aaams_stream.core import features
from aaams_stream.core.mean_shift import base_precision, base_window
from aaams_stream.kernels import mean_shift, propagate
from aaams_stream.params import Params

SCALE = np.float32(1 / (64 * 16.0))  # of votes: σ² = 16
REACH, STAY = 2, np.float32(1.0)
compiled = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"
)


def label_maps(least, most, side=9):
    """Draw maps (h, w) int32 with values from `least` to `most`."""
    shapes = hnp.array_shapes(min_dims=2, max_dims=2, max_side=side)
    return hnp.arrays(np.int32, shapes, elements=st.integers(least, most))


def labelled(*rows):
    """Return the map whose rows are strings: digits are labels, . is -1 and ! is -2."""
    values = {".": -1, "!": -2}
    return np.array([[values.get(c) or int(c) for c in row] for row in rows], np.int32)


def coloured(lightness):
    """Return planes (3, h, w) of greys."""
    planes = np.zeros((3, *np.shape(lightness)), np.float32)
    planes[0] = lightness
    return planes


def still(labels, dx=0.0, dy=0.0):
    """Return a flow of one vector everywhere."""
    flow = np.empty((*labels.shape, 2), np.float32)
    flow[...] = dx, dy
    return flow


def carried(
    before,
    planes_before,
    planes,
    flow,
    *,
    tolerance_sq=9.0,
    colours=None,
    watched=(),
    inlier_sq=-1.0,
    strange_sq=64.0,
):
    """Run carry_labels; return prior, labels, density, inside, strange."""
    count = int(before.max()) + 1
    watch = np.zeros(count, np.bool_)
    watch[list(watched)] = True
    if colours is None:
        colours = np.zeros((count, 9), np.float32)
    ramp = np.arange(before.size, dtype=np.float32).reshape(before.shape)
    prior, labels = np.empty_like(before), np.empty_like(before)
    density = np.empty_like(ramp)
    inside, strange = np.empty((2, len(before)), np.int64)
    propagate.carry_labels(
        before, planes_before, ramp, planes, flow, np.float32(tolerance_sq), colours, watch,
        np.float32(4.0), np.float32(inlier_sq), np.float32(strange_sq), prior, labels, density,
        inside, strange,
    )  # fmt: skip
    return prior, labels, density, inside, strange


def random_scene(seed=0, height=7, width=9, count=4):
    rng = np.random.default_rng(seed)
    before = rng.integers(0, count, (height, width)).astype(np.int32)
    return before, rng.uniform(0, 100, (3, height, width)).astype(np.float32)


# Labels along the motion.


def test_a_pixel_that_changed_stays_where_its_colour_is_at_home():
    before = np.zeros((1, 4), np.int32)
    colours = np.zeros((1, 9), np.float32)
    colours[0, :3] = 50, 0, 0
    colours[0, [3, 6, 8]] = 1 / 16  # σ of 4
    planes = coloured([[50.0, 54.0, 56.0, 60.0]])
    there = coloured([[20.0, 20.0, 20.0, 20.0]])
    _, labels, *_ = carried(
        before, there, planes, still(before), colours=colours, inlier_sq=1.25**2
    )
    assert labels.tolist() == [[0, 0, -1, -1]]


def test_without_motion_every_pixel_keeps_label_and_density():
    before, planes = random_scene()
    prior, labels, density, inside, strange = carried(before, planes, planes, still(before))
    np.testing.assert_array_equal(prior, before)
    np.testing.assert_array_equal(labels, before)
    np.testing.assert_array_equal(density.ravel(), np.arange(before.size))
    assert inside.tolist() == [9] * 7
    assert not strange.any()


@pytest.mark.parametrize(("dx", "dy"), [(2, 0), (0, 3), (-4, 1), (8, 6), (-9, 0), (0, 7)])
def test_labels_move_by_whole_pixels_and_enter_from_nowhere(dx, dy):
    """The flow tells where a pixel came from; what came from outside has no label."""
    before, planes_before = random_scene()
    h, w = before.shape
    y, x = np.indices(before.shape)
    from_inside = (y + dy >= 0) & (y + dy < h) & (x + dx >= 0) & (x + dx < w)
    source = np.clip(y + dy, 0, h - 1), np.clip(x + dx, 0, w - 1)
    planes = planes_before[:, source[0], source[1]]
    prior, labels, density, inside, strange = carried(
        before, planes_before, planes, still(before, dx, dy)
    )
    np.testing.assert_array_equal(prior, np.where(from_inside, before[source], -1))
    np.testing.assert_array_equal(labels, prior)
    ramp = np.arange(before.size).reshape(before.shape)
    np.testing.assert_array_equal(density, np.where(from_inside, ramp[source], 0))
    np.testing.assert_array_equal(inside, from_inside.sum(axis=1))
    assert not strange.any()


def test_between_pixels_the_nearest_lends_its_label_and_all_four_their_colour():
    before = labelled("0123")
    planes_before = coloured([[0.0, 10.0, 20.0, 30.0]])
    flow = still(before, 0.4)
    prior, labels, *_ = carried(
        before, planes_before, coloured([[4.0, 14.0, 24.0, 30.0]]), flow, tolerance_sq=1e-6
    )
    assert prior.tolist() == [[0, 1, 2, 3]]
    assert labels.tolist() == [[0, 1, 2, 3]]
    prior, labels, *_ = carried(before, planes_before, planes_before, flow, tolerance_sq=15.0)
    assert prior.tolist() == [[0, 1, 2, 3]]
    assert labels.tolist() == [[-1, -1, -1, 3]]  # 4 off, but for the last: the edge is replicated


def test_colours_between_pixels_are_bilinear():
    rng = np.random.default_rng(3)
    before, planes_before = random_scene(3)
    flow = rng.uniform(-1.4, 1.4, (*before.shape, 2)).astype(np.float32)
    h, w = before.shape
    y, x = np.indices(before.shape)
    sy = np.clip(y + flow[:, :, 1].astype(np.float64), 0, h - 1)
    sx = np.clip(x + flow[:, :, 0].astype(np.float64), 0, w - 1)
    y0, x0 = np.minimum(sy.astype(int), h - 2), np.minimum(sx.astype(int), w - 2)
    fy, fx = sy - y0, sx - x0
    planes = (
        (planes_before[:, y0, x0] * (1 - fx) + planes_before[:, y0, x0 + 1] * fx) * (1 - fy)
        + (planes_before[:, y0 + 1, x0] * (1 - fx) + planes_before[:, y0 + 1, x0 + 1] * fx) * fy
    ).astype(np.float32)
    prior, labels, *_ = carried(before, planes_before, planes, flow, tolerance_sq=1e-6)
    assert (prior >= 0).any()
    np.testing.assert_array_equal(labels, prior)


def test_a_pixel_keeps_its_label_up_to_the_tolerance():
    before = labelled("000")
    planes = coloured([[50.0, 53.0, 53.01]])
    prior, labels, *_ = carried(before, coloured([[50.0] * 3]), planes, still(before))
    assert labels.tolist() == [[0, 0, -1]]
    assert prior.tolist() == [[0, 0, 0]]


def test_the_tolerance_is_one_of_all_three_channels_together():
    before = labelled("00")
    planes = np.array([[[2.0, 2.0]], [[2.0, 2.0]], [[1.0, 1.1]]], np.float32)
    labels = carried(before, np.zeros_like(planes), planes, still(before))[1]
    assert labels.tolist() == [[0, -1]]


def test_outliers_are_dropped_from_watched_segments_only():
    """Colours of 4 σ² about L = 50 leave the label within 2 σ of it."""
    before = labelled("001", "001")
    colours = np.zeros((2, 9), np.float32)
    colours[:, 0] = 50.0
    colours[:, [3, 6, 8]] = 1 / 4.0
    planes = coloured([[54.0, 54.1, 60.0], [45.9, 46.0, 50.0]])
    for watched, expected in [
        ((), ["001", "001"]),
        ((0,), ["0.1", ".01"]),
        ((1,), ["00.", "001"]),
        ((0, 1), ["0..", ".01"]),
    ]:
        prior, labels, *_ = carried(
            before, planes, planes, still(before), colours=colours, watched=watched
        )
        np.testing.assert_array_equal(labels, labelled(*expected), err_msg=str(watched))
        np.testing.assert_array_equal(prior, before)


def test_the_distance_of_an_outlier_is_that_of_mahalanobis():
    rng = np.random.default_rng(1)
    before = np.zeros((12, 15), np.int32)
    planes = rng.normal(0, 3, (3, 12, 15)).astype(np.float32)
    root = rng.normal(size=(3, 3))
    inverse = np.linalg.inv(root @ root.T + np.eye(3))
    mean = rng.normal(size=3)
    colours = np.hstack([mean, inverse[np.triu_indices(3)]])[None].astype(np.float32)
    labels = carried(before, planes, planes, still(before), colours=colours, watched=(0,))[1]
    off = planes - mean[:, None, None]
    distance_sq = np.einsum("iyx,ij,jyx->yx", off, inverse, off)
    sure = np.abs(distance_sq - 4.0) > 1e-3
    np.testing.assert_array_equal((labels == 0)[sure], (distance_sq <= 4.0)[sure])
    assert 0 < (labels == 0).sum() < labels.size


def test_strange_pixels_are_counted_row_by_row_among_those_from_inside():
    before = labelled("0000", "0000")
    flow = still(before)
    flow[0, 3, 0] = 1.0  # from outside: neither inside nor strange
    planes = coloured([[8.1, 8.0, 0.0, 90.0], [9.0, 9.0, 9.0, 3.1]])
    *_, inside, strange = carried(before, np.zeros_like(planes), planes, flow)
    assert inside.tolist() == [3, 4]
    assert strange.tolist() == [1, 3]


# Votes on the boundary.


def voted(labels, planes, prior=None, reach=REACH, stay=STAY):
    out = np.empty_like(labels)
    propagate.vote_boundaries(
        labels, labels if prior is None else prior, planes, SCALE, reach, stay, out
    )
    return out


def test_a_mislabelled_boundary_pixel_goes_to_the_segment_of_its_colour():
    labels = labelled("000111", "000011", "000111", "001111")
    truth = labelled("000111", "000111", "000111", "000111")
    np.testing.assert_array_equal(voted(labels, coloured(60.0 * truth)), truth)


def test_interiors_do_not_vote():
    """Its colour calls a pixel over, but no pixel beside it bears the label it would go to."""
    labels = labelled("00000111", "00000111", "00000111")
    lightness = 60.0 * labels
    lightness[1, 2] = 60.0
    np.testing.assert_array_equal(voted(labels, coloured(lightness)), labels)


def test_pixels_without_a_label_stay_without_and_have_no_vote():
    labels = labelled("00.11", "00!11", "0..11")
    out = voted(labels, coloured(np.zeros(labels.shape)))
    np.testing.assert_array_equal(out, labels)


def test_all_pixels_are_decided_at_once():
    """Each of two columns prefers the other's label; one after another, one would win."""
    labels = labelled("01", "01", "01", "01")
    prior = 1 - labels
    out = voted(labels, coloured(np.zeros(labels.shape)), prior, reach=0)
    np.testing.assert_array_equal(out, prior)


def test_the_predicted_label_has_a_head_start():
    """One neighbour of the same colour on either side: the earlier self decides, else the own."""
    labels = labelled("0011")
    planes = coloured(np.zeros(labels.shape))
    np.testing.assert_array_equal(voted(labels, planes, reach=1, stay=np.float32(0)), labels)
    out = voted(labels, planes, labelled("0111"), reach=1)
    np.testing.assert_array_equal(out, labelled("0111"))


@given(label_maps(-2, 4), st.integers(0, 2**31))
def test_a_vote_counts_kernel_weights_around(labels, seed):
    rng = np.random.default_rng(seed)
    prior = rng.integers(-1, 5, labels.shape).astype(np.int32)
    planes = rng.normal(50, 5, (3, *labels.shape)).astype(np.float32)
    out = voted(labels, planes, prior)
    for y, x in np.ndindex(labels.shape):
        sums = oracle_poll(labels, prior, planes, y, x)
        if labels[y, x] < 0:
            assert out[y, x] == labels[y, x]
        else:
            assert sums[out[y, x]] >= max(sums.values()) - 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_inside_and_near_the_border_the_same_weights_count(seed):
    """Inside, rows are read in whole lanes; there are up to five labels beside a pixel."""
    rng = np.random.default_rng(seed)
    shape = 12, 30 - seed
    labels = rng.integers(-1, 3 + seed, shape).astype(np.int32)
    prior = rng.integers(-1, 3 + seed, shape).astype(np.int32)
    planes = np.full((3, 12, 32), features.FAR)
    planes[:, :, : shape[1]] = rng.normal(50, 5, (3, *shape))
    out = voted(labels, planes, prior)
    found = labels.copy()
    found.ravel()[labels.ravel() == -1] = joined(labels, planes, 2.0, prior)
    for y, x in np.ndindex(shape):
        sums = oracle_poll(labels, prior, planes, y, x)
        if labels[y, x] >= 0:
            assert sums[out[y, x]] >= max(sums.values()) - 1e-3
        elif found[y, x] >= 0:
            assert sums[found[y, x]] >= max(max(sums.values()), 2.0) - 1e-3
        else:
            assert max(sums.values(), default=0.0) <= 2.0 + 1e-3
    assert (out != labels).any()
    assert (found != labels).any()


def oracle_poll(labels, prior, planes, y, x):
    """Return label → weight, for the labels of a pixel and the four beside it."""
    h, w = labels.shape
    beside = [(y, x), (y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
    names = {int(labels[v, u]) for v, u in beside if 0 <= v < h and 0 <= u < w}
    sums = {name: float(STAY) * (name == prior[y, x]) for name in names if name >= 0}
    for v in range(max(y - REACH, 0), min(y + REACH + 1, h)):
        for u in range(max(x - REACH, 0), min(x + REACH + 1, w)):
            if (v, u) != (y, x) and labels[v, u] in sums:
                gap = planes[:, v, u].astype(np.float64) - planes[:, y, x]
                s = min(float(SCALE) * (gap**2).sum(), 1.0)
                sums[labels[v, u]] += (1 - s + s * s / 2) ** 32
    return sums


def joined(labels, planes, enough, prior=None, reach=REACH, rounds=1):
    pixels = np.flatnonzero(labels == -1)
    out = labels.copy()
    prior = np.full_like(labels, -1) if prior is None else prior
    propagate.join_neighbours(
        pixels, out, prior, planes, SCALE, reach, STAY, np.float32(enough), rounds
    )
    return out.ravel()[pixels].tolist()


def test_a_pixel_joins_where_enough_neighbours_have_its_colour():
    labels = labelled("000", "0.1", "111")
    lightness = np.where(labels == 1, 60.0, 0.0)
    planes = coloured(lightness)
    assert joined(labels, planes, 4.0) == [0]
    assert joined(labels, planes, 4.01) == [-1]
    lightness[1, 1] = 60.0
    assert joined(labels, coloured(lightness), 4.0) == [1]
    assert joined(labels, coloured(lightness), 4.0, prior=labelled("000", "011", "111")) == [1]


def test_the_predicted_label_counts_as_one_neighbour_more():
    labels = labelled("0.")
    planes = coloured(np.zeros(labels.shape))
    assert joined(labels, planes, 2.0) == [-1]
    assert joined(labels, planes, 2.0, prior=labelled("00")) == [0]


def test_only_segments_that_touch_a_pixel_can_be_joined():
    """Label 1 has all the weight, yet only across a corner or further away."""
    flat = coloured(np.zeros((3, 3)))
    assert joined(labelled("111", "1!!", "1!."), flat, 1.0) == [-1]
    assert joined(labelled("111", "111", "11."), flat, 1.0) == [1]
    labels = labelled("111", "110", "10.")
    assert joined(labels, coloured(30.0 * (labels == 0)), 1.0) == [-1]


def test_of_equal_weights_the_first_found_wins():
    assert joined(labelled("1", ".", "0"), coloured(np.zeros((3, 1))), 1.0, reach=1) == [0]


@pytest.mark.parametrize("seed", range(10))
def test_rounds_at_once_are_rounds_one_by_one(seed):
    """Pixels that nothing has joined near are not asked again, and need not be."""
    random = np.random.default_rng(seed)
    labels = np.where(random.random((24, 30)) < 0.8, -1, random.integers(0, 3, (24, 30)))
    planes = coloured(random.choice([0.0, 3.0, 9.0], (24, 30)))
    one_by_one = labels.astype(np.int32)
    steps = []
    for _ in range(5):
        one_by_one[one_by_one == -1] = joined(one_by_one, planes, 2.0)
        steps.append(np.count_nonzero(one_by_one >= 0))
    assert steps[0] < steps[2]  # there is something to ask again
    at_once = joined(labels.astype(np.int32), planes, 2.0, rounds=5)
    assert at_once == one_by_one[labels == -1].tolist()


# Statistics.


def numbered(labels, flow, count):
    owner, ripe = np.empty_like(labels), np.empty(labels.shape, np.uint8)
    area, motion = np.empty(count, np.int64), np.empty((count, 2))
    new = propagate.number_clusters(labels, flow, owner, ripe, area, motion)
    return new, owner, ripe, area, motion


@given(label_maps(-2, 5))
def test_labels_number_the_carried_clusters_and_newcomers_follow(labels):
    flow = np.zeros((*labels.shape, 2), np.float32)
    new, owner, ripe, area, _ = numbered(labels, flow, 7)
    known = labels >= 0
    np.testing.assert_array_equal(owner[known], labels[known])
    np.testing.assert_array_equal(ripe, known)
    np.testing.assert_array_equal(new, np.flatnonzero(~known))
    np.testing.assert_array_equal(owner.ravel()[new], 7 + np.arange(len(new)))
    np.testing.assert_array_equal(area, np.bincount(labels[known], minlength=7))


@given(label_maps(0, 2), st.integers(0, 2**31))
def test_leaves_know_the_majority_they_came_from(leaves, seed):
    rng = np.random.default_rng(seed)
    prior = rng.choice([-1, 0, 0, 0, 1], leaves.shape).astype(np.int32)
    labels = np.where(rng.random(leaves.shape) < 0.5, prior, -2).astype(np.int32)
    old, home = np.empty((2, 3), np.int32)
    propagate.survey_leaves(leaves, labels, prior, old, home)
    for leaf in range(3):
        kept = labels[(leaves == leaf) & (labels >= 0)]
        came = prior[leaves == leaf]
        assert (old[leaf] in kept) if kept.size else (old[leaf] == -1)
        assert (home[leaf] in came) if came.size else (home[leaf] == -1)
        for values, found in ((kept, old[leaf]), (came, home[leaf])):
            for value in np.unique(values):
                assert 2 * (values == value).sum() <= values.size or found == value


@given(label_maps(0, 2), st.integers(0, 2**31))
def test_votes_cast_in_runs_count_as_if_cast_one_by_one(leaves, seed):
    rng = np.random.default_rng(seed)
    prior = np.sort(rng.integers(-1, 3, leaves.shape), axis=1).astype(np.int32)
    labels = np.where(rng.random(leaves.shape) < 0.7, prior, -2).astype(np.int32)
    expected = []
    for votes in (labels, prior):
        leader, lead = [-1] * 3, [0] * 3
        for leaf, vote in zip(leaves.ravel().tolist(), votes.ravel().tolist(), strict=True):
            if votes is labels and vote < 0:
                continue
            if lead[leaf] == 0:
                leader[leaf] = vote
            lead[leaf] += 1 if leader[leaf] == vote else -1
        expected.append(leader)
    old, home = np.empty((2, 3), np.int32)
    propagate.survey_leaves(leaves, labels, prior, old, home)
    assert [old.tolist(), home.tolist()] == expected


@given(label_maps(0, 6), st.integers(0, 2**31))
def test_overlaps_are_counted_pair_by_pair_in_raster_order(pieces, seed):
    rng = np.random.default_rng(seed)
    prior = rng.integers(-1, 5, pieces.shape).astype(np.int32)
    labels = rng.integers(-2, 5, pieces.shape).astype(np.int32)
    expected: dict[tuple[int, int], list[int]] = {}
    for a, b, kept in zip(pieces.ravel(), prior.ravel(), labels.ravel(), strict=True):
        if max(b, kept) >= 0:
            counts = expected.setdefault((int(a), int(kept if kept >= 0 else b)), [0, 0])
            counts[0] += 1
            counts[1] += int(kept >= 0)
    piece, label, overlap, kept = propagate.count_overlaps(pieces, prior, labels, 1024)
    assert list(zip(piece.tolist(), label.tolist(), strict=True)) == list(expected)
    assert np.stack([overlap, kept], axis=1).tolist() == list(expected.values())


def test_too_little_room_for_the_pairs_is_told_by_an_empty_answer():
    pieces = np.arange(40, dtype=np.int32).reshape(5, 8)
    nothing = propagate.count_overlaps(pieces, pieces, pieces, 64)
    assert [part.size for part in nothing] == [0, 0, 0, 0]
    piece, *_ = propagate.count_overlaps(pieces, pieces, pieces, 128)
    assert piece.tolist() == list(range(40))


@given(label_maps(-2, 3))
def test_segments_move_by_the_mean_of_their_pixels(labels):
    flow = np.random.default_rng(0).normal(size=(*labels.shape, 2)).astype(np.float32)
    *_, motion = numbered(labels, flow, 5)
    for label in range(5):
        here = labels == label
        expected = -flow[here].mean(axis=0) if here.any() else (0, 0)
        np.testing.assert_allclose(motion[label], expected, atol=1e-5)


# The first step of single pixels.


def first_steps(planes, width, pixels, unit=1.0, clusters=None):
    params = Params().updated(
        {"colour": {"sigma2": grids.SIGMA2_COLOUR}, "space": {"sigma2": grids.SIGMA2_SPACE}}
    )
    n = planes.shape[1] * width
    bearing, location = np.full((2, n, 5), np.nan, np.float32)
    density = np.full((planes.shape[1], width), np.nan, np.float32)
    mean_shift.first_step(
        pixels, pixels if clusters is None else clusters, planes, base_precision(params),
        np.float32(unit), bearing, location, density,
    )  # fmt: skip
    return bearing, location, density


def test_the_first_step_of_a_pixel_is_its_first_shift():
    """Both sum over the disc of 2σ; only the polynomial of the weights is taken differently."""
    field, points = grids.make_field(21, 37, contrast=10.0)
    everywhere = np.arange(21 * 37, dtype=np.int32)
    bearing, location, density = first_steps(field.planes, 37, everywhere, 1e-3)
    half_widths, weights = base_window(grids.SIGMA2_SPACE)
    mean_shift.first_shift(
        field.planes,
        half_widths,
        weights,
        np.float32(1 / (64 * grids.SIGMA2_COLOUR)),
        field.bearing,
        field.density,
    )
    np.testing.assert_allclose(bearing, field.bearing, atol=0.02)
    np.testing.assert_allclose(density, field.density * 1e-3, rtol=0.01)
    np.testing.assert_allclose(location, points + bearing, atol=1e-4)


def test_a_first_step_writes_only_the_pixels_it_was_given():
    field, _ = grids.make_field(9, 14)
    chosen = np.array([3, 40, 125], np.int32)
    for part in first_steps(field.planes, 14, chosen, 1e-2):
        rows = part.reshape(9 * 14, -1)
        assert np.isfinite(rows[chosen]).all()
        assert np.isnan(np.delete(rows, chosen, axis=0)).all()


def test_a_first_step_founds_the_clusters_it_was_given():
    field, _ = grids.make_field(9, 14)
    pixels = np.array([3, 40, 125], np.int32)
    clusters = np.array([1, 3, 2], np.int32)
    of_pixels = first_steps(field.planes, 14, pixels)
    of_clusters = first_steps(field.planes, 14, pixels, clusters=clusters)
    for mine, theirs in zip(of_clusters[:2], of_pixels[:2], strict=True):
        np.testing.assert_array_equal(mine[clusters], theirs[pixels])
    np.testing.assert_array_equal(of_clusters[2], of_pixels[2])


def test_the_density_of_a_first_step_is_at_most_one():
    planes = features.lab_planes(np.full((9, 14, 3), 90, np.uint8))
    pixels = np.arange(9 * 14, dtype=np.int32)
    density = first_steps(planes, 14, pixels, 0.02)[2]
    assert density.max() == 1.0
    assert density.min() < 1.0


# Compilation.


DIGEST = """
import hashlib
import numpy as np
from aaams_stream.params import Params
from aaams_stream.core.segmenter import Segmenter
segmenter = Segmenter(Params().updated({"stream": {"segments": 6}}))
for t in range(3):
    rgb = np.random.default_rng(t).normal(0, 2, (10, 18, 3)) + (60, 90, 160)
    rgb[3:7, 4 + t : 9 + t] += (140, -30, -110)
    ids = segmenter.step(np.rint(rgb).astype(np.uint8)).ids
    print(hashlib.sha256(ids.tobytes()).hexdigest(), len(np.unique(ids)))
"""


def run_python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@compiled
def test_images_and_streams_have_their_kernels_compiled_for_one_signature_only():
    code = """
import numpy as np
from aaams_stream import segment_image
from aaams_stream.jit import STREAM_FILES, kernels_of
from aaams_stream.core.segmenter import Segmenter
rng = np.random.default_rng(0)
for shape in ((20, 33, 3), (40, 48), (90, 80, 3)):  # the last one is segmented at a smaller size
    segmenter = Segmenter()
    noise = rng.integers(0, 255, shape, np.uint8)
    for frame in (noise, noise, np.roll(noise, 1, 1), 255 - noise, noise[::-1, ::-1]):
        segmenter.step(frame)
    segment_image(noise)
for file in STREAM_FILES:
    for kernel in kernels_of(file):
        if len(kernel.signatures) > 1:
            print(kernel.py_func.__name__, kernel.signatures)
"""
    assert run_python(code) == ""


@compiled
def test_without_compilation_a_stream_has_the_same_ids():
    expected = run_python(DIGEST)
    assert expected.split()[1::2] == ["2", "2", "2"]
    assert run_python(DIGEST, NUMBA_DISABLE_JIT="1") == expected

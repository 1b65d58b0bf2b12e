"""The merge tree: regions merge closest first, and every cut is a partition."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import skimage.measure
from hypothesis import given, settings
from hypothesis import strategies as st
from support import grids, reference, synthetic
from support.region_scenes import FLOOR, contacts, explicit, measured, picture_of, random_scene

from aaams_stream import Params, segment_image
from aaams_stream.core.merge_tree import MergeTree, build_tree, merge_criterion
from aaams_stream.core.region_graph import build_rag
from aaams_stream.core.tuning import DEFAULT
from aaams_stream.kernels import merge_tree, region_graph

PLAIN, SIZE_AWARE = "bhattacharyya", "size-aware"


def params_of(criterion):
    """Return settings with a criterion and the floor of the scenes."""
    sigma2 = FLOOR / DEFAULT.variance_floor
    return Params().updated({"colour": {"sigma2": sigma2}, "post": {"criterion": criterion}})


def criterion_of(name):
    return merge_criterion(params_of(name), DEFAULT, bulk=False)


@functools.cache
def tree_of(seed: int) -> MergeTree:
    rgb = grids.blurred_noise(24, 30, seed, contrast=30)
    return segment_image(rgb, Params().overridden(["post.min_size=3"])).tree


def assert_is_a_partition(labels):
    """Dense from 0 in raster order, and 4-connected."""
    names, first = np.unique(labels, return_index=True)
    np.testing.assert_array_equal(names, np.arange(names.size))
    assert np.all(np.diff(first) > 0)
    parts = skimage.measure.label(labels, background=-1, connectivity=1)
    assert parts.max() == names.size


def assert_joins_whole_segments(coarse, fine):
    pairs = {(int(f), int(c)) for f, c in zip(fine.ravel(), coarse.ravel(), strict=True)}
    assert len(pairs) == fine.max() + 1


@given(st.integers(0, 3), st.floats(0, 8), st.floats(0, 8))
def test_cut_at_a_higher_level_joins_whole_segments_of_a_lower_one(seed, one, other):
    tree = tree_of(seed)
    fine, coarse = tree.cut(level=min(one, other)), tree.cut(level=max(one, other))
    assert_is_a_partition(fine)
    assert_is_a_partition(coarse)
    assert_joins_whole_segments(coarse, fine)


@given(st.integers(0, 3), st.integers(1, 400))
def test_cut_gives_as_many_segments_as_were_asked_for(seed, segments):
    tree = tree_of(seed)
    labels = tree.cut(segments=segments)
    assert_is_a_partition(labels)
    assert labels.max() + 1 == min(segments, tree.finest)
    assert_joins_whole_segments(labels, tree.cut(level=0.0))


def test_trees_under_test_are_worth_testing():
    assert all(tree_of(seed).finest > 20 for seed in range(4))


def test_cut_at_level_zero_is_the_finest_partition_and_at_infinity_one_segment():
    tree = tree_of(0)
    assert tree.cut(level=0.0).max() + 1 == tree.finest
    assert tree.cut(level=np.inf).max() == 0
    np.testing.assert_array_equal(tree.cut(segments=10**9), tree.cut(level=0.0))


def test_cut_by_number_and_cut_by_level_agree():
    tree = tree_of(1)
    labels = tree.cut(level=1.0)
    np.testing.assert_array_equal(labels, tree.cut(segments=int(labels.max()) + 1))


def test_cut_has_no_segment_below_the_minimum_size():
    tree = tree_of(2)
    assert np.bincount(tree.cut(level=0.0).ravel()).min() >= 3
    assert np.bincount(tree.regions.ravel()).min() < 3


@pytest.mark.parametrize("criterion", [PLAIN, SIZE_AWARE])
def test_merging_is_switched_off_by_a_threshold_of_zero(criterion):
    params = Params().overridden(
        [f"post.criterion={criterion}", "post.level=0", "post.bhattacharyya=0", "post.min_size=1"]
    )
    result = segment_image(grids.blurred_noise(24, 30, contrast=30), params)
    np.testing.assert_array_equal(result.labels, result.tree.regions)


def test_cut_does_not_change_the_tree():
    tree = tree_of(0)
    before = tree.cut(segments=7)
    tree.cut(segments=1)
    np.testing.assert_array_equal(tree.cut(segments=7), before)


def test_merging_does_not_chain_two_surfaces_together_across_a_weak_edge():
    """A ramp between two flat colours: each end is close to the middle, but not to the other."""
    rgb = np.full((30, 90, 3), 60, np.uint8)
    rgb[:, 60:] = 150
    rgb[:, 29:61] = np.rint(np.linspace(60, 150, 32)).astype(np.uint8)[None, :, None]
    rgb[:, 30:60] = 105
    plain = Params().overridden(["post.criterion=bhattacharyya", "post.bhattacharyya=1"])
    labels = segment_image(rgb, plain).labels
    assert labels[15, 5] != labels[15, 85]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either a level or a number"),
        ({"level": 1.0, "segments": 3}, "either a level or a number"),
        ({"segments": 0}, "segments must be >= 1, got 0"),
        ({"level": -1.0}, "level must be >= 0, got -1.0"),
        ({"level": float("nan")}, "level must be >= 0, got nan"),
    ],
)
def test_cut_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tree_of(0).cut(**arguments)


def test_merge_tree_checks_its_shapes():
    regions = np.zeros((2, 2), np.int32)
    none, one = np.zeros(0, np.int32), np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="one row per merge"):
        MergeTree(regions, one, none, np.zeros(1), 0)
    with pytest.raises(ValueError, match=r"forced must lie in 0\.\.1, got 2"):
        MergeTree(regions, one, one, np.zeros(1), 2)


def test_merge_tree_of_one_colour_has_no_merges():
    tree = segment_image(synthetic.flat().rgb).tree
    assert tree.finest == 1
    assert tree.level.size == 0
    assert tree.cut(segments=5).max() == 0


@pytest.mark.parametrize("seed", range(5))
def test_absorb_gives_the_moments_of_both_regions(seed):
    planes, density, _, labels = random_scene(seed)
    moments, _ = measured(planes, density, labels)
    both, _ = measured(planes, density, np.where(labels == 1, 0, labels).astype(np.int32))
    merge_tree.absorb(moments, 0, 1)
    np.testing.assert_allclose(moments[0], both[0], rtol=1e-9, atol=1e-9)


def test_absorb_pools_the_motion_of_regions_by_area():
    rng = np.random.default_rng(4)
    planes, density, _, labels = random_scene(4)
    flow = rng.normal(0, 5, (*labels.shape, 2)).astype(np.float32)
    scene = np.array([1.0, -2.0])
    moments, _ = measured(planes, density, labels)
    region_graph.measure_motion(flow, scene, labels, moments)
    merge_tree.absorb(moments, 0, 1)
    expected = scene - flow[labels <= 1].mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(moments[0, 11:], expected)


def test_merge_level_is_raised_between_regions_that_part():
    planes, density, _, labels = random_scene(2)
    moments, _ = measured(planes, density, labels)
    call = (10.0, 30.0, 500.0, criterion_of(SIZE_AWARE))
    at_rest = merge_tree.merge_level(moments[0], moments[1], *call)
    moments[:2, 11] = 7.0
    assert merge_tree.merge_level(moments[0], moments[1], *call) == at_rest
    moments[1, 11] += 10**0.5
    apart = merge_tree.merge_level(moments[0], moments[1], *call)
    assert apart == pytest.approx(2**0.5 * at_rest)


def weight_of(track_of, prior_track, step=9.0, faint=0.0, grown=True):
    """Return the weight of two regions, of which the first moves against the scene."""
    planes, density, _, labels = random_scene(2)
    moments, _ = measured(planes, density, labels)
    moments[:2, 11:] = [[2**0.5, 0.0], [0.0, 0.0]]
    rows = (np.array(names, np.int32) for names in (track_of, prior_track))
    none = np.zeros(7, np.int64)
    origins = merge_tree.Origins(*rows, none, none, np.full(7, grown))
    criterion = criterion_of(SIZE_AWARE)._replace(faint=faint, along=DEFAULT.along)
    return merge_tree.weight(moments, 0, 1, step, origins, criterion)


@pytest.mark.parametrize(
    ("track_of", "factor"), [([5, -1], 2**0.5), ([-1, 5], 1.0), ([-1, -1], 1.0), ([5, 6], 1.0)]
)
def test_weight_is_that_of_moving_tracks_against_newcomers(track_of, factor):
    assert weight_of(track_of, [5, 4]) == pytest.approx(factor)


def test_weight_of_a_part_that_moves_along_with_its_segment_is_that_of_any():
    planes, density, _, labels = random_scene(2)
    moments, _ = measured(planes, density, labels)
    moments[:2, 11:] = 9.0  # both at the same speed
    none = np.zeros(7, np.int64)
    criterion = criterion_of(SIZE_AWARE)
    for prior_track, factor in (([5, 5], 1.0), ([5, 4], (1 + 162 / DEFAULT.moving_sq) ** 0.5)):
        rows = np.array([5, -1], np.int32), np.array(prior_track, np.int32)
        origins = merge_tree.Origins(*rows, none, none, none > 0)
        found = merge_tree.weight(moments, 0, 1, 9.0, origins, criterion)
        assert found == pytest.approx(factor)


@pytest.mark.parametrize(
    ("track_of", "grown", "factor"),
    [([-1, -1], True, 0.0), ([5, 6], False, 0.0), ([5, 6], True, 1.0), ([-1, 5], True, 0.0)],
)
def test_weight_of_what_no_eye_could_tell_apart_is_none_but_for_grown_tracks(
    track_of, grown, factor
):
    assert weight_of(track_of, [-1, -1], step=0.4, faint=0.4, grown=grown) == factor
    halfway = weight_of([-1, -1], [-1, -1], step=0.8, faint=0.4)
    assert halfway == pytest.approx(0.5)


def test_merge_criterion_lets_what_is_faint_count_in_images():
    assert merge_criterion(Params(), DEFAULT, bulk=True).faint == DEFAULT.faint
    assert merge_criterion(Params(), DEFAULT, bulk=False).faint == 0.0


def test_merge_level_is_raised_for_what_would_be_bulky():
    planes, density, _, labels = random_scene(2)
    moments, _ = measured(planes, density, labels)
    a, b = moments[:2]
    pixels = 10 * (a[0] + b[0])
    criterion = criterion_of(SIZE_AWARE)
    free, held, small = (
        merge_tree.merge_level(a, b, 10.0, 30.0, pixels, criterion._replace(bulk_share=share))
        for share in (np.inf, 0.1, 100.0)
    )
    assert held == pytest.approx(2**0.5 * free)
    assert small == pytest.approx(free)


def test_merge_criterion_holds_bulk_back_by_the_wanted_number_of_segments():
    params = Params().updated({"stream": {"segments": 90}})
    assert merge_criterion(params, DEFAULT, bulk=True).bulk_share == DEFAULT.bulk / 90
    assert merge_criterion(params, DEFAULT, bulk=False).bulk_share == np.inf
    free = params.updated({"stream": {"segments": 0}})
    assert merge_criterion(free, DEFAULT, bulk=True).bulk_share == np.inf


@pytest.mark.parametrize("seed", range(5))
def test_bhattacharyya_is_the_distance_of_the_colours_of_two_regions(seed):
    planes, density, _, labels = random_scene(seed)
    moments, _ = measured(planes, density, labels)
    for a, b in [(0, 1), (1, 2), (0, 3)]:
        _, _, mean_a, sigma_a = explicit(planes, density, labels == a)
        _, _, mean_b, sigma_b = explicit(planes, density, labels == b)
        expected = reference.bhattacharyya(mean_a, sigma_a, mean_b, sigma_b)
        assert merge_tree.bhattacharyya(moments[a], moments[b], FLOOR) == pytest.approx(expected)


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_merge_level_of_regions_alike_is_zero_and_never_nan(seed, spread):
    """Rounding may take the distance of two equal distributions below 0, and its root to NaN."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3)) * spread
    scatter = (root @ root.T)[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    a = np.concatenate([[20.0, 7.0], rng.uniform(0, 100, 3), scatter, [0.0, 0.0]])
    b = a.copy()
    b[:2] *= 3
    b[5:] *= 3 * (1 + rng.normal() * 1e-16)
    for name in (PLAIN, SIZE_AWARE):
        level = merge_tree.merge_level(a, b, 4.0, 8.0, 1000.0, criterion_of(name))
        assert 0 <= level < 1e-4  # the root of what rounding leaves of logarithms of determinants


def level_of(planes, density, gradient, masks, a, b, criterion):
    """Return the merge level of two regions, from their pixels alone."""
    pixels_a, _, mean_a, sigma_a = explicit(planes, density, masks[a])
    pixels_b, _, mean_b, sigma_b = explicit(planes, density, masks[b])
    distance = reference.bhattacharyya(mean_a, sigma_a, mean_b, sigma_b)
    if criterion == PLAIN:
        return distance
    labels = np.where(masks[a], 1, np.where(masks[b], 2, 0))
    length, contrast = contacts(gradient, labels)[1, 2]
    share = pixels_a * pixels_b / ((pixels_a + pixels_b) * labels.size)
    edge = contrast / length / DEFAULT.unit_edge
    return np.sqrt(distance * np.sqrt(share / DEFAULT.unit_share)) * edge


def touching(masks):
    grown = {}
    for key, mask in masks.items():
        wide = mask.copy()
        wide[1:] |= mask[:-1]
        wide[:-1] |= mask[1:]
        wide[:, 1:] |= mask[:, :-1]
        wide[:, :-1] |= mask[:, 1:]
        grown[key] = wide
    return [(a, b) for a in masks for b in masks if a < b and (grown[a] & masks[b]).any()]


def slow_merges(planes, density, gradient, labels, min_size, criterion):
    """Alg. 2 with everything computed from pixels again after every merge."""
    masks = {k: labels == k for k in range(labels.max() + 1)}
    merges = []
    while True:
        small = [(masks[k].sum(), k) for k in masks if masks[k].sum() < min_size]
        if not small or len(masks) == 1:
            break
        r = min(small)[1]
        mean = explicit(planes, density, masks[r])[2]
        gaps = []
        for a, b in touching(masks):
            if r in (a, b):
                other = a + b - r
                gap = ((explicit(planes, density, masks[other])[2] - mean) ** 2).sum()
                gaps.append((gap, other))
        best = min(gaps)[1]
        masks[best] = masks[best] | masks.pop(r)
        merges.append((best, r, 0.0))
    forced = len(merges)
    while len(masks) > 1:
        level, a, b = min(
            (level_of(planes, density, gradient, masks, a, b, criterion), a, b)
            for a, b in touching(masks)
        )
        if masks[a].sum() < masks[b].sum():
            a, b = b, a
        masks[a] = masks[a] | masks.pop(b)
        merges.append((a, b, level))
    return merges, forced


def merged(planes, density, gradient, labels, min_size, criterion):
    """Return the tree of a scene."""
    graph = build_rag(labels, picture_of(planes, gradient), density, DEFAULT)
    return build_tree(graph, params_of(criterion), DEFAULT, min_size)


@pytest.mark.parametrize("criterion", [PLAIN, SIZE_AWARE])
@pytest.mark.parametrize("min_size", [1, 4])
@pytest.mark.parametrize("seed", range(6))
def test_build_tree_merges_closest_first_with_statistics_updated_each_time(
    seed, min_size, criterion
):
    scene = random_scene(seed)
    tree = merged(*scene, min_size, criterion)
    expected, expected_forced = slow_merges(*scene, min_size, criterion)
    assert tree.forced == expected_forced
    found = list(zip(tree.survivor.tolist(), tree.absorbed.tolist(), strict=True))
    assert found == [(a, b) for a, b, _ in expected]
    np.testing.assert_allclose(tree.level, [level for *_, level in expected], rtol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_build_tree_leaves_no_region_below_the_minimum_size(seed, min_size):
    scene = random_scene(seed, owners=12)
    labels = scene[3]
    tree = merged(*scene, min_size, SIZE_AWARE)
    segment_of_region = np.empty(labels.max() + 1, np.int32)
    merge_tree.segments_of_regions(tree.survivor, tree.absorbed, tree.forced, segment_of_region)
    sizes = np.bincount(segment_of_region[labels].ravel())
    assert sizes.size == segment_of_region.size - tree.forced
    assert sizes.min() >= min(min_size, labels.size)


@given(st.integers(0, 2**32 - 1))
def test_build_tree_ends_with_a_single_region(seed):
    scene = random_scene(seed, owners=30)
    tree = merged(*scene, 1, PLAIN)
    assert tree.survivor.size == scene[3].max()
    assert len(set(tree.absorbed.tolist())) == tree.absorbed.size
    assert not set(tree.survivor[-1:].tolist()) & set(tree.absorbed.tolist())
    assert np.isfinite(tree.level).all()


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9)), max_size=40))
def test_heap_yields_entries_in_order_ties_by_item(entries):
    keys, items = np.empty(1), np.empty(1, np.int64)
    size = 0
    for key, item in entries:
        keys, items = merge_tree.heap_with_room(keys, items, size)
        size = merge_tree.push(keys, items, size, key, np.int64(item))
    out = []
    while size:
        out.append((keys[0], int(items[0])))
        size = merge_tree.pop(keys, items, size)
    assert out == sorted(entries)


# join_singles: what merge_regions would do first, without looking for edges.


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(2, 6))
def test_join_singles_leads_to_the_partition_that_merging_by_edges_does(seed, owners, min_area):
    planes, density, gradient, labels = random_scene(seed, owners=owners)
    picture = picture_of(planes, gradient)
    finest = [
        build_tree(
            build_rag(labels, picture, density, DEFAULT, singles=singles),
            params_of(SIZE_AWARE),
            DEFAULT,
            min_area,
        ).cut(level=0.0)
        for singles in (True, False)
    ]
    by_edges, at_once = finest
    assert_joins_whole_segments(by_edges, at_once)  # the same, but for their numbers
    assert_joins_whole_segments(at_once, by_edges)


@pytest.mark.parametrize("seed", range(10))
def test_join_singles_leaves_regions_in_order_with_the_statistics_of_their_pixels(seed):
    planes, density, gradient, labels = random_scene(seed)
    picture = picture_of(planes, gradient)
    graph = build_rag(labels, picture, density, DEFAULT, singles=False)
    before = build_rag(labels, picture, density, DEFAULT)
    assert len(graph.moments) < len(before.moments)
    np.testing.assert_array_equal(np.unique(graph.regions), np.arange(len(graph.moments)))
    moments, sums = measured(planes, density, graph.regions)
    np.testing.assert_allclose(graph.moments, moments, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(graph.coordinate_sums, sums)
    assert (graph.moments[:, 0] > 1).all()


def test_join_singles_joins_the_one_beside_it_whose_colour_is_closest():
    planes = np.zeros((3, 3, 16), np.float32)
    planes[0, :, :3] = [[0, 0, 0], [0, 30, 40], [40, 40, 40]]
    labels = np.array([[0, 0, 0], [0, 1, 2], [2, 2, 2]], np.int32)
    moments, sums = measured(planes, np.ones((3, 3), np.float32), labels)
    assert merge_tree.join_singles(labels, moments, sums) == 2
    assert labels.tolist() == [[0, 0, 0], [0, 1, 1], [1, 1, 1]]
    assert moments[:2, 0].tolist() == [4, 5]


def test_join_singles_leaves_a_picture_of_one_pixel():
    labels, planes = np.zeros((1, 1), np.int32), np.zeros((3, 1, 16), np.float32)
    moments, sums = measured(planes, np.ones((1, 1), np.float32), labels)
    assert merge_tree.join_singles(labels, moments, sums) == 1
    assert labels.tolist() == [[0]]

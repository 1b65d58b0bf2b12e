"""The merge tree: every cut is a partition, coarser cuts join whole segments of finer ones."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import skimage.measure
from hypothesis import given
from hypothesis import strategies as st
from support import grids, synthetic

from aaams_stream import Params, segment_image
from aaams_stream.core import features, mean_shift
from aaams_stream.core.region_graph import MergeTree, connect_regions


@functools.cache
def tree_of(seed: int) -> MergeTree:
    rgb = grids.blurred_noise(24, 30, seed, contrast=30)
    return segment_image(rgb, Params().overridden(["post.min_size=3"])).tree


def assert_is_a_partition(labels):
    """Dense from 0 in raster order, and 4-connected."""
    names, first = np.unique(labels, return_index=True)
    np.testing.assert_array_equal(names, np.arange(names.size))
    assert np.all(np.diff(first) > 0)
    pieces = skimage.measure.label(labels, background=-1, connectivity=1)
    assert pieces.max() == names.size


def assert_joins_whole_segments(coarse, fine):
    pairs = {(int(f), int(c)) for f, c in zip(fine.ravel(), coarse.ravel(), strict=True)}
    assert len(pairs) == fine.max() + 1


@given(st.integers(0, 3), st.floats(0, 8), st.floats(0, 8))
def test_a_cut_at_a_higher_level_joins_whole_segments_of_a_lower_one(seed, one, other):
    tree = tree_of(seed)
    fine, coarse = tree.cut(level=min(one, other)), tree.cut(level=max(one, other))
    assert_is_a_partition(fine)
    assert_is_a_partition(coarse)
    assert_joins_whole_segments(coarse, fine)


@given(st.integers(0, 3), st.integers(1, 400))
def test_as_many_segments_come_out_as_were_asked_for(seed, segments):
    tree = tree_of(seed)
    labels = tree.cut(segments=segments)
    assert_is_a_partition(labels)
    assert labels.max() + 1 == min(segments, tree.finest)
    assert_joins_whole_segments(labels, tree.cut(level=0.0))


def test_the_trees_under_test_are_worth_testing():
    assert all(tree_of(seed).finest > 20 for seed in range(4))


def test_level_zero_is_the_finest_partition_and_infinity_a_single_segment():
    tree = tree_of(0)
    assert tree.cut(level=0.0).max() + 1 == tree.finest
    assert tree.cut(level=np.inf).max() == 0
    np.testing.assert_array_equal(tree.cut(segments=10**9), tree.cut(level=0.0))


def test_a_cut_by_number_and_one_by_level_agree():
    tree = tree_of(1)
    labels = tree.cut(level=1.0)
    np.testing.assert_array_equal(labels, tree.cut(segments=int(labels.max()) + 1))


def test_segments_below_the_minimum_size_are_in_no_cut():
    tree = tree_of(2)
    assert np.bincount(tree.cut(level=0.0).ravel()).min() >= 3
    assert np.bincount(tree.leaves.ravel()).min() < 3


@pytest.mark.parametrize("criterion", ["bhattacharyya", "size-aware"])
def test_a_threshold_of_zero_switches_merging_off(criterion):
    params = Params().overridden(
        [f"post.criterion={criterion}", "post.level=0", "post.bhattacharyya=0", "post.min_size=1"]
    )
    result = segment_image(grids.blurred_noise(24, 30, contrast=30), params)
    np.testing.assert_array_equal(result.labels, result.tree.leaves)


def test_a_cut_does_not_change_the_tree():
    tree = tree_of(0)
    before = tree.cut(segments=7)
    tree.cut(segments=1)
    np.testing.assert_array_equal(tree.cut(segments=7), before)


def test_a_weak_edge_does_not_chain_two_surfaces_together():
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
def test_a_cut_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tree_of(0).cut(**arguments)


def test_a_tree_checks_its_shapes():
    leaves = np.zeros((2, 2), np.int32)
    none, one = np.zeros(0, np.int32), np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="one row per merge"):
        MergeTree(leaves, one, none, np.zeros(1), 0)
    with pytest.raises(ValueError, match=r"forced must lie in 0\.\.1, got 2"):
        MergeTree(leaves, one, one, np.zeros(1), 2)


def test_one_colour_has_a_tree_without_merges():
    tree = segment_image(synthetic.flat().rgb).tree
    assert tree.finest == 1
    assert tree.level.size == 0
    assert tree.cut(segments=5).max() == 0


def test_the_colours_of_a_coarser_partition_are_those_of_its_pixels():
    rgb = grids.blurred_noise(24, 30, contrast=30)
    planes = features.lab_planes(rgb)
    owner = tree_of(0).leaves
    ones = np.ones(owner.shape, np.float32)
    graph = connect_regions(owner, planes, ones, features.edge_strength(planes, 30))
    labels = tree_of(0).cut(segments=7).astype(np.int32)
    holders = tree_of(0).holders(segments=7)
    colours, spread = graph.colours(holders, 2.0)
    np.testing.assert_array_equal(graph.areas(holders), np.bincount(labels.ravel()))
    for label in range(7):
        pixels = planes[:, :, :30][:, labels == label].astype(np.float64)
        variance = np.cov(pixels, bias=True)
        np.testing.assert_allclose(colours[label, :3], pixels.mean(axis=1), rtol=1e-5)
        inverse = np.linalg.inv(variance + 2.0 * np.eye(3))[np.triu_indices(3)]
        np.testing.assert_allclose(colours[label, 3:], inverse, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(spread[label], pixels.shape[1] * np.trace(variance), rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_densest_pixel_of_joined_pieces_is_the_densest_of_the_whole(seed):
    """Also where densities are equal, which is where the first pixel counts."""
    rng = np.random.default_rng(seed)
    pieces = tree_of(0).cut(segments=12).astype(np.int32)
    density = rng.choice(np.float32([0.25, 0.5, 1.0]), pieces.shape)
    segments = np.append(rng.permutation(4), rng.integers(0, 4, 8))
    expected = mean_shift.densest_pixels(segments[pieces].astype(np.int32), density)
    densest = mean_shift.densest_pixels(pieces, density)
    np.testing.assert_array_equal(mean_shift.densest_of_all(densest, density, segments), expected)


def test_bandwidths_are_the_inverses_of_precisions():
    rng = np.random.default_rng(0)
    precision = np.zeros((20, 5, 5))
    for block in (slice(3), slice(3, 5)):
        root = rng.normal(size=(20, 5, 5))[:, block, block]
        precision[:, block, block] = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(5)[block, block]
    rows = np.zeros((20, 10), np.float32)
    rows[:, :6] = precision[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    rows[:, 6:9] = precision[:, [3, 3, 4], [3, 4, 4]]
    found = mean_shift.Modes(rows[:, :5], rows, rows, rows[:, 0]).bandwidths()
    np.testing.assert_allclose(found, np.linalg.inv(precision), rtol=1e-4, atol=1e-4)

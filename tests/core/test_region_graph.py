"""Components, region statistics and merging closest first, against slow and obvious oracles."""

from __future__ import annotations

import numpy as np
import pytest
import skimage.measure
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support import reference

from aaams_stream.core.region_graph import build_tree, connect_regions
from aaams_stream.kernels import merge_tree, region_graph
from aaams_stream.params import PostParams

FLOOR = 5.0

label_maps = arrays(
    np.int32,
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    elements=st.integers(0, 3),
)


def components(owner):
    labels = np.empty(owner.shape, np.int32)
    return labels, region_graph.label_components(np.ascontiguousarray(owner, np.int32), labels)


def raster_order(labels):
    """Rename labels by first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].reshape(labels.shape)


@given(label_maps)
def test_components_are_those_of_scikit_image_in_raster_order(owner):
    labels, count = components(owner)
    expected = raster_order(skimage.measure.label(owner, background=-1, connectivity=1))
    np.testing.assert_array_equal(labels, expected)
    assert count == expected.max() + 1


def test_a_spiral_is_one_component():
    """Its arms meet late, which is what simple one-pass labelling gets wrong."""
    spiral = np.array(
        [
            [1, 1, 1, 1, 1],
            [0, 0, 0, 0, 1],
            [1, 1, 1, 0, 1],
            [1, 0, 0, 0, 1],
            [1, 1, 1, 1, 1],
        ]
    )
    labels, count = components(spiral)
    assert count == 2
    np.testing.assert_array_equal(labels, 1 - spiral)


def measured(planes, density, labels):
    moments = np.zeros((int(labels.max()) + 1, 13))
    region_graph.measure_regions(planes, density, labels, moments)
    return moments


def random_scene(seed, height=7, width=8, owners=4):
    rng = np.random.default_rng(seed)
    planes = rng.uniform(0, 60, (3, height, 16)).astype(np.float32)
    density = rng.uniform(0.05, 1, (height, width)).astype(np.float32)
    strength = rng.uniform(0.1, 9, (height, width)).astype(np.float32)
    labels, _ = components(rng.integers(0, owners, (height, width)))
    return planes, density, strength, labels


def explicit(planes, density, mask):
    """Pixels, density weight, mean colour and Σ of a region, from its pixels."""
    colours = planes[:, :, : mask.shape[1]][:, mask].T.astype(np.float64)
    rho = density[mask].astype(np.float64)
    mean = rho @ colours / rho.sum()
    centred = colours - mean
    sigma = np.einsum("p,pa,pb->ab", rho, centred, centred) / rho.sum() + FLOOR * np.eye(3)
    return mask.sum(), rho.sum(), mean, sigma


@pytest.mark.parametrize("seed", range(5))
def test_region_moments_are_density_weighted(seed):
    planes, density, _, labels = random_scene(seed)
    for label, row in enumerate(measured(planes, density, labels)):
        pixels, weight, mean, sigma = explicit(planes, density, labels == label)
        assert row[0] == pixels
        assert row[1] == pytest.approx(weight)
        np.testing.assert_allclose(row[2:5], mean, rtol=1e-9)
        triangle = (sigma - FLOOR * np.eye(3))[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
        np.testing.assert_allclose(row[5:11] / row[1], triangle, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_absorbing_a_region_gives_the_moments_of_both(seed):
    planes, density, _, labels = random_scene(seed)
    moments = measured(planes, density, labels)
    both = measured(planes, density, np.where(labels == 1, 0, labels).astype(np.int32))
    merge_tree.absorb(moments, 0, 1)
    np.testing.assert_allclose(moments[0], both[0], rtol=1e-9, atol=1e-9)


def test_motion_is_that_of_the_pixels_against_the_scene_and_is_pooled_by_area():
    rng = np.random.default_rng(4)
    planes, density, _, labels = random_scene(4)
    flow = rng.normal(0, 5, (*labels.shape, 2)).astype(np.float32)
    scene = np.array([1.0, -2.0])
    moments = measured(planes, density, labels)
    region_graph.measure_motion(flow, scene, labels, moments)
    for label, row in enumerate(moments):
        expected = scene - flow[labels == label].mean(axis=0, dtype=np.float64)
        np.testing.assert_allclose(row[11:], expected)
    merge_tree.absorb(moments, 0, 1)
    expected = scene - flow[labels <= 1].mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(moments[0, 11:], expected)


def test_regions_that_part_are_further_apart_and_moving_ones_resist_newcomers():
    planes, density, _, labels = random_scene(2)
    moments = measured(planes, density, labels)
    call = (10.0, 30.0, merge_tree.SIZE_AWARE, FLOOR, 500.0, np.inf)
    at_rest = merge_tree.merge_level(moments[0], moments[1], *call)
    moments[:2, 11] = 7.0
    assert merge_tree.merge_level(moments[0], moments[1], *call) == at_rest
    moments[1, 11] += 10**0.5
    apart = merge_tree.merge_level(moments[0], moments[1], *call)
    assert apart == pytest.approx(2**0.5 * at_rest)
    moments[:2, 11:] = [[2**0.5, 0.0], [0.0, 0.0]]
    for old, factor in (([5, -1], 2**0.5), ([-1, 5], 1.0), ([-1, -1], 1.0), ([5, 6], 1.0)):
        found = merge_tree.resistance(moments, 0, 1, np.array(old, np.int32))
        assert found == pytest.approx(factor)


def test_what_would_be_bulky_merges_less_readily():
    planes, density, _, labels = random_scene(2)
    moments = measured(planes, density, labels)
    a, b = moments[:2]
    pixels = 10 * (a[0] + b[0])
    call = (a, b, 10.0, 30.0, merge_tree.SIZE_AWARE, FLOOR, pixels)
    free, held, small = (merge_tree.merge_level(*call, bulk) for bulk in (np.inf, 0.1, 100.0))
    assert held == pytest.approx(2**0.5 * free)
    assert small == pytest.approx(free)


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_of_regions_is_the_bhattacharyya_distance(seed):
    planes, density, _, labels = random_scene(seed)
    moments = measured(planes, density, labels)
    for a, b in [(0, 1), (1, 2), (0, 3)]:
        _, _, mean_a, sigma_a = explicit(planes, density, labels == a)
        _, _, mean_b, sigma_b = explicit(planes, density, labels == b)
        expected = reference.bhattacharyya(mean_a, sigma_a, mean_b, sigma_b)
        assert merge_tree.bhattacharyya(moments[a], moments[b], FLOOR) == pytest.approx(expected)


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_regions_alike_merge_at_level_zero_and_never_at_nan(seed, spread):
    """Rounding may take the distance of two equal distributions below 0, and its root to NaN."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3)) * spread
    scatter = (root @ root.T)[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    a = np.concatenate([[20.0, 7.0], rng.uniform(0, 100, 3), scatter, [0.0, 0.0]])
    b = a.copy()
    b[:2] *= 3
    b[5:] *= 3 * (1 + rng.normal() * 1e-16)
    for criterion in (merge_tree.PLAIN, merge_tree.SIZE_AWARE):
        level = merge_tree.merge_level(a, b, 4.0, 8.0, criterion, FLOOR, 1000.0, np.inf)
        assert 0 <= level < 1e-6


def edges_of(strength, labels):
    capacity = 1 << int(2 * region_graph.count_contacts(labels) + 1).bit_length()
    return region_graph.find_edges(strength, labels, capacity)


def contacts(strength, labels):
    """Contact length and edge strength of each touching pair, by looking at all pixel pairs."""
    found = {}
    h, w = labels.shape
    for y in range(h):
        for x in range(w):
            for v, u in ((y, x + 1), (y + 1, x)):
                if v < h and u < w and labels[y, x] != labels[v, u]:
                    pair = tuple(sorted((int(labels[y, x]), int(labels[v, u]))))
                    length, contrast = found.get(pair, (0, 0.0))
                    mean = (float(strength[y, x]) + float(strength[v, u])) / 2
                    found[pair] = (length + 1, contrast + mean)
    return found


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9), st.integers(1, 50))
def test_edges_are_all_pairs_of_touching_regions(seed, height, width, owners):
    _, _, strength, labels = random_scene(seed, height, width, owners)
    expected = contacts(strength, labels)
    first, second, length, contrast = edges_of(strength, labels)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    assert pairs == list(expected)  # in raster order of the first contact
    for pair, n, total in zip(pairs, length, contrast, strict=True):
        assert n == expected[pair][0]
        assert total == pytest.approx(expected[pair][1])
    assert region_graph.count_contacts(labels) == length.sum()


def level_of(planes, density, strength, masks, a, b, criterion):
    """Return the merge level of two regions, from their pixels alone."""
    pixels_a, _, mean_a, sigma_a = explicit(planes, density, masks[a])
    pixels_b, _, mean_b, sigma_b = explicit(planes, density, masks[b])
    distance = reference.bhattacharyya(mean_a, sigma_a, mean_b, sigma_b)
    if criterion == merge_tree.PLAIN:
        return distance
    labels = np.where(masks[a], 1, np.where(masks[b], 2, 0))
    length, contrast = contacts(strength, labels)[1, 2]
    share = pixels_a * pixels_b / ((pixels_a + pixels_b) * labels.size)
    edge = contrast / length / merge_tree._EDGE
    return np.sqrt(distance * np.sqrt(share / merge_tree._SHARE)) * edge


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


def slow_merges(planes, density, strength, labels, min_size, criterion):
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
            (level_of(planes, density, strength, masks, a, b, criterion), a, b)
            for a, b in touching(masks)
        )
        if masks[a].sum() < masks[b].sum():
            a, b = b, a
        masks[a] = masks[a] | masks.pop(b)
        merges.append((a, b, level))
    return merges, forced


def merged(planes, density, strength, labels, min_size, criterion):
    name = "bhattacharyya" if criterion == merge_tree.PLAIN else "size-aware"
    graph = connect_regions(labels, planes, density, strength)
    tree = build_tree(graph, PostParams(criterion=name), min_size, FLOOR)
    return tree.survivor, tree.absorbed, tree.level, tree.forced


@pytest.mark.parametrize("criterion", [merge_tree.PLAIN, merge_tree.SIZE_AWARE])
@pytest.mark.parametrize("min_size", [1, 4])
@pytest.mark.parametrize("seed", range(6))
def test_merging_goes_closest_first_with_statistics_updated_each_time(seed, min_size, criterion):
    scene = random_scene(seed)
    survivor, absorbed, level, forced = merged(*scene, min_size, criterion)
    expected, expected_forced = slow_merges(*scene, min_size, criterion)
    assert forced == expected_forced
    found = list(zip(survivor.tolist(), absorbed.tolist(), strict=True))
    assert found == [(a, b) for a, b, _ in expected]
    np.testing.assert_allclose(level, [key for *_, key in expected], rtol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_no_region_below_the_minimum_size_survives(seed, min_size):
    scene = random_scene(seed, owners=12)
    survivor, absorbed, _, forced = merged(*scene, min_size, merge_tree.SIZE_AWARE)
    holders = np.empty(scene[3].max() + 1, np.int32)
    merge_tree.hold_leaves(survivor, absorbed, forced, holders)
    sizes = np.bincount(holders[scene[3]].ravel())
    assert sizes.size == holders.size - forced
    assert sizes.min() >= min(min_size, scene[3].size)


@given(st.integers(0, 2**32 - 1))
def test_merging_ends_with_a_single_region(seed):
    scene = random_scene(seed, owners=30)
    survivor, absorbed, level, _ = merged(*scene, 1, merge_tree.PLAIN)
    assert survivor.size == scene[3].max()
    assert len(set(absorbed.tolist())) == absorbed.size
    assert not set(survivor[-1:].tolist()) & set(absorbed.tolist())
    assert np.isfinite(level).all()


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9)), max_size=40))
def test_the_heap_yields_entries_in_order_ties_by_item(entries):
    keys, items = np.empty(1), np.empty(1, np.int64)
    size = 0
    for key, item in entries:
        keys, items = merge_tree.with_room(keys, items, size)
        size = merge_tree.push(keys, items, size, key, np.int64(item))
    out = []
    while size:
        out.append((keys[0], int(items[0])))
        size = merge_tree.pop(keys, items, size)
    assert out == sorted(entries)


@given(st.integers(0, 2**32 - 1))
def test_the_densest_cluster_that_stands_in_a_region_is_found_and_ties_go_to_the_last(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, (6, 8)).astype(np.int32)
    location = rng.uniform(-1, 9, (20, 5)).astype(np.float32)
    rho = rng.choice(np.float32([0.25, 0.5, 1.0]), 20)
    clusters = rng.permutation(20)[:12].astype(np.int32)
    best = np.empty(6, np.int32)
    region_graph.densest_clusters(labels, clusters, location, rho, best)
    column = np.clip(np.rint(location[:, 3]), 0, 7).astype(int)
    row = np.clip(np.rint(location[:, 4]), 0, 5).astype(int)
    expected = np.full(6, -1)
    for c in clusters[np.argsort(rho[clusters], kind="stable")]:
        expected[labels[row[c], column[c]]] = c
    np.testing.assert_array_equal(best, expected)


def test_the_densest_pixel_of_a_region_is_found_and_ties_go_to_the_first():
    labels = np.array([[0, 0, 1], [0, 1, 1]], np.uint32)
    density = np.array([[0.1, 0.7, 0.3], [0.7, 0.9, 0.9]], np.float32)
    best = np.empty(2, np.int64)
    region_graph.densest_pixels(labels, density, best)
    assert best.tolist() == [1, 4]


def test_labels_are_renamed_and_those_below_0_stay():
    labels = np.array([[0, 2, -1], [1, -2, 2]], np.int32)
    out = np.empty_like(labels)
    region_graph.rename(labels, np.array([7, 5, -2], np.int32), out)
    assert out.tolist() == [[7, -2, -1], [5, -2, -2]]
    region_graph.rename(labels, np.array([7, 5, -2], np.int32), labels)
    np.testing.assert_array_equal(labels, out)

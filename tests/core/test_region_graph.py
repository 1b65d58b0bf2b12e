"""The region adjacency graph: components, statistics and contacts, against obvious oracles."""

from __future__ import annotations

import numpy as np
import pytest
import skimage.measure
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support import grids
from support.region_scenes import (
    FLOOR,
    components,
    contacts,
    explicit,
    measured,
    picture_of,
    random_scene,
)

from aaams_stream import Params, segment_image
from aaams_stream.core import features
from aaams_stream.core.pairs import find_pairs
from aaams_stream.core.region_graph import build_rag
from aaams_stream.core.tuning import DEFAULT
from aaams_stream.kernels import region_graph

label_maps = arrays(
    np.int32,
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    elements=st.integers(0, 3),
)


def raster_order(labels):
    """Rename labels by first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].reshape(labels.shape)


@given(label_maps)
def test_label_components_are_those_of_scikit_image_in_raster_order(owner):
    labels, count = components(owner)
    expected = raster_order(skimage.measure.label(owner, background=-1, connectivity=1))
    np.testing.assert_array_equal(labels, expected)
    assert count == expected.max() + 1


def test_label_components_finds_that_a_spiral_is_one():
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


def comb(height, width):
    """Every other column hangs together at the bottom only."""
    owner = np.indices((height, width))[1] % 2
    owner[-1] = 1
    return owner


def spiral(height, width):
    """One arm that winds inwards, turn by turn, and the ground between its turns."""
    owner = np.zeros((height, width), int)
    y, x, dy, dx = 0, 0, 0, 1
    for _ in range(height * width):
        owner[y, x] = 1
        for _ in range(2):
            ahead, beyond = (y + dy, x + dx), (y + 2 * dy, x + 2 * dx)
            inside = 0 <= ahead[0] < height and 0 <= ahead[1] < width
            far = 0 <= beyond[0] < height and 0 <= beyond[1] < width
            if inside and not owner[ahead] and not (far and owner[beyond]):
                y, x = ahead
                break
            dy, dx = dx, -dy
    return owner


AWKWARD = {
    "comb": comb,
    "comb upside down": lambda h, w: comb(h, w)[::-1],
    "comb with teeth to the left": lambda h, w: comb(w, h).T,
    "spiral": spiral,
    "spiral the other way round": lambda h, w: spiral(h, w)[::-1, ::-1],
    "checkerboard": lambda h, w: np.indices((h, w)).sum(axis=0) % 2,
    "stripes down": lambda h, w: np.indices((h, w)).sum(axis=0) // 3,
    "stripes up": lambda h, w: np.subtract(*np.indices((h, w))) // 3,
    "one colour": lambda h, w: np.full((h, w), -7),
    "least and largest": lambda h, w: np.where(comb(h, w), 2**31 - 1, -(2**31)),
    "noise at which all hangs together or not": lambda h, w: (
        np.random.default_rng(h * w).random((h, w)) < 0.59
    ),
}


@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (2, 7), (9, 8), (16, 17), (31, 39)])
def test_label_components_of_awkward_maps_are_those_of_scikit_image(kind, shape):
    owner = AWKWARD[kind](*shape)
    labels, count = components(owner)
    apart = np.unique(owner, return_inverse=True)[1].reshape(shape)
    expected = raster_order(skimage.measure.label(apart, background=-1, connectivity=1))
    np.testing.assert_array_equal(labels, expected)
    assert count == expected.max() + 1


def test_awkward_maps_are_what_they_are_called():
    assert components(spiral(31, 39))[1] == 2
    assert components(comb(9, 8))[1] == 1 + 4
    assert components(AWKWARD["checkerboard"](9, 8))[1] == 72


@pytest.mark.parametrize("seed", range(5))
def test_measure_regions_gives_density_weighted_moments(seed):
    planes, density, _, labels = random_scene(seed)
    for label, row in enumerate(measured(planes, density, labels)[0]):
        pixels, weight, mean, sigma = explicit(planes, density, labels == label)
        assert row[0] == pixels
        assert row[1] == pytest.approx(weight)
        np.testing.assert_allclose(row[2:5], mean, rtol=1e-9)
        triangle = (sigma - FLOOR * np.eye(3))[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
        np.testing.assert_allclose(row[5:11] / row[1], triangle, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_measure_regions_rounds_no_more_than_float32_does(seed):
    """Runs are summed in float32: long ones, of colours that spread as those of a photograph."""
    rng = np.random.default_rng(seed)
    planes = rng.normal([[[60]], [[10]], [[-20]]], 12, (3, 40, 800)).astype(np.float32)
    density = rng.uniform(0.05, 1, (40, 800)).astype(np.float32)
    labels = np.zeros((40, 800), np.int32)
    labels[:, 700:] = 1
    for label, row in enumerate(measured(planes, density, labels)[0]):
        _, weight, mean, sigma = explicit(planes, density, labels == label)
        assert row[1] == pytest.approx(weight, rel=1e-6)
        np.testing.assert_allclose(row[2:5], mean, atol=1e-5)
        triangle = (sigma - FLOOR * np.eye(3))[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
        np.testing.assert_allclose(row[5:11] / row[1], triangle, rtol=1e-5, atol=1e-3)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 16))
def test_measure_regions_sums_the_places_of_pixels(seed, height, width):
    planes, density, _, labels = random_scene(seed, height, width)
    y, x = np.indices(labels.shape)
    for label, (across, down) in enumerate(measured(planes, density, labels)[1]):
        here = labels == label
        assert (across, down) == (x[here].sum(), y[here].sum())


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 16))
def test_measure_regions_takes_one_row_of_density_for_all_rows(seed, height, width):
    planes, density, _, labels = random_scene(seed, height, width)
    alike = density[:1].repeat(height, axis=0)
    for one, every in zip(
        measured(planes, density[:1], labels), measured(planes, alike, labels), strict=True
    ):
        np.testing.assert_array_equal(one, every)


def test_measure_motion_is_that_of_the_pixels_against_the_scene():
    rng = np.random.default_rng(4)
    planes, density, _, labels = random_scene(4)
    flow = rng.normal(0, 5, (*labels.shape, 2)).astype(np.float32)
    scene = np.array([1.0, -2.0])
    moments, _ = measured(planes, density, labels)
    region_graph.measure_motion(flow, scene, labels, moments)
    for label, row in enumerate(moments):
        expected = scene - flow[labels == label].mean(axis=0, dtype=np.float64)
        np.testing.assert_allclose(row[11:], expected)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 50),
    st.integers(0, 100),
)
def test_find_edges_lists_all_pairs_of_touching_regions(seed, height, width, owners, expected):
    """However many pairs were expected."""
    planes, _, gradient, labels = random_scene(seed, height, width, owners)
    smooth = picture_of(planes, gradient).smooth
    pairs = contacts(gradient, labels)
    views = gradient, smooth, labels
    first, second, sums = find_pairs(region_graph.find_edges, *views, expected=expected, sums=3)
    length, contrast, step = sums.T
    found = list(zip(first.tolist(), second.tolist(), strict=True))
    assert found == list(pairs)  # in raster order of the first contact
    for pair, n, total in zip(found, length, contrast, strict=True):
        assert n == pairs[pair][0]
        assert total == pytest.approx(pairs[pair][1])
    lab = smooth.astype(np.float64)
    steps = sum(
        (
            np.sqrt((np.diff(lab, axis=axis + 1) ** 2).sum(axis=0))
            * (np.diff(labels, axis=axis) != 0)
        ).sum()
        for axis in (0, 1)
    )
    assert step.sum() == pytest.approx(steps, rel=1e-5)
    sides = sum(np.count_nonzero(np.diff(labels, axis=axis)) for axis in (0, 1))
    assert sides == length.sum()


@pytest.mark.parametrize("seed", range(5))
def test_build_rag_gives_the_motion_of_regions_only_where_there_is_a_flow(seed):
    planes, density, gradient, labels = random_scene(seed, 20, 14)
    flow = np.random.default_rng(seed).normal(0, 5, (*labels.shape, 2)).astype(np.float32)
    picture = picture_of(planes, gradient)
    still, moving = (build_rag(labels, picture, density, DEFAULT, f) for f in (None, flow))
    np.testing.assert_array_equal(still.regions, labels)
    assert not still.moments[:, 11:].any()
    np.testing.assert_array_equal(still.moments[:, :11], moving.moments[:, :11])
    stride = DEFAULT.scene_stride
    scene = np.median(flow[::stride, ::stride].reshape(-1, 2), axis=0)
    for label, row in enumerate(moving.moments):
        np.testing.assert_allclose(row[11:], scene - flow[labels == label].mean(axis=0), atol=1e-4)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_pool_regions_gives_segments_the_moments_of_their_pixels(seed, count):
    """Segments of one pixel among them, and of regions that do not touch."""
    rng = np.random.default_rng(seed)
    planes, density, _, labels = random_scene(seed, 7, 11)
    moments, sums = measured(planes, density, labels)
    count = min(count, len(moments))
    segment_of_region = np.append(
        np.arange(count), rng.integers(0, count, len(moments) - count)
    ).astype(np.int32)
    rng.shuffle(segment_of_region)
    area, centre = np.full(count, 7, np.int64), np.full((count, 2), 7.0)
    colours, sse = np.empty((count, 9), np.float32), np.empty(count)
    region_graph.pool_regions(moments, sums, segment_of_region, FLOOR, area, centre, colours, sse)
    segments = segment_of_region[labels]
    y, x = np.indices(labels.shape)
    for segment in range(count):
        here = segments == segment
        pixels, weight, mean, sigma = explicit(planes, density, here)
        assert area[segment] == pixels
        np.testing.assert_allclose(centre[segment], [x[here].mean(), y[here].mean()])
        np.testing.assert_allclose(colours[segment, :3], mean, rtol=1e-6)
        inverse = np.linalg.inv(sigma)[np.triu_indices(3)]
        np.testing.assert_allclose(colours[segment, 3:], inverse, rtol=1e-4, atol=1e-7)
        squares = weight * (np.trace(sigma) - 3 * FLOOR)
        assert sse[segment] == pytest.approx(squares, abs=1e-8)


def test_pooled_regions_have_the_colours_of_their_pixels():
    rgb = grids.blurred_noise(24, 30, contrast=30)
    tree = segment_image(rgb, Params().overridden(["post.min_size=3"])).tree
    picture = features.picture(rgb)
    ones = np.ones(tree.regions.shape, np.float32)
    graph = build_rag(tree.regions, picture, ones, DEFAULT)
    labels = tree.cut(segments=7).astype(np.int32)
    segments = graph.pooled(tree.segment_of_region(segments=7), 2.0)
    np.testing.assert_array_equal(segments.area, np.bincount(labels.ravel()))
    for label in range(7):
        y, x = np.nonzero(labels == label)
        pixels = picture.planes[:, y, x].astype(np.float64)
        variance = np.cov(pixels, bias=True)
        np.testing.assert_allclose(segments.centre[label], [x.mean(), y.mean()])
        mean, inverse = segments.colours[label, :3], segments.colours[label, 3:]
        np.testing.assert_allclose(mean, pixels.mean(axis=1), rtol=1e-5)
        expected = np.linalg.inv(variance + 2.0 * np.eye(3))[np.triu_indices(3)]
        np.testing.assert_allclose(inverse, expected, rtol=1e-4, atol=1e-6)
        sse = pixels.shape[1] * np.trace(variance)
        np.testing.assert_allclose(segments.colour_sse[label], sse, rtol=1e-6)

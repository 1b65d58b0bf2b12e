"""The modes that segments stand on: densest pixels and clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import grids

from aaams_stream import segment_image
from aaams_stream.core import packed
from aaams_stream.core.clusters import ClusterGrid, base_precision
from aaams_stream.core.modes import densest_pixels, find_modes
from aaams_stream.kernels import modes as kernels
from aaams_stream.params import Params


@pytest.mark.parametrize("seed", range(5))
def test_densest_pixels_of_segments_made_of_regions_are_those_of_the_whole(seed):
    """Also where densities are equal, which is where the first pixel counts."""
    rng = np.random.default_rng(seed)
    tree = segment_image(grids.blurred_noise(24, 30, contrast=30)).tree
    regions = tree.cut(segments=12).astype(np.int32)
    density = rng.choice(np.float32([0.25, 0.5, 1.0]), regions.shape)
    segments = np.append(rng.permutation(4), rng.integers(0, 4, 8)).astype(np.int32)
    flat, whole = density.reshape(-1), segments[regions].reshape(-1)
    expected = [np.flatnonzero(whole == n)[flat[whole == n].argmax()] for n in range(4)]
    assert densest_pixels(regions, segments, density).tolist() == expected


def make_grid(position, rho):
    """Return a grid of 6 x 8 pixels with these clusters."""
    planes = np.random.default_rng(1).uniform(0, 60, (3, 6, 16)).astype(np.float32)
    density = np.random.default_rng(2).uniform(0, 1, (6, 8)).astype(np.float32)
    start = np.zeros((6, 8), np.int32)
    grid = ClusterGrid.begin(planes, density, start, len(rho), np.zeros((6, 8), np.uint8))
    grid.clusters.position[:], grid.clusters.rho[:] = position, rho
    grid.clusters.bearing[:] = np.arange(5)
    return grid


@given(st.integers(0, 2**32 - 1))
def test_densest_clusters_stand_in_their_region_and_ties_go_to_the_last(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, (6, 8)).astype(np.int32)
    position = rng.uniform(-1, 9, (20, 5)).astype(np.float32)
    rho = rng.choice(np.float32([0.25, 0.5, 1.0]), 20)
    which = rng.permutation(20)[:12].astype(np.int32)
    best = np.empty(6, np.int32)
    kernels.densest_clusters(labels, which, make_grid(position, rho).clusters, best)
    column = np.clip(np.rint(position[:, 3]), 0, 7).astype(int)
    row = np.clip(np.rint(position[:, 4]), 0, 5).astype(int)
    expected = np.full(6, -1)
    for c in which[np.argsort(rho[which], kind="stable")]:
        expected[labels[row[c], column[c]]] = c
    np.testing.assert_array_equal(best, expected)


def test_densest_pixels_are_the_first_of_equals():
    labels = np.array([[0, 0, 1], [0, 1, 1]], np.int32)
    density = np.array([[0.1, 0.7, 0.3], [0.7, 0.9, 0.9]], np.float32)
    assert densest_pixels(labels, np.int32([0, 1]), density).tolist() == [1, 4]


def test_find_modes_takes_the_densest_cluster_inside_or_else_the_densest_pixel():
    labels = np.repeat(np.int32([[0, 1]]), [4, 4], axis=1).repeat(6, axis=0)
    position = np.float32([[50, 1, 2, 1, 1], [60, 3, 4, 2, 5], [70, 5, 6, 3, 3]])
    grid = make_grid(position, np.float32([0.4, 0.9, 0.7]))
    clusters, pixels = grid.clusters, grid.pixels
    clusters.precision[:] = np.arange(30).reshape(3, 10)
    clusters.trajectory[:] = np.arange(45).reshape(3, 15)
    densest = densest_pixels(labels, np.int32([0, 1]), pixels.density)
    which = np.int32([0, 2])  # not the densest of all
    found = find_modes(labels, densest, grid, which, Params())
    np.testing.assert_array_equal(found.position[0], position[2])
    np.testing.assert_array_equal(found.precision[0], clusters.precision[2])
    np.testing.assert_array_equal(found.trajectory[0], clusters.trajectory[2])
    assert found.density[0] == np.float32(0.7)
    y, x = np.divmod(densest[1], 8)
    place = np.float32([*pixels.planes[:, y, x], x, y]) + np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(found.position[1], place)
    np.testing.assert_array_equal(found.precision[1], base_precision(Params()))
    assert found.density[1] == pixels.density[y, x]
    assert found.trajectory[1, packed.WEIGHT] == found.density[1]
    np.testing.assert_array_equal(found.trajectory[1, packed.MEAN], place)
    assert not found.trajectory[1, 6:].any()

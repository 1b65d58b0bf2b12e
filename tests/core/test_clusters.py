"""The working memory of Alg. 1: a grid to begin with, and its numbers as kernels want them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from support import grids
from support.label_maps import label_maps

from aaams_stream.core import features
from aaams_stream.core.clusters import ClusterGrid, base_precision, kernel_scales
from aaams_stream.core.tuning import Tuning
from aaams_stream.params import Params

PARAMS = Params().updated(
    {
        "colour": {"sigma2": grids.SIGMA2_COLOUR, "epsilon2": 4.0},
        "space": {"sigma2": grids.SIGMA2_SPACE, "epsilon2": 16.0},
    }
)


def test_cluster_grid_of_pixels_begins_with_every_pixel_a_cluster_of_its_own():
    planes = features.lab_planes(grids.blurred_noise(5, 7))
    assert planes.shape[2] > 7  # rows are padded
    grid = ClusterGrid.of_pixels(planes, 7)
    everyone = np.arange(35)
    for each in (grid.pixels.start, grid.pixels.owner):
        np.testing.assert_array_equal(each, everyone.reshape(5, 7))
    np.testing.assert_array_equal(grid.clusters.parent, everyone)
    assert (grid.clusters.members == 1).all()
    assert not grid.clusters.changed.any()


@given(label_maps(0, 6))
def test_cluster_grid_begins_with_owners_that_may_change_while_the_start_is_kept(start):
    planes = np.zeros((3, *start.shape), np.float32)
    density, adaptive = np.ones(start.shape, np.float32), np.zeros(start.shape, np.uint8)
    before = start.copy()
    grid = ClusterGrid.begin(planes, density, start, 7, adaptive)
    assert {len(column) for column in grid.clusters} == {7}
    grid.pixels.owner[:] = 6
    np.testing.assert_array_equal(grid.pixels.start, before)
    np.testing.assert_array_equal(start, before)


def test_cluster_grid_counts_as_alive_who_was_not_absorbed():
    grid, _ = grids.make_grid(2, 3)
    grid.clusters.parent[:] = [0, 0, 2, 2, 4, 3]
    assert grid.alive(np.arange(6, dtype=np.int32)).tolist() == [0, 2, 4]
    assert grid.alive(np.array([5, 4, 1, 0], np.int32)).tolist() == [4, 0]


def test_kernel_scales_are_the_settings_as_kernels_want_them():
    tuning = Tuning(variance_floor=0.25, adaptive_members=9)
    scales = kernel_scales(PARAMS, tuning)
    assert scales == grids.SCALES
    assert kernel_scales(PARAMS, tuning, 3) == grids.SCALES._replace(thin=3)
    assert all(type(value) is np.float32 for value in scales[:-2])


def test_base_precision_is_the_inverse_of_the_base_bandwidth():
    row = base_precision(PARAMS)
    assert row.dtype == np.float32
    np.testing.assert_allclose(row, grids.precision_row(grids.BASE), rtol=1e-6)

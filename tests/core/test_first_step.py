"""The first step of single pixels."""

from __future__ import annotations

import numpy as np
import pytest
from support import grids

from aaams_stream.core import features
from aaams_stream.core.clusters import ClusterGrid, base_precision
from aaams_stream.core.mean_shift import base_window
from aaams_stream.kernels import mean_shift
from aaams_stream.params import Params

PARAMS = Params().updated(
    {"colour": {"sigma2": grids.SIGMA2_COLOUR}, "space": {"sigma2": grids.SIGMA2_SPACE}}
)
BASE = base_precision(PARAMS)


def first_steps(planes, width, where, density_scale=1.0, which=None):
    """Run first_step for the pixels `where`, which found the clusters `which`, else their own.

    Returns bearing, position and density; what is not written is not a number.
    """
    grid = stepped(planes, width, where, density_scale, which)
    return grid.clusters.bearing, grid.clusters.position, grid.pixels.density


def stepped(planes, width, where, density_scale, which=None, thin=1):
    """Run first_step; return the grid, in which nothing else is a number."""
    grid = ClusterGrid.of_pixels(planes, width)
    pixels, clusters = grid.pixels, grid.clusters
    for array in (*columns(clusters), pixels.density):
        array[:] = np.nan
    scale = np.float32(density_scale)
    which = where if which is None else which
    mean_shift.first_step(where, which, pixels, clusters, BASE, scale, thin)
    return grid


def columns(clusters):
    """Return the columns of clusters that a first step founds."""
    return [array for array in clusters if array.dtype == np.float32]


def test_first_step_of_a_pixel_is_its_first_shift():
    """Both sum over the disc of 2σ; only the polynomial of the weights is taken differently."""
    grid, points = grids.make_grid(21, 37, contrast=10.0)
    pixels, clusters = grid.pixels, grid.clusters
    everywhere = np.arange(21 * 37, dtype=np.int32)
    bearing, position, density = first_steps(pixels.planes, 37, everywhere, 1e-3)
    half_widths, weights = base_window(grids.SIGMA2_SPACE)
    mean_shift.first_shift(
        pixels.planes,
        half_widths,
        weights,
        np.float32(1 / (64 * grids.SIGMA2_COLOUR)),
        0,
        21,
        clusters.bearing,
        pixels.density,
    )
    np.testing.assert_allclose(bearing, clusters.bearing, atol=0.02)
    np.testing.assert_allclose(density, pixels.density * 1e-3, rtol=0.01)
    np.testing.assert_allclose(position, points + bearing, atol=1e-4)


def test_first_step_writes_only_the_pixels_it_was_given():
    grid, _ = grids.make_grid(9, 14)
    chosen = np.array([3, 40, 125], np.int32)
    for part in first_steps(grid.pixels.planes, 14, chosen, 1e-2):
        rows = part.reshape(9 * 14, -1)
        assert np.isfinite(rows[chosen]).all()
        assert np.isnan(np.delete(rows, chosen, axis=0)).all()


def test_first_step_founds_the_clusters_it_was_given():
    grid, _ = grids.make_grid(9, 14)
    where = np.array([3, 40, 125], np.int32)
    which = np.array([1, 3, 2], np.int32)
    of_pixels = first_steps(grid.pixels.planes, 14, where)
    of_clusters = first_steps(grid.pixels.planes, 14, where, which=which)
    for mine, theirs in zip(of_clusters[:2], of_pixels[:2], strict=True):
        np.testing.assert_array_equal(mine[which], theirs[where])
    np.testing.assert_array_equal(of_clusters[2], of_pixels[2])


@pytest.mark.parametrize("thin", [1, 2, 3])
def test_first_step_founds_whole_clusters(thin):
    """Each stands where its own step took it, on a trajectory of that place alone."""
    planes = grids.make_grid(9, 14)[0].pixels.planes
    where, which = np.array([3, 40, 125], np.int32), np.array([1, 3, 2], np.int32)
    grid = stepped(planes, 14, where, 0.05, which, thin)
    clusters = grid.clusters
    for array in columns(clusters):
        assert np.isfinite(array[1:4]).all()
        assert np.isnan(np.delete(array, which, axis=0)).all()
    for pixel, c in zip(where, which, strict=True):
        y, x = divmod(int(pixel), 14)
        start = np.array([*planes[:, y, x], x, y], np.float32)
        step = np.empty(5, np.float32)
        total = mean_shift.own_step(planes, start, BASE, thin, step)
        place, rho = clusters.position[c], clusters.rho[c]
        np.testing.assert_allclose(clusters.bearing[c], step, atol=1e-6)
        np.testing.assert_array_equal(clusters.shift[c], clusters.bearing[c])
        np.testing.assert_array_equal(place, start + clusters.bearing[c])
        assert rho == grid.pixels.density[y, x] == pytest.approx(min(0.05 * total, 1.0), rel=1e-6)
        assert clusters.trajectory[c].tolist() == [rho, *place, *[0.0] * 9]
        np.testing.assert_array_equal(clusters.precision[c], BASE)


def test_first_step_finds_a_density_of_at_most_one():
    planes = features.lab_planes(np.full((9, 14, 3), 90, np.uint8))
    everywhere = np.arange(9 * 14, dtype=np.int32)
    density = first_steps(planes, 14, everywhere, 0.02)[2]
    assert density.max() == 1.0
    assert density.min() < 1.0

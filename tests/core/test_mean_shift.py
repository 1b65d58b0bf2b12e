"""Mean shift on the pixel grid, kernel by kernel, against the paper's equations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support import grids, reference

from aaams_stream.core import features
from aaams_stream.core.mean_shift import base_window
from aaams_stream.kernels import mean_shift

H, W = 21, 37  # W is no multiple of the lanes
LANES = features.LANES
CUTOFF = 2.0


def quick_weight(dist_sq):
    """Return the kernels' Gaussian in float64: what `decay` promises."""
    s = np.minimum(np.asarray(dist_sq) / 64, 1.0)
    return (1 - s + s**2 / 2) ** 32 - 2.0**-32


@pytest.fixture
def polynomial(monkeypatch):
    """Let the reference weigh as the kernels do, so that only the sums are compared."""
    monkeypatch.setattr(reference, "weight", quick_weight)


def in_ellipse(points, centre, bandwidth):
    """Pixels within 2σ in space."""
    return reference.distances_sq(points, centre, bandwidth, grids.DOMAINS)[:, 1] <= CUTOFF**2


def expected_step(points, centre, bandwidth, inside):
    near = points[inside]
    place, total = reference.partial_update(
        near, np.ones(len(near)), centre, bandwidth, grids.DOMAINS, np.inf
    )
    return place - centre, total


def own_step(planes, centre, bandwidth, thin=1):
    out = np.empty(5, np.float32)
    place = np.asarray(centre, np.float32)
    total = mean_shift.own_step(planes, place, grids.precision_row(bandwidth), thin, out)
    return out, total


def first_shift(planes, width):
    h = planes.shape[1]
    bearing = np.empty((h * width, 5), np.float32)
    density = np.empty((h, width), np.float32)
    half_widths, weights = base_window(grids.SIGMA2_SPACE)
    scale = np.float32(1 / (64 * grids.SIGMA2_COLOUR))
    mean_shift.first_shift(planes, half_widths, weights, scale, 0, h, bearing, density)
    return bearing, density


@given(st.floats(0.0, 2.7))
def test_decay_is_within_one_percent_of_the_gaussian(distance):
    weight = mean_shift.decay(np.float32(distance**2 / 64))
    assert weight == pytest.approx(np.exp(-(distance**2) / 2), rel=0.01)


def test_decay_falls_to_zero_and_stays_there():
    weights = np.array([mean_shift.decay(np.float32(d * d / 64)) for d in np.linspace(0, 12, 200)])
    assert np.all(np.diff(weights) <= 0)
    assert weights[0] == 1
    assert np.all(weights[np.linspace(0, 12, 200) >= 8] == 0)


def test_first_shift_is_the_scalar_update_of_every_pixel():
    grid, points = grids.make_grid(H, W)
    bearing, density = first_shift(grid.pixels.planes, W)
    space = reference.distances_sq  # the window is the disc of 2σ in space, colour untruncated
    for i in range(0, H * W, 7):
        inside = space(points, points[i], grids.BASE, grids.DOMAINS)[:, 1] <= CUTOFF**2
        shift, total = expected_step(points, points[i], grids.BASE, inside)
        np.testing.assert_allclose(bearing[i], shift, atol=0.02)
        assert density.ravel()[i] == pytest.approx(total, rel=0.01)


@pytest.mark.parametrize("width", [1, 15, 16, 17, 33, 530])
def test_first_shift_does_not_see_the_padding(width):
    """530 is wider than one block of accumulators."""
    planes = features.lab_planes(grids.blurred_noise(3, width))
    padded = np.full((3, 3, planes.shape[2] + 5 * LANES), features.FAR)
    padded[:, :, :width] = planes[:, :, :width]
    for mine, theirs in zip(first_shift(planes, width), first_shift(padded, width), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert np.isfinite(mine).all()


@pytest.mark.parametrize("thin", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_own_step_is_the_partial_update_in_rows_so_many_apart(seed, thin, polynomial):
    """The row of the cluster itself is among them, wherever in its row the cluster stands."""
    grid, points = grids.make_grid(H, W)
    rng = np.random.default_rng(seed)
    bandwidth = grids.BASE if seed == 0 else grids.random_bandwidth(rng)
    centre = points[rng.integers(H * W)] + rng.normal(size=5) * [1, 1, 1, 0.4, 0.4]
    centre = centre.astype(np.float32).astype(np.float64)
    step, total = own_step(grid.pixels.planes, centre, bandwidth, thin)
    inside = in_ellipse(points, centre, bandwidth)
    inside &= (points[:, 4] - round(centre[4])) % thin == 0
    shift, expected = expected_step(points, centre, bandwidth, inside)
    np.testing.assert_allclose(step, shift, atol=2e-3)
    assert total == pytest.approx(expected, rel=1e-3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.floats(0.3, 12),
    st.floats(0.3, 12),
    st.floats(0, W - 1),
    st.floats(0, H - 1),
    st.sampled_from([1, 2, 3]),
)
def test_own_step_in_an_upright_window_misses_no_pixel_of_its_rows(
    polynomial, wide, high, x, y, thin
):
    """Rows are read no wider than the widest of three; low windows and narrow ones differ most."""
    grid, points = grids.make_grid(H, W)
    bandwidth = np.diag([2000.0, 2000.0, 2000.0, wide**2, high**2])
    centre = np.array([*points[:, :3].mean(axis=0), x, y]).astype(np.float32).astype(np.float64)
    distance_sq = reference.distances_sq(points, centre, bandwidth, grids.DOMAINS)[:, 1]
    assume(abs(distance_sq - CUTOFF**2).min() > 1e-3)  # else rounding tells who is inside
    assume(abs(centre[4] % 1 - 0.5) > 1e-3)  # or which row is its own
    inside = distance_sq <= CUTOFF**2
    inside &= (points[:, 4] - round(centre[4])) % thin == 0
    assume(inside.any())
    step, total = own_step(grid.pixels.planes, centre, bandwidth, thin)
    shift, expected = expected_step(points, centre, bandwidth, inside)
    assert total == pytest.approx(expected, rel=1e-3)
    np.testing.assert_allclose(step, shift, atol=5e-3)


@pytest.mark.parametrize("thin", [1, 2, 3])
@pytest.mark.parametrize("corner", [(0, 0), (W - 1, 0), (0, H - 1), (W - 1, H - 1)])
def test_own_step_in_a_corner_sees_the_corner_only(corner, thin, polynomial):
    grid, points = grids.make_grid(H, W)
    centre = points[corner[1] * W + corner[0]]
    step, _ = own_step(grid.pixels.planes, centre, grids.BASE, thin)
    inside = in_ellipse(points, centre, grids.BASE)
    inside &= (points[:, 4] - corner[1]) % thin == 0
    np.testing.assert_allclose(
        step, expected_step(points, centre, grids.BASE, inside)[0], atol=2e-3
    )


def test_full_step_with_one_bandwidth_for_all_is_the_partial_update():
    grid, points = grids.make_grid(H, W)
    bandwidth = grids.random_bandwidth(np.random.default_rng(3), 0.7)
    row = grids.precision_row(bandwidth)
    owner = np.arange(H * W, dtype=np.int32).reshape(H, W)
    out = np.empty(5, np.float32)
    centre = points[8 * W + 14].astype(np.float32)
    mean_shift.full_step(grid.pixels.planes, owner, np.tile(row, (H * W, 1)), centre, row, 1, out)
    inside = in_ellipse(points, centre.astype(np.float64), bandwidth)
    shift, _ = expected_step(points, centre.astype(np.float64), bandwidth, inside)
    np.testing.assert_allclose(out, shift, atol=0.05)


@pytest.mark.parametrize("seed", range(8))
def test_full_step_is_the_full_update_under_the_neighbours_bandwidths(seed, polynomial):
    grid, points = grids.make_grid(H, W)
    rng = np.random.default_rng(seed)
    # Blocks of pixels share a cluster, as runs of one owner do in an image.
    y, x = np.indices((H, W))
    owner = ((y // 5) * W + (x // 4)).astype(np.int32)
    clusters = np.unique(owner)
    bandwidths = np.zeros((H * W, 5, 5))
    precision = np.zeros((H * W, 10), np.float32)
    for g in clusters:
        bandwidths[g] = grids.random_bandwidth(rng, 0.6)
        precision[g] = grids.precision_row(bandwidths[g])
    u = rng.choice(clusters)
    centre = points[rng.integers(H * W)].astype(np.float32)
    out = np.empty(5, np.float32)
    mean_shift.full_step(grid.pixels.planes, owner, precision, centre, precision[u], 1, out)
    centre = centre.astype(np.float64)
    inside = in_ellipse(points, centre, bandwidths[u])
    place = reference.full_update(
        points[inside],
        np.ones(inside.sum()),
        centre,
        bandwidths[u],
        owner.ravel()[inside],
        bandwidths,
        grids.DOMAINS,
        np.inf,
    )
    np.testing.assert_allclose(out, place - centre, atol=5e-3)


def test_full_step_without_weight_stays_put():
    grid, points = grids.make_grid(H, W)
    row = grids.precision_row(grids.BASE)
    owner = np.zeros((H, W), np.int32)
    out = np.ones(5, np.float32)
    far = points[100].astype(np.float32) + np.float32([500, 0, 0, 0, 0])
    mean_shift.full_step(grid.pixels.planes, owner, row[None], far, row, 1, out)
    np.testing.assert_array_equal(out, 0)


@pytest.mark.parametrize("thin", [1, 2, 3])
def test_own_step_of_a_window_lower_than_a_row_is_wide_reads_its_own_row(thin):
    """A window of less than three rows: those that are missing weigh nothing."""
    grid, points = grids.make_grid(H, W)
    flat = grids.BASE.copy()
    flat[4, 4] = 0.04
    centre = points[11 * W + 20]
    step, total = own_step(grid.pixels.planes, centre, flat, thin)
    shift, expected = expected_step(points, centre, flat, points[:, 4] == 11)
    np.testing.assert_allclose(step, shift, atol=0.05)
    assert step[4] == 0.0
    assert total == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("distance", range(20, 60, 2))
def test_full_and_own_step_with_hardly_any_weight_are_finite(distance):
    grid, points = grids.make_grid(H, W)
    row = grids.precision_row(grids.BASE)
    owner = np.zeros((H, W), np.int32)
    centre = points[100].astype(np.float32) + np.float32([distance, 0, 0, 0, 0])
    both = np.empty(5, np.float32), np.empty(5, np.float32)
    mean_shift.full_step(grid.pixels.planes, owner, row[None], centre, row, 1, both[0])
    mean_shift.own_step(grid.pixels.planes, centre, row, 1, both[1])
    for step in both:
        assert np.isfinite(step).all()
        assert np.abs(step).max() < 200


def test_density_at_a_place_is_that_of_the_nearest_pixel():
    grid, points = grids.make_grid(H, W)
    _, density = first_shift(grid.pixels.planes, W)
    rng = np.random.default_rng(0)
    colour = np.float32(1e-9)  # space decides, so that the nearest of all is the nearest of 3x3
    for _ in range(60):
        place = points[rng.integers(H * W)] + rng.uniform(-0.7, 0.7, 5)
        found = mean_shift.density_at(
            grid.pixels.planes, density, place.astype(np.float32), colour, grids.SCALES.space
        )
        nearest = np.argmin(((points[:, 3:] - place[3:]) ** 2).sum(axis=1))
        assert found == density.ravel()[nearest]


def test_density_at_a_place_outside_is_that_of_the_border():
    grid, _ = grids.make_grid(H, W)
    _, density = first_shift(grid.pixels.planes, W)
    place = np.array([0, 0, 0, -3.0, H + 2.0], np.float32)
    weights = np.float32(0), np.float32(1)
    assert mean_shift.density_at(grid.pixels.planes, density, place, *weights) == density[H - 1, 0]


def test_seed_clusters_stand_where_the_first_shift_took_their_pixel():
    grid, points = grids.make_grid(H, W)
    pixels, clusters = grid.pixels, grid.clusters
    clusters.bearing[:], density = first_shift(pixels.planes, W)
    pixels.density[:] = density / density.max()
    mean_shift.seed_clusters(pixels, clusters, grids.SCALES)
    np.testing.assert_allclose(clusters.position, points + clusters.bearing, atol=1e-4)
    for i in range(0, H * W, 31):
        y, x = np.rint(clusters.position[i, [4, 3]]).astype(int)
        around = pixels.density[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
        assert clusters.rho[i] in around


def moments_of(trajectory, densities):
    """Return a row of trajectory moments from the trajectory itself."""
    mean = densities @ trajectory / densities.sum()
    centred = trajectory - mean
    scatter = np.einsum("v,va,vb->ab", densities, centred, centred)
    triangle = [*scatter[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]], *scatter[[3, 3, 4], [3, 4, 4]]]
    return np.concatenate([[densities.sum()], mean, triangle]).astype(np.float32)


def refreshed(moments, members):
    """Return the precisions of one cluster after a refresh; -1 before it."""
    grid, _ = grids.make_grid(1, 1)
    clusters = grid.clusters
    clusters.trajectory[0], clusters.members[0], clusters.precision[0] = moments, members, -1
    mean_shift.refresh_bandwidths(np.zeros(1, np.int32), clusters, grids.SCALES)
    return clusters.precision[0]


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(0.01, 30))
def test_refresh_bandwidths_sets_the_weighted_variance_of_the_trajectory_plus_xi(
    seed, length, spread
):
    rng = np.random.default_rng(seed)
    trajectory = rng.normal(scale=spread, size=(length, 5)) + rng.uniform(0, 100, 5)
    densities = rng.uniform(0.01, 1, length)
    precision = refreshed(moments_of(trajectory, densities), 9)
    expected = reference.trajectory_bandwidth(trajectory, densities, 0.25, grids.DOMAINS)
    found = np.linalg.inv(grids.full_matrix(precision).astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=1e-2 * spread**2 + 1e-2)
    assert np.linalg.eigvalsh(found[:3, :3]).min() > 0.99 * 0.25 * grids.SIGMA2_COLOUR
    assert np.linalg.eigvalsh(found[3:, 3:]).min() > 0.99 * 0.25 * grids.SIGMA2_SPACE
    assert precision[9] == pytest.approx(1 / np.sqrt(np.linalg.det(expected)), rel=2e-2)


def test_refresh_bandwidths_spares_clusters_of_too_few_pixels():
    moments = moments_of(np.ones((1, 5)), np.ones(1))
    assert (refreshed(moments, 8) == -1).all()
    assert (refreshed(moments, 9) != -1).any()


@pytest.mark.parametrize(
    ("members", "all_adaptive", "kind"), [(8, True, 0), (9, False, 1), (9, True, 2)]
)
def test_shift_clusters_is_scalar_partial_or_full_by_who_is_adaptive(members, all_adaptive, kind):
    grid, points = grids.make_grid(H, W)
    pixels, clusters = grid.pixels, grid.clusters
    _, pixels.density[:] = first_shift(pixels.planes, W)
    u = 9 * W + 17
    clusters.position[:] = points
    clusters.precision[:] = grids.precision_row(grids.BASE)
    clusters.members[:] = members
    pixels.adaptive[:] = 1
    pixels.adaptive[9, 19] = all_adaptive
    kinds = np.empty(1, np.uint8)
    mean_shift.shift_clusters(np.array([u], np.int32), pixels, clusters, grids.SCALES, kinds)
    assert kinds[0] == kind
    np.testing.assert_allclose(clusters.position[u], points[u] + clusters.shift[u], atol=1e-4)

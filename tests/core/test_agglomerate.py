"""Trajectories, merge check and merges on the pixel grid."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import TESTS, grids, reference

from aaams_stream.core import features, packed
from aaams_stream.core.clusters import ClusterGrid, kernel_scales
from aaams_stream.core.mean_shift import cluster_pixels, merge_moved
from aaams_stream.core.tuning import DEFAULT
from aaams_stream.kernels import agglomerate, mean_shift
from aaams_stream.kernels.records import Clusters
from aaams_stream.params import Params

H, W = 18, 21


def make_clusters(count, **columns):
    """Return clusters that stand at the origin, apart from the columns given."""
    rows = Clusters(
        position=np.zeros((count, 5), np.float32),
        rho=np.ones(count, np.float32),
        shift=np.zeros((count, 5), np.float32),
        bearing=np.zeros((count, 5), np.float32),
        trajectory=np.zeros((count, 15), np.float32),
        precision=np.zeros((count, 10), np.float32),
        parent=np.arange(count, dtype=np.int32),
        members=np.ones(count, np.int32),
        changed=np.zeros(count, np.bool_),
    )
    return rows._replace(**columns)


def test_extend_trajectories_one_place_at_a_time_gives_the_moments_of_all_places():
    rng = np.random.default_rng(0)
    places = (rng.normal(size=(50, 5)) * 3 + [60, 10, -20, 300, 200]).astype(np.float32)
    rho = rng.uniform(0.05, 1, 50).astype(np.float32)
    clusters = make_clusters(1)
    which = np.zeros(1, np.int32)
    for place, weight in zip(places, rho, strict=True):
        clusters.position[0], clusters.rho[0] = place, weight
        agglomerate.extend_trajectories(which, clusters)
    moments = clusters.trajectory[0]
    mean = rho @ places.astype(np.float64) / rho.sum()
    np.testing.assert_allclose(moments[packed.WEIGHT], rho.sum(), rtol=1e-5)
    np.testing.assert_allclose(moments[packed.MEAN], mean, rtol=1e-5)
    expected = reference.trajectory_bandwidth(
        places.astype(np.float64), rho.astype(np.float64), 0.0, grids.DOMAINS
    )
    found = grids.full_matrix(moments[6:] / moments[packed.WEIGHT])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_absorb_adds_the_trajectories_of_both_clusters(seed, split):
    rng = np.random.default_rng(seed)
    places = (rng.normal(size=(31, 5)) * 4 + 50).astype(np.float32)
    rho = rng.uniform(0.05, 1, 31).astype(np.float32)
    clusters = make_clusters(3, members=np.array([split, 31 - split, 31], np.int32))
    for i in range(31):
        clusters.position[:], clusters.rho[:] = places[i], rho[i]
        which = np.array([0 if i < split else 1, 2], np.int32)
        agglomerate.extend_trajectories(which, clusters)
    clusters.rho[:] = [0.5, 0.2, 0.1]
    assert agglomerate.absorb(0, 1, clusters)
    np.testing.assert_allclose(clusters.trajectory[0], clusters.trajectory[2], rtol=1e-3, atol=2e-2)
    assert clusters.members[0] == 31


def absorbed(rho_u, rho_v):
    clusters = make_clusters(
        2,
        members=np.array([3, 4], np.int32),
        trajectory=np.ones((2, 15), np.float32),
        rho=np.array([rho_u, rho_v], np.float32),
    )
    survives = agglomerate.absorb(0, 1, clusters)
    rows = clusters.parent, clusters.members, clusters.changed
    return bool(survives), *(row.tolist() for row in rows)


def test_absorb_lets_the_denser_cluster_assimilate_the_other():
    assert absorbed(0.9, 0.2) == (True, [0, 0], [7, 4], [True, False])
    assert absorbed(0.2, 0.9) == (False, [1, 1], [3, 7], [False, True])


def test_absorb_lets_the_one_that_was_met_survive_of_two_equally_dense():
    assert absorbed(0.5, 0.5) == (False, [1, 1], [3, 7], [False, True])


def same_mode(u, m_u, y, m_y):
    return agglomerate.same_mode(u, m_u, y, m_y, grids.SCALES.colour, grids.SCALES.space)


@given(st.integers(0, 2**32 - 1))
def test_same_mode_is_the_merge_check_of_the_paper(seed):
    u, y, m_u, m_y = np.random.default_rng(seed).normal(size=(4, 5)).astype(np.float32)
    found = same_mode(u, m_u, y, m_y)
    expected = reference.merge_check(
        *(v.astype(np.float64) for v in (u, y, m_u, m_y)), grids.DOMAINS
    )
    assert found == expected


def test_same_mode_holds_for_clusters_that_do_not_move():
    still = np.zeros(5, np.float32)
    place = np.arange(5, dtype=np.float32)
    assert same_mode(place, still, place + 1, still)


def test_same_mode_fails_for_clusters_that_close_in_from_opposite_sides():
    """They meet at the mode only; until then each is on its own way."""
    u, y = np.zeros(5, np.float32), np.full(5, 2, np.float32)
    step = np.ones(5, np.float32)
    assert not same_mode(u, step, y, -step)


@given(st.lists(st.floats(0, 1, width=32), max_size=60))
def test_order_by_density_leaves_ties_as_they_came(densities):
    rho = np.array(densities, np.float32)
    clusters = np.arange(rho.size, dtype=np.int32)
    order = np.empty(rho.size, np.int32)
    agglomerate.order_by_density(clusters, rho, order)
    level = (rho * np.float32(4095)).astype(int)
    np.testing.assert_array_equal(order, np.argsort(-level, kind="stable"))


def moved_grid():
    """Return a grid whose clusters have just moved again, its points, live clusters and scales."""
    grid, points = grids.make_grid(H, W, contrast=10)
    params = Params().updated(
        {
            "colour": {"sigma2": grids.SIGMA2_COLOUR, "epsilon2": 4.0},
            "space": {"sigma2": grids.SIGMA2_SPACE, "epsilon2": 16.0},
            "core": {"max_iterations": 1},
        }
    )
    scales = kernel_scales(params, DEFAULT)
    grid, alive, _ = cluster_pixels(grid.pixels.planes, W, params, DEFAULT)
    kind = np.empty(alive.size, np.uint8)
    mean_shift.shift_clusters(alive, grid.pixels, grid.clusters, scales, kind)
    return grid, points, alive, scales


def list_partners(grid, alive, scales, room=64):
    """Return the partners (m, room) of live clusters, and how many each has."""
    partners = np.empty((alive.size, room), np.int32)
    found = np.empty(alive.size, np.int32)
    agglomerate.find_partners(alive, grid.pixels, grid.clusters, scales, partners, found)
    return partners, found


def without_densities(grid):
    """Return the grid as if no cluster were denser than another, so that none ends a list."""
    level = grid.clusters._replace(rho=np.zeros_like(grid.clusters.rho))
    return dataclasses.replace(grid, clusters=level)


def densest_first(grid, alive):
    return np.argsort(-grid.clusters.rho[alive], kind="stable")


def test_refresh_owners_points_every_pixel_at_its_surviving_cluster():
    grid, _, alive, _ = moved_grid()
    owner, members = grid.pixels.owner, grid.clusters.members
    pixels = np.bincount(owner.ravel(), minlength=H * W)
    np.testing.assert_array_equal(np.flatnonzero(pixels), alive)
    np.testing.assert_array_equal(pixels[alive], members[alive])
    np.testing.assert_array_equal(grid.pixels.adaptive, members[owner] >= 9)


@pytest.mark.parametrize("epsilon", [4.0, 9.0])  # up to 16 pixels wide, and wider
def test_find_partners_lists_owners_in_the_vicinity_that_pass_the_merge_check(epsilon):
    grid, points, alive, scales = moved_grid()
    domains = [grids.DOMAINS[0], dataclasses.replace(grids.DOMAINS[1], epsilon=epsilon)]
    scales = scales._replace(epsilon_space=np.float32(epsilon**2))
    partners, found = list_partners(without_densities(grid), alive, scales)
    owners, clusters = grid.pixels.owner.ravel(), grid.clusters
    several = 0
    for i, u in enumerate(alive):
        place = clusters.position[u].astype(np.float64)
        shift = clusters.shift[u].astype(np.float64)
        near = np.flatnonzero(reference.in_vicinity(place, points, domains))
        expected = {
            int(owners[p])
            for p in near
            if owners[p] != u
            and reference.merge_check(
                place, points[p], shift, clusters.bearing[p].astype(np.float64), grids.DOMAINS
            )
        }
        assert set(partners[i, : found[i]].tolist()) == expected
        several += len(expected) > 1
    assert several > 0


@st.composite
def vicinities(draw):
    """Draw a grid with a few clusters that have just moved, and scales.

    All numbers are quarters or powers of two, so that no comparison hangs by a rounding.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    h, w = draw(st.integers(1, 20)), draw(st.integers(1, 40))
    count = draw(st.integers(2, 12))

    def quarters(least, most, *shape):
        return (rng.integers(4 * least, 4 * most + 1, shape) / 4).astype(np.float32)

    planes = np.full((3, h, -(-w // features.LANES) * features.LANES), features.FAR)
    planes[:, :, :w] = quarters(50, 53, 3, h, w)
    grid = ClusterGrid.of_pixels(planes, w)
    clusters = grid.clusters
    side = draw(st.integers(1, 6))
    y, x = np.indices((h, w)) // side
    grid.pixels.owner[:] = (7 * y + 3 * x) % min(count, h * w)
    clusters.position[:, :3] = quarters(50, 53, h * w, 3)
    clusters.position[:, 3] = quarters(-1, w, h * w)
    clusters.position[:, 4] = quarters(-1, h, h * w)
    for moved in (clusters.shift, clusters.bearing):
        moved[:] = quarters(-2, 2, h * w, 5)
    clusters.rho[:] = rng.integers(0, draw(st.sampled_from([1, 3, 9])), h * w) / 8
    scales = grids.SCALES._replace(
        colour=np.float32(1 / 16),
        space=np.float32(1 / 4),
        epsilon_colour=np.float32(4.0),
        epsilon_space=np.float32(draw(st.sampled_from([1.0, 2.0, 16.0, 81.0]))),
    )
    return grid, np.unique(grid.pixels.owner), scales


def partners_one_by_one(grid, u, scales):
    """Return the partners of a cluster: from its own row outwards, below first, left to right."""
    pixels, clusters = grid.pixels, grid.clusters
    place, step = (row[u].astype(np.float64) for row in (clusters.position, clusters.shift))
    scale = np.repeat([scales.colour, scales.space], [3, 2]).astype(np.float64)
    h, w = pixels.owner.shape
    middle = min(max(int(np.floor(place[4] + 0.5)), 0), h - 1)
    rows = sorted(range(h), key=lambda row: (abs(row - middle), -row))
    partners = []
    for row in rows:
        for x in range(w):
            point = np.array([*pixels.planes[:, row, x], x, row], np.float64)
            off = (place - point) ** 2
            owner = int(pixels.owner[row, x])
            if off[:3].sum() > scales.epsilon_colour or off[3:].sum() > scales.epsilon_space:
                continue
            bearing = clusters.bearing[pixels.start[row, x]].astype(np.float64)
            heads_alike = (step * bearing * scale).sum() >= 0
            closes_in = ((place - point) * (step - bearing) * scale).sum() <= 0
            if owner != u and owner not in partners and heads_alike and closes_in:
                partners.append(owner)
                if clusters.rho[owner] > clusters.rho[u]:
                    return partners
    return partners


@settings(max_examples=200)
@given(vicinities())
def test_find_partners_goes_from_the_middle_outwards_up_to_the_first_that_is_denser(vicinity):
    grid, alive, scales = vicinity
    partners, found = list_partners(grid, alive, scales)
    for i, u in enumerate(alive):
        assert partners[i, : found[i]].tolist() == partners_one_by_one(grid, u, scales)


@settings(max_examples=200)
@given(vicinities())
def test_find_partners_finds_all_of_a_plain_search_where_none_is_denser(vicinity):
    grid, alive, scales = vicinity
    grid = without_densities(grid)
    partners, found = list_partners(grid, alive, scales)
    for i, u in enumerate(alive):
        assert partners[i, : found[i]].tolist() == partners_one_by_one(grid, u, scales)


def test_find_partners_ends_the_list_at_a_denser_one_and_no_merge_changes():
    results = []
    for dense in (False, True):
        grid, _, alive, scales = moved_grid()
        clusters = grid.clusters
        partners, found = list_partners(grid if dense else without_densities(grid), alive, scales)
        merges = agglomerate.merge_partners(
            densest_first(grid, alive), alive, partners, found, clusters
        )
        results.append((int(found.sum()), merges, clusters.parent, clusters.trajectory[alive]))
    (whole, *full), (short, *fast) = results
    assert short < whole
    for mine, theirs in zip(fast, full, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_find_partners_counts_those_there_is_no_room_for_and_they_wait():
    grid, _, alive, scales = moved_grid()
    level = without_densities(grid)
    (wide, all_found), (narrow, few_found) = (
        list_partners(level, alive, scales, room) for room in (64, 1)
    )
    some = all_found > 0
    np.testing.assert_array_equal(wide[some, 0], narrow[some, 0])
    assert np.all(few_found >= np.minimum(all_found, 1))
    before = grid.clusters.parent.copy()
    merges = agglomerate.merge_partners(
        densest_first(grid, alive), alive, narrow, few_found, grid.clusters
    )
    assert merges == np.count_nonzero(grid.clusters.parent != before)


def test_merge_moved_loses_no_pixel_and_no_trajectory():
    grid, _, alive, scales = moved_grid()
    clusters = grid.clusters
    weight = clusters.trajectory[alive, packed.WEIGHT].sum()
    merges = merge_moved(grid, alive, scales)
    assert merges > 0
    left = grid.alive(alive)
    assert left.size == alive.size - merges
    assert clusters.members[left].sum() == H * W
    assert clusters.trajectory[left, packed.WEIGHT].sum() == pytest.approx(weight, rel=1e-4)


def test_merge_first_does_not_depend_on_the_number_of_threads():
    """420 rows make several bands and seams, and enough pixels for three threads."""
    code = """
import json
from support import grids
from aaams_stream.core.mean_shift import cluster_pixels
from aaams_stream.core.tuning import DEFAULT
from aaams_stream.params import Params
grid, _ = grids.make_grid(420, 120, contrast=10)
params = Params().updated({"core": {"max_iterations": 1}})
grid, alive, history = cluster_pixels(grid.pixels.planes, 120, params, DEFAULT)
clusters = grid.clusters
rows = [clusters.members[alive], clusters.trajectory[alive], clusters.precision[alive]]
kept = [array.tobytes().hex() for array in (grid.pixels.owner, *rows)]
print(json.dumps([int(history.merges[0]), *kept]))
"""
    runs = []
    for threads in ("1", "2", "3"):
        env = {**os.environ, "AAAMS_THREADS": threads}
        env["PYTHONPATH"] = os.pathsep.join([str(TESTS), *sys.path])
        run = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        runs.append(json.loads(run.stdout))
    assert runs[0][0] > 1000
    assert runs[0] == runs[1] == runs[2]


def test_a_trajectory_without_weight_is_where_its_cluster_stands():
    """Pixels that came from outside have no density; a segment of nothing else must not be lost."""
    clusters = grids.make_grid(4, 5)[0].clusters
    clusters.trajectory[0], clusters.rho[0] = 0.0, 0.0
    which = np.zeros(1, np.int32)
    agglomerate.extend_trajectories(which, clusters)
    np.testing.assert_array_equal(clusters.trajectory[0, packed.MEAN], clusters.position[0])
    before = clusters.precision[0].copy()
    clusters.members[0] = grids.SCALES.adaptive
    mean_shift.refresh_bandwidths(which, clusters, grids.SCALES)
    np.testing.assert_array_equal(clusters.precision[0], before)
    assert np.isfinite(clusters.trajectory[0]).all()

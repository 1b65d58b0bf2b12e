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

from aaams_stream.core.mean_shift import Scales, cluster_pixels, merge_moved
from aaams_stream.kernels import agglomerate, mean_shift
from aaams_stream.params import Params

H, W = 18, 21


def test_moments_added_one_by_one_are_those_of_the_whole_trajectory():
    rng = np.random.default_rng(0)
    trajectory = (rng.normal(size=(50, 5)) * 3 + [60, 10, -20, 300, 200]).astype(np.float32)
    rho = rng.uniform(0.05, 1, 50).astype(np.float32)
    moments = np.zeros((1, 15), np.float32)
    cluster = np.zeros(1, np.int32)
    for place, weight in zip(trajectory, rho, strict=True):
        agglomerate.extend_trajectories(cluster, place[None].copy(), weight[None].copy(), moments)
    mean = rho @ trajectory.astype(np.float64) / rho.sum()
    np.testing.assert_allclose(moments[0, 0], rho.sum(), rtol=1e-5)
    np.testing.assert_allclose(moments[0, 1:6], mean, rtol=1e-5)
    expected = reference.trajectory_bandwidth(
        trajectory.astype(np.float64), rho.astype(np.float64), 0.0, grids.DOMAINS
    )
    found = grids.full_matrix(moments[0, 6:] / moments[0, 0])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_merging_two_clusters_adds_their_trajectories(seed, split):
    rng = np.random.default_rng(seed)
    trajectory = (rng.normal(size=(31, 5)) * 4 + 50).astype(np.float32)
    rho = rng.uniform(0.05, 1, 31).astype(np.float32)
    moments = np.zeros((3, 15), np.float32)
    for i in range(31):
        rows = np.array([0 if i < split else 1, 2], np.int32)
        where = np.tile(trajectory[i], (3, 1))
        agglomerate.extend_trajectories(rows, where, np.full(3, rho[i]), moments)
    parent = np.arange(3, dtype=np.int32)
    count = np.array([split, 31 - split, 31], np.int32)
    changed = np.zeros(3, np.bool_)
    density = np.array([0.5, 0.2, 0.1], np.float32)
    assert agglomerate.join(0, 1, density, parent, count, moments, changed)
    np.testing.assert_allclose(moments[0], moments[2], rtol=1e-3, atol=2e-2)
    assert count[0] == 31


def joined(rho_u, rho_v):
    parent = np.arange(2, dtype=np.int32)
    count = np.array([3, 4], np.int32)
    moments = np.ones((2, 15), np.float32)
    changed = np.zeros(2, np.bool_)
    rho = np.array([rho_u, rho_v], np.float32)
    survives = agglomerate.join(0, 1, rho, parent, count, moments, changed)
    return bool(survives), parent.tolist(), count.tolist(), changed.tolist()


def test_the_denser_cluster_assimilates_the_other():
    assert joined(0.9, 0.2) == (True, [0, 0], [7, 4], [True, False])
    assert joined(0.2, 0.9) == (False, [1, 1], [3, 7], [False, True])


def test_of_two_equally_dense_clusters_the_one_that_was_met_survives():
    assert joined(0.5, 0.5) == (False, [1, 1], [3, 7], [False, True])


@given(st.integers(0, 2**32 - 1))
def test_the_merge_check_is_that_of_the_paper(seed):
    u, y, m_u, m_y = np.random.default_rng(seed).normal(size=(4, 5)).astype(np.float32)
    found = agglomerate.same_mode(u, m_u, y, m_y, *grids.SCALES)
    expected = reference.merge_check(
        *(v.astype(np.float64) for v in (u, y, m_u, m_y)), grids.DOMAINS
    )
    assert found == expected


def test_clusters_that_do_not_move_belong_together():
    still = np.zeros(5, np.float32)
    place = np.arange(5, dtype=np.float32)
    assert agglomerate.same_mode(place, still, place + 1, still, *grids.SCALES)


def test_clusters_that_close_in_from_opposite_sides_do_not_merge():
    """They meet at the mode only; until then each is on its own way."""
    u, y = np.zeros(5, np.float32), np.full(5, 2, np.float32)
    step = np.ones(5, np.float32)
    assert not agglomerate.same_mode(u, step, y, -step, *grids.SCALES)


@given(st.lists(st.floats(0, 1, width=32), max_size=60))
def test_clusters_are_ordered_by_density_and_ties_as_they_came(densities):
    rho = np.array(densities, np.float32)
    clusters = np.arange(rho.size, dtype=np.int32)
    order = np.empty(rho.size, np.int32)
    agglomerate.order_by_density(clusters, rho, order)
    level = (rho * np.float32(4095)).astype(int)
    np.testing.assert_array_equal(order, np.argsort(-level, kind="stable"))


def moved_field():
    """Return a field whose clusters have just moved again, its points, live clusters and scales."""
    field, points = grids.make_field(H, W, contrast=10)
    params = Params().updated(
        {
            "colour": {"sigma2": grids.SIGMA2_COLOUR, "epsilon2": 4.0},
            "space": {"sigma2": grids.SIGMA2_SPACE, "epsilon2": 16.0},
            "core": {"max_iterations": 1},
        }
    )
    scales = Scales.of(params)
    field, alive, _ = cluster_pixels(field.planes, W, params)
    mean_shift.shift_clusters(
        alive, field.planes, field.owner, field.ripe, field.density, scales.colour, scales.space,
        field.precision, 9, field.count, field.location, field.shift, field.rho,
        np.empty(alive.size, np.uint8),
    )  # fmt: skip
    return field, points, alive, scales


def test_every_pixel_points_at_its_surviving_cluster():
    field, _, alive, _ = moved_field()
    members = np.bincount(field.owner.ravel(), minlength=H * W)
    np.testing.assert_array_equal(np.flatnonzero(members), alive)
    np.testing.assert_array_equal(members[alive], field.count[alive])
    np.testing.assert_array_equal(field.ripe, field.count[field.owner] >= 9)


@pytest.mark.parametrize("epsilon", [4.0, 9.0])  # up to 16 pixels wide, and wider
def test_partners_are_the_owners_of_points_in_the_vicinity_that_pass_the_merge_check(epsilon):
    field, points, alive, scales = moved_field()
    domains = [grids.DOMAINS[0], dataclasses.replace(grids.DOMAINS[1], epsilon=epsilon)]
    partners = np.empty((alive.size, 64), np.int32)
    found = np.empty(alive.size, np.int32)
    level = np.zeros_like(field.rho)  # no partner is denser, so that none ends the list
    agglomerate.find_partners(
        alive, field.planes, field.owner, field.start, scales.epsilon_colour,
        np.float32(epsilon**2), scales.colour, scales.space, field.location, field.shift,
        field.bearing, level, partners, found,
    )  # fmt: skip
    owners = field.owner.ravel()
    several = 0
    for i, u in enumerate(alive):
        place, step = field.location[u].astype(np.float64), field.shift[u].astype(np.float64)
        near = np.flatnonzero(reference.in_vicinity(place, points, domains))
        expected = {
            int(owners[p])
            for p in near
            if owners[p] != u
            and reference.merge_check(
                place, points[p], step, field.bearing[p].astype(np.float64), grids.DOMAINS
            )
        }
        assert set(partners[i, : found[i]].tolist()) == expected
        several += len(expected) > 1
    assert several > 0


def test_ending_the_list_at_a_denser_partner_changes_no_merge():
    results = []
    for dense in (False, True):
        field, _, alive, scales = moved_field()
        partners = np.empty((alive.size, 64), np.int32)
        found = np.empty(alive.size, np.int32)
        agglomerate.find_partners(
            alive, field.planes, field.owner, field.start, scales.epsilon_colour,
            scales.epsilon_space, scales.colour, scales.space, field.location, field.shift,
            field.bearing, field.rho if dense else np.zeros_like(field.rho), partners, found,
        )  # fmt: skip
        merges = agglomerate.merge_partners(
            np.argsort(-field.rho[alive], kind="stable"), alive, partners, found, field.rho,
            field.parent, field.count, field.moments, field.changed,
        )  # fmt: skip
        results.append((int(found.sum()), merges, field.parent, field.moments[alive]))
    (whole, *full), (short, *fast) = results
    assert short < whole
    for mine, theirs in zip(fast, full, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_more_partners_than_there_is_room_for_are_counted_and_wait():
    field, _, alive, scales = moved_field()
    wide, narrow = np.empty((alive.size, 64), np.int32), np.empty((alive.size, 1), np.int32)
    found = [np.empty(alive.size, np.int32) for _ in range(2)]
    level = np.zeros_like(field.rho)
    for partners, counts in zip((wide, narrow), found, strict=True):
        agglomerate.find_partners(
            alive, field.planes, field.owner, field.start, scales.epsilon_colour,
            scales.epsilon_space, scales.colour, scales.space, field.location, field.shift,
            field.bearing, level, partners, counts,
        )  # fmt: skip
    some = found[0] > 0
    np.testing.assert_array_equal(wide[some, 0], narrow[some, 0])
    assert np.all(found[1] >= np.minimum(found[0], 1))
    before = field.parent.copy()
    merges = agglomerate.merge_partners(
        np.argsort(-field.rho[alive], kind="stable"), alive, narrow, found[1], field.rho,
        field.parent, field.count, field.moments, field.changed,
    )  # fmt: skip
    assert merges == np.count_nonzero(field.parent != before)


def test_merging_loses_no_pixel_and_no_trajectory():
    field, _, alive, scales = moved_field()
    weight = field.moments[alive, 0].sum()
    merges = merge_moved(field, alive, scales)
    assert merges > 0
    left = alive[field.parent[alive] == alive]
    assert left.size == alive.size - merges
    assert field.count[left].sum() == H * W
    assert field.moments[left, 0].sum() == pytest.approx(weight, rel=1e-4)


def test_the_first_merges_do_not_depend_on_the_number_of_threads():
    """150 rows make several bands and seams."""
    code = (
        "import json, grids\n"
        "from aaams_stream.core.mean_shift import cluster_pixels\n"
        "from aaams_stream.params import Params\n"
        "field, _ = grids.make_field(150, 40, contrast=10)\n"
        "params = Params().updated({'core': {'max_iterations': 1}})\n"
        "field, alive, history = cluster_pixels(field.planes, 40, params)\n"
        "kept = [field.owner, field.count[alive], field.moments[alive], field.precision[alive]]\n"
        "print(json.dumps([int(history.merges[0]), *(a.tobytes().hex() for a in kept)]))"
    )
    runs = []
    for threads in ("1", "2", "3"):
        env = {**os.environ, "NUMBA_NUM_THREADS": threads}
        env["PYTHONPATH"] = os.pathsep.join([str(TESTS), *sys.path])
        run = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        runs.append(json.loads(run.stdout))
    assert runs[0][0] > 1000
    assert runs[0] == runs[1] == runs[2]

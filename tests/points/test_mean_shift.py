"""Alg. 1 over points: every equation against the reference, then the paper's claims."""

from __future__ import annotations

import os

import numpy as np
import pytest
from support import mixtures, reference
from support.mixtures import skewed_clouds
from support.reference import Domain

from aaams_stream import metrics
from aaams_stream.kernels import points as kernels
from aaams_stream.kernels import points_post as post_kernels
from aaams_stream.points import AAAMS
from aaams_stream.points.mean_shift import MeanShift
from aaams_stream.points.plan import Plan

SINGLE = [Domain(2, 1.0, 0.8)]  # the state is scaled: σ is 1
JOINT = [Domain(2, 1.0, 0.8), Domain(1, 1.0, 1.2)]


def state_after(points, domains, steps, **options):
    """Return Alg. 1's state after so many iterations."""
    sizes = [domain.size for domain in domains]
    model = AAAMS([1.0] * len(sizes), [d.epsilon for d in domains], domains=sizes, **options)
    model.set_params(max_iter=max(steps, 1))
    plan = Plan.of(model, points.shape[1])
    state = MeanShift(points, np.ones(len(points)), plan, np.zeros(points.shape[1]))
    if steps:
        state.run()
    return state


def trajectory(state, u):
    """Return T_u as an array, newest chains first."""
    out, v = [], state.trajectories.head[u]
    while v >= 0:
        out.append(state.trajectories.pool[v])
        v = state.trajectories.pool_next[v]
    return np.array(out)


def survivors(state):
    return np.unique(state.owner())


# The equations, one by one.


@pytest.mark.parametrize("domains", [SINGLE, JOINT], ids=["single", "joint"])
@pytest.mark.parametrize(("kind", "name"), [(0, "scalar"), (1, "partial"), (2, "full")])
def test_each_update_follows_its_equation(kind, name, domains):
    compared = 0
    for seed in range(4):
        points = skewed_clouds(seed, sum(d.size for d in domains))
        for steps in (0, 2, 3, 4):
            state = state_after(points, domains, steps)
            rows = np.flatnonzero(state.active)
            owner, adaptive = state.owner().copy(), state.bandwidths.adaptive.copy()
            before = state.clusters.position.copy()
            widths = state.bandwidth_of(np.arange(len(points)))
            ones = np.ones(len(points))
            kinds = state.update(rows)
            for u, used in zip(rows, kinds, strict=True):
                near = reference.neighbours(state.tree.points, before[u], widths[u], domains, 3.0)
                expected_kind = 0
                if adaptive[u]:
                    expected_kind = 2 if adaptive[owner[near]].all() else 1
                assert used == expected_kind
                if used != kind:
                    continue
                if name == "scalar":
                    moved, _ = reference.scalar_update(
                        state.tree.points, ones, before[u], domains, 3.0
                    )
                elif name == "partial":
                    moved, _ = reference.partial_update(
                        state.tree.points, ones, before[u], widths[u], domains, 3.0
                    )
                else:
                    moved = reference.full_update(
                        state.tree.points, ones, before[u], widths[u], owner, widths, domains, 3.0
                    )
                np.testing.assert_allclose(state.clusters.position[u], moved, atol=1e-9)
                compared += 1
    assert compared > 5


def test_a_full_update_survives_neighbours_of_vanishing_weight():
    """A wide cluster amid narrow ones: every exp(−d²/2) is 0 in floating point."""
    points = np.array([[-50.0, 0.0], [60.0, 0.0], [0.0, 70.0]])
    state = state_after(points, SINGLE, 0)
    state.bandwidths.whitening[:] = np.eye(2)
    near, owner, out = np.arange(3), np.arange(3), np.zeros(2)
    kernels.full_shift(
        state.tree, state.plan.domains, near, owner, np.zeros(2), state.bandwidths, out
    )
    np.testing.assert_allclose(out, points[0])  # the nearest of them, by far


def test_density_is_the_first_weight_sum_divided_by_its_maximum():
    points = skewed_clouds(0)
    state = state_after(points, SINGLE, 1)
    sums = [
        reference.scalar_update(state.tree.points, np.ones(len(points)), p, SINGLE, 3.0)[1]
        for p in state.tree.points
    ]
    np.testing.assert_allclose(state.density, np.array(sums) / max(sums))


def test_rho_of_a_cluster_is_the_density_of_the_nearest_data_point():
    state = state_after(skewed_clouds(1), SINGLE, 3)
    for u in survivors(state):
        assert state.clusters.rho[u] == reference.density_at(
            state.clusters.position[u], state.tree.points, state.density, SINGLE
        )


@pytest.mark.parametrize("domains", [SINGLE, JOINT], ids=["single", "joint"])
def test_bandwidth_is_the_density_weighted_variance_of_the_trajectory(domains):
    state = state_after(skewed_clouds(2, sum(d.size for d in domains)), domains, 6)
    sure = [u for u in survivors(state) if state.bandwidths.adaptive[u]]
    assert sure
    for u in sure:
        path = trajectory(state, u)
        densities = np.array(
            [reference.density_at(v, state.tree.points, state.density, domains) for v in path]
        )
        expected = reference.trajectory_bandwidth(path, densities, 0.25, domains)
        np.testing.assert_allclose(state.bandwidth_of(np.array([u]))[0], expected, atol=1e-9)


def test_trajectories_leave_out_the_data_points_themselves():
    state = state_after(skewed_clouds(3), SINGLE, 1)
    assert state.used == len(state.tree.points)  # one update each, and nothing before it
    np.testing.assert_array_equal(
        state.trajectories.pool[: state.used], state.tree.points + state.bearing
    )


def test_effective_sample_size_counts_what_the_mean_feels():
    state = state_after(skewed_clouds(4), SINGLE, 5)
    rows = survivors(state)
    widths = np.stack([np.eye(2) * (0.5 + 0.1 * i) for i in range(len(rows))])
    whitenings = np.stack([np.linalg.cholesky(np.linalg.inv(w)).T for w in widths])
    sizes = np.empty(len(rows))
    kernels.effective_sizes(
        rows,
        np.ascontiguousarray(whitenings),
        state.plan.domains,
        np.inf,
        state.trajectories,
        sizes,
    )
    expected = [
        reference.effective_sample_size(path := trajectory(state, u), np.ones(len(path)), w, SINGLE)
        for u, w in zip(rows, widths, strict=True)
    ]
    np.testing.assert_allclose(sizes, expected)


def test_bandwidths_have_no_eigenvalue_below_xi():
    line = np.linspace(0, 4, 80)[:, None] * np.array([1.0, 0.5])
    model = AAAMS(0.5, 1.0).fit(line)
    assert np.linalg.eigvalsh(model.bandwidths_).min() >= 0.25 * 0.5**2 * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_merge_check_asks_for_closing_in_and_a_shared_direction(seed):
    u, y, m_u, m_y = np.random.default_rng(seed).normal(size=(4, 200, 2))
    ours = [kernels.bearings_agree(*row) for row in zip(u, m_u, y, m_y, strict=True)]
    theirs = [reference.merge_check(*row, SINGLE) for row in zip(u, y, m_u, m_y, strict=True)]
    assert ours == theirs
    assert 0 < sum(ours) < len(ours)


def test_merge_check_lets_points_at_rest_pass():
    rest = np.zeros(2)
    assert kernels.bearings_agree(np.array([0.1, 0.0]), rest, rest, rest)


# The whole of Alg. 1.


def assert_same(model, expected):
    np.testing.assert_array_equal(model.labels_, expected.labels)
    np.testing.assert_allclose(model.modes_, expected.modes, atol=1e-8)
    np.testing.assert_allclose(model.bandwidths_, expected.bandwidths, atol=1e-8)
    assert model.history_["clusters"].tolist() == expected.clusters_left


@pytest.mark.parametrize("seed", range(5))
def test_a_fit_equals_the_reference(seed):
    points = skewed_clouds(seed)
    expected = reference.aaams(points, [Domain(2, 0.6, 0.5)])
    assert_same(AAAMS(0.6, 0.5).fit(points), expected)


def test_a_fit_of_the_reference_exercises_all_three_updates():
    kinds = [reference.aaams(skewed_clouds(seed), [Domain(2, 0.6, 0.5)]).kinds for seed in range(3)]
    assert {"scalar", "partial", "full"} in kinds


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_over_two_domains_equals_the_reference(seed):
    points = skewed_clouds(seed, dims=3, count=40) * [1.0, 1.0, 4.0]
    expected = reference.aaams(points, [Domain(2, 0.8, 0.9), Domain(1, 3.0, 2.0)])
    model = AAAMS((0.8, 3.0), (0.9, 2.0), domains=(2, 1)).fit(points)
    assert_same(model, expected)
    assert (model.bandwidths_[:, :2, 2] == 0).all()


def test_a_fit_by_the_member_rule_equals_the_reference():
    points = skewed_clouds(1)
    expected = reference.aaams(points, [Domain(2, 0.6, 0.5)], min_members=4)
    assert_same(AAAMS(0.6, 0.5, switch="members").fit(points), expected)


def test_a_fit_of_weighted_points_equals_the_reference():
    points = skewed_clouds(2)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(points))
    expected = reference.aaams(points, [Domain(2, 0.7, 0.7)], masses=weights)
    assert_same(AAAMS(0.7, 0.7).fit(points, sample_weight=weights), expected)


def test_merge_check_may_be_a_function_of_the_users_own():
    def bearing(position, points, shift, bearings, bandwidth, bandwidths):
        assert bandwidths.shape == (len(points), 2, 2)
        assert (np.linalg.norm(points - position, axis=1) <= 0.5 + 1e-9).all()
        assert {tuple(point) for point in points.round(6)} <= known
        closing = ((position - points) * (shift - bearings)).sum(axis=1) <= 0
        return closing & (bearings @ shift >= 0)

    points = skewed_clouds(0)
    known = {tuple(point) for point in points.round(6)}
    ours, theirs = AAAMS(0.6, 0.5).fit(points), AAAMS(0.6, 0.5, merge_check=bearing).fit(points)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    never = AAAMS(0.6, 0.5, merge_check=lambda u, y, *_: np.zeros(len(y), bool)).fit(points)
    assert len(never.modes_) == len(points)


def test_merge_check_by_proximity_alone_merges_at_least_as_much():
    points = skewed_clouds(0)
    light = AAAMS(0.6, 0.5).fit(points)
    assert len(AAAMS(0.6, 0.5, merge_check="proximity").fit(points).modes_) <= len(light.modes_)


# The paper's claims.


@pytest.mark.parametrize("seed", range(4))
def test_clusters_never_rise_in_number(seed):
    history = AAAMS(0.4, 0.4).fit(skewed_clouds(seed)).history_
    assert (np.diff(history["clusters"]) <= 0).all()
    assert history["clusters"][0] + history["merges"][0] == len(skewed_clouds(seed))


def test_clusters_of_dense_data_are_under_five_percent_by_iteration_twelve():
    dense = mixtures.cigars_3d(count=1200)
    history = AAAMS(0.5, 0.5).fit(dense.points).history_
    assert history["clusters"][11] < 0.05 * len(dense.points)


@pytest.mark.parametrize("seed", range(4))
def test_bandwidths_stay_symmetric_and_positive_definite(seed):
    model = AAAMS(0.4, 0.4).fit(skewed_clouds(seed, dims=4))
    np.testing.assert_allclose(model.bandwidths_, np.swapaxes(model.bandwidths_, 1, 2), atol=1e-12)
    assert (np.linalg.eigvalsh(model.bandwidths_) > 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_mean_shift_converges_while_bandwidths_vary(seed):
    model = AAAMS(0.5, 0.5, delta=1e-3, max_iter=1000).fit(skewed_clouds(seed))
    assert model.converged_
    assert model.n_iter_ < 500


@pytest.mark.parametrize("draw", [mixtures.cigars_2d, mixtures.cigars_3d])
@pytest.mark.parametrize("seed", range(2))
def test_clusters_are_stretched_mixtures_that_fixed_mean_shift_breaks(draw, seed):
    mixture = draw(seed=seed)
    model = AAAMS(0.5, 1.5, min_size=40).fit(mixture.points)
    assert len(model.modes_) == 3
    assert metrics.pri(model.labels_, mixture.labels) > 0.97
    for k, width in enumerate(model.bandwidths_):
        component = np.bincount(mixture.labels[model.labels_ == k]).argmax()
        values, vectors = np.linalg.eigh(width)
        assert abs(vectors[:, -1] @ mixture.axes[component]) > 0.98
        assert values[-1] > 3 * values[-2]
    fixed = reference.fixed_mean_shift(mixture.points, 0.5, every=5)
    assert np.count_nonzero(np.bincount(fixed) >= 40 / 5) > 3


def test_clusters_that_are_clear_get_exact_labels():
    mixture = mixtures.blobs([[0, 0], [8, 0], [0, 8], [8, 8]], count=80)
    model = AAAMS(1.0, 1.0).fit(mixture.points)
    assert metrics.pri(model.labels_, mixture.labels) == 1.0
    assert model.n_iter_ < 20


def test_clusters_of_a_flat_lattice_are_few_not_many():
    lattice = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), axis=-1).reshape(-1, 2)
    model = AAAMS(2.0, 2.0).fit(lattice)
    assert len(model.modes_) <= 4


# When it stops, and nudges.


def test_patience_stops_once_merges_cease():
    points = skewed_clouds(0)
    full, short = AAAMS(0.5, 0.5, delta=1e-8).fit(points), AAAMS(0.5, 0.5, delta=1e-8, patience=5)
    short.fit(points)
    assert short.n_iter_ < full.n_iter_
    assert not short.converged_
    assert (short.history_["merges"][-5:] == 0).all()


def test_nudged_clusters_settle_again_and_nudges_are_no_trajectory_points():
    points = mixtures.blobs([[0, 0], [9, 9]], count=60).points
    plain = AAAMS(1.0, 1.0).fit(points)
    nudged = AAAMS(1.0, 1.0, perturbations=3).fit(points)
    assert nudged.converged_
    assert nudged.n_iter_ > plain.n_iter_
    np.testing.assert_array_equal(nudged.labels_, plain.labels_)
    np.testing.assert_allclose(nudged.modes_, plain.modes_, atol=0.1)
    np.testing.assert_array_equal(
        nudged.modes_, AAAMS(1.0, 1.0, perturbations=3).fit(points).modes_
    )


def test_nudges_halve_and_take_the_longest_axis_first():
    state = state_after(mixtures.cigars_2d(count=150).points, SINGLE, 30)
    u = int(survivors(state)[0])
    values, vectors = np.linalg.eigh(state.bandwidth_of(np.array([u]))[0])
    first = state.nudge(u)
    assert np.linalg.norm(first) == pytest.approx(0.5 * np.sqrt(values[-1]))
    assert abs(first @ vectors[:, -1]) == pytest.approx(np.linalg.norm(first))
    state.nudges[u] = 2
    assert np.linalg.norm(state.nudge(u)) == pytest.approx(np.linalg.norm(first) / 4)


def test_history_tells_merges_and_shifts_of_every_iteration():
    model = AAAMS(0.5, 0.5).fit(skewed_clouds(0))
    history = model.history_
    assert len(history) == model.n_iter_
    np.testing.assert_array_equal(-np.diff(history["clusters"]), history["merges"][1:])
    assert (history["largest_shift"] >= history["mean_shift"]).all()
    assert history["clusters"][-1] == len(model.modes_)


# Neighbours and compiled signatures.


@pytest.mark.parametrize("dims", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 15, 200])
def test_tree_finds_every_neighbour_and_the_nearest(dims, count):
    rng = np.random.default_rng(dims * count)
    domains = [Domain(dims, 1.0, 1.0)]
    state = state_after(rng.normal(size=(count, dims)) * 2, domains, 0)
    rows = np.arange(min(count, 20))
    state.clusters.position[rows] += rng.normal(size=(len(rows), dims))
    index, dist_sq = np.empty(count, np.int64), np.empty(count)
    root = rng.normal(size=(dims, dims))
    width = root @ root.T + 0.1 * np.eye(dims)
    whitening = np.ascontiguousarray(np.linalg.cholesky(np.linalg.inv(width)).T)
    for u in rows:
        found = kernels.find_neighbours(
            state.tree, state.plan.domains, state.clusters.position[u],
            whitening, False, 2.0 * np.sqrt(np.diag(width)),
            np.full(dims, 4.0 * np.linalg.eigvalsh(width)[-1]), np.full(dims, 4.0), index, dist_sq,
        )  # fmt: skip
        expected = reference.neighbours(
            state.tree.points, state.clusters.position[u], width, domains, 2.0
        )
        assert sorted(index[:found]) == expected.tolist()
    nearest = [kernels.find_nearest(state.tree, state.clusters.position[u], 0) for u in rows]
    gaps = ((state.clusters.position[rows][:, None] - state.tree.points[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(nearest, gaps.argmin(axis=1))


def test_kernels_are_each_compiled_for_one_signature():
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("nothing is compiled")
    AAAMS(0.6, 0.5, min_size=3, bhattacharyya=0.1).fit(skewed_clouds(0))
    AAAMS((0.6, 1), (0.5, 1), domains=(1, 1)).fit(skewed_clouds(0).astype(np.float32))
    for kernel in (
        kernels.build_tree, kernels.shift_block, kernels.find_nearest, kernels.merge_clusters,
        kernels.extend_trajectories, kernels.effective_sizes, post_kernels.join_small,
        post_kernels.join_close,
    ):  # fmt: skip
        assert len(kernel.signatures) == 1, kernel

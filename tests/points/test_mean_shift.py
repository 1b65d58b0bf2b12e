"""AAAMS over points: every equation against the reference, then the paper's claims."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support import ROOT, TESTS, mixtures, reference
from support.reference import Domain

from aaams_stream import metrics
from aaams_stream.kernels import points as kernels
from aaams_stream.kernels import points_post as post_kernels
from aaams_stream.points import AAAMS
from aaams_stream.points.mean_shift import Climb
from aaams_stream.points.plan import Plan

SINGLE = [Domain(2, 1.0, 0.8)]  # a climb is scaled: σ is 1
JOINT = [Domain(2, 1.0, 0.8), Domain(1, 1.0, 1.2)]


def scene(seed, dims=2, count=50):
    """Return two skewed, overlapping clouds and a few stragglers (2·count + 8, dims)."""
    rng = np.random.default_rng(seed)
    turn = rng.normal(size=(dims, dims))
    near = rng.normal(size=(count, dims)) @ turn
    far = rng.normal(size=(count, dims)) @ turn.T + 5.0
    return np.concatenate([near, far, rng.uniform(-6, 9, size=(8, dims))])


def climbed(points, domains, steps, **options):
    """Return Alg. 1's state after so many iterations."""
    sizes = [domain.size for domain in domains]
    model = AAAMS([1.0] * len(sizes), [d.epsilon for d in domains], domains=sizes, **options)
    model.set_params(max_iter=max(steps, 1))
    plan = Plan.of(model, points.shape[1])
    climb = Climb(points, np.ones(len(points)), plan, np.zeros(points.shape[1]))
    if steps:
        climb.run()
    return climb


def trajectory(climb, u):
    """Return T_u as an array, newest chains first."""
    out, v = [], climb.head[u]
    while v >= 0:
        out.append(climb.pool[v])
        v = climb.pool_next[v]
    return np.array(out)


def survivors(climb):
    return np.unique(climb.owners())


# The equations, one by one.


@pytest.mark.parametrize("domains", [SINGLE, JOINT], ids=["single", "joint"])
@pytest.mark.parametrize(("kind", "name"), [(0, "scalar"), (1, "partial"), (2, "full")])
def test_each_update_follows_its_equation(kind, name, domains):
    compared = 0
    for seed in range(4):
        points = scene(seed, sum(d.size for d in domains))
        for steps in (0, 2, 3, 4):
            climb = climbed(points, domains, steps)
            rows = np.flatnonzero(climb.active)
            owners, confident = climb.owners().copy(), climb.confident.copy()
            before = climb.positions.copy()
            widths = climb.bandwidths(np.arange(len(points)))
            ones = np.ones(len(points))
            climb.update(rows)
            for u, used in zip(rows, climb.kinds, strict=True):
                near = reference.neighbours(climb.points, before[u], widths[u], domains, 3.0)
                expected_kind = 0
                if confident[u]:
                    expected_kind = 2 if confident[owners[near]].all() else 1
                assert used == expected_kind
                if used != kind:
                    continue
                if name == "scalar":
                    moved, _ = reference.scalar_update(climb.points, ones, before[u], domains, 3.0)
                elif name == "partial":
                    moved, _ = reference.partial_update(
                        climb.points, ones, before[u], widths[u], domains, 3.0
                    )
                else:
                    moved = reference.full_update(
                        climb.points, ones, before[u], widths[u], owners, widths, domains, 3.0
                    )
                np.testing.assert_allclose(climb.positions[u], moved, atol=1e-9)
                compared += 1
    assert compared > 5


def test_the_full_update_survives_neighbours_of_vanishing_weight():
    """A wide cluster amid narrow ones: every exp(−d²/2) is 0 in floating point."""
    points = np.array([[-50.0, 0.0], [60.0, 0.0], [0.0, 70.0]])
    whitenings = np.stack([np.eye(2)] * 3)
    index, owner, out = np.arange(3), np.arange(3), np.zeros(2)
    axes = np.array([0, 0]), np.array([2, 2])
    kernels.full_shift(
        points, np.ones(3), index, 3, owner, np.zeros(2), whitenings, np.zeros(3), *axes, out
    )
    np.testing.assert_allclose(out, points[0])  # the nearest of them, by far


def test_density_is_the_first_weight_sum_divided_by_its_maximum():
    points = scene(0)
    climb = climbed(points, SINGLE, 1)
    sums = [
        reference.scalar_update(climb.points, np.ones(len(points)), p, SINGLE, 3.0)[1]
        for p in climb.points
    ]
    np.testing.assert_allclose(climb.point_densities, np.array(sums) / max(sums))


def test_a_clusters_density_is_that_of_the_nearest_data_point():
    climb = climbed(scene(1), SINGLE, 3)
    for u in survivors(climb):
        assert climb.densities[u] == reference.density_at(
            climb.positions[u], climb.points, climb.point_densities, SINGLE
        )


@pytest.mark.parametrize("domains", [SINGLE, JOINT], ids=["single", "joint"])
def test_bandwidth_is_the_density_weighted_variance_of_the_trajectory(domains):
    climb = climbed(scene(2, sum(d.size for d in domains)), domains, 6)
    sure = [u for u in survivors(climb) if climb.confident[u]]
    assert sure
    for u in sure:
        path = trajectory(climb, u)
        densities = np.array(
            [reference.density_at(v, climb.points, climb.point_densities, domains) for v in path]
        )
        expected = reference.trajectory_bandwidth(path, densities, 0.25, domains)
        np.testing.assert_allclose(climb.bandwidths(np.array([u]))[0], expected, atol=1e-9)


def test_trajectories_leave_out_the_data_points_themselves():
    climb = climbed(scene(3), SINGLE, 1)
    assert climb.used == len(climb.points)  # one update each, and nothing before it
    np.testing.assert_array_equal(climb.pool[: climb.used], climb.points + climb.bearings)


def test_effective_sample_size_counts_what_the_mean_feels():
    climb = climbed(scene(4), SINGLE, 5)
    rows = survivors(climb)
    widths = np.stack([np.eye(2) * (0.5 + 0.1 * i) for i in range(len(rows))])
    whitenings = np.stack([np.linalg.cholesky(np.linalg.inv(w)).T for w in widths])
    sizes = np.empty(len(rows))
    plan = climb.plan
    kernels.effective_sizes(
        rows, climb.centre, np.ascontiguousarray(whitenings), plan.first, plan.last, np.inf,
        climb.head, climb.pool, climb.pool_count, climb.pool_next, sizes,
    )  # fmt: skip
    expected = [
        reference.effective_sample_size(path := trajectory(climb, u), np.ones(len(path)), w, SINGLE)
        for u, w in zip(rows, widths, strict=True)
    ]
    np.testing.assert_allclose(sizes, expected)


def test_eigenvalues_never_fall_below_xi():
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


def test_points_at_rest_pass_the_merge_check():
    rest = np.zeros(2)
    assert kernels.bearings_agree(np.array([0.1, 0.0]), rest, rest, rest)


@pytest.mark.parametrize("seed", range(5))
def test_bhattacharyya_distance_follows_its_formula(seed):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(2, 3, 3))
    sigma_a, sigma_b = (root @ root.T + 0.1 * np.eye(3) for root in roots)
    mean_a, mean_b = rng.normal(size=(2, 3))
    log_a, log_b = np.linalg.slogdet(sigma_a)[1], np.linalg.slogdet(sigma_b)[1]
    ours = post_kernels.bhattacharyya(mean_a, sigma_a, log_a, mean_b, sigma_b, log_b)
    assert ours == pytest.approx(reference.bhattacharyya(mean_a, sigma_a, mean_b, sigma_b))


# The whole of Alg. 1.


def assert_same(model, expected):
    np.testing.assert_array_equal(model.labels_, expected.labels)
    np.testing.assert_allclose(model.modes_, expected.modes, atol=1e-8)
    np.testing.assert_allclose(model.bandwidths_, expected.bandwidths, atol=1e-8)
    assert model.history_["clusters"].tolist() == expected.clusters_left


@pytest.mark.parametrize("seed", range(5))
def test_a_fit_equals_the_reference(seed):
    points = scene(seed)
    expected = reference.aaams(points, [Domain(2, 0.6, 0.5)])
    assert_same(AAAMS(0.6, 0.5).fit(points), expected)


def test_the_reference_scenes_exercise_all_three_updates():
    kinds = [reference.aaams(scene(seed), [Domain(2, 0.6, 0.5)]).kinds for seed in range(3)]
    assert {"scalar", "partial", "full"} in kinds


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_over_two_domains_equals_the_reference(seed):
    points = scene(seed, dims=3, count=40) * [1.0, 1.0, 4.0]
    expected = reference.aaams(points, [Domain(2, 0.8, 0.9), Domain(1, 3.0, 2.0)])
    model = AAAMS((0.8, 3.0), (0.9, 2.0), domains=(2, 1)).fit(points)
    assert_same(model, expected)
    assert (model.bandwidths_[:, :2, 2] == 0).all()


def test_the_member_rule_equals_the_reference():
    points = scene(1)
    expected = reference.aaams(points, [Domain(2, 0.6, 0.5)], min_members=4)
    assert_same(AAAMS(0.6, 0.5, switch="members").fit(points), expected)


def test_weighted_points_equal_the_reference():
    points = scene(2)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(points))
    expected = reference.aaams(points, [Domain(2, 0.7, 0.7)], masses=weights)
    assert_same(AAAMS(0.7, 0.7).fit(points, sample_weight=weights), expected)


def test_a_merge_check_of_the_users_own_may_replace_ours():
    def bearing(position, points, shift, bearings, bandwidth, bandwidths):
        assert bandwidths.shape == (len(points), 2, 2)
        assert (np.linalg.norm(points - position, axis=1) <= 0.5 + 1e-9).all()
        assert {tuple(point) for point in points.round(6)} <= known
        closing = ((position - points) * (shift - bearings)).sum(axis=1) <= 0
        return closing & (bearings @ shift >= 0)

    points = scene(0)
    known = {tuple(point) for point in points.round(6)}
    ours, theirs = AAAMS(0.6, 0.5).fit(points), AAAMS(0.6, 0.5, merge_check=bearing).fit(points)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    never = AAAMS(0.6, 0.5, merge_check=lambda u, y, *_: np.zeros(len(y), bool)).fit(points)
    assert len(never.modes_) == len(points)


def test_proximity_alone_merges_at_least_as_much():
    points = scene(0)
    light = AAAMS(0.6, 0.5).fit(points)
    assert len(AAAMS(0.6, 0.5, merge_check="proximity").fit(points).modes_) <= len(light.modes_)


# What must not matter.


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_points_does_not_matter(seed):
    points = scene(seed)
    order = np.random.default_rng(seed).permutation(len(points))
    labels = AAAMS(0.6, 0.5).fit_predict(points)
    shuffled = AAAMS(0.6, 0.5).fit_predict(points[order])
    # Modes of equal density (lone points) are numbered by index: compare the partitions.
    assert metrics.pri(shuffled, labels[order]) == 1.0


@pytest.mark.parametrize("offset", [1e3, -1e6])
def test_where_the_points_lie_does_not_matter(offset):
    points = scene(0)
    here, there = AAAMS(0.6, 0.5).fit(points), AAAMS(0.6, 0.5).fit(points + offset)
    np.testing.assert_array_equal(here.labels_, there.labels_)
    np.testing.assert_allclose(here.modes_ + offset, there.modes_, atol=1e-6)


def test_units_do_not_matter():
    points = scene(0)
    metres, millimetres = AAAMS(0.6, 0.5).fit(points), AAAMS(600.0, 500.0).fit(points * 1000)
    np.testing.assert_array_equal(metres.labels_, millimetres.labels_)
    assert metres.n_iter_ == millimetres.n_iter_


FIT_AND_PRINT = """
import sys
sys.path.insert(0, {tests!r})
from points.test_mean_shift import scene
from aaams_stream.points import AAAMS
model = AAAMS(0.6, 0.5, min_size=3, bhattacharyya=0.2).fit(scene(1, count={count}))
print(model.labels_.tobytes().hex(), model.n_iter_, *model.modes_.ravel().round({digits}))
"""


def fitted_elsewhere(count, digits, **environment):
    """Return what a fresh process prints for one fit under other settings."""
    code = FIT_AND_PRINT.format(tests=str(TESTS), count=count, digits=digits)
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


def test_one_thread_and_two_give_the_same_bits():
    one = fitted_elsewhere(400, 17, NUMBA_NUM_THREADS="1")
    assert one == fitted_elsewhere(400, 17, NUMBA_NUM_THREADS="2")


def test_interpreted_kernels_give_the_same_result():
    compiled = fitted_elsewhere(30, 9, NUMBA_DISABLE_JIT="0")
    assert compiled == fitted_elsewhere(30, 9, NUMBA_DISABLE_JIT="1")


def test_a_point_of_weight_two_counts_as_two():
    points = mixtures.blobs([[0, 0], [6, 0]], count=30).points
    twice = np.arange(len(points)) % 3 == 0
    repeated = np.concatenate([points, points[twice]])
    weighted = AAAMS(0.8, 1.0).fit(points, sample_weight=np.where(twice, 2.0, 1.0))
    plain = AAAMS(0.8, 1.0).fit(repeated)
    np.testing.assert_array_equal(weighted.labels_, plain.labels_[: len(points)])
    np.testing.assert_allclose(weighted.modes_, plain.modes_, atol=0.05)


def test_a_point_of_weight_zero_takes_no_part_but_gets_a_label():
    points = scene(0)
    extra = np.concatenate([points, points[:5] + 0.01])
    weights = np.r_[np.ones(len(points)), np.zeros(5)]
    with_extra = AAAMS(0.6, 0.5).fit(extra, sample_weight=weights)
    without = AAAMS(0.6, 0.5).fit(points)
    np.testing.assert_array_equal(with_extra.labels_[: len(points)], without.labels_)
    np.testing.assert_allclose(with_extra.modes_, without.modes_, atol=1e-9)
    np.testing.assert_array_equal(with_extra.labels_[-5:], without.labels_[:5])


# The paper's claims.


@pytest.mark.parametrize("seed", range(4))
def test_the_number_of_clusters_never_rises(seed):
    history = AAAMS(0.4, 0.4).fit(scene(seed)).history_
    assert (np.diff(history["clusters"]) <= 0).all()
    assert history["clusters"][0] + history["merges"][0] == len(scene(seed))


def test_dense_data_keeps_under_five_percent_of_clusters_by_iteration_twelve():
    dense = mixtures.cigars_3d(count=1200)
    history = AAAMS(0.5, 0.5).fit(dense.points).history_
    assert history["clusters"][11] < 0.05 * len(dense.points)


@pytest.mark.parametrize("seed", range(4))
def test_bandwidths_stay_symmetric_and_positive_definite(seed):
    model = AAAMS(0.4, 0.4).fit(scene(seed, dims=4))
    np.testing.assert_allclose(model.bandwidths_, np.swapaxes(model.bandwidths_, 1, 2), atol=1e-12)
    assert (np.linalg.eigvalsh(model.bandwidths_) > 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_it_converges_while_bandwidths_vary(seed):
    model = AAAMS(0.5, 0.5, delta=1e-3, max_iter=1000).fit(scene(seed))
    assert model.converged_
    assert model.n_iter_ < 500


@pytest.mark.parametrize("draw", [mixtures.cigars_2d, mixtures.cigars_3d])
@pytest.mark.parametrize("seed", range(2))
def test_stretched_mixtures_are_found_where_fixed_mean_shift_breaks_them(draw, seed):
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


def test_clear_clusters_get_exact_labels():
    mixture = mixtures.blobs([[0, 0], [8, 0], [0, 8], [8, 8]], count=80)
    model = AAAMS(1.0, 1.0).fit(mixture.points)
    assert metrics.pri(model.labels_, mixture.labels) == 1.0
    assert model.n_iter_ < 20


def test_a_flat_lattice_is_few_clusters_not_many():
    lattice = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), axis=-1).reshape(-1, 2)
    model = AAAMS(2.0, 2.0).fit(lattice)
    assert len(model.modes_) <= 4


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.floats(-9, 9)),
    st.floats(0.1, 5.0),
    st.floats(0.0, 5.0),
)
def test_any_points_get_a_whole_and_orderly_result(points, sigma, epsilon):
    model = AAAMS(sigma, epsilon).fit(points)
    assert np.unique(model.labels_).tolist() == list(range(len(model.modes_)))
    assert np.isfinite(model.modes_).all()
    assert (np.linalg.eigvalsh(model.bandwidths_) > 0).all()


def test_identical_points_are_one_cluster():
    model = AAAMS(1.0, 0.0).fit(np.ones((40, 3)))
    assert model.labels_.tolist() == [0] * 40
    np.testing.assert_allclose(model.modes_, np.ones((1, 3)))


def test_one_point_is_one_cluster_with_the_base_bandwidth():
    model = AAAMS(2.0, 1.0).fit([[3.0, 4.0]])
    assert model.modes_.tolist() == [[3.0, 4.0]]
    assert model.bandwidths_.tolist() == [[[4.0, 0.0], [0.0, 4.0]]]


def test_the_densest_mode_comes_first():
    model = AAAMS(0.5, 0.5).fit(scene(0))
    assert (np.diff(model.densities_) <= 0).all()
    assert 0 < model.densities_[-1] <= model.densities_[0] <= 1


# When it stops, nudges, and Alg. 2.


def test_patience_stops_once_merges_cease():
    points = scene(0)
    full, short = AAAMS(0.5, 0.5, delta=1e-8).fit(points), AAAMS(0.5, 0.5, delta=1e-8, patience=5)
    short.fit(points)
    assert short.n_iter_ < full.n_iter_
    assert not short.converged_
    assert (short.history_["merges"][-5:] == 0).all()


def test_perturbed_clusters_settle_again_and_nudges_are_no_trajectory_points():
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
    climb = climbed(mixtures.cigars_2d(count=150).points, SINGLE, 30)
    u = int(survivors(climb)[0])
    values, vectors = np.linalg.eigh(climb.bandwidths(np.array([u]))[0])
    first = climb.nudge(u)
    assert np.linalg.norm(first) == pytest.approx(0.5 * np.sqrt(values[-1]))
    assert abs(first @ vectors[:, -1]) == pytest.approx(np.linalg.norm(first))
    climb.nudges[u] = 2
    assert np.linalg.norm(climb.nudge(u)) == pytest.approx(np.linalg.norm(first) / 4)


def test_small_clusters_join_the_nearest_mode():
    mixture = mixtures.blobs([[0, 0], [20, 0]], count=50)
    points = np.concatenate([mixture.points, [[6.0, 0.0], [14.0, 0.0]]])
    assert len(AAAMS(1.0, 1.0).fit(points).modes_) == 4
    model = AAAMS(1.0, 1.0, min_size=5).fit(points)
    assert len(model.modes_) == 2
    assert model.labels_[-2] == model.labels_[0]
    assert model.labels_[-1] == model.labels_[50]


def test_close_clusters_join_below_the_bhattacharyya_distance():
    mixture = mixtures.blobs([[0, 0], [2.2, 0], [20, 0]], count=80)
    apart = AAAMS(0.4, 0.4, min_size=10).fit(mixture.points)
    joined = AAAMS(0.4, 0.4, min_size=10, bhattacharyya=3.0).fit(mixture.points)
    assert len(apart.modes_) >= 3
    assert len(joined.modes_) == 2
    assert joined.labels_[0] == joined.labels_[80] != joined.labels_[160]


def test_clusters_out_of_reach_do_not_join_by_bhattacharyya():
    mixture = mixtures.blobs([[0, 0], [10, 0]], count=60)
    near = AAAMS(1.0, 1.0, bhattacharyya=1e9, connect=5.0).fit(mixture.points)
    assert len(near.modes_) == 2
    assert len(AAAMS(1.0, 1.0, bhattacharyya=1e9).fit(mixture.points).modes_) == 1


def test_the_closest_pair_joins_first_and_its_statistics_are_renewed():
    """A chain 0-1-2: once 0 and 1 are one, wide cluster, 2 is judged against both."""
    ends = mixtures.blobs([[0, 0], [4, 0], [9, 0]], count=100, spread=0.6)
    model = AAAMS(0.8, 0.8, min_size=10, n_clusters=2).fit(ends.points)
    assert len(model.modes_) == 2
    assert model.labels_[0] == model.labels_[100] != model.labels_[200]


def test_asking_for_more_clusters_than_there_are_gives_what_there_is():
    mixture = mixtures.blobs([[0, 0], [10, 0]], count=40)
    assert len(AAAMS(1.0, 1.0, n_clusters=7).fit(mixture.points).modes_) == 2


def test_history_tells_merges_and_shifts_of_every_iteration():
    model = AAAMS(0.5, 0.5).fit(scene(0))
    history = model.history_
    assert len(history) == model.n_iter_
    np.testing.assert_array_equal(-np.diff(history["clusters"]), history["merges"][1:])
    assert (history["largest_shift"] >= history["mean_shift"]).all()
    assert history["clusters"][-1] == len(model.modes_)


# Neighbours and compiled signatures.


@pytest.mark.parametrize("dims", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 15, 200])
def test_the_tree_finds_every_neighbour_and_the_nearest(dims, count):
    rng = np.random.default_rng(dims * count)
    domains = [Domain(dims, 1.0, 1.0)]
    climb = climbed(rng.normal(size=(count, dims)) * 2, domains, 0)
    rows = np.arange(min(count, 20))
    climb.positions[rows] += rng.normal(size=(len(rows), dims))
    index, dist_sq = np.empty(count, np.int64), np.empty(count)
    root = rng.normal(size=(dims, dims))
    width = root @ root.T + 0.1 * np.eye(dims)
    whitening = np.ascontiguousarray(np.linalg.cholesky(np.linalg.inv(width)).T)
    for u in rows:
        found = kernels.find_neighbours(
            climb.points, *climb.tree, climb.plan.first, climb.plan.last, climb.positions[u],
            whitening, False, 2.0 * np.sqrt(np.diag(width)),
            np.full(dims, 4.0 * np.linalg.eigvalsh(width)[-1]), np.full(dims, 4.0), index, dist_sq,
        )  # fmt: skip
        expected = reference.neighbours(climb.points, climb.positions[u], width, domains, 2.0)
        assert sorted(index[:found]) == expected.tolist()
    nearest = [
        kernels.find_nearest(climb.points, *climb.tree, climb.original, climb.positions[u], 0)
        for u in rows
    ]
    gaps = ((climb.positions[rows][:, None] - climb.points[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(nearest, gaps.argmin(axis=1))


def test_every_kernel_is_compiled_for_one_signature():
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("nothing is compiled")
    AAAMS(0.6, 0.5, min_size=3, bhattacharyya=0.1).fit(scene(0))
    AAAMS((0.6, 1), (0.5, 1), domains=(1, 1)).fit(scene(0).astype(np.float32))
    for kernel in (
        kernels.build_tree, kernels.shift_block, kernels.find_nearest, kernels.merge_clusters,
        kernels.extend_trajectories, kernels.effective_sizes, post_kernels.reduce_clusters,
    ):  # fmt: skip
        assert len(kernel.signatures) == 1, kernel

"""Alg. 2 over points: which clusters join."""

from __future__ import annotations

import numpy as np
import pytest
from support import mixtures, reference

from aaams_stream.kernels import points_post as kernels
from aaams_stream.points import AAAMS


@pytest.mark.parametrize("seed", range(5))
def test_bhattacharyya_distance_follows_its_formula(seed):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(2, 3, 3))
    sigma_a, sigma_b = (root @ root.T + 0.1 * np.eye(3) for root in roots)
    mean_a, mean_b = rng.normal(size=(2, 3))
    log_a, log_b = np.linalg.slogdet(sigma_a)[1], np.linalg.slogdet(sigma_b)[1]
    ours = kernels.bhattacharyya(mean_a, sigma_a, log_a, mean_b, sigma_b, log_b)
    assert ours == pytest.approx(reference.bhattacharyya(mean_a, sigma_a, mean_b, sigma_b))


def test_clusters_that_are_small_join_the_nearest_mode():
    mixture = mixtures.blobs([[0, 0], [20, 0]], count=50)
    points = np.concatenate([mixture.points, [[6.0, 0.0], [14.0, 0.0]]])
    assert len(AAAMS(1.0, 1.0).fit(points).modes_) == 4
    model = AAAMS(1.0, 1.0, min_size=5).fit(points)
    assert len(model.modes_) == 2
    assert model.labels_[-2] == model.labels_[0]
    assert model.labels_[-1] == model.labels_[50]


def test_clusters_join_below_the_bhattacharyya_distance():
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


def test_clusters_closest_to_each_other_join_first_and_renew_their_statistics():
    """A chain 0-1-2: once 0 and 1 are one, wide cluster, 2 is judged against both."""
    ends = mixtures.blobs([[0, 0], [4, 0], [9, 0]], count=100, spread=0.6)
    model = AAAMS(0.8, 0.8, min_size=10, n_clusters=2).fit(ends.points)
    assert len(model.modes_) == 2
    assert model.labels_[0] == model.labels_[100] != model.labels_[200]


def test_n_clusters_above_what_there_is_gives_what_there_is():
    mixture = mixtures.blobs([[0, 0], [10, 0]], count=40)
    assert len(AAAMS(1.0, 1.0, n_clusters=7).fit(mixture.points).modes_) == 2

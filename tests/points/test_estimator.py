"""AAAMS as an estimator: scikit-learn's conventions, and what must not matter to a fit."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support import ROOT, TESTS, mixtures
from support.mixtures import skewed_clouds

from aaams_stream import metrics
from aaams_stream.errors import ConfigError
from aaams_stream.points import AAAMS

# Checks of scikit-learn that AAAMS does not pass, and why.
EXCEPTIONS = {
    "check_dtype_object": "a column of dicts raises our ConfigError, a ValueError that says "
    "'X must hold numbers'; the check insists on TypeError",
}


@pytest.mark.filterwarnings("ignore:Estimator AAAMS does not inherit:UserWarning")
def test_aaams_passes_scikit_learns_own_checks():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    results = checks.check_estimator(AAAMS(1.0, 1.0), on_fail=None, on_skip=None)
    assert len(results) > 30
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert set(failed) == set(EXCEPTIONS), failed


def test_aaams_works_at_the_end_of_a_pipeline():
    pipeline = pytest.importorskip("sklearn.pipeline")
    scaler = pytest.importorskip("sklearn.preprocessing").StandardScaler()
    rng = np.random.default_rng(0)
    points = rng.normal(size=(80, 2))
    points[40:, 0] += 200
    labels = pipeline.make_pipeline(scaler, AAAMS(0.4, 0.4)).fit_predict(points)
    assert len(set(labels[:40]) & set(labels[40:])) == 0


def test_a_clone_keeps_every_argument():
    clone = pytest.importorskip("sklearn.base").clone
    model = AAAMS((1.0, 2.0), (1.0, 1.0), domains=(1, 2), xi=0.5, n_clusters=4)
    assert clone(model).get_params() == model.get_params()


def test_a_fit_keeps_the_names_of_columns():
    class Table(np.ndarray):
        columns = ("height", "width")

    table = np.eye(2).view(Table)
    model = AAAMS(1.0, 1.0).fit(table)
    assert model.feature_names_in_.tolist() == ["height", "width"]
    assert not hasattr(model.fit(np.eye(2)), "feature_names_in_")


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(AAAMS(1.0, 0.5, min_size=4)) == "AAAMS(bandwidth=1.0, epsilon=0.5, min_size=4)"


def test_a_fit_needs_neither_scikit_learn_nor_scipy():
    code = (
        "import sys; sys.modules['sklearn'] = sys.modules['scipy'] = None; import numpy as np; "
        "from aaams_stream import AAAMS; print(len(AAAMS(1., 1.).fit(np.eye(3) * 9).modes_))"
    )
    root = ROOT
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root
    )
    assert run.stdout == "3\n", run.stderr


def test_set_params_names_an_unknown_parameter():
    with pytest.raises(ConfigError, match="no parameter 'sigma'; known: bandwidth"):
        AAAMS(1.0, 1.0).set_params(sigma=2)


# What must not matter.


@pytest.mark.parametrize("seed", range(5))
def test_a_fit_does_not_depend_on_the_order_of_points(seed):
    points = skewed_clouds(seed)
    order = np.random.default_rng(seed).permutation(len(points))
    labels = AAAMS(0.6, 0.5).fit_predict(points)
    shuffled = AAAMS(0.6, 0.5).fit_predict(points[order])
    # Modes of equal density (lone points) are numbered by index: compare the partitions.
    assert metrics.pri(shuffled, labels[order]) == 1.0


@pytest.mark.parametrize("offset", [1e3, -1e6])
def test_a_fit_does_not_depend_on_where_the_points_lie(offset):
    points = skewed_clouds(0)
    here, there = AAAMS(0.6, 0.5).fit(points), AAAMS(0.6, 0.5).fit(points + offset)
    np.testing.assert_array_equal(here.labels_, there.labels_)
    np.testing.assert_allclose(here.modes_ + offset, there.modes_, atol=1e-6)


def test_a_fit_does_not_depend_on_units():
    points = skewed_clouds(0)
    metres, millimetres = AAAMS(0.6, 0.5).fit(points), AAAMS(600.0, 500.0).fit(points * 1000)
    np.testing.assert_array_equal(metres.labels_, millimetres.labels_)
    assert metres.n_iter_ == millimetres.n_iter_


FIT_AND_PRINT = """
import sys
sys.path.insert(0, {tests!r})
from support.mixtures import skewed_clouds
from aaams_stream.points import AAAMS
model = AAAMS(0.6, 0.5, min_size=3, bhattacharyya=0.2).fit(skewed_clouds(1, count={count}))
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


def test_a_fit_has_the_same_bits_with_one_thread_and_two():
    one = fitted_elsewhere(400, 17, NUMBA_NUM_THREADS="1")
    assert one == fitted_elsewhere(400, 17, NUMBA_NUM_THREADS="2")


def test_a_fit_with_interpreted_kernels_gives_the_same_result():
    compiled = fitted_elsewhere(30, 9, NUMBA_DISABLE_JIT="0")
    assert compiled == fitted_elsewhere(30, 9, NUMBA_DISABLE_JIT="1")


def test_sample_weight_two_counts_as_two_points():
    points = mixtures.blobs([[0, 0], [6, 0]], count=30).points
    twice = np.arange(len(points)) % 3 == 0
    repeated = np.concatenate([points, points[twice]])
    weighted = AAAMS(0.8, 1.0).fit(points, sample_weight=np.where(twice, 2.0, 1.0))
    plain = AAAMS(0.8, 1.0).fit(repeated)
    np.testing.assert_array_equal(weighted.labels_, plain.labels_[: len(points)])
    np.testing.assert_allclose(weighted.modes_, plain.modes_, atol=0.05)


def test_sample_weight_zero_takes_no_part_but_gets_a_label():
    points = skewed_clouds(0)
    extra = np.concatenate([points, points[:5] + 0.01])
    weights = np.r_[np.ones(len(points)), np.zeros(5)]
    with_extra = AAAMS(0.6, 0.5).fit(extra, sample_weight=weights)
    without = AAAMS(0.6, 0.5).fit(points)
    np.testing.assert_array_equal(with_extra.labels_[: len(points)], without.labels_)
    np.testing.assert_allclose(with_extra.modes_, without.modes_, atol=1e-9)
    np.testing.assert_array_equal(with_extra.labels_[-5:], without.labels_[:5])


# What every result is.


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.floats(-9, 9)),
    st.floats(0.1, 5.0),
    st.floats(0.0, 5.0),
)
def test_a_fit_of_any_points_is_whole_and_orderly(points, sigma, epsilon):
    model = AAAMS(sigma, epsilon).fit(points)
    assert np.unique(model.labels_).tolist() == list(range(len(model.modes_)))
    assert np.isfinite(model.modes_).all()
    assert (np.linalg.eigvalsh(model.bandwidths_) > 0).all()


def test_a_fit_of_identical_points_is_one_cluster():
    model = AAAMS(1.0, 0.0).fit(np.ones((40, 3)))
    assert model.labels_.tolist() == [0] * 40
    np.testing.assert_allclose(model.modes_, np.ones((1, 3)))


def test_a_fit_of_one_point_is_one_cluster_with_the_base_bandwidth():
    model = AAAMS(2.0, 1.0).fit([[3.0, 4.0]])
    assert model.modes_.tolist() == [[3.0, 4.0]]
    assert model.bandwidths_.tolist() == [[[4.0, 0.0], [0.0, 4.0]]]


def test_modes_begin_with_the_densest():
    model = AAAMS(0.5, 0.5).fit(skewed_clouds(0))
    assert (np.diff(model.densities_) <= 0).all()
    assert 0 < model.densities_[-1] <= model.densities_[0] <= 1

"""AAAMS as an estimator: scikit-learn's conventions, though it never depends on it; arguments."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from support import ROOT

from aaams_stream.errors import ConfigError
from aaams_stream.points import AAAMS

# Checks of scikit-learn that AAAMS does not pass, and why.
EXCEPTIONS = {
    "check_dtype_object": "a column of dicts raises our ConfigError, a ValueError that says "
    "'X must hold numbers'; the check insists on TypeError",
}


@pytest.mark.filterwarnings("ignore:Estimator AAAMS does not inherit:UserWarning")
def test_it_passes_scikit_learns_own_checks():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    results = checks.check_estimator(AAAMS(1.0, 1.0), on_fail=None, on_skip=None)
    assert len(results) > 30
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert set(failed) == set(EXCEPTIONS), failed


def test_it_works_at_the_end_of_a_pipeline():
    pipeline = pytest.importorskip("sklearn.pipeline")
    scaler = pytest.importorskip("sklearn.preprocessing").StandardScaler()
    rng = np.random.default_rng(0)
    points = rng.normal(size=(80, 2))
    points[40:, 0] += 200
    labels = pipeline.make_pipeline(scaler, AAAMS(0.4, 0.4)).fit_predict(points)
    assert len(set(labels[:40]) & set(labels[40:])) == 0


def test_clones_keep_every_argument():
    clone = pytest.importorskip("sklearn.base").clone
    model = AAAMS((1.0, 2.0), (1.0, 1.0), domains=(1, 2), xi=0.5, n_clusters=4)
    assert clone(model).get_params() == model.get_params()


def test_a_table_with_named_columns_leaves_its_names():
    class Table(np.ndarray):
        columns = ("height", "width")

    table = np.eye(2).view(Table)
    model = AAAMS(1.0, 1.0).fit(table)
    assert model.feature_names_in_.tolist() == ["height", "width"]
    assert not hasattr(model.fit(np.eye(2)), "feature_names_in_")


def test_the_representation_shows_what_differs_from_the_defaults():
    assert repr(AAAMS(1.0, 0.5, min_size=4)) == "AAAMS(bandwidth=1.0, epsilon=0.5, min_size=4)"


def test_fitting_needs_neither_scikit_learn_nor_scipy():
    code = (
        "import sys; sys.modules['sklearn'] = sys.modules['scipy'] = None; import numpy as np; "
        "from aaams_stream import AAAMS; print(len(AAAMS(1., 1.).fit(np.eye(3) * 9).modes_))"
    )
    root = ROOT
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root
    )
    assert run.stdout == "3\n", run.stderr


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.empty((0, 2)), r"0 sample\(s\)"),
        (np.empty((5, 0)), r"0 feature\(s\)"),
        (np.ones(5), "Reshape your data"),
        (np.ones((2, 2, 2)), "2-D"),
        ([[1.0, np.nan]], "NaN at row 0, column 1"),
        ([[np.inf, 1.0]], "inf at row 0, column 0"),
        ([["a", "b"]], "must hold numbers"),
        ([[1 + 2j]], "Complex"),
    ],
)
def test_bad_points_are_named(points, message):
    with pytest.raises(ConfigError, match=message):
        AAAMS(1.0, 1.0).fit(points)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidth": 0.0}, r"bandwidth must be a number > 0, got 0\.0"),
        ({"bandwidth": -1}, "bandwidth .* got -1"),
        ({"bandwidth": "wide"}, "bandwidth .* got 'wide'"),
        ({"bandwidth": float("nan")}, "bandwidth .* got nan"),
        ({"bandwidth": (1.0, 2.0)}, "one value for each of 1 domains"),
        ({"epsilon": -0.1}, r"epsilon must be a number >= 0, got -0\.1"),
        ({"domains": (1, 2)}, "sum to the 2 columns"),
        ({"domains": (1, 1)}, "one value for each of 2 domains"),
        ({"truncation": 0}, "truncation"),
        ({"xi": 0.0}, "xi"),
        ({"switch": "never"}, 'switch must be "ess" or "members"'),
        ({"merge_check": "maybe"}, "merge_check .* got 'maybe'"),
        ({"delta": 0}, "delta"),
        ({"max_iter": 1.5}, r"max_iter must be a whole number >= 1, got 1\.5"),
        ({"patience": 0}, "patience"),
        ({"perturbations": -1}, "perturbations"),
        ({"bhattacharyya": -1}, "bhattacharyya"),
        ({"connect": 0}, "connect"),
        ({"n_clusters": 0}, "n_clusters"),
        ({"merge_check": lambda u, y, *_: np.ones(len(y))}, "booleans"),
    ],
)
def test_bad_arguments_are_named_with_their_value(options, message):
    model = AAAMS(**{"bandwidth": 1.0, "epsilon": 1.0, **options})
    with pytest.raises(ConfigError, match=message):
        model.fit(np.random.default_rng(0).normal(size=(20, 2)))


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [0.0, 0.0], [1.0, np.nan], ["a", "b"]])
def test_bad_weights_are_named(weights):
    with pytest.raises(ConfigError, match="sample_weight"):
        AAAMS(1.0, 1.0).fit([[0.0], [1.0]], sample_weight=weights)


def test_unknown_parameters_are_named():
    with pytest.raises(ConfigError, match="no parameter 'sigma'; known: bandwidth"):
        AAAMS(1.0, 1.0).set_params(sigma=2)

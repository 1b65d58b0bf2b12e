"""AAAMS as a scikit-learn estimator, though it never depends on scikit-learn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aaams_stream.points import AAAMS

sklearn = pytest.importorskip("sklearn")

# Checks of scikit-learn that AAAMS does not pass, and why.
EXCEPTIONS = {
    "check_dtype_object": "a column of dicts raises our ConfigError, a ValueError that says "
    "'X must hold numbers'; the check insists on TypeError",
}


@pytest.mark.filterwarnings("ignore:Estimator AAAMS does not inherit:UserWarning")
def test_it_passes_scikit_learns_own_checks():
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(AAAMS(1.0, 1.0), on_fail=None, on_skip=None)
    assert len(results) > 30
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert set(failed) == set(EXCEPTIONS), failed


def test_it_works_at_the_end_of_a_pipeline():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    points = rng.normal(size=(80, 2))
    points[40:, 0] += 200
    labels = make_pipeline(StandardScaler(), AAAMS(0.4, 0.4)).fit_predict(points)
    assert len(set(labels[:40]) & set(labels[40:])) == 0


def test_clones_keep_every_argument():
    from sklearn.base import clone

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
    root = Path(__file__).resolve().parent.parent
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root
    )
    assert run.stdout == "3\n", run.stderr

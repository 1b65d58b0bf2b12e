"""The arguments of a fit: what is wrong with them is said in full."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream.errors import ConfigError
from aaams_stream.points import AAAMS


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
def test_points_that_are_no_points_are_named(points, message):
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
def test_arguments_out_of_range_are_named_with_their_value(options, message):
    model = AAAMS(**{"bandwidth": 1.0, "epsilon": 1.0, **options})
    with pytest.raises(ConfigError, match=message):
        model.fit(np.random.default_rng(0).normal(size=(20, 2)))


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [0.0, 0.0], [1.0, np.nan], ["a", "b"]])
def test_weights_that_are_no_weights_are_named(weights):
    with pytest.raises(ConfigError, match="sample_weight"):
        AAAMS(1.0, 1.0).fit([[0.0], [1.0]], sample_weight=weights)

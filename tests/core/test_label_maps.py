"""Label maps as a whole."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream.kernels import label_maps


def test_apply_lut_renames_labels_and_those_below_0_stay():
    labels = np.array([[0, 2, -1], [1, -2, 2]], np.int32)
    out = np.empty_like(labels)
    label_maps.apply_lut(labels, np.array([7, 5, -2], np.int32), out)
    assert out.tolist() == [[7, -2, -1], [5, -2, -2]]
    label_maps.apply_lut(labels, np.array([7, 5, -2], np.int32), labels)
    np.testing.assert_array_equal(labels, out)


@pytest.mark.parametrize(("begin", "at", "count"), [(0, 0, 8), (3, 0, 5), (0, 5, 3), (7, 2, 1)])
def test_move_ids_renames_some_frames_and_leaves_the_others(begin, at, count):
    rng = np.random.default_rng(count)
    source = rng.integers(0, 9, (40, 8)).astype(np.uint32)
    target = np.full((40, 8), 77, np.uint32)
    lookup = np.r_[0, rng.permutation(100)[:8] + 1].astype(np.uint32)
    expected = target.copy()
    expected[:, at : at + count] = lookup[source[:, begin : begin + count]]
    assert label_maps.move_ids(source, begin, lookup, target, at, count) == 0
    np.testing.assert_array_equal(target, expected)


def test_move_ids_counts_ids_that_the_lookup_does_not_have():
    source = np.array([[1, 5, 2, 9]], np.uint32)
    target = np.zeros((1, 4), np.uint32)
    lookup = np.array([0, 11, 12], np.uint32)
    assert label_maps.move_ids(source, 0, lookup, target, 0, 4) == 2
    assert target.tolist() == [[11, 0, 12, 0]]

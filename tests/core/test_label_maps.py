"""Label maps as a whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aaams_stream.kernels import label_maps


def test_apply_lut_renames_labels_and_those_below_0_stay():
    labels = np.array([[0, 2, -1], [1, -2, 2]], np.int32)
    out = np.empty_like(labels)
    label_maps.apply_lut(labels, np.array([7, 5, -2], np.int32), out)
    assert out.tolist() == [[7, -2, -1], [5, -2, -2]]
    label_maps.apply_lut(labels, np.array([7, 5, -2], np.int32), labels)
    np.testing.assert_array_equal(labels, out)


@given(hnp.arrays(np.int32, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.integers(-2, 4)))
def test_count_labels_counts_pixels_and_leaves_negative_labels_out(labels):
    area = np.full(6, 99, np.int64)
    label_maps.count_labels(labels, area)
    assert area.tolist() == [np.count_nonzero(labels == label) for label in range(6)]

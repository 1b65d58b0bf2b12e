"""Label maps as a whole."""

from __future__ import annotations

import numpy as np

from aaams_stream.kernels import label_maps


def test_apply_lut_renames_labels_and_those_below_0_stay():
    labels = np.array([[0, 2, -1], [1, -2, 2]], np.int32)
    out = np.empty_like(labels)
    label_maps.apply_lut(labels, np.array([7, 5, -2], np.int32), out)
    assert out.tolist() == [[7, -2, -1], [5, -2, -2]]
    label_maps.apply_lut(labels, np.array([7, 5, -2], np.int32), labels)
    np.testing.assert_array_equal(labels, out)

"""The measures of masks, J and F."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream.metrics import contour_accuracy, region_similarity


def test_region_similarity_and_contour_accuracy_are_those_of_known_masks():
    mask, moved = np.zeros((2, 100, 100), bool)
    mask[20:60, 20:60] = True
    moved[20:60, 30:70] = True
    assert region_similarity(mask, moved) == 1200 / 2000
    assert region_similarity(mask, mask) == contour_accuracy(mask, mask) == 1
    assert region_similarity(mask & False, mask & False) == 1
    assert contour_accuracy(mask & False, mask) == region_similarity(mask & False, mask) == 0
    near = np.roll(mask, 2, axis=1)  # within the reach of 2 pixels
    assert contour_accuracy(mask, near) == 1
    assert 0.3 < contour_accuracy(mask, moved) < 0.7
    with pytest.raises(ValueError, match="alike"):
        region_similarity(mask, mask[1:])

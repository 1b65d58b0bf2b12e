"""A frame with its segments as one picture."""

from __future__ import annotations

import numpy as np
import pytest
from support.live import newest

from aaams_stream.live.paint import VIEWS, paint_view

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.parametrize("view", VIEWS)
def test_view_is_laid_over_the_picture(shared, view):
    shown = newest(shared[0])
    np.testing.assert_array_equal(paint_view(shown, view, 0.0), shown.frame.rgb)
    full = paint_view(shown, view, 1.0).astype(int)
    half = paint_view(shown, view, 0.5).astype(int)
    assert (full != shown.frame.rgb).any()
    assert np.abs(half - (full + shown.frame.rgb) / 2).max() <= 1

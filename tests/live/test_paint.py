"""A frame with its segments as one picture."""

from __future__ import annotations

import numpy as np
import pytest
from support.cameras import GatedSource, fake_camera
from support.live import PARAMS, play

from aaams_stream.live import LiveLoop
from aaams_stream.live.paint import VIEWS, paint_view


@pytest.fixture(scope="module")
def shown(compiled):
    """Return a frame in which things have moved."""
    camera = GatedSource(fake_camera())
    with LiveLoop(camera, PARAMS) as loop:
        return play(loop, camera, 8)


@pytest.mark.parametrize("view", VIEWS)
def test_view_is_laid_over_the_picture(shown, view):
    np.testing.assert_array_equal(paint_view(shown, view, 0.0), shown.frame.rgb)
    full = paint_view(shown, view, 1.0).astype(int)
    half = paint_view(shown, view, 0.5).astype(int)
    assert (full != shown.frame.rgb).any()
    assert np.abs(half - (full + shown.frame.rgb) / 2).max() <= 1

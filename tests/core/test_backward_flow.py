"""Optical flow between two frames: where each pixel was before."""

from __future__ import annotations

import threading

import cv2
import numpy as np
import pytest
from support import grids

from aaams_stream.core.flow import backward_flow
from aaams_stream.params import FLOWS


@pytest.mark.parametrize("quality", FLOWS)
@pytest.mark.parametrize("shape", [(120, 160), (33, 40), (32, 200)])
def test_backward_flow_points_to_where_a_pixel_was(quality, shape):
    before = grids.blurred_noise(*shape)[..., 0].repeat(4, 0).repeat(4, 1)
    now = np.roll(before, (2, -3), (0, 1))
    h, w = now.shape
    for size in ((h, w), (2 * h, 2 * w), (h, 3 * w)):
        inner = backward_flow(now, before, size, quality)[16:-16, 16:-16]
        there = (3 * size[1] / w, -2 * size[0] / h)
        np.testing.assert_allclose(np.median(inner, axis=(0, 1)), there, atol=0.5 * size[1] / w)


@pytest.mark.parametrize("quality", FLOWS)
@pytest.mark.parametrize("shape", [(1, 1), (15, 90), (16, 16), (31, 90), (33, 47)])
def test_backward_flow_of_a_still_picture_is_none_whatever_its_size(quality, shape):
    luma = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    flow = backward_flow(luma, luma, (50, 70), quality)
    assert flow.shape == (50, 70, 2)
    assert np.abs(flow).max() < 0.1


def test_backward_flow_in_several_threads_leaves_the_number_of_threads_alone():
    rng = np.random.default_rng(0)
    luma = rng.integers(0, 256, (2, 60, 80), np.uint8)
    usual = cv2.getNumThreads()
    cv2.setNumThreads(2)

    def seek():
        for _ in range(200):
            backward_flow(luma[0], luma[1], (60, 80), "fine")

    try:
        threads = [threading.Thread(target=seek) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(usual)

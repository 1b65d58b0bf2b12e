"""Optical flow between two frames: where each pixel was before."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from support import grids

from aaams_stream.core.flow import backward_flow
from aaams_stream.core.tuning import DEFAULT
from aaams_stream.kernels.flow import SIDE
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


@pytest.mark.parametrize("stride", range(1, 9))
@pytest.mark.parametrize("shape", [(16, 16), (17, 40), (35, 16), (31, 33), (50, 53)])
def test_backward_flow_finds_a_motion_whatever_the_size_and_the_stride(shape, stride):
    """From the least size that is searched on; few of them end where a stride does."""
    h, w = shape
    scene = grids.blurred_noise(h + 8, w + 8)[..., 0]
    scene = cv2.GaussianBlur(scene, (0, 0), 1.5)
    before, now = scene[4 : 4 + h, 4 : 4 + w], scene[3 : 3 + h, 6 : 6 + w]
    tuning = dataclasses.replace(DEFAULT, flow_stride=stride)
    flow = backward_flow(now, before, shape, "fine", tuning)
    assert np.isfinite(flow).all()
    off = np.hypot(*np.moveaxis(flow - (2, -1), 2, 0))
    assert np.median(off) < 0.1
    assert np.median(off[-SIDE:, :-SIDE]) < 0.1  # the last patches, too
    assert np.median(off[SIDE:, :SIDE]) < 0.1


@pytest.mark.parametrize("quality", FLOWS)
@pytest.mark.parametrize("shape", [(1, 1), (15, 90), (16, 16), (31, 90), (33, 47)])
def test_backward_flow_of_a_still_picture_is_none_whatever_its_size(quality, shape):
    luma = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    flow = backward_flow(luma, luma, (50, 70), quality)
    assert flow.shape == (50, 70, 2)
    assert np.abs(flow).max() < 0.1


def test_backward_flow_in_several_threads_is_the_same():
    rng = np.random.default_rng(0)
    luma = rng.integers(0, 256, (2, 60, 80), np.uint8)
    expected = backward_flow(luma[0], luma[1], (60, 80))
    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            seek = [pool.submit(backward_flow, luma[0], luma[1], (60, 80)) for _ in range(2)]
            for found in seek:
                np.testing.assert_array_equal(found.result(), expected)


def moving_square(shift):
    """Return two pictures of a square on a ground, both textured: it moves by `shift`, that by one.

    Also where the square is in the second.
    """
    ground = grids.blurred_noise(34, 44)[..., 0].repeat(4, 0).repeat(4, 1)
    square = grids.blurred_noise(12, 12)[..., 1].repeat(4, 0).repeat(4, 1)
    before, now = ground.copy(), np.roll(ground, 1, 1)
    before[40:88, 60:108] = square
    y, x = 40 + shift[1], 60 + shift[0]
    now[y : y + 48, x : x + 48] = square
    inside = np.zeros(now.shape, np.bool_)
    inside[y : y + 48, x : x + 48] = True
    return now, before, inside


@pytest.mark.parametrize("shift", [(0, 0), (3, -2), (-9, 6), (14, 11)])
def test_backward_flow_finds_a_thing_that_moves_over_the_ground_as_well_as_opencv_does(shift):
    now, before, inside = moving_square(shift)
    truth = np.where(inside[..., None], np.negative(shift), (-1, 0))
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
    search.setFinestScale(0)
    theirs = np.hypot(*np.moveaxis(search.calc(now, before, None) - truth, 2, 0))
    ours = np.hypot(*np.moveaxis(backward_flow(now, before, now.shape) - truth, 2, 0))
    assert np.median(ours) < 0.25
    assert (ours > 1).mean() <= (theirs > 1).mean() + 0.02


def test_backward_flow_does_not_mind_that_the_light_changes():
    now, before, inside = moving_square((3, -2))
    brighter = np.clip(now.astype(np.int16) // 2 + 90, 0, 255).astype(np.uint8)
    dimmer = np.clip(before.astype(np.int16) // 2 + 60, 0, 255).astype(np.uint8)
    flow = backward_flow(brighter, dimmer, now.shape)
    np.testing.assert_allclose(np.median(flow[inside], axis=0), (-3, 2), atol=0.3)


def test_backward_flow_of_noise_stays_in_bounds():
    """Nothing can be found; patches that go astray come back to where they began."""
    luma = np.random.default_rng(1).integers(0, 256, (2, 90, 120), np.uint8)
    flow = backward_flow(luma[0], luma[1], (90, 120))
    assert np.isfinite(flow).all()
    assert np.abs(flow).max() < 120

"""Dense inverse search, kernel by kernel: patches, where each begins, what it finds, and the flow.

What comes of it for whole pictures is in test_backward_flow.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aaams_stream.core.tuning import DEFAULT
from aaams_stream.kernels import flow as kernels

SIDE, PAD = kernels.SIDE, kernels.PAD
# the least that is searched, sizes that are no multiple of any stride, and some that are
SHAPES = [(16, 16), (17, 23), (16, 61), (44, 20), (37, 50)]

seeds = st.integers(0, 2**32 - 1)
sides = st.integers(16, 40)
strides = st.integers(1, SIDE)


def textured(shape, shift=(0.0, 0.0), waves=2):
    """Return a plane (h, w) uint8 of waves that has moved by (x, y), also between pixels.

    Two waves at right angles leave no patch without slopes; more do not soon repeat themselves.
    """
    rng = np.random.default_rng(0)
    y, x = np.indices(shape, np.float64)
    level = np.full(shape, 128.0)
    for angle in 0.3 + np.arange(waves) * np.pi / waves:
        wave = 2 * np.pi / rng.uniform(9, 16)
        along = np.cos(angle) * (x - shift[0]) + np.sin(angle) * (y - shift[1])
        level += 120 / waves * np.sin(wave * along + rng.uniform(0, 2 * np.pi))
    return np.rint(level).astype(np.uint8)


def padded(plane):
    """Return a plane as `pad_plane` pads it."""
    out = np.full((plane.shape[0] + 2 * PAD, plane.shape[1] + 2 * PAD), np.nan, np.float32)
    kernels.pad_plane(plane, out)
    return out


def slopes(now, shape):
    """Return the slopes (h, w) of a padded plane in x and in y."""
    across, down = np.full((2, *shape), np.nan, np.float32)
    kernels.find_slopes(now, across, down)
    return across, down


def corners(shape, stride):
    """Return y and x of the upper left pixel of every patch: the last ones end with the picture."""
    return tuple(
        [*range(0, side - SIDE, stride), side - SIDE] if side > SIDE else [0] for side in shape
    )


def searched(now, before, stride=DEFAULT.flow_stride, begin=None):
    """Search from `begin` (rows, columns, 2), else from no motion; return what is found.

    Also its errors (rows, columns): squares summed, but for a last step of less than a pixel.
    """
    here, steps = padded(now), 8  # enough to arrive
    rows, columns = map(len, corners(now.shape, stride))
    found = np.zeros((rows, columns, 2), np.float32) if begin is None else begin.copy()
    errors = np.full((rows, columns), np.nan, np.float32)
    kernels.search_patches(
        here, padded(before), *slopes(here, now.shape), stride, steps, found, errors
    )
    return found, errors


def spread(now, before, stride, found):
    """Return the flow (h, w, 2) of patches' flows."""
    h, w = now.shape
    flow = np.full((h, w, 2), np.nan, np.float32)
    sums = np.full((3, h, w), np.nan, np.float32)
    kernels.spread_patches(padded(now), padded(before), stride, found, sums, flow)
    return flow


def seen_at(plane, y, x, u, v):
    """Return the patch (8, 8) that lies (u, v) off (x, y), bilinear; beyond the rim it repeats."""
    h, w = plane.shape
    y, x = min(max(y + v, -SIDE), h), min(max(x + u, -SIDE), w)
    top, left = int(np.floor(y)), int(np.floor(x))
    rows = np.clip(np.arange(top, top + SIDE + 1), 0, h - 1)
    columns = np.clip(np.arange(left, left + SIDE + 1), 0, w - 1)
    around = plane[np.ix_(rows, columns)].astype(np.float64)
    down = around[:-1] * (1 - (y - top)) + around[1:] * (y - top)
    return down[:, :-1] * (1 - (x - left)) + down[:, 1:] * (x - left)


# Planes.


@given(seeds, st.integers(1, 30), st.integers(1, 30))
def test_pad_plane_repeats_the_rim(seed, height, width):
    plane = np.random.default_rng(seed).integers(0, 256, (height, width), np.uint8)
    np.testing.assert_array_equal(padded(plane), np.pad(plane, PAD, "edge"))


@given(seeds, st.integers(1, 30), st.integers(1, 30))
def test_find_slopes_are_central_differences(seed, height, width):
    plane = np.random.default_rng(seed).integers(0, 256, (height, width), np.uint8)
    wide = np.pad(plane, 1, "edge").astype(np.float32)
    across, down = slopes(padded(plane), plane.shape)
    np.testing.assert_array_equal(across, (wide[1:-1, 2:] - wide[1:-1, :-2]) / 2)
    np.testing.assert_array_equal(down, (wide[2:, 1:-1] - wide[:-2, 1:-1]) / 2)


@given(seeds, st.integers(-70, 70), st.integers(-70, 70))
def test_warp_patch_reads_between_pixels_and_stays_at_the_rim(seed, u, v):
    rng = np.random.default_rng(seed)
    plane = rng.integers(0, 256, (19, 26), np.uint8)
    y, x = int(rng.integers(0, 12)), int(rng.integers(0, 19))
    step = np.float32([u / 2 + rng.uniform(), v / 2])
    out = np.empty(SIDE * SIDE, np.float32)
    kernels.warp_patch(padded(plane).ravel(), 19, 26, y, x, *step, out)
    expected = seen_at(plane, y, x, *step.astype(np.float64))
    np.testing.assert_allclose(out.reshape(SIDE, SIDE), expected, atol=1e-3)


# Where a search begins.


@given(sides, sides, strides)
def test_begin_search_takes_twice_the_flow_under_the_middle_of_each_patch(height, width, stride):
    """The coarse flow of a pixel is its own place."""
    y, x = np.indices((height // 2, width // 2), np.float32)
    coarse = np.dstack([x, y])
    tops, lefts = corners((height, width), stride)
    found = np.full((len(tops), len(lefts), 2), np.nan, np.float32)
    kernels.begin_search(coarse, stride, found, height, width)
    for j, top in enumerate(tops):
        for i, left in enumerate(lefts):
            middle = np.array([left, top]) + SIDE // 2
            assert found[j, i].tolist() == (2 * (middle // 2)).tolist()


# What it finds.


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shift", [(0.5, -0.25), (-1.3, 0.8), (1.9, 1.4)])
@pytest.mark.parametrize("stride", [3, 6, 8])
def test_search_patches_finds_a_shift_to_a_tenth_of_a_pixel(shape, shift, stride):
    """Of every patch that was inside the picture as a whole."""
    now, before = textured(shape), textured(shape, shift)
    found, _ = searched(now, before, stride)
    tops, lefts = (np.array(places) for places in corners(shape, stride))
    inside = np.logical_and.outer(
        (tops + shift[1] >= 0) & (tops + shift[1] <= shape[0] - SIDE),
        (lefts + shift[0] >= 0) & (lefts + shift[0] <= shape[1] - SIDE),
    )
    assert inside.any()
    np.testing.assert_allclose(found[inside], np.tile(shift, (inside.sum(), 1)), atol=0.1)


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_search_patches_tell_each_other_of_a_motion_too_large_to_be_found_by_steps(place):
    """One of them knows; the way down the picture and the way up again bring it to all."""
    shape, shift = (44, 62), (17.0, -13.0)
    now, before = textured(shape, waves=6), textured(shape, shift, waves=6)
    tops, lefts = (np.array(places) for places in corners(shape, 6))
    begin = np.zeros((len(tops), len(lefts), 2), np.float32)
    inside = np.logical_and.outer(tops >= 13, lefts <= shape[1] - SIDE - 17)
    j, i = np.argwhere(inside)[{"first": 0, "middle": inside.sum() // 2, "last": -1}[place]]
    assert np.abs(searched(now, before, 6)[0][inside] - shift).max(axis=1).min() > 1
    begin[j, i] = shift
    found = searched(now, before, 6, begin=begin)[0][inside]
    np.testing.assert_allclose(found, np.tile(shift, (len(found), 1)), atol=0.25)


def test_search_patches_without_texture_stay_where_they_began():
    flat = np.full((30, 40), 90, np.uint8)
    begin = np.full((5, 7, 2), 1.5, np.float32)
    np.testing.assert_array_equal(searched(flat, flat, begin=begin)[0], begin)


@given(seeds, sides, sides, strides)
def test_search_patches_of_noise_fit_no_worse_than_where_they_began(seed, height, width, stride):
    rng = np.random.default_rng(seed)
    now, before = rng.integers(0, 256, (2, height, width), np.uint8)
    tops, lefts = corners(now.shape, stride)
    begin = rng.normal(0, 3, (len(tops), len(lefts), 2)).astype(np.float32)
    found, errors = searched(now, before, stride, begin=begin)
    better = 0
    for j, y in enumerate(tops):
        for i, x in enumerate(lefts):
            off = seen_at(before, y, x, *begin[j, i].astype(np.float64))
            off -= now[y : y + SIDE, x : x + SIDE]
            began = SIDE * SIDE * off.var()  # light may change: means are taken off
            assert errors[j, i] <= began * 1.0001
            better += errors[j, i] < 0.9 * began
    assert better > 0
    assert np.isfinite(found).all()


# The flow of pixels.


@given(seeds, sides, sides, strides)
def test_spread_patches_of_equal_flows_is_that_flow(seed, height, width, stride):
    """Whatever the pictures, and with no gap between patches."""
    rng = np.random.default_rng(seed)
    now, before = rng.integers(0, 256, (2, height, width), np.uint8)
    step = rng.normal(0, 5, 2).astype(np.float32)
    tops, lefts = corners(now.shape, stride)
    found = np.tile(step, (len(tops), len(lefts), 1))
    flow = spread(now, before, stride, found)
    np.testing.assert_allclose(flow, np.broadcast_to(step, flow.shape), rtol=1e-5)


@given(seeds, sides, sides, strides)
def test_spread_patches_weighs_the_flows_over_a_pixel_by_how_well_they_fit(
    seed, height, width, stride
):
    rng = np.random.default_rng(seed)
    now, before = rng.integers(0, 256, (2, height, width), np.uint8)
    tops, lefts = corners(now.shape, stride)
    found = rng.normal(0, 5, (len(tops), len(lefts), 2)).astype(np.float32)
    weights, sums = np.zeros((height, width, 1)), np.zeros((height, width, 2))
    for j, y in enumerate(tops):
        for i, x in enumerate(lefts):
            here = np.s_[y : y + SIDE, x : x + SIDE]
            step = found[j, i].astype(np.float64)
            off = np.abs(seen_at(before, y, x, *step) - now[here])
            weight = 1 / np.maximum(off, 1)[..., None]
            weights[here] += weight
            sums[here] += weight * step
    np.testing.assert_allclose(spread(now, before, stride, found), sums / weights, atol=1e-3)

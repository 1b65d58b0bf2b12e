"""Pixels to planes, against scikit-image and by hand."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import skimage.color
from support import grids

from aaams_stream.core import features
from aaams_stream.kernels import features as kernels


def test_lab_planes_are_the_colours_of_scikit_image():
    """Its matrix has fewer digits than ours."""
    rgb = np.random.default_rng(0).integers(0, 256, (90, 211, 3), np.uint8)
    rgb[0] = np.arange(211)[:, None]  # greys, and all that is dark
    rgb[1] = rgb[0] // 16
    planes = features.lab_planes(rgb)
    expected = skimage.color.rgb2lab(rgb)
    assert planes.dtype == np.float32
    np.testing.assert_allclose(planes[:, :, :211].transpose(1, 2, 0), expected, atol=0.01)


def test_lab_planes_of_grey_have_no_hue():
    grey = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    assert np.abs(features.lab_planes(grey)[1:]).max() < 1e-3


def test_frames_that_may_only_be_read_compile_nothing_more():
    rgb = np.random.default_rng(0).integers(0, 256, (9, 14, 3), np.uint8)
    fixed = rgb.copy()
    fixed.flags.writeable = False
    np.testing.assert_array_equal(features.lab_planes(fixed), features.lab_planes(rgb))
    compiled = getattr(kernels.levels_to_lab, "signatures", ())
    assert all(arguments[0].mutable for arguments in compiled)


def test_lab_planes_of_a_view_are_those_of_its_copy():
    image = grids.blurred_noise(9, 20)
    for view in (image[:, :, ::-1], image[::-1, ::2], image[2:5, 3:9]):
        np.testing.assert_array_equal(
            features.lab_planes(view), features.lab_planes(np.ascontiguousarray(view))
        )


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (6, 1), (2, 2), (13, 30)])
def test_gradient_magnitude_is_that_of_sobel(shape):
    smooth = np.random.default_rng(0).normal(size=(3, *shape)).astype(np.float32)
    total = np.zeros(shape)
    for plane in smooth:
        for dx, dy in ((1, 0), (0, 1)):
            rise = cv2.Sobel(plane, cv2.CV_32F, dx, dy, borderType=cv2.BORDER_REFLECT) / 8
            total += rise**2
    np.testing.assert_allclose(features.gradient_magnitude(smooth), np.sqrt(total), atol=1e-5)


def test_lab_planes_have_black_and_white_at_the_ends_of_lightness():
    rgb = np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)
    np.testing.assert_allclose(
        features.lab_planes(rgb)[:, 0, :2].T, [[0] * 3, [100, 0, 0]], atol=0.05
    )


@pytest.mark.parametrize("width", [1, 15, 16, 17, 32, 33])
def test_lab_planes_are_padded_to_whole_lanes_with_a_colour_far_off(width):
    planes = features.lab_planes(np.zeros((2, width, 3), np.uint8))
    assert planes.shape[2] % features.LANES == 0
    assert planes.shape[2] - width < features.LANES
    assert (planes[:, :, width:] == features.FAR).all()


def test_lab_planes_of_sixteen_bits_are_as_bright_as_of_eight():
    rgb = np.random.default_rng(1).integers(0, 256, (4, 5, 3), np.uint8)
    deep = rgb.astype(np.uint16) * 257
    np.testing.assert_allclose(features.lab_planes(deep), features.lab_planes(rgb), atol=1e-3)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_as_rgb_spreads_grey_over_three_channels(dtype):
    grey = np.arange(12, dtype=dtype).reshape(3, 4)
    for image in (grey, grey[:, :, None]):
        rgb = features.as_rgb(image)
        assert rgb.shape == (3, 4, 3)
        assert rgb.dtype == dtype
        assert (rgb == grey[:, :, None]).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_as_rgb_lays_alpha_over_mid_grey(dtype):
    top = np.iinfo(dtype).max
    image = np.array([[[top, 0, 0, top], [top, 0, 0, 0]]], dtype)
    opaque, clear = features.as_rgb(image)[0]
    assert opaque.tolist() == [top, 0, 0]
    assert np.abs(clear.astype(int) - top // 2).max() <= 1


def test_lab_planes_do_not_change_the_image():
    image = grids.blurred_noise(5, 6)
    before = image.copy()
    features.lab_planes(features.as_rgb(image))
    np.testing.assert_array_equal(image, before)


def smooth_gradient(planes, width):
    return features.gradient_magnitude(features.smoothed(planes, width))


def test_gradient_magnitude_is_the_slope_of_a_ramp_and_none_on_flat_ground():
    planes = np.zeros((3, 20, 32), np.float32)
    planes[0] = 1.5 * np.arange(32)
    np.testing.assert_allclose(smooth_gradient(planes, 32)[:, 5:27], 1.5, rtol=1e-3)
    assert smooth_gradient(np.ones((3, 4, 16), np.float32), 16).max() == 0


def test_gradient_magnitude_adds_up_over_directions_and_channels():
    planes = np.zeros((3, 20, 32), np.float32)
    planes[0] = 3.0 * np.arange(32)
    planes[2] = 4.0 * np.arange(20)[:, None]
    np.testing.assert_allclose(smooth_gradient(planes, 32)[8:12, 8:24], 5.0, rtol=1e-3)


def test_gradient_magnitude_does_not_see_the_padding():
    planes = features.lab_planes(np.full((6, 17, 3), 90, np.uint8))
    assert smooth_gradient(planes, 17).max() < 1e-3


def test_picture_holds_planes_and_what_is_derived_of_them():
    rgb = grids.blurred_noise(9, 20)
    luma = features.half_luma(rgb)
    picture = features.picture(rgb, luma)
    assert picture.shape == (9, 20)
    assert picture.half_luma is luma
    np.testing.assert_array_equal(picture.planes, features.lab_planes(rgb))
    np.testing.assert_array_equal(picture.smooth, features.smoothed(picture.planes, 20))
    np.testing.assert_array_equal(picture.gradient, features.gradient_magnitude(picture.smooth))
    assert features.picture(rgb).half_luma.size == 0


@pytest.mark.parametrize(("shape", "half"), [((1, 1), (1, 1)), ((7, 10), (4, 5)), ((8, 9), (4, 5))])
def test_half_luma_has_half_the_resolution(shape, half):
    rgb = np.full((*shape, 3), 77, np.uint8)
    np.testing.assert_array_equal(features.half_luma(rgb), np.full(half, 77))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((3, 4), np.float32), "must be uint8 or uint16, got float32; scale values"),
        (np.full((3, 4, 3), np.nan), "must be uint8 or uint16, got float64"),
        (np.zeros((3, 4), np.int64), "got int64"),
        (np.zeros((3, 4), np.bool_), "got bool"),
        (np.zeros((0, 4, 3), np.uint8), "at least one pixel"),
        (np.zeros((4, 0), np.uint8), "at least one pixel"),
        (np.zeros((3, 4, 2), np.uint8), r"got \(3, 4, 2\)"),
        (np.zeros((3, 4, 5), np.uint8), r"got \(3, 4, 5\)"),
        (np.zeros(7, np.uint8), r"got \(7,\)"),
        (np.zeros((1, 2, 3, 4), np.uint8), r"got \(1, 2, 3, 4\)"),
        (None, "must be uint8 or uint16, got object"),
        ("a.png", r"must be an array, got the path 'a.png'; .*aaams_stream.read_image\('a.png'\)"),
        (Path("a.png"), "must be an array, got the path"),
    ],
)
def test_as_rgb_refuses_what_is_no_image(image, message):
    with pytest.raises(ValueError, match=message):
        features.as_rgb(image)


def test_lab_colours_are_those_of_the_planes():
    rgb = np.random.default_rng(2).integers(0, 256, (9, 7, 3), np.uint8)
    planes = features.lab_planes(rgb)[:, :, :7].reshape(3, -1).T
    assert np.allclose(features.lab_colours(rgb.reshape(-1, 3)), planes, atol=0.02)

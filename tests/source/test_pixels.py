"""Pictures as a viewer sees them: upright, square, opaque, eight bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support.clips import H264, moving_frames, read_source, write_clip, write_images

from aaams_stream.core.features import as_rgb


@pytest.mark.parametrize(("rotation", "turns"), [(0, 0), (90, 1), (180, 2), (270, 3)])
def test_converter_turns_pictures_upright(tmp_path, rotation, turns):
    frame = moving_frames(1, 48, 96)[0]
    path = write_clip(tmp_path / "a.mp4", [frame] * 2, rotation=rotation, **H264)
    upright, _ = read_source(write_clip(tmp_path / "b.mp4", [frame] * 2, **H264))
    frames, opened = read_source(path)
    np.testing.assert_array_equal(frames[0].rgb, np.rot90(upright[0].rgb, turns))
    assert (opened.height, opened.width) == frames[0].rgb.shape[:2]


def test_converter_makes_pixels_square(tmp_path):
    path = write_clip(tmp_path / "a.mp4", moving_frames(2, 48, 72), aspect=Fraction(8, 9), **H264)
    frames, opened = read_source(path)
    assert (opened.width, opened.height) == (64, 48)
    assert frames[0].rgb.shape == (48, 64, 3)


@pytest.mark.parametrize("shape", [(13, 17), (1, 1), (241, 321)])
def test_converter_passes_odd_sizes(tmp_path, shape):
    drawn = moving_frames(2, 64, 400)
    drawn = [np.resize(frame, (*shape, 3)) for frame in drawn]
    frames, _ = read_source(write_clip(tmp_path / "a.mkv", drawn))
    np.testing.assert_array_equal(frames[1].rgb, drawn[1])


def test_converter_lays_alpha_over_grey_as_images_have_it(tmp_path):
    rng = np.random.default_rng(0)
    rgba = rng.integers(0, 256, (20, 30, 4), dtype=np.uint8)
    frames, _ = read_source(write_images(tmp_path / "images", [rgba], "{}.png"))
    np.testing.assert_array_equal(frames[0].rgb, as_rgb(rgba))


@pytest.mark.parametrize("pix_fmt", ["gray", "gray16le", "yuv420p10le", "gbrp16le", "yuv444p"])
def test_converter_turns_grey_and_deep_colours_into_eight_bits(tmp_path, pix_fmt):
    drawn = moving_frames(3)
    frames, _ = read_source(write_clip(tmp_path / "a.mkv", drawn, pix_fmt=pix_fmt))
    assert len(frames) == 3
    grey = np.abs(frames[0].rgb.mean() - drawn[0].mean())
    assert grey < 12
    if pix_fmt.startswith("gray"):
        assert np.ptp(frames[0].rgb.astype(int), axis=2).max() == 0

"""Folders and patterns of images."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from support.clips import moving_frames, read_source, write_images


def test_folder_reader_takes_images_in_natural_order(tmp_path):
    drawn = moving_frames(12)
    folder = write_images(tmp_path / "images", drawn, "frame{}.png")
    for spec in (folder, str(folder / "frame*.png")):
        frames, opened = read_source(spec)
        for frame, expected in zip(frames, drawn, strict=True):
            np.testing.assert_array_equal(frame.rgb, expected)
        assert frames[2].time == Fraction(2, 25)
        assert opened.frame_estimate == 12


def test_folder_reader_leaves_a_broken_image_out_and_names_it(tmp_path):
    folder = write_images(tmp_path / "images", moving_frames(4), "{}.png")
    (folder / "1.png").write_bytes(b"no picture")
    frames, opened = read_source(folder)
    assert [frame.time * 25 for frame in frames] == [0, 2, 3]
    assert opened.ended == "damaged: images that do not decode: 1.png"

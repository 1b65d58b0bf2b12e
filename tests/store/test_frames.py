"""Frames are indexed as NumPy indexes an array."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream.store import open_volume


def test_frames_are_indexed_like_an_array(whole):
    path, results = whole
    ids = open_volume(path).ids
    expected = np.stack([result.ids for result in results])
    assert ids.shape == expected.shape
    assert ids.dtype == np.uint32
    assert len(ids) == 29
    for key in (
        -1,
        slice(3, 20, 4),
        slice(None, None, -3),
        slice(50, 60),
        (5, slice(2, 9), 7),
        (slice(8, 12), slice(None), slice(0, 64, 2)),
        [3, 1, 28],
    ):
        np.testing.assert_array_equal(ids[key], expected[key], err_msg=str(key))
    np.testing.assert_array_equal(np.asarray(ids), expected)
    for wrong in (29, -30):
        with pytest.raises(IndexError, match="29 frames"):
            ids[wrong]
    with pytest.raises(IndexError, match="29"):
        open_volume(path).segments(29)


def test_frames_are_chosen_by_a_mask_over_time(whole):
    volume = open_volume(whole[0])
    late = volume.times > 0.5
    np.testing.assert_array_equal(volume.ids[late], volume.ids[:][late])
    np.testing.assert_array_equal(volume.ids[[5, 2], 3:9], volume.ids[:][[5, 2], 3:9])
    assert volume.ids[[]].shape == (0, 48, 64)
    with pytest.raises(IndexError, match="a mask over time needs 29 entries"):
        volume.ids[late[:-1]]
    with pytest.raises(TypeError):
        volume.ids[1.7]

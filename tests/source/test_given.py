"""Frames that a program has at hand, in place of a file."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support.clips import moving_frames

from aaams_stream.errors import SourceError
from aaams_stream.model import Clip, Frame
from aaams_stream.source.given import open_frames


def read(frames, **clip):
    with open_frames(frames, Clip(**clip)) as source:
        return list(source)


def test_frames_by_themselves_are_25_a_second():
    pictures = moving_frames(5)
    for given in (pictures, iter(pictures), np.stack(pictures), (p for p in pictures)):
        found = read(given)
        assert [frame.time for frame in found] == [Fraction(t, 25) for t in range(5)]
        for frame, picture in zip(found, pictures, strict=True):
            np.testing.assert_array_equal(frame.rgb, picture)


def test_frames_with_their_times_keep_them():
    pictures = moving_frames(3)
    times = [0.5, 0.75, 2.0]
    assert [float(f.time) for f in read(zip(pictures, times, strict=True))] == times
    frames = [Frame(i, Fraction(i, 3), p) for i, p in enumerate(pictures)]
    assert [f.time for f in read(frames)] == [f.time for f in frames]


def test_frames_are_chosen_and_scaled_as_those_of_a_file():
    found = read(moving_frames(20), start=0.2, duration=0.4, every=3, size=(32, 24))
    assert [frame.time * 25 for frame in found] == [5, 8, 11, 14]
    assert found[0].rgb.shape == (24, 32, 3)


def test_frames_may_share_their_memory_and_be_grey():
    buffer = np.zeros((48, 64), np.uint8)

    def grabbed():
        for value in (10, 20, 30):
            buffer[:] = value
            yield buffer

    assert [frame.rgb[0, 0].tolist() for frame in read(grabbed())] == [
        [v] * 3 for v in (10, 20, 30)
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((48, 64, 3), np.uint8), "one after the other, got one array of shape"),
        (7, "the name of an input or frames one after the other, got int"),
        ([], "no frame decodes"),
    ],
)
def test_what_is_no_frames_is_refused(given, message):
    with pytest.raises(SourceError, match=message):
        read(given)


def test_a_frame_of_another_type_is_refused_as_images_are():
    with pytest.raises(ValueError, match="uint8"):
        read([np.zeros((4, 4), np.float32)])
    with pytest.raises(ValueError, match="a frame must be uint8, got uint16"):
        read([np.zeros((4, 4), np.uint16)])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([(moving_frames(1)[0], float("nan"))], "frame 0: its time must be seconds, got nan"),
        ([(moving_frames(1)[0], "1")], "frame 0: its time must be seconds, got '1'"),
        ([(1, 2, 3)], "frame 0: expected an array, or one and its time, got 3"),
    ],
)
def test_a_frame_that_is_none_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        read(given)

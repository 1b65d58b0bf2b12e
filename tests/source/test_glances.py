"""A first look at a film, and readings that begin at a frame by what it noted."""

from __future__ import annotations

import numpy as np
import pytest
from support.clips import H264, moving_frames, read_source, write_clip, write_images

from aaams_stream.model import Clip
from aaams_stream.source import open_source

COUNT = 150


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """Return H.264 with B-frames and a keyframe in every 40 frames."""
    options = {"g": "40", "bf": "2", "x264-params": "scenecut=0"}
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    return write_clip(path, moving_frames(COUNT), **H264, options=options)


def looked_at(spec, clip, wanted):
    """Look at all frames; return how many there are, and marks for the wanted ones."""
    marks = {}
    with open_source(spec, clip) as source:
        for glance in source.glances():
            assert glance.thumbnail.shape == (32, 48, 3)
            if glance.number in wanted:
                marks[glance.number] = glance.marks()
        return glance.number + 1, source.ended, marks


def frames_from(spec, clip, begin, marks):
    with open_source(spec, clip) as source:
        source.start_at(begin, marks)
        return list(source)


@pytest.mark.parametrize("clip", [Clip(), Clip(start=0.4, every=2, size=(40, 30))], ids=str)
def test_readings_begin_at_frames_that_a_first_look_noted(film, clip, decoded):
    whole, _ = read_source(film, start=clip.start, every=clip.every, size=clip.size)
    wanted = [0, 1, 30, 60, len(whole) - 1]
    count, ended, marks = looked_at(film, clip, wanted)
    assert (count, ended) == (len(whole), "complete")
    for begin in wanted:
        decoded.clear()
        frames = frames_from(film, clip, begin, marks[begin])
        assert [frame.index for frame in frames] == list(range(begin, count))
        for one, other in zip(frames, whole[begin:], strict=True):
            assert one.time == other.time
            np.testing.assert_array_equal(one.rgb, other.rgb)
    assert len(decoded) < 0.8 * COUNT  # for the last one most was not decoded


def test_marks_of_another_place_lead_to_the_right_frame_all_the_same(film):
    """They are compared with what is found there, and then it is decoded from the beginning."""
    whole, _ = read_source(film)
    _, _, marks = looked_at(film, Clip(), [100, 120])
    for wrong in (marks[120].copy(), marks[100].copy()):
        wrong["checksum"] += 1
        frames = frames_from(film, Clip(), 120, wrong)
        np.testing.assert_array_equal(frames[0].rgb, whole[120].rgb)
        assert len(frames) == COUNT - 120


def test_images_are_looked_at_too(tmp_path):
    folder = write_images(tmp_path / "images", moving_frames(30), "{:03d}.png")
    count, ended, marks = looked_at(folder, Clip(), [20])
    assert (count, ended) == (30, "complete")
    frames = frames_from(folder, Clip(), 20, marks[20])
    assert [frame.index for frame in frames] == list(range(20, 30))

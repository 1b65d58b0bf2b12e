"""Frames as they are segmented, and again from a volume."""

from __future__ import annotations

import numpy as np
from support.clips import moving_frames

import aaams_stream
from aaams_stream.run.segment_video import segment_video
from aaams_stream.run.stream import replay, stream
from aaams_stream.store import open_volume


def test_stream_yields_what_a_volume_would_hold(clip, tmp_path):
    segment_video(clip, tmp_path / "a.zarr")
    volume = open_volume(tmp_path / "a.zarr")
    for t, frame in enumerate(stream(clip)):
        np.testing.assert_array_equal(frame.ids, volume.ids[t])
        np.testing.assert_array_equal(frame.segments, volume.segments(t))
        np.testing.assert_array_equal(frame.adjacency, volume.adjacency(t))
        np.testing.assert_array_equal(frame.events, volume.events_at(t))
        np.testing.assert_array_equal(frame.rgb, moving_frames(37)[t])
        assert frame.time == volume.times[t]
    assert t == 36


def test_stream_may_be_left_early_and_chosen_from(clip):
    frames = stream(clip, start=1, every=2, size=(32, 24))
    first = next(frames)
    assert (first.index, first.time, first.ids.shape) == (0, 1.0, (24, 32))
    frames.close()  # the autouse fixture sees to it that no thread is left


def test_stream_is_offered_by_the_package():
    assert aaams_stream.stream is stream


def test_replay_yields_what_was_streamed(clip, tmp_path):
    segment_video(clip, tmp_path / "a.zarr")
    frames = list(replay(open_volume(tmp_path / "a.zarr")))
    assert len(frames) == 37
    for again, frame in zip(frames, stream(clip), strict=True):
        assert (again.index, again.time) == (frame.index, frame.time)
        for name in ("ids", "segments", "adjacency", "events", "rgb"):
            np.testing.assert_array_equal(getattr(again, name), getattr(frame, name))

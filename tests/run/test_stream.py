"""Frames as they are segmented, and again from a volume."""

from __future__ import annotations

import itertools
import os
import sys
import threading

import numpy as np
import pytest
from support import standin
from support.clips import moving_frames, write_clip
from support.threads import all_end

import aaams_stream
from aaams_stream.cluster.door import segment_video
from aaams_stream.errors import ConfigError
from aaams_stream.run.stream import replay, stream
from aaams_stream.source import pixels
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


def test_stream_takes_any_iterable_of_frames(clip):
    times = [frame.time for frame in stream(clip)]
    given = ((rgb, time) for rgb, time in zip(moving_frames(37), times, strict=True))
    for frame, expected in zip(stream(given), stream(clip), strict=True):
        np.testing.assert_array_equal(frame.ids, expected.ids)
        np.testing.assert_array_equal(frame.segments, expected.segments)
        np.testing.assert_array_equal(frame.rgb, expected.rgb)
        assert frame.time == expected.time


def test_stream_of_frames_without_an_end_may_be_left(clip):
    taken = []

    def endless():
        for rgb in itertools.cycle(moving_frames(37)):
            taken.append(rgb)
            yield rgb

    frames = stream(endless())
    for _, frame in zip(range(3), frames, strict=False):
        assert frame.rgb.shape == (48, 64, 3)
    frames.close()  # the autouse fixture sees to it that no thread is left
    assert len(taken) < 30


def test_stream_may_be_left_early_and_chosen_from(clip):
    frames = stream(clip, start=1, every=2, size=(32, 24))
    first = next(frames)
    assert (first.index, first.time, first.ids.shape) == (0, 1.0, (24, 32))
    frames.close()  # the autouse fixture sees to it that no thread is left


def test_frames_of_a_stream_know_their_groups_while_they_are_the_newest(clip):
    before = None
    for frame in stream(clip, segments=30):
        group = frame.groups(segments=6)
        ids = frame.segments["id"]
        assert len(np.unique(group[ids])) == min(6, len(ids))
        assert group[0] == 0
        if before is not None:
            with pytest.raises(ValueError, match="newest frame, which is"):
                before.groups(segments=6)
        before = frame


def test_frames_of_a_volume_have_its_groups_and_others_say_who_keeps_them(clip, tmp_path):
    segment_video(clip, tmp_path / "a.zarr", segments=30)
    volume = open_volume(tmp_path / "a.zarr")
    for frame in replay(volume):
        np.testing.assert_array_equal(frame.groups(segments=6), volume.groups(segments=6))
    lone = standin.Segmenter().step(moving_frames(1)[0])
    with pytest.raises(ValueError, match="keep a LiveLevels"):
        lone.groups(segments=6)


class BoomError(Exception):
    pass


@pytest.mark.parametrize("count", ["1", "2"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (pixels.Converter, "rgb"),
        (standin.Preparer, "prepare"),
        (standin.Segmenter, "label"),
        (standin, "describe"),
    ],
    ids=["source", "prepare", "label", "describe"],
)
def test_stream_raises_an_error_of_any_stage_and_ends_the_others(
    clip, monkeypatch, owner, name, count
):
    original, calls = getattr(owner, name), 0

    def fails_later(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == 6:
            raise BoomError
        return original(*args, **kwargs)

    monkeypatch.setenv("AAAMS_THREADS", count)
    monkeypatch.setattr(owner, name, fails_later)
    with pytest.raises(BoomError) as caught:
        list(stream(clip))
    assert all_end("prefetch")  # though the error, with all its frames, is still held
    assert caught.value.__traceback__ is not None


@pytest.mark.parametrize("frames", [0, 1, 5])
def test_stream_left_early_ends_its_threads(clip, monkeypatch, frames):
    monkeypatch.setenv("AAAMS_THREADS", "2")
    results = stream(clip)
    for index in range(frames):
        assert next(results).index == index
    results.close()
    assert all_end("prefetch")


def test_stream_left_while_a_live_source_waits_ends_its_threads(tmp_path, monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "2")
    reading, writing = os.pipe()
    data = write_clip(
        tmp_path / "a.y4m", moving_frames(12), codec="wrapped_avframe", pix_fmt="yuv444p"
    ).read_bytes()
    feeder = threading.Thread(target=os.write, args=(writing, data))  # and then silence
    with os.fdopen(reading, "rb") as stdin:
        piped = type("Stdin", (), {"buffer": stdin, "isatty": lambda _: 0})()
        monkeypatch.setattr(sys, "stdin", piped)
        feeder.start()
        results = stream("-")
        for index in range(11):  # the decoder keeps the last one until it sees another
            assert next(results).index == index
        feeder.join()
        results.close()
        assert all_end("prefetch")
        os.close(writing)


def test_stream_refuses_a_wrong_number_of_threads_before_it_opens_anything(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "0")
    with pytest.raises(ConfigError, match="AAAMS_THREADS must be a whole number from 1 on"):
        next(stream("no such file"))


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

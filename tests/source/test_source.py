"""The frames of an opened input: order, times, stretches, sizes and the end."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from support.clips import H264, decoded_count, moving_frames, read_source, write_clip, write_images

from aaams_stream.model import Clip, Timecode
from aaams_stream.source import Source, VideoReader, open_source
from aaams_stream.source.pixels import Picture


def test_source_hands_out_frames_in_order_with_exact_pixels_and_times(clip):
    frames, opened = read_source(clip)
    assert [frame.index for frame in frames] == list(range(40))
    assert [frame.time for frame in frames] == [Fraction(n, 10) for n in range(40)]
    for frame, drawn in zip(frames, moving_frames(40), strict=True):
        np.testing.assert_array_equal(frame.rgb, drawn)
    assert (opened.width, opened.height, opened.rate) == (64, 48, 10)
    assert opened.frame_estimate == 40
    assert opened.ended == "complete"
    assert opened.warnings == []


def test_source_that_is_left_early_says_interrupted(clip):
    with open_source(clip) as opened:
        assert next(iter(opened)).index == 0
        assert opened.ended == "interrupted"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"start": 1}, range(10, 40)),
        ({"duration": 0.5}, range(5)),
        ({"start": 1.05, "duration": 1}, range(11, 21)),
        ({"every": 7}, range(0, 40, 7)),
        ({"start": 2, "every": 3, "duration": 1}, range(20, 30, 3)),
    ],
)
def test_source_cuts_a_stretch_out_by_time_and_number(clip, options, expected):
    frames, opened = read_source(clip, **options)
    assert [frame.time * 10 for frame in frames] == list(expected)
    assert [frame.index for frame in frames] == list(range(len(expected)))
    assert opened.ended == "complete"
    assert abs(opened.frame_estimate - len(expected)) <= 1
    assert opened.rate == Fraction(10, options.get("every", 1))


def test_source_counts_start_from_the_first_frame(tmp_path):
    path = write_clip(tmp_path / "a.ts", moving_frames(20), rate=10, **H264)
    frames, _ = read_source(path)
    later, _ = read_source(path, start=1)
    assert frames[0].time > 0  # MPEG-TS leaves room for what is decoded first
    assert [frame.time for frame in later] == [frame.time for frame in frames[10:]]


def test_source_that_seeks_gives_the_frames_that_decoding_from_the_beginning_gives(
    tmp_path, monkeypatch
):
    path = write_clip(tmp_path / "a.mp4", moving_frames(80), rate=10, options={"g": "8"}, **H264)
    linear, _ = read_source(path, start=6)
    monkeypatch.setattr("aaams_stream.source.source._LINEAR", 1)
    sought, _ = read_source(path, start=6)
    assert [frame.time for frame in sought] == [frame.time for frame in linear]
    assert len(sought) == 20
    for one, other in zip(linear, sought, strict=True):
        np.testing.assert_array_equal(one.rgb, other.rgb)


def test_source_keeps_the_order_of_frames_whose_times_run_backwards(tmp_path):
    ticks = [0, 2, 1, 3]  # as some AVI files have them
    path = tmp_path / "a.nut"
    write_clip(path, moving_frames(4), codec="rawvideo", pix_fmt="rgb24")
    video = VideoReader(str(path), "a")
    pictures = list(video.pictures())
    video.close()
    for picture, tick in zip(pictures, ticks, strict=True):
        picture.frame.pts = tick
    reader = SimpleNamespace(
        name="backwards",
        rate=Fraction(25),
        time_base=Fraction(1, 25),
        frame_count=4,
        duration=None,
        damage=None,
        seekable=False,
        pictures=lambda start=None: iter(
            [
                Picture(Fraction(tick, 25), picture.frame)
                for picture, tick in zip(pictures, ticks, strict=True)
            ]
        ),
        stop=lambda: None,
        close=lambda: None,
    )
    with Source(reader, Clip()) as opened:
        frames = list(opened)
    assert [frame.time * 25 for frame in frames] == ticks
    for frame, drawn in zip(frames, moving_frames(4), strict=True):
        np.testing.assert_array_equal(frame.rgb, drawn)


def test_source_that_starts_later_leaves_frames_their_index(clip):
    with open_source(clip) as opened:
        opened.start_at(33)
        frames = list(opened)
    assert [frame.index for frame in frames] == list(range(33, 40))
    np.testing.assert_array_equal(frames[0].rgb, moving_frames(40)[33])


def test_source_scales_frames_to_the_wanted_size(clip):
    frames, opened = read_source(clip, size=(31, 17), duration=0.1)
    assert (opened.width, opened.height) == (31, 17)
    assert frames[0].rgb.shape == (17, 31, 3)


def test_source_scales_a_change_of_size_to_the_first_size_with_a_warning(tmp_path):
    parts = [
        write_clip(tmp_path / f"{n}.h264", moving_frames(4, *shape), **H264)
        for n, shape in enumerate([(48, 64), (96, 128)])
    ]
    path = tmp_path / "joined.h264"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    frames, opened = read_source(path)
    assert len(frames) == decoded_count(path) == 8
    assert {frame.rgb.shape for frame in frames} == {(48, 64, 3)}
    assert len(opened.warnings) == 1
    assert "128x96 and not 64x48; it is scaled to 64x48" in opened.warnings[0]
    assert opened.ended == "complete"


def test_source_warns_twice_of_sizes_that_change_all_the_time(tmp_path):
    shapes = [(48, 64), (24, 32)] * 5
    for n, shape in enumerate(shapes):
        write_images(tmp_path / "all", moving_frames(1, *shape), f"{n:02d}-{{}}.png")
    frames, opened = read_source(tmp_path / "all")
    assert {frame.rgb.shape for frame in frames} == {(48, 64, 3)}
    assert len(opened.warnings) == 2
    assert "its size changed 9 times" in opened.warnings[1]


def test_source_takes_a_whole_number_of_any_type_as_every(tmp_path):
    clip = write_clip(tmp_path / "clip.mkv", moving_frames(12), rate=10)
    with open_source(clip, Clip(every=2.0)) as opened:
        assert isinstance(opened.rate, Fraction)
        assert opened.rate == 5
        assert opened.frame_estimate == 6


@pytest.mark.parametrize("rate", [Fraction(10), Fraction(30000, 1001), Fraction(24000, 1001), 25])
def test_source_starts_at_a_frame_by_its_number(tmp_path, rate):
    # Matroska keeps times in milliseconds, so that most of these are rounded
    path = write_clip(tmp_path / "clip.mkv", moving_frames(70), rate=rate)
    for number, count in ((0, 3), (1, 1), (31, 30), (47, 100)):
        frames, opened = read_source(path, start=Timecode(number), duration=Timecode(count))
        expected = moving_frames(70)[number : number + count]
        assert len(frames) == len(expected)
        for frame, drawn in zip(frames, expected, strict=True):
            np.testing.assert_array_equal(frame.rgb, drawn)
        again, _ = read_source(path, **{**opened.clip.to_record(), "size": None})
        assert [frame.time for frame in again] == [frame.time for frame in frames]


def test_source_reads_a_timecode_as_seconds_of_whole_frames(tmp_path):
    path = write_clip(tmp_path / "clip.mkv", moving_frames(70), rate=Fraction(30000, 1001))
    frames, _ = read_source(path, start=Timecode(5, seconds=1))
    np.testing.assert_array_equal(frames[0].rgb, moving_frames(70)[35])

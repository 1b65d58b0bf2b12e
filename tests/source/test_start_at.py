"""Beginning late: the frames of `Source.start_at` are those that reading everything gives."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest
from support.clips import H264, moving_frames, write_clip, write_images

from aaams_stream.model import Clip
from aaams_stream.source import folder, open_source
from aaams_stream.source.marks import Marks

COUNT, BEGIN = 300, 250
B_FRAMES = {**H264, "options": {"g": "20", "bf": "2"}}
MPEG2 = {"codec": "mpeg2video", "pix_fmt": "yuv420p", "options": {"g": "15", "bf": "2"}}
INTERLACED = {**MPEG2, "options": {"g": "15", "flags": "+ildct+ilme"}}
UNEVEN = [n * (n + 200) // 100 for n in range(COUNT)]
KINDS = {
    "a.mp4": B_FRAMES,
    "a.mkv": B_FRAMES,
    "a.ts": B_FRAMES,
    "a.avi": {"codec": "mpeg4", "pix_fmt": "yuv420p", "options": {"g": "20", "bf": "2"}},
    "mjpeg.avi": {"codec": "mjpeg", "pix_fmt": "yuvj420p"},
    "ffv1.mkv": {},
    "png.mov": {"codec": "png", "pix_fmt": "rgb24"},
    "a.webm": {"codec": "libvpx-vp9", "pix_fmt": "yuv420p", "options": {"g": "20"}},
    "a.mpg": MPEG2,
    "interlaced.ts": INTERLACED,
    "rotated.mp4": {**B_FRAMES, "rotation": 90},
    "uneven.mp4": {**B_FRAMES, "ticks": UNEVEN, "time_base": Fraction(1, 90)},
}


@pytest.fixture
def make(tmp_path):
    """Return a maker of films by the names of `KINDS`."""

    def film(name):
        if KINDS[name].get("codec", "ffv1") not in av.codecs_available:
            pytest.skip(f"no encoder {KINDS[name]['codec']}")
        return write_clip(tmp_path / name, moving_frames(COUNT), **KINDS[name])

    return film


def read(path, begin=0, marks=None, **clip):
    """Return the frames from `begin` on, all marks, and how it ended."""
    with open_source(path, Clip(**clip)) as opened:
        opened.start_at(begin, marks)
        frames = list(opened)
        return frames, opened.marks(10**6), (opened.ended, opened.warnings)


def assert_same(frames, expected):
    assert [(frame.index, frame.time) for frame in frames] == [
        (frame.index, frame.time) for frame in expected
    ]
    for frame, other in zip(frames, expected, strict=True):
        np.testing.assert_array_equal(frame.rgb, other.rgb)


def begin_late(path, decoded, begin=BEGIN, **clip):
    """Compare a late beginning with reading everything; return how many pictures it decoded."""
    expected, marks, end = read(path, **clip)
    decoded.clear()
    frames, again, late_end = read(path, begin, marks[marks["frame"] < begin], **clip)
    assert_same(frames, expected[begin:])
    assert late_end == end
    assert again["frame"].tolist() == sorted(set(again["frame"]))
    return len(decoded)


@pytest.mark.parametrize("name", KINDS)
def test_start_at_seeks_and_gives_the_same_frames(make, decoded, name):
    few = 200 if name == "a.mpg" else 100  # where the first attempt fails
    assert begin_late(make(name), decoded) < COUNT - BEGIN + few


@pytest.mark.parametrize(
    "clip",
    [
        {"every": 7},
        {"start": 2},
        {"start": 11},  # which is sought itself
        {"size": (40, 30)},
        {"start": 1, "duration": 10.5, "every": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["a.mp4", "interlaced.ts"])
def test_start_at_counts_within_the_wanted_part(tmp_path, decoded, name, clip):
    path = write_clip(tmp_path / name, moving_frames(500), **KINDS[name])
    every = clip.get("every", 1)
    begin_late(path, decoded, begin=200 // every, **clip)
    last = (500 - 25 * clip.get("start", 0)) / every - 1
    if "duration" in clip:
        last = 25 * clip["duration"] / every - 1
    assert begin_late(path, decoded, begin=int(last), **clip) < 250


@pytest.mark.parametrize("begin", [0, 1, 41, 42, 43, 82, 83, COUNT - 1, COUNT])
def test_start_at_may_be_any_frame(make, decoded, begin):
    begin_late(make("a.mp4"), decoded, begin=begin)


def test_start_at_takes_marks_from_beyond_the_beginning(make, decoded):
    path = make("a.mp4")
    expected, marks, _ = read(path)
    decoded.clear()
    assert_same(read(path, 120, marks)[0], expected[120:])
    assert len(decoded) < COUNT - 120 + 100


def test_start_at_keeps_marks_for_the_next_time(make, decoded):
    path = make("a.mp4")
    expected, marks, _ = read(path)
    _, later, _ = read(path, 150, marks[marks["frame"] < 150])
    np.testing.assert_array_equal(later[:3], marks[:3])
    decoded.clear()
    assert_same(read(path, 280, later[later["frame"] < 280])[0], expected[280:])
    assert len(decoded) < 150


def test_start_at_decodes_everything_where_nothing_can_be_sought(tmp_path, decoded):
    path = write_clip(tmp_path / "a.h264", moving_frames(COUNT), **B_FRAMES)
    assert begin_late(path, decoded) == COUNT


@pytest.mark.parametrize(
    ("column", "row"),
    [
        ("checksum", -1),
        ("seconds", -1),
        ("frame", -1),
        ("checksum", -2),
        ("seconds", -2),
        ("frame", -2),
        ("place", -2),
    ],
)
def test_start_at_decodes_everything_if_a_frame_is_not_known_again(make, decoded, column, row):
    path = make("a.mp4")
    expected, marks, end = read(path)
    marks = marks[marks["frame"] < BEGIN]
    marks[column][row] += 1
    decoded.clear()
    frames, again, late_end = read(path, BEGIN, marks)
    assert_same(frames, expected[BEGIN:])
    assert late_end == end
    assert len(decoded) > COUNT
    np.testing.assert_array_equal(again, read(path)[1])  # good ones in the place of the bad


def test_start_at_is_not_misled_by_times_that_come_again(tmp_path, decoded):
    once = write_clip(tmp_path / "once.ts", moving_frames(150), **B_FRAMES).read_bytes()
    path = tmp_path / "twice.ts"
    path.write_bytes(once + once)
    begin_late(path, decoded)
    assert len(read(path)[0]) > BEGIN


def broken(path, packet, kept):
    """Overwrite a packet of a film but for a share of it."""
    with av.open(str(path)) as container:
        content = [bytes(it) for it in container.demux(video=0) if it.size][packet]
    data = path.read_bytes()
    assert data.count(content) == 1
    head = content[: int(kept * len(content))]
    path.write_bytes(data.replace(content, head.ljust(len(content), b"\xff")))
    return path


@pytest.mark.parametrize(
    ("name", "packet", "kept", "words"),
    [
        ("a.mp4", 105, 0.5, "decoded with errors"),
        ("a.mkv", 105, 0.5, "decoded with errors"),
        ("a.ts", 280, 0.5, "decoded with errors"),
        ("png.mov", 105, 0, "1 packet did not decode"),
        ("png.mov", 253, 0, "1 packet did not decode"),
    ],
)
def test_start_at_counts_what_did_not_decode(make, decoded, name, packet, kept, words):
    path = broken(make(name), packet, kept)
    assert words in read(path)[2][0]
    assert begin_late(path, decoded) < COUNT - BEGIN + 150


def joined(tmp_path, *parts):
    """Return one film of several, one after the other in time."""
    data, ticks = b"", 0
    for drawn, how in parts:
        numbers = range(ticks, ticks + len(drawn))
        path = write_clip(tmp_path / "part.ts", drawn, ticks=numbers, **how)
        data, ticks = data + path.read_bytes(), ticks + len(drawn)
    path = tmp_path / "joined.ts"
    path.write_bytes(data)
    return path


def test_start_at_remembers_that_the_size_has_changed(tmp_path, decoded):
    small, large = moving_frames(100), moving_frames(150, 96, 128)
    path = joined(tmp_path, (small, MPEG2), (large, MPEG2), (small, MPEG2))
    for begin in (200, 330):
        assert begin_late(path, decoded, begin=begin) < 350 - begin + 150
    decoded.clear()
    _, marks, end = read(path)
    assert "128x96 and not 64x48" in end[1][0]
    assert "its size changed 2 times" in end[1][1]
    marks = marks[marks["frame"] < 200]
    marks["checksum"][-1] += 1
    assert read(path, 200, marks)[2] == end


def test_start_at_remembers_that_frames_were_interlaced(tmp_path, decoded):
    """Or the first field of the third part would have nothing before it."""
    drawn = moving_frames(120)
    path = joined(tmp_path, (drawn, INTERLACED), (drawn, MPEG2), (drawn, INTERLACED))
    assert begin_late(path, decoded, begin=220) < 360 - 220 + 150


def test_start_at_reads_only_some_images_before_the_beginning(tmp_path, monkeypatch):
    path = write_images(tmp_path / "images", moving_frames(60), "{}.png")
    for n in (3, 20, 55):
        (path / f"{n}.png").write_bytes(b"no picture")
    expected, marks, end = read(path)
    seen = []
    original = folder._read
    monkeypatch.setattr(folder, "_read", lambda it: seen.append(it.name) or original(it))
    frames, _, late_end = read(path, 50, marks[marks["frame"] < 50])
    assert_same(frames, expected[50:])
    assert late_end == end
    assert "3.png and 2 more" in end[0]
    assert len(seen) < 60 - 50 + 3 * 8 + 2


def test_source_that_can_be_read_once_makes_no_marks(tmp_path):
    path = write_clip(tmp_path / "a.h264", moving_frames(60), **B_FRAMES)
    assert Marks.from_array(read(path)[1]).before(1000) == []

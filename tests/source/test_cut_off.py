"""Files that are shorter than they say of themselves."""

from __future__ import annotations

import pytest
from support.clips import H264, decoded_count, moving_frames, read_source, write_clip

from aaams_stream.errors import SourceError
from aaams_stream.source.cut_off import cut_off

FAST = {"movflags": "faststart"}
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}
KINDS = {
    "a.mkv": {},
    "a.webm": {"codec": "libvpx-vp9", "pix_fmt": "yuv420p"},
    "a.avi": {"codec": "mjpeg", "pix_fmt": "yuvj420p"},
    "fast.mp4": {**H264, "container_options": FAST},
    "fragments.mp4": {**H264, "options": {"g": "10"}, "container_options": FRAGMENTS},
    "a.gif": {"codec": "gif", "pix_fmt": "rgb8"},
}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_that_breaks_off_is_damaged_wherever_that_is(tmp_path, name):
    whole = write_clip(tmp_path / name, moving_frames(40), **KINDS[name])
    data = whole.read_bytes()
    assert cut_off(whole) is None
    assert read_source(whole)[1].ended == "complete"
    read = 0
    for tenths in range(1, 10):
        path = tmp_path / f"cut-{name}"
        path.write_bytes(data[: len(data) * tenths // 10])
        assert cut_off(path).startswith("the file breaks off")
        try:
            frames, opened = read_source(path)
        except SourceError:
            continue
        assert opened.ended.startswith("damaged: ")
        assert len(frames) == decoded_count(path)
        read += 1
    assert read > 3


def test_a_file_that_breaks_off_is_whole_for_who_wants_its_beginning(tmp_path):
    path = write_clip(tmp_path / "a.mkv", moving_frames(60), rate=10)
    path.write_bytes(path.read_bytes()[:-200])
    assert read_source(path, duration=2)[1].ended == "complete"
    assert read_source(path)[1].ended.startswith("damaged: the file breaks off: ")


def test_more_than_a_file_announces_is_no_damage(tmp_path):
    for name, how in KINDS.items():
        path = write_clip(tmp_path / name, moving_frames(5), **how)
        path.write_bytes(path.read_bytes() + bytes(40))
        assert cut_off(path) is None, name


@pytest.mark.parametrize("size", [*range(40), 64, 100])
@pytest.mark.parametrize("start", [b"", b"RIFF", b"GIF8", b"\x1a\x45\xdf\xa3", b"\0\0\0\x20ftyp"])
def test_anything_may_follow_the_first_bytes(tmp_path, start, size):
    for filling in (b"\0", b"\1", b"\xff", b"RIFF", b"\x18\x53\x80\x67"):
        path = tmp_path / "a.bin"
        path.write_bytes((start + filling * 100)[:size])
        cut_off(path)

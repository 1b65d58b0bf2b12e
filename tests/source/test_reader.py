"""What FFmpeg opens: times, streams, damage, pipes."""

from __future__ import annotations

import gc
import os
import threading
from fractions import Fraction

import av
import numpy as np
import pytest
from support.clips import H264, decoded_count, moving_frames, read_source, write_clip
from support.clocks import PATIENCE

from aaams_stream.errors import SourceError
from aaams_stream.source import open_source, reader


def test_video_reader_keeps_the_times_of_variable_rates(tmp_path):
    ticks = [0, 1, 2, 7, 8, 100, 103]
    path = write_clip(
        tmp_path / "a.mp4",
        moving_frames(7),
        ticks=ticks,
        time_base=Fraction(1, 30),
        **H264,
    )
    frames, _ = read_source(path)
    assert [frame.time for frame in frames] == [Fraction(tick, 30) for tick in ticks]


def test_video_reader_gives_fractions_where_floats_would_round(tmp_path):
    rate = Fraction(30000, 1001)
    frames, opened = read_source(
        write_clip(tmp_path / "a.mp4", moving_frames(5), rate=rate, **H264)
    )
    assert [frame.time for frame in frames] == [n / rate for n in range(5)]
    assert opened.rate == rate


def test_video_reader_spaces_frames_without_times_by_the_rate(tmp_path):
    frames, opened = read_source(write_clip(tmp_path / "a.h264", moving_frames(9), rate=20, **H264))
    assert [frame.time for frame in frames] == [Fraction(n, 20) for n in range(9)]
    assert opened.frame_estimate is None


def test_video_reader_takes_the_largest_of_several_streams(tmp_path):
    path = tmp_path / "two.mp4"
    small, large = moving_frames(8, 24, 32), moving_frames(8, 96, 128)
    with av.open(str(path), "w") as container:
        streams = []
        for drawn in (small, large):
            stream = container.add_stream("libx264", rate=25)
            stream.height, stream.width = drawn[0].shape[:2]
            stream.pix_fmt = "yuv420p"
            streams.append(stream)
        for pair in zip(small, large, strict=True):
            for stream, pixels in zip(streams, pair, strict=True):
                frame = av.VideoFrame.from_ndarray(pixels).reformat(format="yuv420p")
                container.mux(stream.encode(frame))
        for stream in streams:
            container.mux(stream.encode(None))
    frames, _ = read_source(path)
    assert [frame.rgb.shape for frame in frames] == [(96, 128, 3)] * 8


def test_video_reader_lays_transparent_webm_over_grey(tmp_path):
    path = tmp_path / "a.webm"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libvpx-vp9", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuva420p"
        rgba = np.full((48, 64, 4), 255, np.uint8)
        rgba[:, 32:, 3] = 0
        for _ in range(4):
            frame = av.VideoFrame.from_ndarray(rgba, format="rgba").reformat(format="yuva420p")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    frames, _ = read_source(path)
    assert [frame.time * 25 for frame in frames] == [0, 1, 2, 3]
    assert frames[3].rgb[:, :28].min() > 240
    assert abs(frames[3].rgb[:, 36:].astype(int) - 128).max() < 8


def test_video_reader_gives_up_transparency_before_it_gives_up_frames(tmp_path):
    """The decoder that knows transparency fails at damage that the other one conceals."""
    how = {"codec": "libvpx-vp9", "pix_fmt": "yuva420p"}
    path = write_clip(tmp_path / "a.webm", moving_frames(20), **how)
    data = path.read_bytes()
    damaged = 0
    for at in range(len(data) // 2, len(data), 31):
        path.write_bytes(data[:at] + b"\xff\xff\xff" + data[at + 3 :])
        if decoded_count(path) == 20:
            frames, opened = read_source(path)
            assert [frame.time * 25 for frame in frames] == list(range(20))
            damaged += "did not decode whole" in opened.ended
    assert damaged > 0


def test_video_reader_shows_opaque_frames_between_transparent_ones(tmp_path):
    """As in two films joined: the decoder that knows transparency drops frames without it."""
    how = {"codec": "libvpx-vp9"}
    clear = write_clip(tmp_path / "a.webm", moving_frames(10), pix_fmt="yuva420p", **how)
    plain = write_clip(tmp_path / "b.webm", moving_frames(10), pix_fmt="yuv420p", **how)
    clear.write_bytes(clear.read_bytes() + plain.read_bytes())
    assert len(read_source(clear)[0]) == decoded_count(clear)


def test_video_reader_goes_on_after_a_packet_of_a_stream_that_appeared_on_the_way(
    clip, monkeypatch
):
    """PyAV raises an IndexError for it."""

    class Container:
        def __init__(self, container):
            self._container, self.raised = container, False

        def __getattr__(self, name):
            return getattr(self._container, name)

        def demux(self, stream):
            for number, packet in enumerate(self._container.demux(stream)):
                if number == 5 and not self.raised:
                    self.raised = True
                    raise IndexError("list index out of range")
                yield packet

    opening = reader.VideoReader._open

    def wrapped(video):
        opening(video)
        video._container = Container(video._container)

    monkeypatch.setattr(reader.VideoReader, "_open", wrapped)
    frames, opened = read_source(clip)
    assert len(frames) == 39  # the one at hand is the stand-in for that of the other stream
    assert opened.ended == "complete"


def test_video_reader_endures_metadata_that_is_not_utf8(tmp_path):
    path = write_clip(tmp_path / "a.mkv", moving_frames(3), title="QQQQQQQQ")
    path.write_bytes(path.read_bytes().replace(b"QQQQQQQQ", b"\xd3\xff\xfe\xd3\xd3\xd3\xd3\xd3"))
    assert len(read_source(path)[0]) == 3


def test_video_reader_yields_what_decodes_of_a_truncated_file_and_says_so(tmp_path):
    options = {"movflags": "faststart"}
    path = write_clip(tmp_path / "a.mp4", moving_frames(60), container_options=options, **H264)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 7 // 10])
    frames, opened = read_source(path)
    assert 0 < len(frames) < 60
    assert len(frames) == decoded_count(path)
    assert opened.ended.startswith("damaged: ")
    assert "of about 60 announced were read" in opened.warnings[-1]


def test_video_reader_goes_on_after_a_broken_packet(tmp_path):
    path = write_clip(tmp_path / "a.mov", moving_frames(12), codec="png", pix_fmt="rgb24")
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    data = bytearray(path.read_bytes())
    at = data.index(bytes(packets[5])[:64])
    data[at : at + 16] = bytes(16)  # the picture's signature
    path.write_bytes(data)
    frames, opened = read_source(path)
    assert [frame.time * 25 for frame in frames] == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert opened.ended == "damaged: 1 packet did not decode whole"


def test_video_reader_lets_no_frames_pile_up_in_memory(tmp_path):
    """Decoded frames go at once, not when the garbage collector looks."""
    path = write_clip(tmp_path / "clip.mkv", moving_frames(30))

    def count():
        return sum(isinstance(thing, av.VideoFrame) for thing in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        held = count()  # by other tests
        with open_source(path) as source:
            for _ in source:
                pass
        left = count() - held
    finally:
        gc.enable()
    assert left < 5


def test_pipe_gives_up_when_told_so_while_its_writer_is_silent(tmp_path, piped, monkeypatch):
    path = write_clip(tmp_path / "a.y4m", moving_frames(8), codec="wrapped_avframe", pix_fmt="gray")
    os.write(piped, path.read_bytes())  # fits into the pipe as a whole
    waits = threading.Event()
    select = reader.select.select

    def tell_and_wait(*arguments):
        if not select(*arguments[:3], 0)[0]:
            waits.set()
        return select(*arguments)

    monkeypatch.setattr(reader.select, "select", tell_and_wait)
    frames = []
    with open_source("-") as opened:
        thread = threading.Thread(target=lambda: frames.extend(opened))
        thread.start()
        assert waits.wait(PATIENCE)
        assert thread.is_alive()
        opened.stop()
        thread.join()
    assert len(frames) >= 7
    os.close(piped)


def test_video_reader_refuses_a_stream_without_a_decoder(tmp_path):
    path = write_clip(tmp_path / "a.avi", moving_frames(5), codec="mjpeg", pix_fmt="yuvj420p")
    path.write_bytes(path.read_bytes().replace(b"MJPG", b"QQQQ"))
    with pytest.raises(SourceError, match="only text or a codec it lacks"):
        open_source(path)


def test_video_reader_hands_out_what_the_decoder_holds_when_reading_fails(tmp_path, monkeypatch):
    """With B-frames, the last frames come only when the decoder is told that it was all."""
    path = write_clip(tmp_path / "a.mp4", moving_frames(40), options={"bf": "3"}, **H264)
    packets = reader.VideoReader._packets

    def fails(video):
        for number, packet in enumerate(packets(video)):
            if number == 29:
                video._failure = "reading failed (I/O error)"
                return
            yield packet

    monkeypatch.setattr(reader.VideoReader, "_packets", fails)
    frames, opened = read_source(path)
    assert len(frames) == 29
    assert opened.ended == "damaged: reading failed (I/O error)"


@pytest.mark.parametrize("missing", [1, 1000, 9216])
def test_video_reader_says_that_the_last_frame_of_y4m_breaks_off(tmp_path, missing):
    path = write_clip(
        tmp_path / "a.y4m", moving_frames(9), codec="wrapped_avframe", pix_fmt="yuv444p"
    )
    path.write_bytes(path.read_bytes()[:-missing])
    frames, opened = read_source(path)
    assert (len(frames), opened.ended) == (8, "damaged: the last frame breaks off")


def test_video_reader_says_that_the_last_frame_of_a_pipe_breaks_off(tmp_path, piped):
    path = write_clip(tmp_path / "a.y4m", moving_frames(8), codec="wrapped_avframe", pix_fmt="gray")
    os.write(piped, path.read_bytes()[:-5])
    os.close(piped)
    frames, opened = read_source("-")
    assert (len(frames), opened.ended) == (7, "damaged: the last frame breaks off")

"""Frames from real clips, encoded here: order, times, pixels, damage and errors."""

from __future__ import annotations

import gc
import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import av
import numpy as np
import pytest
from support.clips import decoded_count, moving_frames, write_clip, write_images

from aaams_stream import source
from aaams_stream.core.features import as_rgb
from aaams_stream.errors import SourceError
from aaams_stream.model import Clip
from aaams_stream.source import demo, open_source

H264 = {"codec": "libx264", "pix_fmt": "yuv420p"}


def read(spec, **options):
    """Return all frames of a source and the source after its end."""
    with open_source(spec, Clip(**options)) as opened:
        return list(opened), opened


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Forty frames at ten a second, exact in RGB."""
    path = tmp_path_factory.mktemp("clip") / "clip.mkv"
    return write_clip(path, moving_frames(40), rate=10)


def test_frames_come_in_order_with_exact_pixels_and_times(clip):
    frames, opened = read(clip)
    assert [frame.index for frame in frames] == list(range(40))
    assert [frame.time for frame in frames] == [Fraction(n, 10) for n in range(40)]
    for frame, drawn in zip(frames, moving_frames(40), strict=True):
        np.testing.assert_array_equal(frame.rgb, drawn)
    assert (opened.width, opened.height, opened.rate) == (64, 48, 10)
    assert opened.frame_estimate == 40
    assert opened.ended == "complete"
    assert opened.warnings == []


def test_variable_rates_keep_their_times(tmp_path):
    ticks = [0, 1, 2, 7, 8, 100, 103]
    path = write_clip(
        tmp_path / "a.mp4",
        moving_frames(7),
        ticks=ticks,
        time_base=Fraction(1, 30),
        **H264,
    )
    frames, _ = read(path)
    assert [frame.time for frame in frames] == [Fraction(tick, 30) for tick in ticks]


def test_times_stay_fractions_where_floats_would_round(tmp_path):
    rate = Fraction(30000, 1001)
    frames, opened = read(write_clip(tmp_path / "a.mp4", moving_frames(5), rate=rate, **H264))
    assert [frame.time for frame in frames] == [n / rate for n in range(5)]
    assert opened.rate == rate


def test_an_iteration_that_stops_early_says_interrupted(clip):
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
def test_a_stretch_is_cut_out_by_time_and_number(clip, options, expected):
    frames, opened = read(clip, **options)
    assert [frame.time * 10 for frame in frames] == list(expected)
    assert [frame.index for frame in frames] == list(range(len(expected)))
    assert opened.ended == "complete"
    assert abs(opened.frame_estimate - len(expected)) <= 1
    assert opened.rate == Fraction(10, options.get("every", 1))


def test_times_are_counted_from_the_first_frame(tmp_path):
    path = write_clip(tmp_path / "a.ts", moving_frames(20), rate=10, **H264)
    frames, _ = read(path)
    later, _ = read(path, start=1)
    assert frames[0].time > 0  # MPEG-TS leaves room for what is decoded first
    assert [frame.time for frame in later] == [frame.time for frame in frames[10:]]


def test_seeking_gives_the_frames_that_decoding_from_the_beginning_gives(tmp_path, monkeypatch):
    path = write_clip(tmp_path / "a.mp4", moving_frames(80), rate=10, options={"g": "8"}, **H264)
    linear, _ = read(path, start=6)
    monkeypatch.setattr(source, "_LINEAR", 1)
    sought, _ = read(path, start=6)
    assert [frame.time for frame in sought] == [frame.time for frame in linear]
    assert len(sought) == 20
    for one, other in zip(linear, sought, strict=True):
        np.testing.assert_array_equal(one.rgb, other.rgb)


def test_skipped_frames_leave_the_others_their_index(clip):
    with open_source(clip) as opened:
        opened.skip(33)
        frames = list(opened)
    assert [frame.index for frame in frames] == list(range(33, 40))
    np.testing.assert_array_equal(frames[0].rgb, moving_frames(40)[33])


def test_size_scales_the_frames(clip):
    frames, opened = read(clip, size=(31, 17), duration=0.1)
    assert (opened.width, opened.height) == (31, 17)
    assert frames[0].rgb.shape == (17, 31, 3)


@pytest.mark.parametrize(("rotation", "turns"), [(0, 0), (90, 1), (180, 2), (270, 3)])
def test_rotation_is_applied(tmp_path, rotation, turns):
    frame = moving_frames(1, 48, 96)[0]
    path = write_clip(tmp_path / "a.mp4", [frame] * 2, rotation=rotation, **H264)
    upright, _ = read(write_clip(tmp_path / "b.mp4", [frame] * 2, **H264))
    frames, opened = read(path)
    np.testing.assert_array_equal(frames[0].rgb, np.rot90(upright[0].rgb, turns))
    assert (opened.height, opened.width) == frames[0].rgb.shape[:2]


def test_pixels_become_square(tmp_path):
    path = write_clip(tmp_path / "a.mp4", moving_frames(2, 48, 72), aspect=Fraction(8, 9), **H264)
    frames, opened = read(path)
    assert (opened.width, opened.height) == (64, 48)
    assert frames[0].rgb.shape == (48, 64, 3)


@pytest.mark.parametrize("shape", [(13, 17), (1, 1), (241, 321)])
def test_odd_sizes_pass(tmp_path, shape):
    drawn = moving_frames(2, 64, 400)
    drawn = [np.resize(frame, (*shape, 3)) for frame in drawn]
    frames, _ = read(write_clip(tmp_path / "a.mkv", drawn))
    np.testing.assert_array_equal(frames[1].rgb, drawn[1])


def test_alpha_is_laid_over_grey_as_for_images(tmp_path):
    rng = np.random.default_rng(0)
    rgba = rng.integers(0, 256, (20, 30, 4), dtype=np.uint8)
    frames, _ = read(write_images(tmp_path / "images", [rgba], "{}.png"))
    np.testing.assert_array_equal(frames[0].rgb, as_rgb(rgba))


def test_transparent_webm_is_laid_over_grey(tmp_path):
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
    frames, _ = read(path)
    assert [frame.time * 25 for frame in frames] == [0, 1, 2, 3]
    assert frames[3].rgb[:, :28].min() > 240
    assert abs(frames[3].rgb[:, 36:].astype(int) - 128).max() < 8


@pytest.mark.parametrize("pix_fmt", ["gray", "gray16le", "yuv420p10le", "gbrp16le", "yuv444p"])
def test_grey_and_deep_colours_become_eight_bits(tmp_path, pix_fmt):
    drawn = moving_frames(3)
    frames, _ = read(write_clip(tmp_path / "a.mkv", drawn, pix_fmt=pix_fmt))
    assert len(frames) == 3
    grey = np.abs(frames[0].rgb.mean() - drawn[0].mean())
    assert grey < 12
    if pix_fmt.startswith("gray"):
        assert np.ptp(frames[0].rgb.astype(int), axis=2).max() == 0


def test_interlaced_frames_are_made_whole_one_for_one(tmp_path):
    options = {"flags": "+ildct+ilme"}
    combed = []
    for index in range(6):  # two fields, in which a square stands at different places
        frame = np.full((64, 96, 3), 40, np.uint8)
        for field in range(2):
            left = 8 + 8 * (2 * index + field) % 60
            frame[field::2, left : left + 24] = 220
        combed.append(frame)
    path = write_clip(
        tmp_path / "a.mpg", combed, codec="mpeg2video", pix_fmt="yuv420p", options=options
    )
    with av.open(str(path)) as container:
        raw = list(container.decode(video=0))
    assert raw[1].interlaced_frame
    frames, _ = read(path)
    assert len(frames) == len(raw)
    assert [f.time for f in frames] == [Fraction(f.pts * f.time_base) for f in raw]

    def comb(rgb):
        return np.abs(np.diff(rgb[:, :, 1].astype(int), axis=0)).mean()

    assert comb(frames[3].rgb) < 0.5 * comb(raw[3].to_ndarray(format="rgb24"))


def test_frames_without_times_are_spaced_by_the_rate(tmp_path):
    frames, opened = read(write_clip(tmp_path / "a.h264", moving_frames(9), rate=20, **H264))
    assert [frame.time for frame in frames] == [Fraction(n, 20) for n in range(9)]
    assert opened.frame_estimate is None


def test_times_that_run_backwards_keep_the_order_of_frames(tmp_path):
    ticks = [0, 2, 1, 3]  # as some AVI files have them
    path = tmp_path / "a.nut"
    write_clip(path, moving_frames(4), codec="rawvideo", pix_fmt="rgb24")
    data = source.Reel(str(path), "a")
    pictures = list(data.pictures())
    data.close()
    for picture, tick in zip(pictures, ticks, strict=True):
        picture.frame.pts = tick
    strip = SimpleNamespace(
        name="backwards",
        rate=Fraction(25),
        time_base=Fraction(1, 25),
        frame_count=4,
        duration=None,
        damage=None,
        seekable=False,
        pictures=lambda start=None: iter(
            [
                source.Picture(Fraction(tick, 25), picture.frame)
                for picture, tick in zip(pictures, ticks, strict=True)
            ]
        ),
        stop=lambda: None,
        close=lambda: None,
    )
    with source.Source(strip, Clip()) as opened:
        frames = list(opened)
    assert [frame.time * 25 for frame in frames] == ticks
    for frame, drawn in zip(frames, moving_frames(4), strict=True):
        np.testing.assert_array_equal(frame.rgb, drawn)


def test_the_largest_of_several_video_streams_is_taken(tmp_path):
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
    frames, _ = read(path)
    assert [frame.rgb.shape for frame in frames] == [(96, 128, 3)] * 8


def test_metadata_that_is_not_utf8_does_no_harm(tmp_path):
    path = write_clip(tmp_path / "a.mkv", moving_frames(3), title="QQQQQQQQ")
    path.write_bytes(path.read_bytes().replace(b"QQQQQQQQ", b"\xd3\xff\xfe\xd3\xd3\xd3\xd3\xd3"))
    assert len(read(path)[0]) == 3


def test_a_size_change_is_scaled_to_the_first_size_with_a_warning(tmp_path):
    parts = [
        write_clip(tmp_path / f"{n}.h264", moving_frames(4, *shape), **H264)
        for n, shape in enumerate([(48, 64), (96, 128)])
    ]
    path = tmp_path / "joined.h264"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    frames, opened = read(path)
    assert len(frames) == decoded_count(path) == 8
    assert {frame.rgb.shape for frame in frames} == {(48, 64, 3)}
    assert len(opened.warnings) == 1
    assert "128x96 and not 64x48; it is scaled to 64x48" in opened.warnings[0]
    assert opened.ended == "complete"


def test_a_truncated_file_yields_what_decodes_and_says_so(tmp_path):
    options = {"movflags": "faststart"}
    path = write_clip(tmp_path / "a.mp4", moving_frames(60), container_options=options, **H264)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 7 // 10])
    frames, opened = read(path)
    assert 0 < len(frames) < 60
    assert len(frames) == decoded_count(path)
    assert opened.ended.startswith("damaged: ")
    assert "of about 60 announced were read" in opened.warnings[-1]


def test_decoding_goes_on_after_a_broken_packet(tmp_path):
    path = write_clip(tmp_path / "a.mov", moving_frames(12), codec="png", pix_fmt="rgb24")
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    data = bytearray(path.read_bytes())
    at = data.index(bytes(packets[5])[:64])
    data[at : at + 16] = bytes(16)  # the picture's signature
    path.write_bytes(data)
    frames, opened = read(path)
    assert [frame.time * 25 for frame in frames] == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert opened.ended == "damaged: 1 packet did not decode"


def test_images_come_in_natural_order(tmp_path):
    drawn = moving_frames(12)
    folder = write_images(tmp_path / "images", drawn, "frame{}.png")
    for spec in (folder, str(folder / "frame*.png")):
        frames, opened = read(spec)
        for frame, expected in zip(frames, drawn, strict=True):
            np.testing.assert_array_equal(frame.rgb, expected)
        assert frames[2].time == Fraction(2, 25)
        assert opened.frame_estimate == 12


def test_a_broken_image_is_left_out_and_named(tmp_path):
    folder = write_images(tmp_path / "images", moving_frames(4), "{}.png")
    (folder / "1.png").write_bytes(b"no picture")
    frames, opened = read(folder)
    assert [frame.time * 25 for frame in frames] == [0, 2, 3]
    assert opened.ended == "damaged: images that do not decode: 1.png"


def test_the_demo_is_the_same_every_time():
    frames, opened = read("demo", every=40)
    assert (opened.width, opened.height) == (demo.WIDTH, demo.HEIGHT)
    assert opened.frame_estimate == len(frames) == 3
    np.testing.assert_array_equal(frames[1].rgb, demo.demo_frame(40).rgb)
    shown = set().union(*(np.unique(demo.demo_frame(n).truth) for n in range(0, 96, 8)))
    assert shown == set(range(len(demo.SURFACES)))


@pytest.fixture
def piped(monkeypatch):
    """Put a pipe in the place of standard input; return its writing end."""
    reading, writing = os.pipe()
    stdin = os.fdopen(reading, "rb")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stdin, isatty=lambda: False))
    yield writing
    stdin.close()


def feed(writing, data, *, close=True):
    def work():
        with os.fdopen(writing, "wb", closefd=close) as pipe:
            pipe.write(data)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("suffix", "encoding"),
    [("y4m", {"codec": "wrapped_avframe", "pix_fmt": "yuv444p"}), ("ts", H264)],
)
def test_standard_input_is_read_to_its_end(tmp_path, piped, suffix, encoding):
    path = write_clip(tmp_path / f"a.{suffix}", moving_frames(11), **encoding)
    writer = feed(piped, path.read_bytes())
    frames, opened = read("-")
    writer.join()
    assert len(frames) == 11
    assert opened.live
    assert opened.fingerprint is None


def test_a_silent_pipe_can_be_stopped(tmp_path, piped):
    path = write_clip(tmp_path / "a.y4m", moving_frames(8), codec="wrapped_avframe", pix_fmt="gray")
    writer = feed(piped, path.read_bytes(), close=False)
    with open_source("-") as opened:
        timer = threading.Timer(0.3, opened.stop)
        timer.start()
        begun = time.monotonic()
        assert len(list(opened)) >= 7
        assert time.monotonic() - begun < 2
        timer.join()
    writer.join()
    os.close(piped)


def test_an_address_is_read_like_a_file(clip):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = partial(Quiet, directory=str(clip.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        frames, _ = read(f"http://127.0.0.1:{server.server_port}/{clip.name}")
        server.shutdown()
        thread.join()
    assert len(frames) == 40


def test_the_same_file_has_the_same_fingerprint_wherever_it_lies(clip, tmp_path):
    moved, other = tmp_path / "moved.mkv", write_clip(tmp_path / "b.mkv", moving_frames(3))
    moved.write_bytes(clip.read_bytes())
    prints = []
    for path in (clip, moved, other):
        with open_source(path) as opened:
            prints.append(opened.fingerprint)
    assert prints[0] == prints[1] != prints[2]


def sound_only(path):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        sound.rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode(None))


def test_wrong_inputs_are_told_apart(tmp_path, clip):
    empty, text, sound = (tmp_path / name for name in ("empty.mp4", "text.mp4", "sound.wav"))
    empty.touch()
    text.write_text("no film, but a letter " * 50)
    sound_only(sound)
    folder = tmp_path / "folder"
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    for spec, message in {
        tmp_path / "none.mp4": "no such file or folder",
        empty: "the file is empty",
        text: "not a video",
        sound: "no video stream",
        folder: "no images found",
        tmp_path / "*.png": "no images found",
        "camera:77": "there is no such camera",
        "camera:front": "expected camera:N",
        f"http://127.0.0.1:{closed}/a.mp4": "refused",
    }.items():
        with pytest.raises(SourceError, match=message):
            open_source(spec)
    with pytest.raises(SourceError, match="no frame lies in the wanted stretch"):
        open_source(clip, Clip(start=100))


@pytest.mark.parametrize(
    "options", [{"start": -1}, {"duration": 0}, {"every": 0}, {"size": (0, 4)}]
)
def test_impossible_selections_are_errors(clip, options):
    with pytest.raises(SourceError, match=next(iter(options))):
        open_source(clip, Clip(**options))


def test_a_terminal_is_no_video(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(SourceError, match="nothing is piped in"):
        open_source("-")


def test_frames_do_not_pile_up_in_memory(tmp_path):
    """Decoded frames go at once, not when the garbage collector looks."""
    path = write_clip(tmp_path / "clip.mkv", moving_frames(30))
    gc.collect()
    gc.disable()
    try:
        with open_source(path) as source:
            for _ in source:
                pass
        left = sum(isinstance(thing, av.VideoFrame) for thing in gc.get_objects())
    finally:
        gc.enable()
    assert left < 5


def test_names_with_a_colon_are_files(clip, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.link(clip, "12:30:00.mkv")
    assert len(read("12:30:00.mkv")[0]) == 40
    write_images(tmp_path / "at", moving_frames(3), "12:{:02d}.png")
    monkeypatch.chdir("at")
    for spec in (".", "*.png"):
        frames, opened = read(spec)
        assert (len(frames), opened.ended) == (3, "complete")


def test_folders_with_other_pictures_of_the_same_names_and_lengths_differ(tmp_path):
    for name, frames in (("a", moving_frames(3)), ("b", moving_frames(3, seed=5))):
        (tmp_path / name).mkdir()
        for n, rgb in enumerate(frames):
            (tmp_path / name / f"{n}.ppm").write_bytes(b"P6 64 48 255\n" + rgb.tobytes())
    prints = []
    for name in "aba":
        with open_source(tmp_path / name) as opened:
            prints.append(opened.fingerprint)
    assert prints[0] == prints[2] != prints[1]


def test_sizes_that_change_all_the_time_are_two_warnings(tmp_path):
    shapes = [(48, 64), (24, 32)] * 5
    for n, shape in enumerate(shapes):
        write_images(tmp_path / "all", moving_frames(1, *shape), f"{n:02d}-{{}}.png")
    frames, opened = read(tmp_path / "all")
    assert {frame.rgb.shape for frame in frames} == {(48, 64, 3)}
    assert len(opened.warnings) == 2
    assert "its size changed 9 times" in opened.warnings[1]


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("", {}, "no input is named"),
        ("x" * 300, {}, "cannot be opened .*name too long"),
        ("demo", {"duration": float("nan")}, "duration must be > 0"),
        ("demo", {"duration": float("inf")}, "duration must be > 0"),
        ("demo", {"duration": Fraction(10**400)}, "duration must be > 0"),
        ("demo", {"start": float("nan")}, "start must be >= 0"),
        ("demo", {"every": 2.5}, "whole number"),
        ("demo", {"size": (100_000, 100_000)}, "at most 67108864 pixels"),
    ],
)
def test_what_cannot_be_meant_is_refused(spec, options, message):
    with pytest.raises(SourceError, match=message):
        open_source(spec, Clip(**options))


def test_a_folder_named_demo_does_not_stand_for_the_demo(tmp_path, monkeypatch):
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    with open_source("demo") as opened:
        assert opened.spec == "demo"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are a POSIX matter")
def test_ctrl_c_reaches_who_waits_for_a_silent_pipe():
    code = "from aaams_stream.source import open_source; print('waiting', flush=True)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}open_source('-')"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.5)  # until it reads
        process.send_signal(signal.SIGINT)
        assert process.wait(10) != 0
        assert "KeyboardInterrupt" in process.stderr.read().splitlines()[-1]

"""What an input may be, and what it may not."""

from __future__ import annotations

import hashlib
import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import av
import numpy as np
import pytest
from support.clips import H264, moving_frames, read_source, write_clip, write_images
from support.clocks import PATIENCE

from aaams_stream.errors import SourceError
from aaams_stream.model import Clip, same_source
from aaams_stream.source import fingerprint, open_source


@pytest.mark.parametrize(
    ("suffix", "encoding"),
    [("y4m", {"codec": "wrapped_avframe", "pix_fmt": "yuv444p"}), ("ts", H264)],
)
def test_open_source_reads_standard_input_to_its_end(tmp_path, piped, suffix, encoding):
    path = write_clip(tmp_path / f"a.{suffix}", moving_frames(11), **encoding)

    def write():
        with os.fdopen(piped, "wb") as pipe:
            pipe.write(path.read_bytes())

    writer = threading.Thread(target=write)
    writer.start()
    frames, opened = read_source("-")
    writer.join()
    assert len(frames) == 11
    assert opened.live
    assert opened.fingerprint is None


def test_open_source_reads_an_address_like_a_file(clip):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = partial(Quiet, directory=str(clip.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        frames, _ = read_source(f"http://127.0.0.1:{server.server_port}/{clip.name}")
        server.shutdown()
        thread.join()
    assert len(frames) == 40


def test_open_source_takes_names_with_a_colon_for_files(clip, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.link(clip, "12:30:00.mkv")
    assert len(read_source("12:30:00.mkv")[0]) == 40
    write_images(tmp_path / "at", moving_frames(3), "12:{:02d}.png")
    monkeypatch.chdir("at")
    for spec in (".", "*.png"):
        frames, opened = read_source(spec)
        assert (len(frames), opened.ended) == (3, "complete")


def test_open_source_means_the_demo_by_demo_even_beside_a_folder_of_that_name(
    tmp_path, monkeypatch
):
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    with open_source("demo") as opened:
        assert opened.spec == "demo"


def test_fingerprint_of_a_file_is_the_same_wherever_it_lies(clip, tmp_path):
    moved, other = tmp_path / "moved.mkv", write_clip(tmp_path / "b.mkv", moving_frames(3))
    moved.write_bytes(clip.read_bytes())
    prints = []
    for path in (clip, moved, other):
        with open_source(path) as opened:
            prints.append(opened.fingerprint)
    assert prints[0] == prints[1] != prints[2]


def test_fingerprints_of_folders_tell_pictures_of_the_same_names_and_lengths_apart(tmp_path):
    for name, frames in (("a", moving_frames(3)), ("b", moving_frames(3, seed=5))):
        (tmp_path / name).mkdir()
        for n, rgb in enumerate(frames):
            (tmp_path / name / f"{n}.ppm").write_bytes(b"P6 64 48 255\n" + rgb.tobytes())
    prints = []
    for name in "aba":
        with open_source(tmp_path / name) as opened:
            prints.append(opened.fingerprint)
    assert prints[0] == prints[2] != prints[1]


def test_fingerprints_tell_files_apart_that_differ_in_the_middle_alone(tmp_path):
    """As films do that were cut anew, and files that a disk has damaged."""
    path, data = tmp_path / "a.bin", bytearray(8 << 20)
    path.write_bytes(data)
    before = fingerprint(path)
    data[4 << 20 : 5 << 20] = b"x" * (1 << 20)
    path.write_bytes(data)
    assert fingerprint(path) != before
    assert fingerprint(path).split()[0] == before.split()[0]


def test_fingerprints_look_at_every_byte_of_a_short_file(tmp_path):
    path, data = tmp_path / "a.bin", bytearray(3 << 20)
    path.write_bytes(data)
    before = fingerprint(path)
    for at in (0, 1 << 20, (3 << 19) + 7, (2 << 20) - 1, (3 << 20) - 1):
        changed = bytearray(data)
        changed[at] = 1
        path.write_bytes(changed)
        assert fingerprint(path) != before


def test_fingerprints_of_older_volumes_are_known_again(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"film")
    ends = hashlib.sha256(b"4" + b"film" * 2).hexdigest()  # length, first and last megabyte
    assert same_source(f"sha256:{ends}", fingerprint(path))
    assert not same_source(f"sha256:{ends[::-1]}", fingerprint(path))
    assert not same_source(None, fingerprint(path))
    assert not same_source(fingerprint(path), None)


def sound_only(path):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        sound.rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode(None))


def test_open_source_tells_wrong_inputs_apart(tmp_path, clip):
    empty, text, sound = (tmp_path / name for name in ("empty.mp4", "text.mp4", "sound.wav"))
    empty.touch()
    text.write_text("no film, but a letter " * 50)
    sound_only(sound)
    notes = tmp_path / "notes.nfo"
    notes.write_text("a letter that FFmpeg would play as a film, line by line\n" * 50)
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
        notes: "only text or a codec it lacks",
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
def test_open_source_refuses_impossible_clips(clip, options):
    with pytest.raises(SourceError, match=next(iter(options))):
        open_source(clip, Clip(**options))


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
        ("demo", {"every": float("inf")}, "whole number"),
        ("demo", {"every": "2"}, "every must be a whole number, got '2'"),
        ("demo", {"start": "00:01"}, "start must be a number of seconds, got '00:01'"),
        ("demo", {"duration": "1"}, "duration must be a number of seconds"),
        ("demo", {"start": 10**400}, "got a number beyond all bounds"),
        ("demo", {"size": 640}, "size must be a width and a height"),
        ("demo", {"size": (64.5, 48)}, "size must be a width and a height"),
        ("http://a\0b/", {}, "no address holds a NUL"),
        (np.zeros((4, 5, 3), np.uint8), {}, r"got ndarray of shape \(4, 5, 3\); frames at hand"),
        ("demo", {"size": (100_000, 100_000)}, "at most 67108864 pixels"),
    ],
)
def test_open_source_refuses_what_cannot_be_meant(spec, options, message):
    with pytest.raises(SourceError, match=message):
        open_source(spec, Clip(**options))


def test_open_source_takes_no_terminal_for_a_video(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(SourceError, match="nothing is piped in"):
        open_source("-")


# Says so when it waits: what follows in `Pipe.read` is the wait itself.
WAITING = """
import select
from aaams_stream.source import open_source

wait = select.select

def tell_and_wait(*arguments):
    print("waiting", flush=True)
    return wait(*arguments)

select.select = tell_and_wait
open_source("-")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are a POSIX matter")
def test_open_source_heeds_ctrl_c_while_it_waits_for_a_silent_pipe():
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) != 0
        assert "KeyboardInterrupt" in process.stderr.read().splitlines()[-1]


# Listens, says where, and never answers.
SILENT = """
import socket, threading
from aaams_stream.source import open_source

with socket.create_server(("127.0.0.1", 0)) as server:
    def listen():
        connection = server.accept()[0]
        connection.recv(1)
        print("asked", flush=True)
        threading.Event().wait()
    threading.Thread(target=listen, daemon=True).start()
    open_source(f"http://127.0.0.1:{server.getsockname()[1]}/a.mp4")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are a POSIX matter")
def test_open_source_heeds_ctrl_c_while_an_address_is_silent():
    process = subprocess.Popen(
        [sys.executable, "-c", SILENT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) != 0
        # after FFmpeg's own ten seconds this would be a SourceError
        assert "KeyboardInterrupt" in process.stderr.read().splitlines()[-1]


def test_open_source_reads_a_film_in_a_bucket_like_one_here(bucket, tmp_path):
    import obstore
    from obstore.store import from_url

    path = write_clip(tmp_path / "a.mp4", moving_frames(40), **H264)
    obstore.put(from_url(bucket), "a.mp4", path.read_bytes())
    for clip in (Clip(), Clip(start=Fraction(1), every=2)):
        with open_source(f"{bucket}/a.mp4", clip) as there, open_source(path, clip) as here:
            assert there.fingerprint == here.fingerprint
            assert there.frame_estimate == here.frame_estimate
            found, expected = list(there), list(here)
            assert there.ended == "complete"
        assert [frame.time for frame in found] == [frame.time for frame in expected]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.rgb, other.rgb)
    obstore.put(from_url(bucket), "empty.mp4", b"")
    with pytest.raises(SourceError, match=r"empty\.mp4: the file is empty"):
        open_source(f"{bucket}/empty.mp4")


def test_a_bucket_that_falls_silent_ends_a_film_as_damaged(bucket, tmp_path, monkeypatch):
    import obstore
    from obstore.store import from_url

    from aaams_stream.paths import ObjectFile

    path = write_clip(tmp_path / "a.mkv", moving_frames(200, 120, 160))
    obstore.put(from_url(bucket), "a.mkv", path.read_bytes())
    read, most = ObjectFile.read, path.stat().st_size // 2

    def failing(file, size):
        if source and file.tell() > most:
            raise OSError(5, "Connection reset")
        return read(file, size)

    source = []
    monkeypatch.setattr(ObjectFile, "read", failing)
    with open_source(f"{bucket}/a.mkv") as opened:
        source.append(opened)
        frames = list(opened)
    assert 0 < len(frames) < 200
    assert opened.ended.startswith("damaged: reading failed (Connection reset)")

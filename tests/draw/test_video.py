"""Videos that keep size, times and good manners."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from support import ROOT
from support.clips import moving_frames

from aaams_stream.draw.video import VideoWriter, check_video_target
from aaams_stream.errors import ConfigError, SinkError


@pytest.fixture
def rgb():
    """Return a noisy picture."""
    return np.random.default_rng(0).integers(0, 256, (10, 16, 3), dtype=np.uint8)


def write(path, frames, times, **options):
    height, width = frames[0].shape[:2]
    options = {"rate": Fraction(30), "time_base": Fraction(1, 90000), **options}
    with VideoWriter(path, (width, height), **options) as opened:
        for rgb, time in zip(frames, times, strict=True):
            opened.add(rgb, time)


def read(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        return list(container.decode(stream))


@pytest.mark.parametrize(
    ("time_base", "ticks"),
    [
        (Fraction(1, 90000), [126000, 129003, 132006, 180000]),
        (Fraction(1001, 30000), [0, 1, 2, 3]),
        (Fraction(1, 1000000), [0, 34000, 67000, 101000]),
        (Fraction(1, 1), [0, 1, 2, 3600]),
    ],
)
def test_video_writer_keeps_the_times_it_is_given(tmp_path, time_base, ticks):
    times = [tick * time_base for tick in ticks]
    write(tmp_path / "a.mp4", moving_frames(4), times, time_base=time_base)
    assert [Fraction(f.pts * f.time_base) for f in read(tmp_path / "a.mp4")] == times


def test_video_writer_turns_times_that_run_backwards_into_the_next_tick(tmp_path):
    times = [Fraction(n, 25) for n in (0, 2, 1, 3)]
    write(tmp_path / "a.mp4", moving_frames(4), times, time_base=Fraction(1, 25))
    assert [f.pts * f.time_base * 25 for f in read(tmp_path / "a.mp4")] == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("size", "expected"), [((48, 64), (48, 64)), ((241, 321), (242, 322)), ((1, 1), (16, 16))]
)
def test_video_writer_makes_odd_and_tiny_sizes_even(tmp_path, size, expected):
    frames = [np.full((*size, 3), 90, np.uint8)] * 2
    write(tmp_path / "a.mp4", frames, [Fraction(0), Fraction(1, 30)])
    decoded = read(tmp_path / "a.mp4")
    assert (decoded[0].height, decoded[0].width) == expected
    assert abs(int(decoded[0].to_ndarray(format="rgb24").mean()) - 90) <= 2


def test_video_writer_that_fails_leaves_nothing_behind(tmp_path):
    frames = [*moving_frames(1), None]
    with pytest.raises(AttributeError):
        write(tmp_path / "a.mp4", frames, [Fraction(0), Fraction(1, 25)])
    assert list(tmp_path.iterdir()) == []


def test_video_writer_replaces_nothing_unasked(tmp_path):
    target = tmp_path / "a.mp4"
    target.write_text("precious")
    frames, times = moving_frames(1), [Fraction(0)]
    with pytest.raises(SinkError, match="--overwrite"):
        write(target, frames, times)
    assert target.read_text() == "precious"
    write(target, frames, times, overwrite=True)
    assert len(read(target)) == 1
    with pytest.raises(ConfigError, match=r"\.mp4"):
        write(tmp_path / "a.txt", frames, times)
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="cannot be written"):
        write(tmp_path / "file" / "a.mp4", frames, times)


def test_video_writer_that_cannot_finish_leaves_nothing_behind(rgb, tmp_path):
    path = tmp_path / "a.mp4"
    writer = VideoWriter(path, (16, 10), rate=Fraction(25), time_base=Fraction(1, 25))
    writer.add(rgb, Fraction(0))
    path.mkdir()  # so that it cannot get its name
    with pytest.raises(SinkError, match=r"a\.mp4: cannot be written"):
        writer.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.mp4"]


def test_video_writer_takes_a_colon_in_a_name(rgb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with VideoWriter(
        Path("12:30.mp4"), (16, 10), rate=Fraction(25), time_base=Fraction(1, 25)
    ) as writer:
        writer.add(rgb, Fraction(0))
    assert [entry.name for entry in tmp_path.iterdir()] == ["12:30.mp4"]


def test_check_video_target_spares_source_and_volume(tmp_path):
    source, volume = tmp_path / "clip.mp4", tmp_path / "a.zarr"
    source.touch()
    (tmp_path / "link.mp4").hardlink_to(source)
    for name in ("clip.mp4", "link.mp4"):
        with pytest.raises(SinkError, match=rf"{name}: is the source; choose another name"):
            check_video_target(tmp_path / name, True, source=source, volume=volume)
    with pytest.raises(SinkError, match="lies in the volume; choose another name"):
        check_video_target(volume / "deep" / "film.mp4", True, source=source, volume=volume)
    check_video_target(tmp_path / "film.mp4", False, source=source, volume=volume)


TWICE = """
import ctypes, sys
from fractions import Fraction
from pathlib import Path
import numpy as np
from aaams_stream.draw.video import VideoWriter

libc = ctypes.CDLL(None)
libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD: memory comes from the heap, as in a long run,
libc.mallopt(-6, int(sys.argv[2]))  # M_PERTURB: and is full of this
frames = np.load(sys.argv[1])
film = {"rate": Fraction(25), "time_base": Fraction(1, 1000)}
with VideoWriter(Path(sys.argv[3]), (160, 120), **film) as opened:
    for t, rgb in enumerate(frames):
        opened.add(rgb, Fraction(t, 25))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="fills memory by a call of glibc")
def test_the_same_frames_make_the_same_film_whatever_is_in_memory(tmp_path):
    """What was never written is read by x264 with AVX-512."""
    tiles = np.random.default_rng(0).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    scene = np.kron(tiles, np.ones((10, 10, 1), np.uint8))
    np.save(tmp_path / "frames.npy", [np.roll(scene, 3 * t, axis=1) for t in range(60)])
    for fill in (1, 85, 170):
        words = [tmp_path / "frames.npy", fill, tmp_path / f"{fill}.mp4"]
        subprocess.run([sys.executable, "-c", TWICE, *map(str, words)], check=True, cwd=ROOT)
    films = {path.read_bytes() for path in tmp_path.glob("*.mp4")}
    assert len(films) == 1

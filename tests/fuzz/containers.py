"""Damaged films: none may end in a traceback or a hang, or lose frames that decode unsaid."""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import av
from support import standin
from support.clips import H264, moving_frames, write_clip

from aaams_stream.errors import AaamsError, SourceError
from aaams_stream.model import Clip
from aaams_stream.source import COMPLETE, open_source
from aaams_stream.source.reader import ANY_METADATA
from aaams_stream.store import open_volume
from fuzz.harness import called, what_is_wrong_with

_FRAMES = 24
_MOST_DECODED = 400  # frames of a film that was damaged into an endless one
_YUV = {"pix_fmt": "yuv420p"}
KINDS = {
    "ffv1.mkv": {},
    "h264.mkv": {**H264, "options": {"g": "8", "bf": "2"}},
    "h264.mp4": {**H264, "options": {"g": "8"}},
    "fast.mp4": {**H264, "container_options": {"movflags": "faststart"}},
    "parts.mp4": {**H264, "container_options": {"movflags": "frag_keyframe+empty_moov"}},
    "h264.ts": H264,
    "raw.h264": H264,
    "mpeg4.avi": {"codec": "mpeg4", **_YUV},
    "mjpeg.avi": {"codec": "mjpeg", "pix_fmt": "yuvj420p"},
    "mpeg2.mpg": {"codec": "mpeg2video", **_YUV},
    "flv1.flv": {"codec": "flv1", **_YUV},
    "vp9.webm": {"codec": "libvpx-vp9", **_YUV},
    "alpha.webm": {"codec": "libvpx-vp9", "pix_fmt": "yuva420p"},
    "wmv2.wmv": {"codec": "wmv2", **_YUV},
    "png.mov": {"codec": "png", "pix_fmt": "rgb24"},
    "plain.gif": {"codec": "gif", "pix_fmt": "rgb8"},
    "plain.y4m": {"codec": "wrapped_avframe", "pix_fmt": "yuv444p"},
}
# Such that a film that breaks off anywhere shows; y4m does unless that is between two frames.
_TELL_THEIR_LENGTH = {"ffv1.mkv", "h264.mkv", "fast.mp4", "parts.mp4", "mjpeg.avi", "vp9.webm"}
# Names of more films, beside those made here: `python -m tests.fuzz --films FOLDER`.
MORE: list[Path] = []
_ODD = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x00010000)


class Case(NamedTuple):
    """A damaged film; what it was made from and how, to be told."""

    name: str
    how: str
    data: bytes

    def __repr__(self) -> str:
        return f"{self.name} ({self.how}, {len(self.data)} bytes)"


def made(folder: Path) -> dict[str, bytes]:
    """Return the films that are damaged, by name, as far as this FFmpeg can make them."""
    films = {}
    for name, how in KINDS.items():
        try:
            films[name] = write_clip(folder / name, moving_frames(_FRAMES), **how).read_bytes()
        except av.codec.codec.UnknownCodecError:
            continue
    return films | {path.name: path.read_bytes() for path in MORE}


def cases(seed: int) -> Iterator[Case]:
    """Draw films damaged in one to three ways."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        films = made(Path(folder))
    while True:
        name = rng.choice(sorted(films))
        data, ways = films[name], []
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            way = rng.choice(WAYS)
            data = way(rng, data, rng.choice(sorted(films.values())))
            ways.append(way.__name__.strip("_"))
        yield Case(name, ", ".join(ways), data)


def _cut(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(rng: random.Random, data: bytes, other: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 8, 64)) if data else 0):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _flip_header(rng: random.Random, data: bytes, other: bytes) -> bytes:
    reach = rng.choice((32, 256, 1024))
    return _flip(rng, data[:reach], other) + data[reach:]


def _flip_trailer(rng: random.Random, data: bytes, other: bytes) -> bytes:
    reach = rng.choice((64, 1024))
    return data[:-reach] + _flip(rng, data[-reach:], other)


def _odd_number(rng: random.Random, data: bytes, other: bytes) -> bytes:
    at = rng.randrange(min(len(data), rng.choice((64, 1024, 1 << 20))) + 1)
    size = rng.choice((1, 2, 4, 8))
    number = rng.choice(_ODD) & ((1 << 8 * size) - 1)
    return data[:at] + number.to_bytes(size, rng.choice(("big", "little"))) + data[at + size :]


def _stretch(rng: random.Random, data: bytes) -> tuple[int, int]:
    begin = rng.randrange(len(data) + 1)
    return begin, min(len(data), begin + rng.choice((1, 16, 188, 1000, 5000)))


def _blank(rng: random.Random, data: bytes, other: bytes) -> bytes:
    begin, end = _stretch(rng, data)
    return data[:begin] + rng.choice((b"\0", b"\xff")) * (end - begin) + data[end:]


def _drop(rng: random.Random, data: bytes, other: bytes) -> bytes:
    begin, end = _stretch(rng, data)
    return data[:begin] + data[end:]


def _repeat(rng: random.Random, data: bytes, other: bytes) -> bytes:
    begin, end = _stretch(rng, data)
    return data[:end] + data[begin:]


def _swap(rng: random.Random, data: bytes, other: bytes) -> bytes:
    a, b, c, d = sorted(rng.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _noise(rng: random.Random, data: bytes, other: bytes) -> bytes:
    begin, end = _stretch(rng, data)
    return data[:begin] + rng.randbytes(end - begin) + data[rng.choice((begin, end)) :]


def _splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _append(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data + other


WAYS = (_cut, _flip, _flip_header, _flip_trailer, _odd_number, _blank, _drop, _repeat, _swap)
WAYS += (_noise, _splice, _append)


class Check:
    """Reads a damaged film, and every few times segments it."""

    def __init__(self, folder: Path, segments_each: int = 8) -> None:
        sys.modules.update(standin.modules())  # labels are not at stake here
        self._folder, self._each, self._count = folder, segments_each, 0

    def __call__(self, case: Case) -> str | None:
        self._count += 1
        film = self._folder / f"{self._count}-{case.name}"
        film.write_bytes(case.data)
        try:
            wrong, found, ended = self._read(film)
            lost = case.name in _TELL_THEIR_LENGTH and found < _FRAMES
            if wrong is None and lost and case.how == "cut" and ended == COMPLETE:
                wrong = f"{found} frames of {_FRAMES}, and called complete"
            if wrong is None and self._count % self._each == 0:
                wrong = self._segment(film, found)
            return wrong
        finally:
            film.unlink()

    def _read(self, film: Path) -> tuple[str | None, int, str]:
        """Return what is wrong with the frames of a film, how many there are, and its end."""
        decodes = decodable(film)
        count, shape, ended = 0, None, "refused"
        try:
            with open_source(film, Clip(size=(64, 48))) as source:
                for frame in source:
                    if frame.index != count or not isinstance(frame.time, Fraction):
                        return f"frame {frame.index} at {frame.time!r}, expected {count}", count, ""
                    if shape not in (None, frame.rgb.shape):
                        return f"frame {count} is {frame.rgb.shape}, not {shape}", count, ""
                    count, shape = count + 1, frame.rgb.shape
                    if count > _MOST_DECODED:
                        return None, count, ""
                ended = source.ended
        except SourceError as error:
            ended = str(error)
            if "\n" in ended:
                return f"more than a line: {ended!r}", count, ended
        if count < decodes:
            return f"{count} frames of {decodes} that decode ({ended})", count, ended
        return None, count, ended

    def _segment(self, film: Path, found: int) -> str | None:
        """Segment the film by the command; return what is wrong with the volume, if anything."""
        path = self._folder / f"{self._count}.zarr"
        words = ["segment", str(film), "-o", str(path), "--size", "64x48", "--quiet"]
        code, out, err = called([*words, "--duration", "10"])
        wrong = what_is_wrong_with(code, out, err)
        if wrong is not None or code == 2:
            return wrong or (f"refused though it reads: {err}" if found > 0 else None)
        try:
            volume = open_volume(path)
        except AaamsError as error:
            return f"the volume does not open: {error}"
        if not volume.complete or not volume.frame_count <= found:
            return f"{volume!r} of {found} frames"
        return None


def decodable(film: Path) -> int:
    """Return how many frames PyAV makes of a film before the first error, up to a bound."""
    count = 0
    try:
        with av.open(str(film), **ANY_METADATA) as container:
            cover = av.stream.Disposition.attached_pic
            streams = [s for s in container.streams.video if not s.disposition & cover]
            streams = [s for s in streams if s.codec_context is not None]
            streams = [s for s in streams if s.codec_context.name not in ("ansi", "bintext")]
            if not streams:
                return 0
            for _ in container.decode(max(streams, key=lambda s: s.width * s.height)):
                count += 1
                if count >= _MOST_DECODED:
                    break
    # PyAV has no place for a stream that appears on the way: an IndexError
    except (av.error.FFmpegError, OSError, ValueError, MemoryError, IndexError):
        pass
    return count

"""What an input may be: a file, a folder of images, a camera, an address, a pipe, or `demo`.

What can be read a second time has a fingerprint, by which it is known again wherever it lies.
"""

from __future__ import annotations

import glob
import hashlib
import numbers
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from aaams_stream.errors import SourceError
from aaams_stream.model import Clip, Timecode
from aaams_stream.paths import BUCKETS, ObjectFile, expanded, is_address, kind_of, scheme_of
from aaams_stream.source.demo import DemoReader
from aaams_stream.source.folder import FolderReader, images_among
from aaams_stream.source.reader import Pipe, VideoReader
from aaams_stream.source.source import FrameReader, Source

_OPEN_TIMEOUT, _READ_TIMEOUT = 10.0, 20.0  # seconds an address may stay silent
_SAMPLE = 1 << 20  # bytes at either end of a file, and from between, that tell it from others
_SAMPLED_IMAGES, _IMAGE_SAMPLE = 64, 1 << 12  # images of a folder that are looked into, and bytes
_PIECES = 16  # of the sample from the middle of a file
_LONGEST = 10**9  # seconds that can be meant: thirty years
_MOST_FRAMES = 10**9  # that can be left out between two
_TOLD = 10**15  # numbers below are told digit by digit
_SOME_RATE = Fraction(25)  # frames a second, to see whether a time that is told by frames can be
_POLL = 0.1  # seconds between looks at signals
_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
_MOST_PIXELS = 1 << 26  # a frame may be scaled to: 8K has half as many
_ALL = Clip()


def open_source(spec: str | Path, clip: Clip = _ALL) -> Source:
    """Open what `spec` names and decode its first frame.

    spec: a file, a folder or pattern of images, `camera:N`, an address (`scheme://…`), `-` for
        y4m or MPEG-TS on standard input, or `demo`.
    """
    check_clip(clip)
    if not isinstance(spec, str | os.PathLike):
        raise SourceError(
            f"expected the name of an input, got {kind_of(spec)}; frames at hand go to "
            "Segmenter.step one by one"
        )
    name = os.fspath(spec)
    if not name:
        raise SourceError("no input is named; expected a file, a folder, camera:N, - or demo")
    path = local_file(name)
    if path is None and "\0" in name:
        raise SourceError(f"{name!r}: no address holds a NUL character")

    def opened() -> Source:
        try:
            reader, fingerprint, live = _open_reader(name)
        except SourceError:
            raise
        except OSError as error:
            raise SourceError(f"{name}: cannot be opened ({error.strerror or error})") from error
        return Source(
            reader,
            clip,
            spec=name if path is None else os.path.abspath(path),
            fingerprint=fingerprint,
            live=live,
            remote=is_address(name),
        )

    with _heeding_signals():
        return _beside(opened) if _may_keep_silent(name, path) else opened()


def check_clip(clip: Clip) -> None:
    """Raise a SourceError where a clip cannot be meant."""
    clip = clip.at_rate(_SOME_RATE)
    start, duration, every, size = clip.start, clip.duration, clip.every, clip.size
    assert not isinstance(start, Timecode)
    assert not isinstance(duration, Timecode)
    for name, value in (("start", start), ("duration", duration), ("every", every)):
        if isinstance(value, bool) or not isinstance(value, numbers.Real | None):
            unit = "a whole number" if name == "every" else "a number of seconds"
            raise SourceError(f"{name} must be {unit}, got {value!r}")
    if start is not None and not 0 <= start <= _LONGEST:
        raise SourceError(f"start must be >= 0 and at most {_LONGEST} seconds, got {_told(start)}")
    if duration is not None and not 0 < duration <= _LONGEST:
        told = _told(duration)
        raise SourceError(f"duration must be > 0 and at most {_LONGEST} seconds, got {told}")
    if not (1 <= every <= _MOST_FRAMES and every == int(every)):
        raise SourceError(f"every must be a whole number >= 1, got {_told(every)}")
    if size is None:
        return
    numbered: Any = size  # whatever a program gave
    if not (isinstance(numbered, tuple | list) and len(numbered) == 2) or not all(
        isinstance(number, numbers.Integral) for number in numbered
    ):
        raise SourceError(f"size must be a width and a height in pixels, got {numbered!r}")
    if not (min(size) >= 1 and size[0] * size[1] <= _MOST_PIXELS):
        raise SourceError(
            f"size must be at least 1x1 and have at most {_MOST_PIXELS} pixels, got "
            f"{_told(size[0])}x{_told(size[1])}"
        )


def _told(number: float | Fraction) -> str:
    """Return a number as a text that is not longer than need be."""
    exact: Any = number
    try:
        return str(exact) if abs(exact) < _TOLD else f"{float(exact):.3g}"
    except OverflowError:
        return "a number beyond all bounds"


def local_file(spec: str | Path) -> Path | None:
    """Return the file or folder that `spec` names, if it does name one on this machine."""
    return expanded(spec) if _is_path(str(spec)) else None


def _is_path(spec: str) -> bool:
    return spec not in {"demo", "-"} and not spec.startswith("camera:") and not is_address(spec)


def _may_keep_silent(name: str, path: Path | None) -> bool:
    """Whether FFmpeg may wait for an input without an end: an address, a named pipe, a camera."""
    if path is None:
        return name not in {"demo", "-"}  # `Pipe` hears of Ctrl-C by itself
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError:
        return False


def _beside(work: Callable[[], Source]) -> Source:
    """Do `work` on a thread of its own, where waiting for it can be ended by Ctrl-C.

    Then nobody waits any longer, and what the thread opens after all it closes itself.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    lock, done = threading.Lock(), threading.Event()
    left = False
    results: list[Source] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            source = work()
        except BaseException as error:
            failures.append(error)
        else:
            with lock:
                results.append(source)
                if left:
                    source.close()
        done.set()

    threading.Thread(target=run, name="open-source", daemon=True).start()
    try:
        while not done.wait(_POLL):  # in steps: some systems hear of no signal in between
            pass
    except BaseException:
        with lock:
            left = True
            for source in results:
                source.close()
        raise
    if failures:
        raise failures[0]
    return results[0]


@contextmanager
def _heeding_signals() -> Iterator[None]:
    """Raise at the end, at the latest, what Ctrl-C or the like raised meanwhile.

    It may come while FFmpeg waits for input, in a callback that swallows it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {number: signal.getsignal(number) for number in _SIGNALS}
    raised: list[BaseException] = []

    def note(number: int, frame: FrameType | None) -> None:
        handler = usual[signal.Signals(number)]
        assert callable(handler)
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    for number, handler in usual.items():
        if callable(handler):
            signal.signal(number, note)
    try:
        yield
    except SourceError:
        if not raised:
            raise
    finally:
        for number, handler in usual.items():
            if callable(handler):
                signal.signal(number, handler)
    if raised:
        raise raised[0]


def _open_reader(spec: str) -> tuple[FrameReader, str | None, bool]:
    """Return what yields the pictures, a fingerprint if it can be read again, and if it is live."""
    if spec == "demo":
        return DemoReader(), "demo", False
    if spec == "-":
        return _open_stdin(), None, True
    if spec.startswith("camera:"):
        return _open_camera(spec), None, True
    if scheme_of(spec) in BUCKETS and is_address(spec):
        file = ObjectFile(spec)
        if not file.size:
            raise SourceError(f"{spec}: the file is empty")
        sampled = _sampled(file, file.size)  # first: FFmpeg knows of no other reader
        return VideoReader(file, spec), sampled, False
    if is_address(spec):
        reader = VideoReader(spec, spec, timeout=(_OPEN_TIMEOUT, _READ_TIMEOUT))
        endless = reader.duration is None
        return reader, None if endless else f"{spec} {reader.duration}", endless
    path = expanded(spec)
    if path.is_dir():
        images = images_among(path.iterdir(), spec)
        return FolderReader(images, spec), _listing(images), False
    if path.exists():
        try:
            if path.is_file() and path.stat().st_size == 0:
                raise SourceError(f"{spec}: the file is empty")
            fingerprint = _sampled_file(path) if path.is_file() else None
        except PermissionError as error:
            raise SourceError(f"{spec}: may not be read ({error.strerror})") from error
        # absolute, or FFmpeg would take what stands before a colon in its name for a protocol
        return VideoReader(os.path.abspath(path), spec), fingerprint, fingerprint is None
    if glob.has_magic(spec):
        images = images_among(map(Path, glob.glob(str(path), recursive=True)), spec)
        return FolderReader(images, spec), _listing(images), False
    raise SourceError(f"{spec}: no such file or folder")


def _open_stdin() -> VideoReader:
    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError("-: nothing is piped in; expected y4m or MPEG-TS on standard input")
    return VideoReader(Pipe(sys.stdin.buffer), "standard input")


def _open_camera(spec: str) -> VideoReader:
    number = spec.removeprefix("camera:")
    if not number.isdecimal():
        raise SourceError(f"{spec}: expected camera:N with a number, for example camera:0")
    if sys.platform.startswith("linux"):
        device = Path(f"/dev/video{number}")
        if not device.exists():
            have = ", ".join(
                f"camera:{path.name.removeprefix('video')}"
                for path in sorted(Path("/dev").glob("video[0-9]*"))
            )
            raise SourceError(
                f"{spec}: there is no such camera ({device}); "
                + (f"there is {have}" if have else "no camera is connected")
            )
        return VideoReader(str(device), spec, container_format="v4l2", from_zero=True)
    if sys.platform == "darwin":
        options = {"framerate": "30"}
        return VideoReader(
            number, spec, container_format="avfoundation", options=options, from_zero=True
        )
    raise SourceError(f"{spec}: cameras are not supported on {sys.platform}; pipe video into -")


def fingerprint(path: Path) -> str:
    """Return what tells a file, or a folder of images, from others, without decoding any of it."""
    if path.is_dir():
        return _listing(images_among(path.iterdir(), str(path)))
    return _sampled_file(path)


def _sampled_file(path: Path) -> str:
    with path.open("rb") as file:
        return _sampled(file, path.stat().st_size)


def _sampled(file: BinaryIO | ObjectFile, size: int) -> str:
    """Fingerprint a file by its length and by samples of it, however it is named."""
    digest = hashlib.sha256(str(size).encode())
    digest.update(_ends_of(file, size, _SAMPLE))
    between = hashlib.sha256()
    between.update(_middle_of(file, size, _SAMPLE))
    return _joined(digest, between)


def _listing(paths: list[Path]) -> str:
    """Fingerprint images by their names, their lengths and samples of some of them."""
    digest, between = hashlib.sha256(), hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode(errors="surrogateescape"))
    for path in paths[:: -(-len(paths) // _SAMPLED_IMAGES)]:
        with path.open("rb") as file:
            size = path.stat().st_size
            digest.update(_ends_of(file, size, _IMAGE_SAMPLE))
            between.update(_middle_of(file, size, _IMAGE_SAMPLE))
    return _joined(digest, between)


def _joined(ends: hashlib._Hash, between: hashlib._Hash) -> str:
    """Return a fingerprint of two parts: older volumes have the first alone (`same_source`)."""
    return f"sha256:{ends.hexdigest()} {between.hexdigest()}"


def _ends_of(file: BinaryIO | ObjectFile, size: int, sample: int) -> bytes:
    """Return the first and the last `sample` bytes of a file."""
    file.seek(0)
    head = file.read(sample)
    file.seek(max(0, size - sample))
    return head + file.read(sample)


def _middle_of(file: BinaryIO | ObjectFile, size: int, sample: int) -> bytes:
    """Return `sample` bytes from between the ends of a file, in pieces far apart, or all there."""
    between = size - 2 * sample
    piece = sample // _PIECES
    if between <= sample:
        file.seek(sample)
        return file.read(max(0, between))
    parts = []
    for k in range(_PIECES):
        file.seek(sample + (between - piece) * k // (_PIECES - 1))
        parts.append(file.read(piece))
    return b"".join(parts)


def images_of(spec: str) -> tuple[list[Path], str] | None:
    """Return the images that a folder or pattern names, in the order in which they are read.

    And their fingerprint. None where `spec` names another kind of input, or none that is there.
    """
    path = local_file(spec)
    if path is None or path.is_file():
        return None
    found = path.iterdir() if path.is_dir() else map(Path, glob.glob(str(path), recursive=True))
    try:
        images = images_among(found, spec)
    except SourceError:
        return None
    return images, _listing(images)

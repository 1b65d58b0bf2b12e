"""Frames from files, folders, cameras, addresses and pipes: ordered, upright, exact in time.

What PyAV knows ends here: what leaves are `Frame`s, plain numbers and `SourceError`s.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain
from pathlib import Path
from types import FrameType, TracebackType
from typing import Protocol, Self

from aaams_stream.errors import SourceError
from aaams_stream.model import Clip, Frame
from aaams_stream.source import demo
from aaams_stream.source.folder import Folder, images_among
from aaams_stream.source.pixels import Converter, Picture
from aaams_stream.source.reader import Pipe, Reel

COMPLETE, INTERRUPTED = "complete", "interrupted"

_OPEN_TIMEOUT, _READ_TIMEOUT = 10.0, 20.0  # seconds an address may stay silent
_LINEAR = 10  # seconds up to which decoding is as good as seeking
_BACKWARDS = 1  # seconds by which times may run backwards and still belong to a stretch
_SAMPLE = 1 << 20  # bytes at either end of a file that tell it from others
_SAMPLED_IMAGES, _IMAGE_SAMPLE = 64, 1 << 12  # images of a folder that are looked into, and bytes
_LONGEST = 10**9  # seconds that can be meant: thirty years
_ALL = Clip()
_MOST_PIXELS = 1 << 26  # a frame may be scaled to: 8K has half as many


class Strip(Protocol):
    """Whatever yields pictures: a container, a folder, the demo."""

    name: str
    rate: Fraction
    time_base: Fraction
    frame_count: int | None
    duration: Fraction | None
    damage: str | None

    @property
    def seekable(self) -> bool:
        """Whether `pictures` can begin at a given time."""

    def pictures(self, start: Fraction | None = None) -> Iterator[Picture]:
        """Yield the pictures in order, all of them or those from `start` on."""

    def stop(self) -> None:
        """End an iteration that waits."""

    def close(self) -> None:
        """Give back what is open."""


class Source:
    """An opened input: a context manager, and an iterator of `Frame`s that runs once.

    All frames have the size of the first: a later one of another size is scaled to it, with a
    warning at the first. `ended` tells how the iteration came to its end: "complete";
    "damaged: …", when something did not decode (every frame that did was handed out);
    "interrupted" until then.
    """

    def __init__(
        self,
        strip: Strip,
        clip: Clip,
        *,
        spec: str | None = None,
        fingerprint: str | None = None,
        live: bool = False,
    ) -> None:
        self.spec = strip.name if spec is None else spec  # opens the same input from anywhere
        self.description = strip.name
        self.rate: Fraction = strip.rate / clip.every
        self.time_base: Fraction = strip.time_base
        self.fingerprint = fingerprint  # None: the input cannot be read a second time
        self.live = live  # without an end of its own
        self.ended: str = INTERRUPTED
        self.warnings: list[str] = []
        self._strip = strip
        self._converter = Converter()
        self._start, self._duration = _exact(clip.start), _exact(clip.duration)
        self._every = clip.every
        try:
            self._pictures = self._selected()
            first = next(self._pictures, None)
        except BaseException:
            strip.close()
            raise
        if first is None:
            strip.close()
            raise SourceError(f"{strip.name}: {self._nothing()}")
        self._first: Picture = first
        self._natural = first.size
        self._size_changes = 0
        self.width, self.height = clip.size or first.size
        self.frame_estimate = self._estimate()
        self._skip = 0
        self._busy = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Frame]:
        self._busy = True
        try:
            for index, picture in enumerate(chain([self._first], self._pictures)):
                if picture.size != self._natural:
                    self._note_size_change(index, picture.size)
                if index >= self._skip:
                    rgb = self._converter.rgb(picture, (self.width, self.height))
                    yield Frame(index, picture.time, rgb)
            self._note_end(index + 1)
        finally:
            self._busy = False

    def skip(self, count: int) -> None:
        """Leave out the first `count` frames; the others keep their index. Before iterating."""
        self._skip = count

    def stop(self) -> None:
        """Let an iteration that waits for input come to its end; safe from any thread."""
        self._strip.stop()

    def close(self) -> None:
        """Close the input.

        While another thread still waits for a frame, the input stays open: FFmpeg would crash.
        """
        if not self._busy:
            self._strip.close()

    def _selected(self) -> Iterator[Picture]:
        """Yield every n-th picture of the wanted stretch, counted from its first."""
        pictures = self._strip.pictures()
        first = next(pictures, None)
        if first is None:
            return
        begin = first.time + (self._start or 0)
        end = begin + self._duration if self._duration is not None else None
        if self._start and self._start > _LINEAR and self._strip.seekable:
            pictures = self._strip.pictures(begin)
        else:
            pictures = chain([first], pictures)
        count = 0
        for picture in pictures:
            if end is not None and picture.time >= end:
                if picture.time >= end + _BACKWARDS:
                    return
                continue
            if picture.time < begin and self._start:
                continue
            if count % self._every == 0:
                yield picture
            count += 1

    def _nothing(self) -> str:
        if self._start or self._duration is not None:
            return "no frame lies in the wanted stretch; check --start and --duration"
        return f"no frame decodes ({self._strip.damage or 'the stream is empty'})"

    def _estimate(self) -> int | None:
        """How many frames there will be, by what the input says of itself: often wrong."""
        count = self._strip.frame_count
        rate = self._strip.rate
        if count is not None and self._start:
            count -= int(self._start * rate)
        if self._duration is not None:
            wanted = -(-self._duration * rate // 1)
            count = wanted if count is None else min(count, wanted)
        return None if count is None or count <= 0 else -(-count // self._every)

    def _note_end(self, count: int) -> None:
        if self._size_changes > 1:
            self.warnings.append(f"{self.description}: its size changed {self._size_changes} times")
        damage = self._strip.damage
        self.ended = f"damaged: {damage}" if damage else COMPLETE
        if damage:
            announced = f" of about {self.frame_estimate} announced" if self.frame_estimate else ""
            self.warnings.append(
                f"{self.description} is damaged: {damage}; {count} frames{announced} were read"
            )

    def _note_size_change(self, index: int, size: tuple[int, int]) -> None:
        if not self._size_changes:  # one word is enough, however often it happens
            self.warnings.append(
                f"{self.description}: frame {index} is {size[0]}x{size[1]} and not "
                f"{self._natural[0]}x{self._natural[1]}; it is scaled to {self.width}x{self.height}"
            )
        self._size_changes += 1
        self._natural = size


def open_source(spec: str | Path, clip: Clip = _ALL) -> Source:
    """Open what `spec` names and decode its first frame.

    spec: a file, a folder or pattern of images, `camera:N`, an address (`scheme://…`), `-` for
        y4m or MPEG-TS on standard input, or `demo`.
    """
    _check(clip)
    name = str(spec)
    if not name:
        raise SourceError("no input is named; expected a file, a folder, camera:N, - or demo")
    with _heeding_ctrl_c():
        try:
            strip, fingerprint, live = _open_strip(name)
        except SourceError:
            raise
        except OSError as error:
            raise SourceError(f"{name}: cannot be opened ({error.strerror or error})") from error
        return Source(
            strip,
            clip,
            spec=os.path.abspath(Path(name).expanduser()) if _is_path(name) else name,
            fingerprint=fingerprint,
            live=live,
        )


def _check(clip: Clip) -> None:
    """Raise a SourceError where a clip cannot be meant."""
    start, duration, every, size = clip.start, clip.duration, clip.every, clip.size
    if start is not None and not 0 <= start <= _LONGEST:
        raise SourceError(f"start must be >= 0 seconds, got {start}")
    if duration is not None and not 0 < duration <= _LONGEST:
        raise SourceError(f"duration must be > 0 seconds, got {duration}")
    if every < 1 or every != int(every):
        raise SourceError(f"every must be a whole number >= 1, got {every}")
    if size is not None and not (min(size) >= 1 and size[0] * size[1] <= _MOST_PIXELS):
        raise SourceError(
            f"size must be at least 1x1 and have at most {_MOST_PIXELS} pixels, got "
            f"{size[0]}x{size[1]}"
        )


def _exact(seconds: float | Fraction | None) -> Fraction | None:
    return None if seconds is None else Fraction(seconds).limit_denominator(10**9)


def local_file(spec: str | Path) -> Path | None:
    """Return the file or folder that `spec` names, if it does name one on this machine."""
    return Path(spec).expanduser() if _is_path(str(spec)) else None


def _is_path(spec: str) -> bool:
    return spec not in {"demo", "-"} and not spec.startswith("camera:") and not _is_address(spec)


def _is_address(spec: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", spec) is not None


@contextmanager
def _heeding_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt at the latest at the end, if Ctrl-C was pressed.

    It may come while FFmpeg waits for input, in a callback that swallows it.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        usual(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    except SourceError:
        if not pressed:
            raise
    finally:
        signal.signal(signal.SIGINT, usual)
    if pressed:
        raise KeyboardInterrupt


def _open_strip(spec: str) -> tuple[Strip, str | None, bool]:
    """Return what yields the pictures, a fingerprint if it can be read again, and if it is live."""
    if spec == "demo":
        return _Demo(), "demo", False
    if spec == "-":
        return _open_stdin(), None, True
    if spec.startswith("camera:"):
        return _open_camera(spec), None, True
    if _is_address(spec):
        reel = Reel(spec, spec, timeout=(_OPEN_TIMEOUT, _READ_TIMEOUT))
        endless = reel.duration is None
        return reel, None if endless else f"{spec} {reel.duration}", endless
    path = Path(spec).expanduser()
    if path.is_dir():
        images = images_among(path.iterdir(), spec)
        return Folder(images, spec), _listing(images), False
    if path.exists():
        try:
            if path.is_file() and path.stat().st_size == 0:
                raise SourceError(f"{spec}: the file is empty")
            fingerprint = _sampled(path) if path.is_file() else None
        except PermissionError as error:
            raise SourceError(f"{spec}: may not be read ({error.strerror})") from error
        # absolute, or FFmpeg would take what stands before a colon in its name for a protocol
        return Reel(os.path.abspath(path), spec), fingerprint, fingerprint is None
    if glob.has_magic(spec):
        images = images_among(map(Path, glob.glob(str(path), recursive=True)), spec)
        return Folder(images, spec), _listing(images), False
    raise SourceError(f"{spec}: no such file or folder")


def _open_stdin() -> Reel:
    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError("-: nothing is piped in; expected y4m or MPEG-TS on standard input")
    return Reel(Pipe(sys.stdin.buffer), "standard input")


def _open_camera(spec: str) -> Reel:
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
        return Reel(str(device), spec, container_format="v4l2", from_zero=True)
    if sys.platform == "darwin":
        options = {"framerate": "30"}
        return Reel(number, spec, container_format="avfoundation", options=options, from_zero=True)
    raise SourceError(f"{spec}: cameras are not supported on {sys.platform}; pipe video into -")


def _sampled(path: Path) -> str:
    """Fingerprint a file by its length and its two ends, however it is named."""
    digest = hashlib.sha256(str(path.stat().st_size).encode())
    digest.update(_ends_of(path, _SAMPLE))
    return f"sha256:{digest.hexdigest()}"


def _listing(paths: list[Path]) -> str:
    """Fingerprint images by their names, their lengths and the ends of some of them."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode(errors="surrogateescape"))
    for path in paths[:: -(-len(paths) // _SAMPLED_IMAGES)]:
        digest.update(_ends_of(path, _IMAGE_SAMPLE))
    return f"sha256:{digest.hexdigest()}"


def _ends_of(path: Path, sample: int) -> bytes:
    """Return the first and the last `sample` bytes of a file."""
    with path.open("rb") as file:
        head = file.read(sample)
        file.seek(max(0, path.stat().st_size - sample))
        return head + file.read(sample)


class _Demo:
    """The generated clip as a strip."""

    def __init__(self) -> None:
        self.name = "demo"
        self.rate = demo.RATE
        self.time_base = 1 / demo.RATE
        self.frame_count: int | None = demo.FRAME_COUNT
        self.duration: Fraction | None = demo.FRAME_COUNT / demo.RATE
        self.damage: str | None = None
        self.seekable = False

    def pictures(self, start: Fraction | None = None) -> Iterator[Picture]:
        for index in range(demo.FRAME_COUNT):
            yield Picture(index / self.rate, demo.demo_frame(index).rgb)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

"""Pictures out of anything FFmpeg opens: files, addresses, cameras, pipes."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, BinaryIO

import av
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from aaams_stream.errors import SourceError
from aaams_stream.paths import ObjectFile
from aaams_stream.source.cut_off import cut_off
from aaams_stream.source.deinterlace import Deinterlacer
from aaams_stream.source.marks import Entry
from aaams_stream.source.pixels import Orientation, Picture

DEFAULT_RATE = Fraction(25)
_SEEK_MARGIN = Fraction(2)  # seconds before the wanted time, so that the decoder has settled
_EARLIER = (0, 2, 10)  # seconds before that, for one attempt each
_MAX_DEMUX_ERRORS = 16  # in a row, before the rest of a file is given up
_APART = 32  # packets from one entry to the next: in some films every frame is a keyframe
_TEXT_CODECS = {"ansi", "bintext", "idf", "xbin"}
_POLL = 0.2  # seconds between looks at the stop sign while a pipe is silent
# Titles and the like that are not UTF-8 are no error: PyAV 19 takes them by itself, and no option.
ANY_METADATA: dict[str, Any] = (
    {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
)


Known = Mapping[tuple[int, int] | None, Entry]  # entries of an earlier reading by their place


class Pipe:
    """A stream of bytes whose reader can be told to stop while the writer is silent."""

    def __init__(self, stream: BinaryIO) -> None:
        self._fd = stream.fileno()
        self.stopped = False
        self.taken = 0  # bytes

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, or nothing at the end, after a stop or at Ctrl-C.

        FFmpeg calls this and would swallow the KeyboardInterrupt; `open_source` raises it again.
        """
        try:
            while not self.stopped:
                # elsewhere only sockets can be waited for
                if sys.platform == "win32" or select.select([self._fd], [], [], _POLL)[0]:
                    data = os.read(self._fd, size)
                    self.taken += len(data)
                    return data
        except KeyboardInterrupt:
            self.stopped = True
        return b""


class VideoReader:
    """One opened container: its largest video stream, decoded in presentation order.

    Times are the stream's own, exact; where a frame has none, the one before plus one frame at
    the nominal rate. Times that run backwards are handed on as they are, and so is the order.

    After a packet that does not decode, the decoder starts afresh at the next keyframe: what lies
    between was predicted from what is lost. `damage` then says what happened.
    """

    def __init__(
        self,
        target: str | Pipe | ObjectFile,
        name: str,
        *,
        container_format: str | None = None,
        options: dict[str, str] | None = None,
        timeout: tuple[float, float] | None = None,
        from_zero: bool = False,
    ) -> None:
        self.name = name
        self._lost = self._corrupt = 0  # packets, frames
        self._failure: str | None = None  # of the container
        self._byte: int | None = None  # where the last packet lay that tells so
        self._read = 0  # where it ended
        self._at_end = False
        self._begun = False
        self._target = target
        self._open_arguments: dict[str, Any] = {
            "format": container_format,
            "options": options or {},
            "timeout": timeout,
            **ANY_METADATA,
        }
        self._from_zero = from_zero
        self._open()
        stream = self._stream
        rate = stream.average_rate or stream.guessed_rate or stream.base_rate
        self.rate = _fraction(rate) or DEFAULT_RATE
        self._nominal = _fraction(stream.guessed_rate) or self.rate
        self.time_base = _fraction(stream.time_base) or 1 / self.rate
        self.duration = self._duration()
        self.frame_count = stream.frames or (
            round(self.duration * self.rate) if self.duration else None
        )

    def _open(self) -> None:
        if isinstance(self._target, ObjectFile):
            self._target.seek(0)
        try:
            self._container = av.open(self._target, **self._open_arguments)
        except av.error.InvalidDataError as error:
            missing = _missing(self._target) if isinstance(self._target, str) else None
            raise SourceError(
                f"{self.name}: not a video, or of a kind FFmpeg does not know; "
                + (f"{missing}: fetch it again" if missing else "check it with a player")
            ) from error
        except av.error.ExitError as error:
            raise SourceError(
                f"{self.name}: no answer within {self._open_arguments['timeout'][0]:.0f} s"
            ) from error
        except (av.error.FFmpegError, OSError) as error:
            raise SourceError(f"{self.name}: cannot be opened ({_reason(error)})") from error
        cover = av.stream.Disposition.attached_pic
        streams = [
            stream for stream in self._container.streams.video if not stream.disposition & cover
        ]
        if not streams:
            self._container.close()
            raise SourceError(f"{self.name}: has no video stream; give a file with pictures in it")
        streams = [stream for stream in streams if _is_film(stream)]
        if not streams:
            self._container.close()
            raise SourceError(
                f"{self.name}: FFmpeg knows no pictures in it, only text or a codec it lacks; "
                "check it with a player"
            )
        # the first of equals
        self._stream = max(streams, key=lambda stream: stream.width * stream.height)
        self._decoder = _decoder(self._stream)
        self._decoder.copy_opaque = True  # tells which packet a frame came from
        own = self._stream.codec_context
        self._spare = None if self._decoder is own else own

    def _duration(self) -> Fraction | None:
        if self._stream.duration:
            return Fraction(self._stream.duration) * self.time_base
        if self._container.duration and self._container.duration > 0:
            return Fraction(self._container.duration, av.time_base)
        return None

    @property
    def damage(self) -> str | None:
        """What went wrong so far."""
        parts = []
        if self._lost:
            word = "packet" if self._lost == 1 else "packets"
            parts.append(f"{self._lost} {word} did not decode whole")
        if self._corrupt:
            word = "frame" if self._corrupt == 1 else "frames"
            parts.append(f"{self._corrupt} {word} decoded with errors")
        return ", ".join(parts) or self._failure or (self._cut_off() if self._at_end else None)

    def _cut_off(self) -> str | None:
        """Say what is missing at the end of a file, where something is."""
        target = self._target
        if isinstance(target, Pipe):
            there = target.taken
        else:
            there = target.size if isinstance(target, ObjectFile) else _size(target)
        if self._container.format.name == "yuv4mpegpipe" and there > self._read:
            return "the last frame breaks off"
        return _missing(target) if isinstance(target, str) else None

    @property
    def seekable(self) -> bool:
        """Whether `pictures` can begin later than at the beginning."""
        return bool(self.duration) and not isinstance(self._target, Pipe) and not self._from_zero

    def pictures(self, start: Fraction | Sequence[Entry] | None = None) -> Iterator[Picture]:
        """Yield every picture that decodes.

        With a time as `start` (of the stream, in seconds; the input must be seekable), pictures
        before it may be left out; those from it on are the same as without.

        With entries of an earlier reading, in order, begins about the first. Nothing is promised
        but that the picture of an entry, if it comes, bears it; look whether what follows is known.
        """
        self._lost = self._corrupt = 0
        self._failure = self._byte = None
        self._read, self._at_end = 0, False
        entries = start if isinstance(start, Sequence) else ()
        if not self._seek_before(start) if isinstance(start, Fraction) else self._begun:
            self.close()
            self._open()
        self._begun = True
        if entries:
            try:
                self._container.seek(entries[0].place[0], stream=self._stream)
            except av.error.FFmpegError:
                return
        deinterlacer = Deinterlacer(at_work=bool(entries) and entries[0].filtered)
        for picture in self._decoded({entry.place: entry for entry in entries}):
            yield from deinterlacer.push(picture)
        yield from deinterlacer.flush()

    def _seek_before(self, start: Fraction) -> bool:
        """Go to a keyframe before `start`; False when the container cannot be trusted to."""
        goal = start - _SEEK_MARGIN
        for early in _EARLIER:  # some containers go beyond what was asked
            ticks = int((goal - early) / self.time_base)
            try:
                self._container.seek(ticks, stream=self._stream)
                frame = next(self._container.decode(self._stream))
                if frame.pts is None or frame.pts * self.time_base > goal:
                    continue
                self._container.seek(ticks, stream=self._stream)  # the look consumed packets
                self._decoder.flush_buffers()
            except (av.error.FFmpegError, StopIteration, IndexError):
                return False
            return True
        return False

    def _decoded(self, known: Known) -> Iterator[Picture]:
        previous: Fraction | None = None
        offset = Fraction(0)
        orientation, rotation = Orientation(), None
        for frame, entry in self._frames(known):
            # read again only when it changes: a frame whose side data was read is part of a ring
            # of references, and piles up until the garbage collector looks
            if frame.rotation != rotation:
                orientation, rotation = Orientation.of(frame), frame.rotation
            if frame.pts is not None:
                time = frame.pts * (_fraction(frame.time_base) or self.time_base)
            else:
                time = Fraction(0) if previous is None else previous + 1 / self._nominal
            if previous is None and self._from_zero:
                offset = time
            previous = time
            aspect = self._stream.sample_aspect_ratio
            yield Picture(time - offset, frame, orientation, _fraction(aspect), entry)

    def _frames(self, known: Known) -> Iterator[tuple[av.VideoFrame, Entry | None]]:
        """Yield decoded frames, and the entry of a keyframe if it is far enough from the last.

        At a known entry, what had not decoded before counts as it did then.
        """
        waiting = False  # for a keyframe, after an error
        apart = _APART
        for packet in self._packets():
            instead = self._opaque(packet)
            if waiting and not packet.is_keyframe:
                self._lost += packet.size > 0
                yield from self._known(instead, known)
                continue
            waiting = False
            apart += 1
            place = self._place(packet)
            if place in known:
                self._lost, apart = known[place].damage[0], _APART
            if place is not None and apart >= _APART:
                packet.opaque, apart = Entry(place, (self._lost, 0)), 0
            try:
                frames = self._decoder.decode(packet if packet.size else None)
            except av.error.FFmpegError:
                self._lost += 1
                waiting = True
                self._decoder.flush_buffers()
                yield from self._known(instead, known)
                continue
            self._lost += packet.is_corrupt
            yield from self._known(frames or instead, known)
        if self._failure is not None:  # no packet said that it was the last
            with suppress(av.error.FFmpegError):
                yield from self._known(self._decoder.decode(None), known)
        self._at_end = True

    def _opaque(self, packet: av.Packet[VideoStream]) -> list[av.VideoFrame]:
        """Return what a stream's own decoder makes of a packet, where another one decodes it.

        The one that knows transparency gives up a frame for the least damage, with all that follow
        until a keyframe, and one that has none where others had; the own one goes on with what
        there is. Better opaque than lost.
        """
        frames: list[av.VideoFrame] = []
        if self._spare is not None:
            with suppress(av.error.FFmpegError):
                frames = self._spare.decode(packet if packet.size else None)
        return frames

    def _known(
        self, frames: list[av.VideoFrame], known: Known
    ) -> Iterator[tuple[av.VideoFrame, Entry | None]]:
        """Yield frames with their entries."""
        for frame in frames:
            self._corrupt += bool(frame.is_corrupt)
            entry = frame.opaque
            if isinstance(entry, Entry):
                if entry.place in known:
                    self._corrupt = known[entry.place].damage[1]
                yield frame, entry._replace(damage=(entry.damage[0], self._corrupt))
            else:
                yield frame, None

    def _place(self, packet: av.Packet[VideoStream]) -> tuple[int, int] | None:
        """Return where a keyframe can be found again; not behind a failure to read."""
        self._byte = self._byte if packet.pos is None else packet.pos
        if not (packet.is_keyframe and self.seekable) or self._failure is not None:
            return None
        return None if packet.dts is None or self._byte is None else (packet.dts, self._byte)

    def _packets(self) -> Iterator[av.Packet[VideoStream]]:
        """Yield the stream's packets, trying again after errors of the container."""
        failures = 0
        while True:
            try:
                for packet in self._container.demux(self._stream):
                    failures = 0
                    self._read = (packet.pos or self._read) + packet.size
                    yield packet
                return
            except IndexError:  # PyAV's, at a packet of a stream that appeared on the way
                continue
            except (av.error.FFmpegError, OSError) as error:
                failures += 1
                self._failure = f"reading failed ({_reason(error)})"
                if failures > _MAX_DEMUX_ERRORS or isinstance(error, OSError):
                    return

    def stop(self) -> None:
        """Make a reader that waits for a silent pipe give up; safe from any thread."""
        if isinstance(self._target, Pipe):
            self._target.stopped = True

    def close(self) -> None:
        """Close the container."""
        self._container.close()


def _decoder(stream: VideoStream) -> VideoCodecContext:
    """Return what decodes a stream: its own decoder, unless that one is blind to transparency."""
    own = stream.codec_context
    other = {"vp8": "libvpx", "vp9": "libvpx-vp9"}.get(own.name)
    if other in av.codecs_available and stream.metadata.get("alpha_mode") == "1":
        decoder = VideoCodecContext.create(other, "r")
        assert isinstance(decoder, VideoCodecContext)
        return decoder
    return own


def _is_film(stream: VideoStream) -> bool:
    """Whether a stream has pictures to decode: FFmpeg also makes some of text, for old terminals.

    Where it has no decoder, a stream is without a context and so without a width.
    """
    context: VideoCodecContext | None = stream.codec_context
    return context is not None and context.name not in _TEXT_CODECS


def _missing(target: str) -> str | None:
    """Say what is missing of a file by what it says of itself; None of what is no file."""
    try:
        return cut_off(target) if _size(target) else None
    except OSError:  # gone meanwhile
        return None


def _size(target: str) -> int:
    """Return the length of a file; 0 for what is none."""
    return os.path.getsize(target) if os.path.isfile(target) else 0


def _fraction(value: Fraction | None) -> Fraction | None:
    """Convert a rational of PyAV, which is not a Fraction in every version; None stays None."""
    return Fraction(value.numerator, value.denominator) if value else None


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__

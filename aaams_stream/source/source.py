"""An opened input: what reads its pictures, and the frames that are handed out."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from typing import Protocol, Self

from aaams_stream.errors import SourceError
from aaams_stream.model import Clip, Frame
from aaams_stream.source.pixels import Converter, Picture

COMPLETE, INTERRUPTED = "complete", "interrupted"

_LINEAR = 10  # seconds up to which decoding is as good as seeking
_BACKWARDS = 1  # seconds by which times may run backwards and still belong to a stretch


class FrameReader(Protocol):
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
        reader: FrameReader,
        clip: Clip,
        *,
        spec: str | None = None,
        fingerprint: str | None = None,
        live: bool = False,
    ) -> None:
        self.spec = reader.name if spec is None else spec  # opens the same input from anywhere
        self.description = reader.name
        self.rate: Fraction = reader.rate / int(clip.every)
        self.time_base: Fraction = reader.time_base
        self.fingerprint = fingerprint  # None: the input cannot be read a second time
        self.live = live  # without an end of its own
        self.ended: str = INTERRUPTED
        self.warnings: list[str] = []
        self._reader = reader
        self._converter = Converter()
        self._start, self._duration = _exact(clip.start), _exact(clip.duration)
        self._every = int(clip.every)
        try:
            self._pictures = self._selected()
            first = next(self._pictures, None)
        except BaseException:
            reader.close()
            raise
        if first is None:
            reader.close()
            raise SourceError(f"{reader.name}: {self._nothing()}")
        self._first: Picture = first
        self._natural = first.size
        self._size_changes = 0
        self.width, self.height = clip.size or first.size
        self.frame_estimate = self._estimate()
        self._skip = 0
        self._busy = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
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
        self._reader.stop()

    def close(self) -> None:
        """Close the input.

        While another thread still waits for a frame, the input stays open: FFmpeg would crash.
        """
        if not self._busy:
            self._reader.close()

    def _selected(self) -> Iterator[Picture]:
        """Yield every n-th picture of the wanted stretch, counted from its first."""
        pictures = self._reader.pictures()
        first = next(pictures, None)
        if first is None:
            return
        begin = first.time + (self._start or 0)
        end = begin + self._duration if self._duration is not None else None
        if self._start and self._start > _LINEAR and self._reader.seekable:
            pictures = self._reader.pictures(begin)
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
        return f"no frame decodes ({self._reader.damage or 'the stream is empty'})"

    def _estimate(self) -> int | None:
        """How many frames there will be, by what the input says of itself: often wrong."""
        count = self._reader.frame_count
        rate = self._reader.rate
        if count is not None and self._start:
            count -= int(self._start * rate)
        if self._duration is not None:
            wanted = -(-self._duration * rate // 1)
            count = wanted if count is None else min(count, wanted)
        return None if count is None or count <= 0 else -(-count // self._every)

    def _note_end(self, count: int) -> None:
        if self._size_changes > 1:
            self.warnings.append(f"{self.description}: its size changed {self._size_changes} times")
        damage = self._reader.damage
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


def _exact(seconds: float | Fraction | None) -> Fraction | None:
    return None if seconds is None else Fraction(seconds).limit_denominator(10**9)

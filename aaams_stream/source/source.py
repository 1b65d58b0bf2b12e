"""An opened input: what reads its pictures, and the frames that are handed out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import chain, takewhile
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import SourceError
from aaams_stream.model import Clip, Frame, Timecode
from aaams_stream.source.marks import SETTLED, Entry, Mark, Marks, Sizes, checksum
from aaams_stream.source.pixels import Converter, Picture

COMPLETE, INTERRUPTED = "complete", "interrupted"

_log = logging.getLogger(__name__)
_LINEAR = 10  # seconds up to which decoding is as good as seeking
_BACKWARDS = 1  # seconds by which times may run backwards and still belong to a stretch
_ATTEMPTS = 3  # to seek, each a mark further back
THUMBNAIL = (48, 32)  # width and height


class FrameReader(Protocol):
    """Whatever yields pictures: a container, a folder, the demo."""

    name: str
    rate: Fraction
    time_base: Fraction
    frame_count: int | None
    duration: Fraction | None

    @property
    def damage(self) -> str | None:
        """What did not decode so far, in words."""

    @property
    def seekable(self) -> bool:
        """Whether `pictures` can begin at a given time."""

    def pictures(self, start: Fraction | Sequence[Entry] | None = None) -> Iterator[Picture]:
        """Yield the pictures in order: all, those from a time on, or from about an entry on.

        May be called again.
        """

    def stop(self) -> None:
        """End an iteration that waits."""

    def close(self) -> None:
        """Give back what is open."""


class _Selected(NamedTuple):
    """A picture that belongs to the wanted stretch."""

    number: int
    picture: Picture
    entry: Entry | None  # the newest from which it comes out as it is


class Glance(NamedTuple):
    """A frame that was decoded and looked at, and not converted."""

    number: int
    thumbnail: NDArray[np.uint8]  # THUMBNAIL, in the frame's own orientation on disk
    marks: Callable[[], NDArray[Any]]  # makes what `start_at` needs to begin here; before the next


class Source:
    """An opened input: a context manager, and an iterator of frames that runs once.

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
        remote: bool = False,
    ) -> None:
        self.spec = reader.name if spec is None else spec  # opens the same input from anywhere
        self.description = reader.name
        self.rate: Fraction = reader.rate / int(clip.every)
        self.time_base: Fraction = reader.time_base
        self.fingerprint = fingerprint  # None: the input cannot be read a second time
        self.live = live  # without an end of its own
        self.remote = remote  # may fall silent, and FFmpeg then waits deaf to everything
        self.ended: str = INTERRUPTED
        self.warnings: list[str] = []
        self._reader = reader
        self._converter = Converter()
        self.clip = clip = clip.at_rate(reader.rate)  # all of it in seconds
        self._start, self._duration = _exact(clip.start), _exact(clip.duration)
        self._every = int(clip.every)
        self._marks = Marks()
        try:
            self._pictures = self._selected()
            first = next(self._pictures, None)
        except BaseException:
            reader.close()
            raise
        if first is None:
            reader.close()
            raise SourceError(f"{reader.name}: {self._nothing()}")
        self._first: _Selected = first
        self._sizes = Sizes(first.picture.size)
        self.width, self.height = clip.size or first.picture.size
        self.frame_estimate = self._estimate()
        self._begin = self._count = 0
        self._busy = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Frame]:
        self._busy = True
        try:
            for it in self._numbered():
                marked = self._marks.offer(it.number, it.entry)
                if marked or it.number >= self._begin:
                    rgb = self._rgb(it.picture)
                    if marked:
                        self._marks.add(self._mark(it, rgb, self._sizes))
                    if it.number >= self._begin:
                        yield Frame(it.number, it.picture.time, rgb)
            self._note_end()
        finally:
            self._busy = False

    def glances(self) -> Iterator[Glance]:
        """Read all frames to their end, as an iteration does, and convert hardly any of them.

        For a first look at what there is; marks are set on the way.
        """
        self._busy = True
        try:
            before: tuple[_Selected, Sizes] | None = None
            for it in self._numbered():
                if self._marks.offer(it.number, it.entry):
                    self._marks.add(self._mark(it, self._rgb(it.picture), self._sizes))
                begin = partial(self._beginning_after, before)
                yield Glance(it.number, self._converter.thumbnail(it.picture, THUMBNAIL), begin)
                before = it, self._sizes
            self._note_end()
        finally:
            self._busy = False

    def _beginning_after(self, before: tuple[_Selected, Sizes] | None) -> NDArray[Any]:
        """Return marks for beginning with the frame behind another: those before it, and itself.

        Two are compared when a reading begins there, and the second tells that it is the place.
        """
        if before is None or before[0].entry is None:
            return Marks().to_array(0)
        it, sizes = before
        marks = Marks()
        for mark in self._marks.before(it.number)[-_ATTEMPTS - 1 :]:
            marks.add(mark)
        marks.add(self._mark(it, self._rgb(it.picture), sizes))
        return marks.to_array(it.number + 1)

    def _mark(self, it: _Selected, rgb: NDArray[np.uint8], sizes: Sizes) -> Mark:
        time = it.picture.time
        assert it.entry is not None
        return Mark(it.number, float(time), checksum(time, rgb), it.entry, sizes)

    def start_at(self, frame: int, marks: NDArray[Any] | None = None) -> None:
        """Hand out the frames from number `frame` on, the same as ever. Before iterating.

        With the marks of an earlier reading of the same frames, what lies before is not decoded if
        a seek leads to frames that are known again.
        """
        self._begin = frame
        self._marks = Marks.from_array(marks)

    def marks(self, frame: int) -> NDArray[Any]:
        """Return what `start_at` needs to begin at `frame`, which has been reached.

        Safe from any thread. A few hundred kilobytes at most.
        """
        return self._marks.to_array(frame)

    def stop(self) -> None:
        """Let an iteration that waits for input come to its end; safe from any thread."""
        self._reader.stop()

    def close(self) -> None:
        """Close the input.

        While another thread still waits for a frame, the input stays open: FFmpeg would crash.
        """
        if not self._busy:
            self._reader.close()

    def _selected(self) -> Iterator[_Selected]:
        """Yield every n-th picture of the wanted stretch, counted from its first."""
        pictures = self._reader.pictures()
        first = next(pictures, None)
        if first is None:
            return
        self._stretch_begin = begin = first.time + (self._start or 0)
        if self._start and self._start > _LINEAR and self._reader.seekable:
            pictures = self._reader.pictures(begin)
        else:
            pictures = chain([first], pictures)
        yield from self._stretch(pictures)

    def _stretch(self, pictures: Iterator[Picture], index: int = 0) -> Iterator[_Selected]:
        """Yield every n-th of the `pictures` in the wanted stretch; the first is frame `index`."""
        begin = self._stretch_begin
        end = begin + self._duration if self._duration is not None else None
        count = index * self._every
        newest, age = None, 0
        entry = None
        for picture in pictures:
            age += 1
            if picture.entry is not None:
                newest, age = picture.entry, 0
            if age >= SETTLED:
                entry = newest
            if end is not None and picture.time >= end:
                if picture.time >= end + _BACKWARDS:
                    return
                continue
            if picture.time < begin and self._start:
                continue
            if count % self._every == 0:
                yield _Selected(count // self._every, picture, entry)
            count += 1

    def _numbered(self) -> Iterator[_Selected]:
        """Yield the selected pictures from somewhere before the wanted beginning on."""
        marks = self._marks.before(self._begin)
        for back in range(2, min(2 + _ATTEMPTS, 1 + len(marks))):
            sought = self._sought(marks[-back:])
            if sought is not None:
                return sought
        if len(marks) < 2:
            return self._watched(chain([self._first], self._pictures))
        self._marks = Marks()
        self._restore(Sizes(self._first.picture.size))
        return self._watched(self._selected())

    def _sought(self, marks: list[Mark]) -> Iterator[_Selected] | None:
        """Seek to the first of some marks; return what follows them if the last two are there.

        Two, so that the one bears out how frames are counted from the other.
        """
        mark, passed = marks[-2], False
        pictures = self._reader.pictures([mark.entry for mark in marks])
        for picture in takewhile(lambda it: it.time <= mark.seconds + _BACKWARDS, pictures):
            passed = passed or picture.entry == mark.entry
            if passed and self._knows(picture, mark):
                break
        else:
            return None
        self._restore(mark.sizes)
        selected = self._watched(self._stretch(chain([picture], pictures), mark.frame))
        for mark in marks[-2:]:
            at = next((it for it in selected if it.number == mark.frame), None)
            if at is None or not self._knows(at.picture, mark):
                return None
        return selected

    def _knows(self, picture: Picture, mark: Mark) -> bool:
        return (
            float(picture.time) == mark.seconds
            and checksum(picture.time, self._rgb(picture)) == mark.checksum
        )

    def _rgb(self, picture: Picture) -> NDArray[np.uint8]:
        return self._converter.rgb(picture, (self.width, self.height))

    def _watched(self, selected: Iterator[_Selected]) -> Iterator[_Selected]:
        """Pass pictures on, noting their number and their sizes."""
        for it in selected:
            self._count = it.number + 1
            if it.picture.size != self._sizes.last:
                self._note_size_change(it.number, it.picture.size)
            yield it

    def _restore(self, sizes: Sizes) -> None:
        """Have the sizes changed as another reading saw them change."""
        self._sizes = sizes
        self.warnings.clear()
        if sizes.changes:
            self._warn_of_size(*sizes.first_change)

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

    def _note_end(self) -> None:
        changes, damage = self._sizes.changes, self._reader.damage
        if changes > 1:
            self._warn(f"{self.description}: its size changed {changes} times")
        self.ended = f"damaged: {damage}" if damage else COMPLETE
        if damage:
            announced = f" of about {self.frame_estimate} announced" if self.frame_estimate else ""
            self._warn(
                f"{self.description} is damaged: {damage}; {self._count} frames{announced} were "
                "read"
            )

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        _log.warning("%s", text)

    def _note_size_change(self, index: int, size: tuple[int, int]) -> None:
        _, changes, first = self._sizes
        if not changes:  # one word is enough, however often it happens
            first = (index, *size)
            self._warn_of_size(*first)
        self._sizes = Sizes(size, changes + 1, first)

    def _warn_of_size(self, index: int, width: int, height: int) -> None:
        natural = self._first.picture.size
        self._warn(
            f"{self.description}: frame {index} is {width}x{height} and not "
            f"{natural[0]}x{natural[1]}; it is scaled to {self.width}x{self.height}"
        )


def _exact(seconds: float | Fraction | Timecode | None) -> Fraction | None:
    assert not isinstance(seconds, Timecode)
    return None if seconds is None else Fraction(seconds).limit_denominator(10**9)

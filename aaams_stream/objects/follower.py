"""Follow several objects at once, frame by frame, and correct them on the way.

    follower = Follower()
    for frame in aaams.stream("clip.mp4"):          # or frames of a Segmenter, with `rgb`
        seen = follower.step(frame)                 # a Scene: every object in this frame
        if frame.index == 0:
            one = follower.begin(mask)              # a mask (h, w) in the newest frame: number 1
            two = follower.begin_at([(320, 240)], without=[(300, 200)])  # clicks x, y: number 2
            seen = follower.scene                   # the newest frame again, with both
        if seen.state(one) == "lost": ...

    follower.click(one, x, y)                       # this belongs to it, in the newest frame
    follower.click(one, x, y, inside=False)         # this does not
    follower.end(two)                               # its number is not used again

`step` takes every frame of the stream in its order, with or without objects, and costs next to
nothing without. What is begun or clicked counts in the newest frame, and `scene` shows it at once.
Scene.labels (h, w) uint8 has the number of the object at each pixel, 0 where there is none; every
pixel has one object at most. Scene.sightings tell of each object its state, how sure it is, its
area and its box:

    seen   it is where the mask is
    lost   it is not to be found, and the mask is empty; it is sought on
    back   the first frame in which it is found again

Nothing looks ahead, nothing is drawn by lot, and memory is bounded. One thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import ConfigError
from aaams_stream.objects import memory, tracker
from aaams_stream.objects.memory import Followed
from aaams_stream.objects.tuning import TrackerTuning
from aaams_stream.objects.view import View, look

if TYPE_CHECKING:
    from aaams_stream.model import FrameSegmentation

MOST_OBJECTS = 255  # numbers are those of an indexed picture
_DEFAULT = TrackerTuning()


@dataclass(frozen=True, slots=True)
class Sighting:
    """One object in one frame."""

    number: int  # of the object, from 1
    state: str  # "seen", "lost" or "back"
    sure: float  # from 0 to 1; below a half it is lost
    area: int  # pixels
    box: tuple[int, int, int, int] | None  # x0, y0, x1, y1; None where it is lost


@dataclass(frozen=True, slots=True)
class Scene:
    """All objects in one frame."""

    index: int
    time: float | None
    labels: NDArray[np.uint8]  # (h, w) number of the object, 0: none
    sightings: tuple[Sighting, ...]  # in order of their numbers

    def mask(self, number: int) -> NDArray[np.bool_]:
        """Return where an object is (h, w)."""
        return np.asarray(self.labels == number)

    def sighting(self, number: int) -> Sighting:
        """Return what is known of an object."""
        for one in self.sightings:
            if one.number == number:
                return one
        raise ValueError(f"no object has the number {number}")

    def state(self, number: int) -> str:
        """Return whether an object is "seen", "lost" or "back"."""
        return self.sighting(number).state


class Follower:
    """Follows several objects through the frames it is given, and is corrected on the way.

    `step` takes every frame of the stream in its order, with or without objects. What is begun or
    clicked counts in the newest frame, and `scene` shows it at once. Every pixel has one object at
    most. Nothing looks ahead, nothing is drawn by lot, and memory is bounded. One thread at a time.

    Args:
        tuning: constants of the method.

    Example:
        >>> import aaams_stream as aaams
        >>> follower = aaams.Follower()
        >>> for frame in aaams.stream("demo", duration=0.25):
        ...     scene = follower.step(frame)
        ...     if frame.index == 0:
        ...         balloon = follower.begin_at([(88, 150)])
        >>> scene.state(balloon), scene.mask(balloon).shape
        ('seen', (240, 320))
    """

    def __init__(self, tuning: TrackerTuning = _DEFAULT) -> None:
        self._tuning = tuning
        self._known: dict[int, Followed] = {}
        self._frame: FrameSegmentation | None = None
        self._view: View | None = None
        self._next = 1

    @property
    def numbers(self) -> tuple[int, ...]:
        """The objects that are followed."""
        return tuple(self._known)

    @property
    def scene(self) -> Scene:
        """All objects in the newest frame, as they are after what was begun and clicked."""
        frame = self._newest()
        labels = np.zeros(frame.ids.shape, np.uint8)
        for number, known in self._known.items():
            labels[known.mask] = number
        sightings = tuple(_sighting(n, known) for n, known in self._known.items())
        return Scene(frame.index, frame.time, labels, sightings)

    def step(self, frame: FrameSegmentation) -> Scene:
        """Find every object in the next frame."""
        self._frame, self._view = frame, None
        if self._known:
            view = self._look()
            found = [tracker.find(known, view, self._tuning) for known in self._known.values()]
            self._known = dict(zip(self._known, tracker.share_out(found), strict=True))
        return self.scene

    def begin(self, mask: NDArray[np.bool_], number: int | None = None) -> int:
        """Follow what a mask (h, w) shows in the newest frame; return its number.

        number: one from 1 to 255 that no object had; by default the next.
        """
        number = self._next if number is None else number
        if number < self._next:
            raise ConfigError(f"the number {number} is taken; the next one is {self._next}")
        if number > MOST_OBJECTS:
            raise ConfigError(f"an object cannot have the number {number}; {MOST_OBJECTS} is last")
        frame = self._newest()
        tracker.check_mask(frame, mask)
        for other, known in self._known.items():
            both = known.mask & mask
            if both.any():
                y, x = np.argwhere(both)[0]
                raise ConfigError(
                    f"the pixel {x},{y} belongs to object {other} already, so not to {number}; a "
                    "pixel has one object"
                )
        self._next = number + 1
        self._known[number] = memory.begin(self._look(), mask, self._tuning)
        return number

    def begin_at(
        self, clicks: Iterable[tuple[int, int]], without: Iterable[tuple[int, int]] = ()
    ) -> int:
        """Follow the segments under clicks x, y, without those under others."""
        return self.begin(tracker.mask_at(self._newest(), clicks, without))

    def click(self, number: int, x: int, y: int, *, inside: bool = True) -> None:
        """Say of the segment at x, y of the newest frame that it belongs to an object, or not."""
        frame = self._newest()
        if number not in self._known:
            raise ConfigError(f"no object has the number {number}; there are {list(self._known)}")
        part = tracker.mask_at(frame, [(x, y)])
        if inside:  # every pixel belongs to one object: the others give it up
            for other, known in self._known.items():
                if other != number and (known.mask & part).any():
                    self._known[other] = memory.correct(known, part, False, self._tuning)
        self._known[number] = memory.correct(self._known[number], part, inside, self._tuning)

    def end(self, number: int) -> None:
        """Follow an object no longer."""
        if self._known.pop(number, None) is None:
            raise ConfigError(f"no object has the number {number}; there are {list(self._known)}")

    def _newest(self) -> FrameSegmentation:
        if self._frame is None:
            raise ValueError("no frame yet: step comes first")
        return self._frame

    def _look(self) -> View:
        if self._view is None:
            self._view = look(self._newest(), self._tuning)
        return self._view


def _sighting(number: int, known: Followed) -> Sighting:
    box = known.box
    return Sighting(number, known.state, known.sure, int(np.count_nonzero(known.mask)), box)

"""Objects that viewers have clicked: followed from frame to frame, for everybody to see."""

from __future__ import annotations

import csv
import dataclasses
import io
import threading
import zlib
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.objects.follower import MOST_OBJECTS as LAST_NUMBER
from aaams_stream.objects.follower import Follower, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aaams_stream.model import Frame, FrameSegmentation

MOST_OBJECTS = 8  # at a time: each costs milliseconds a frame
_MANY = 128  # numbers given, after which they begin anew as soon as nothing is followed
_MOST_PARTS = 12  # segments that one click adds or takes away
_TRAIL = 75  # points: about three seconds
_COLUMNS = ("frame", "time", "object", "state", "sure", "area", "x0", "y0", "x1", "y1")
_REMEMBERED = 9000  # frames whose masks can be saved: about five minutes


class _Masks(NamedTuple):
    """The objects of one frame, small enough to be kept for many."""

    scene: Scene  # without its labels
    labels: bytes


class Following:
    """Follows objects in the frames of a loop; begun and corrected by any thread.

    Whoever steps or changes something holds `lock` until it has shown what came of it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._follower = Follower()
        self._given = 0  # the last number that was given
        self._newest: FrameSegmentation | None = None
        self._trails: dict[int, deque[tuple[int, int]]] = {}
        self._masks: deque[_Masks] = deque(maxlen=_REMEMBERED)

    def step(self, frame: Frame, segmentation: FrameSegmentation) -> Scene:
        """Find all objects in the next frame."""
        self._newest = dataclasses.replace(segmentation, rgb=frame.rgb)
        scene = self._follower.step(self._newest)
        for one in scene.sightings:
            if one.box is not None:
                x0, y0, x1, y1 = one.box
                inside = scene.labels[y0:y1, x0:x1] == one.number
                y, x = (np.flatnonzero(inside.any(axis=k)).mean() for k in (1, 0))
                self._trails[one.number].append((round(x0 + x), round(y0 + y)))
            elif self._trails[one.number]:  # where it was of late, also when it is lost
                self._trails[one.number].popleft()
        self._remember(scene)
        return scene

    @property
    def scene(self) -> Scene:
        """All objects in the newest frame."""
        return self._follower.scene

    def trails(self) -> dict[int, list[tuple[int, int]]]:
        """Return where each object was of late, oldest first."""
        return {number: list(trail) for number, trail in self._trails.items()}

    def begin(self, ids: list[int]) -> int:
        """Follow segments of the newest frame as one object; return its number."""
        if self._newest is None:
            raise ValueError("there is no frame yet")
        if len(self._follower.numbers) >= MOST_OBJECTS:
            raise ValueError(f"{MOST_OBJECTS} objects are followed already; let one go first")
        mask = np.isin(self._newest.ids, np.array(ids, np.uint32))
        mask &= (self._follower.scene.labels == 0) & (self._newest.ids > 0)
        if not mask.any():
            raise ValueError("what was clicked is gone, or is followed already")
        if self._given == LAST_NUMBER:
            raise ValueError("no number is left; let go of all objects, and they begin anew")
        number = self._given = self._follower.begin(mask)
        self._trails[number] = deque(maxlen=_TRAIL)
        self._remember_anew()
        return number

    def correct(self, number: int, ids: list[int], *, inside: bool) -> None:
        """Say of segments of the newest frame that they belong to an object, or do not."""
        if number not in self._follower.numbers or self._newest is None:
            raise ValueError(f"no object has the number {number}")
        rows = self._newest.segments
        rows = rows[np.isin(rows["id"], np.array(ids, np.uint32))]
        for row in rows[np.argsort(-rows["area"])][:_MOST_PARTS]:
            y, x = np.argwhere(self._newest.ids == row["id"])[0]
            self._follower.click(number, int(x), int(y), inside=inside)
        self._remember_anew()

    def end(self, number: int) -> None:
        """Follow an object no longer."""
        if number not in self._follower.numbers:
            raise ValueError(f"no object has the number {number}")
        self._follower.end(number)
        self._trails.pop(number, None)
        if self._given >= _MANY and not self._follower.numbers:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Have numbers begin at 1 again: a follower gives none twice, and they come to an end."""
        assert self._newest is not None
        self._follower, self._given = Follower(), 0
        self._follower.step(self._newest)
        self._masks.clear()  # which are of others by the same numbers

    def masks(self) -> Iterator[tuple[Scene, NDArray[np.uint8]]]:
        """Yield the objects of each frame that is remembered, oldest first."""
        with self.lock:
            kept = list(self._masks)
        for scene, labels in kept:
            yield scene, np.frombuffer(zlib.decompress(labels), np.uint8).reshape(self._shape())

    def table(self) -> str:
        """Return what is known of each object in each frame that is remembered, as CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_COLUMNS)
        with self.lock:
            kept = [scene for scene, _ in self._masks]
        for scene in kept:
            for one in scene.sightings:
                box = one.box or ("", "", "", "")
                head = (scene.index, scene.time, one.number, one.state, f"{one.sure:.3f}")
                writer.writerow([*head, one.area, *box])
        return text.getvalue()

    def _shape(self) -> tuple[int, int]:
        assert self._newest is not None
        h, w = self._newest.ids.shape
        return h, w

    def _remember(self, scene: Scene) -> None:
        if scene.sightings:
            labels = zlib.compress(scene.labels.tobytes(), 1)
            bare = dataclasses.replace(scene, labels=np.zeros((0, 0), np.uint8))
            self._masks.append(_Masks(bare, labels))

    def _remember_anew(self) -> None:
        """Have what is remembered of the newest frame be what a click has made of it."""
        scene = self._follower.scene
        if self._masks and self._masks[-1].scene.index == scene.index:
            self._masks.pop()
        self._remember(scene)

"""What those who look on may know: the newest frame, the phase, and that something changed."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import cv2
import numpy as np

from aaams_stream.core.live_levels import cut_merges
from aaams_stream.draw.views import boundaries, draw_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from aaams_stream.live.clock import Clock
    from aaams_stream.live.slot import Captured
    from aaams_stream.model import Frame, FrameSegmentation
    from aaams_stream.objects.follower import Scene

    Trails = dict[int, list[tuple[int, int]]]  # x, y of an identity or object, oldest first

Phase = Literal["starting", "running", "ended", "failed"]

GROUPS = 25  # a frame: about the things that a person would name
OBJECT_COLOURS = (  # of what is followed, as the page has them: told apart by most eyes
    *((255, 196, 0), (0, 194, 255), (255, 92, 168), (94, 230, 94)),
    *((186, 130, 255), (255, 138, 64), (0, 230, 195), (240, 240, 120)),
)
_WINDOW = 2.0  # seconds over which the frame rate is taken
_RECENT = 6  # frames kept for snapshots of what a viewer has on the screen
_HALO = 0.45  # of the picture beside a line: bright lines show on bright walls, too
_TINT = 0.35  # of its colour over an object


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """One frame and its segments, both in the frame's own pixels."""

    number: int  # counts what was published, from 1
    frame: Frame
    segmentation: FrameSegmentation
    captured: float  # when it came in, by the loop's clock
    finished: float  # and when it was segmented
    merges: NDArray[np.int32]  # (n, 2) the tree over its segments, as `LiveLevels.merges` has it
    scene: Scene | None = None  # the objects that are followed
    revision: int = 0  # counts clicks that changed the scene

    def groups(self, count: int) -> NDArray[np.uint32]:
        """Return ids (h, w) of at most `count` groups, each called by the smallest id in it."""
        found = self.segmentation
        ids = found.segments["id"]
        group = cut_merges(self.merges, len(ids), count)
        names = np.full(len(ids), np.iinfo(np.uint32).max, np.uint32)
        np.minimum.at(names, group, ids)
        groups = names[group][np.searchsorted(ids, found.ids)]
        groups[found.ids == 0] = 0  # outside the region of interest
        return np.asarray(groups, np.uint32)

    def drawn(
        self,
        view: str,
        opacity: float | None = None,
        groups: int | None = None,
        trails: Trails | None = None,
    ) -> NDArray[np.uint8]:
        """Return the frame (h, w, 3) with a view of its segments, or of so many groups, over it.

        The view of objects is of GROUPS where nothing is said; that of motion has `trails` in the
        place of arrows, where they are given. What is followed is drawn over all of it.
        """
        found = self.segmentation
        if groups is None and view == "objects":
            groups = GROUPS
        ids = found.ids if groups is None else self.groups(groups)
        rgb, trailed = self.frame.rgb, view == "motion" and trails is not None
        if view == "boundaries":
            rgb = _with_halo(rgb, boundaries(ids))
        if trailed or view == "colours":
            layer = _with_trails(rgb, trails or {}) if trailed else self._mean_colours(groups)
            share = 1.0 if opacity is None else opacity
            picture = np.asarray(cv2.addWeighted(layer, share, rgb, 1 - share, 0), np.uint8)
        else:
            picture = draw_view(
                rgb, ids, view, opacity=opacity, segments=found.segments, fine=found.ids
            )
        if view == "boundaries" and opacity is not None:  # the halo is part of the view
            layer, plain = draw_view(rgb, ids, view), self.frame.rgb
            picture = np.asarray(cv2.addWeighted(layer, opacity, plain, 1 - opacity, 0), np.uint8)
        return self._with_objects(picture)

    def _mean_colours(self, groups: int | None) -> NDArray[np.uint8]:
        """Return every pixel in the mean colour of its group, by the table that the page has."""
        found = self.segmentation
        rows = found.segments
        group = np.arange(len(rows))
        if groups is not None:
            group = cut_merges(self.merges, len(rows), groups)
        area = rows["area"].astype(np.float64)
        whole = np.maximum(np.bincount(group, area, len(rows)), 1)
        colours = lab_to_rgb(rows["colour"])
        mean = [np.bincount(group, area * colours[:, k], len(rows)) / whole for k in range(3)]
        table = np.rint(np.stack(mean, axis=1)).astype(np.uint8)[group]
        picture = np.asarray(table[np.searchsorted(rows["id"], found.ids)], np.uint8)
        outside = found.ids == 0
        picture[outside] = self.frame.rgb[outside]
        return picture

    def _with_objects(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if self.scene is None:
            return picture
        picture = picture.copy()
        for one in self.scene.sightings:
            colour = np.array(OBJECT_COLOURS[(one.number - 1) % len(OBJECT_COLOURS)])
            mask = self.scene.labels == one.number
            picture[mask] = np.rint(picture[mask] * (1 - _TINT) + colour * _TINT)
            inner = cv2.erode(mask.astype(np.uint8), np.ones((3, 3), np.uint8), borderValue=0)
            picture[mask & (inner == 0)] = colour
        return picture


def lab_to_rgb(lab: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return colours (k, 3) of L*a*b* (k, 3)."""
    if not len(lab):
        return np.zeros((0, 3), np.uint8)
    rgb = cv2.cvtColor(np.ascontiguousarray(lab[None], np.float32), cv2.COLOR_LAB2RGB)
    return np.asarray(np.rint(255 * np.clip(rgb[0], 0, 1)), np.uint8)


def _with_halo(rgb: NDArray[np.uint8], lines: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return the picture, darker beside lines."""
    near = cv2.dilate(lines.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    picture = rgb.copy()
    picture[near] = np.rint(picture[near] * (1 - _HALO))
    return picture


def _with_trails(rgb: NDArray[np.uint8], trails: Trails) -> NDArray[np.uint8]:
    """Return the picture with the way of each identity that has moved."""
    picture = rgb.copy()
    for points in trails.values():
        way = np.array(points, np.int32).reshape(-1, 1, 2)
        for colour, thick in (((0, 0, 0), 3), ((255, 255, 255), 1)):
            cv2.polylines(picture, [way], False, colour, thick, cv2.LINE_AA)
        cv2.circle(picture, points[-1], 2, (255, 255, 255), -1, cv2.LINE_AA)
    return picture


@dataclass(frozen=True, slots=True)
class Status:
    """How the loop is doing."""

    phase: Phase
    message: str  # why it failed, or how the source ended
    fps: float
    latency: float  # seconds from the frame's arrival to its segments
    segments: int
    warm: float  # share of pixels taken over from the frame before
    dropped: int  # frames that came too late to be segmented
    quality: str  # what the governor allows
    wanted: int  # segments asked for
    paused: bool
    recording: str | None  # name of the volume
    recorded: int  # frames in it
    trouble: str  # what ended the last recording too early
    silent: float  # seconds without a frame, where frames should come; else 0
    waiting_for: str  # what they do not come from: "source" or "segmenter"
    objects: list[dict[str, object]]  # that are followed: state, area, box, trail
    past: tuple[int, int]  # numbers of the first and last frame that can be looked at again
    age: float  # seconds since the newest frame came in


class Board:
    """Holds the newest frame and wakes who waits for a newer one. Each change has a number."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        # what follows changes only while _changed is held
        self._version = 0
        self._newest: LiveFrame | None = None
        self._recent: deque[LiveFrame] = deque(maxlen=_RECENT)
        self._finished: deque[float] = deque()  # when, for the frames of the last seconds
        self._phase: Phase = "starting"
        self._message = ""
        self._failure: BaseException | None = None
        self._closed = False
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener` called at every change; it must be quick, and ask nothing of us."""
        self._listeners.append(listener)

    @property
    def newest(self) -> LiveFrame | None:
        """The frame published last."""
        return self._newest

    @property
    def phase(self) -> Phase:
        """How far the loop has come."""
        return self._phase

    @property
    def message(self) -> str:
        """Why it failed, or how the source ended."""
        return self._message

    @property
    def failure(self) -> BaseException | None:
        """What ended a thread."""
        return self._failure

    @property
    def closed(self) -> bool:
        """Whether nothing more comes."""
        return self._closed

    @property
    def fps(self) -> float:
        """Frames a second, of late."""
        with self._changed:
            times = self._finished
            if not times or self._clock.now() - times[-1] > _WINDOW:
                return 0.0  # none has come of late
            span = times[-1] - times[0]
            return (len(times) - 1) / span if span else 0.0

    @property
    def version(self) -> int:
        """Counts changes."""
        return self._version

    def publish(
        self,
        taken: Captured,
        segmentation: FrameSegmentation,
        merges: NDArray[np.int32],
        scene: Scene | None = None,
    ) -> None:
        """Show one more frame, the tree over its segments, and what is followed in it."""
        now = self._clock.now()
        with self._changed:
            number = self._newest.number + 1 if self._newest else 1
            self._newest = LiveFrame(
                number, taken.frame, segmentation, taken.at, now, merges, scene
            )
            self._recent.append(self._newest)
            self._finished.append(now)
            while now - self._finished[0] > _WINDOW:
                self._finished.popleft()
            self.touch()

    def amend(self, scene: Scene) -> None:
        """Show the newest frame again, with other objects followed."""
        with self._changed:
            if self._newest is not None:
                revision = self._newest.revision + 1
                self._newest = replace(self._newest, scene=scene, revision=revision)
                self._recent[-1] = self._newest
                self.touch()

    def recent(self, number: int) -> LiveFrame | None:
        """Return a frame of the last few; the newest if that one is gone."""
        with self._changed:
            found = [shown for shown in self._recent if shown.number == number]
            return found[0] if found else self._newest

    def enter(self, phase: Phase, message: str = "") -> None:
        """Say how far the loop has come."""
        with self._changed:
            if self._failure is None or phase == "failed":  # nothing follows a failure
                self._phase, self._message = phase, message
                self.touch()

    def fail(self, error: BaseException) -> None:
        """Say what went wrong."""
        with self._changed:
            self._failure = error
            self.enter("failed", str(error) or type(error).__name__)

    def touch(self) -> None:
        """Let everyone who waits look again."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()
        for listener in self._listeners:
            listener()

    def wait(self, version: int, timeout: float) -> tuple[int, LiveFrame | None]:
        """Wait until something is newer than `version`; return the version and newest frame."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version or self._closed, timeout)
            return self._version, self._newest

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

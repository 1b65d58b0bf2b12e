"""What those who look on may know: the newest frame, the phase, and that something changed."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from aaams_stream.core.live_levels import cut_merges
from aaams_stream.draw.views import draw_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aaams_stream.live.clock import Clock
    from aaams_stream.live.slot import Captured
    from aaams_stream.model import Frame, FrameSegmentation

Phase = Literal["starting", "running", "ended", "failed"]

GROUPS = 25  # a frame: about the things that a person would name
_WINDOW = 2.0  # seconds over which the frame rate is taken


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """One frame and its segments, both in the frame's own pixels."""

    number: int  # counts what was published, from 1
    frame: Frame
    segmentation: FrameSegmentation
    captured: float  # when it came in, by the loop's clock
    finished: float  # and when it was segmented
    merges: NDArray[np.int32]  # (n, 2) the tree over its segments, as `LiveLevels.merges` has it

    def groups(self, count: int) -> NDArray[np.uint32]:
        """Return ids (h, w) of at most `count` groups, each called by the smallest id in it."""
        found = self.segmentation
        ids = found.segments["id"]
        group = cut_merges(self.merges, len(ids), count)
        names = np.full(len(ids), np.iinfo(np.uint32).max, np.uint32)
        np.minimum.at(names, group, ids)
        return names[group][np.searchsorted(ids, found.ids)]

    def drawn(
        self, view: str, opacity: float | None = None, groups: int | None = None
    ) -> NDArray[np.uint8]:
        """Return the frame (h, w, 3) with a view of its segments, or of so many groups, over it.

        The view of objects is of GROUPS where nothing is said.
        """
        found = self.segmentation
        if groups is None and view == "objects":
            groups = GROUPS
        ids = found.ids if groups is None else self.groups(groups)
        return draw_view(
            self.frame.rgb, ids, view, opacity=opacity, segments=found.segments, fine=found.ids
        )


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


class Board:
    """Holds the newest frame and wakes who waits for a newer one. Each change has a number."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        # what follows changes only while _changed is held
        self._version = 0
        self._newest: LiveFrame | None = None
        self._finished: deque[float] = deque()  # when, for the frames of the last seconds
        self._phase: Phase = "starting"
        self._message = ""
        self._failure: BaseException | None = None
        self._closed = False

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
            span = times[-1] - times[0] if times else 0.0
            return (len(times) - 1) / span if span else 0.0

    def publish(
        self, taken: Captured, segmentation: FrameSegmentation, merges: NDArray[np.int32]
    ) -> None:
        """Show one more frame, and the tree over its segments."""
        now = self._clock.now()
        with self._changed:
            number = self._newest.number + 1 if self._newest else 1
            self._newest = LiveFrame(number, taken.frame, segmentation, taken.at, now, merges)
            self._finished.append(now)
            while now - self._finished[0] > _WINDOW:
                self._finished.popleft()
            self.touch()

    def enter(self, phase: Phase, message: str = "") -> None:
        """Say how far the loop has come."""
        with self._changed:
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

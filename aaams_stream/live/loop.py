"""The live loop: a reader, a slot in which the newest frame wins, one thread that computes.

The reader takes frames as a camera sends them, or from a file at their presentation times. The
compute thread takes the newest, segments it with the quality the governor allows, and publishes
the result. Neither waits for those who look on.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aaams_stream.core.segmenter import Segmenter
from aaams_stream.errors import AaamsError
from aaams_stream.jit import compile_ahead
from aaams_stream.live.history import Memory
from aaams_stream.live.quality import LADDER, Governor, ladder_for
from aaams_stream.live.recorder import Recorder
from aaams_stream.model import Frame, FrameSegmentation
from aaams_stream.params import Params
from aaams_stream.run.threads import LatestSlot

_POLL = 0.1  # seconds between looks at the stop sign
_PATIENCE = 2.0  # seconds a stopped thread is waited for; one stuck in a read is left alone
_LATE = 0.5  # seconds behind its times after which a file's clock is set anew
_WINDOW = 2.0  # seconds over which the frame rate is taken
_FASTEST = 60.0  # frames a second: a rate beyond is a mistake of the source


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """One frame and its segments, both in the frame's own pixels."""

    number: int  # counts what was published, from 1
    frame: Frame
    segmentation: FrameSegmentation
    captured: float  # time.monotonic() when it came in
    finished: float  # and when it was segmented


@dataclass(frozen=True, slots=True)
class Status:
    """How the loop is doing."""

    phase: str  # starting, running, ended or failed
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


class LiveLoop:
    """Segments `source` on threads of its own, from `start` (or `with`) to `close`.

    source: a `source.Source`; it is closed with the loop. reopen: opens it again when it has
    ended, for ever; times go on growing. fps: at most so many frames are taken a second, and
    quality gives way until as many are segmented (None: the source's rate; 0: take all, never
    give way).

    The compute thread calls compiled, parallel loops, which must not run twice at a time: while
    the loop runs, do not segment anything on another thread.
    """

    def __init__(
        self,
        source: Any,
        params: Params,
        *,
        fps: float | None = None,
        reopen: Callable[[], Any] | None = None,
    ) -> None:
        self.description: str = source.description
        self.width, self.height = source.width, source.height
        self.memory = Memory()
        self.failure: BaseException | None = None  # what ended a thread
        self._source = source
        self._reopen = reopen
        self._header = {
            "width": source.width,
            "height": source.height,
            "rate": source.rate,
            "time_base": source.time_base,
            "spec": source.spec,
            "fingerprint": None,  # a stretch of a live stream cannot be read again
        }
        self._interval = Fraction(0)
        self._governor: Governor | None = None
        if fps is None or fps > 0:
            rate = min(float(source.rate), _FASTEST) if fps is None else fps
            self._governor = Governor(1 / rate, ladder_for(params))
            if fps is not None:
                self._interval = 1 / Fraction(fps).limit_denominator(1000)
        self._slot: LatestSlot[tuple[Frame, float]] = LatestSlot()
        self._changed = threading.Condition()
        # what follows changes only while _changed is held
        self._params = params
        self._phase, self._message = "starting", ""
        self._ended: str | None = None  # how the source did
        self._paused = False
        self._steps = 0
        self._halted = False
        self._version = 0
        self._newest: LiveFrame | None = None
        self._finished: deque[float] = deque(maxlen=int(_WINDOW * _FASTEST))
        self._quality = LADDER[0]
        self._recorder_lock = threading.Lock()
        self._recorder: Recorder | None = None
        self._trouble = ""
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
            for name, work in (("live-read", self._read), ("live-compute", self._compute))
        ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin to read and to segment."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop; a recording under way is finished."""
        with self._changed:
            self._halted = True
            self._changed.notify_all()
        self._slot.close()
        self._source.stop()
        for thread in self._threads:
            thread.join(_PATIENCE)
        self.stop_recording()
        self._source.close()

    def wait(self, version: int, timeout: float) -> tuple[int, LiveFrame | None]:
        """Wait until something is newer than `version`; return the version and newest frame."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version or self._halted, timeout)
            return self._version, self._newest

    def frames(self) -> Iterator[LiveFrame]:
        """Yield the newest frame, again and again, to the end of the source.

        Who takes long over one misses others. What ended the loop is raised here.
        """
        version = number = 0
        while not self._halted:
            version, shown = self.wait(version, _POLL)
            if self.failure is not None:
                raise self.failure
            if shown is not None and shown.number > number:
                number = shown.number
                yield shown
            elif self._phase == "ended":
                return

    @property
    def status(self) -> Status:
        """How it is going just now."""
        with self._changed:
            shown, times = self._newest, self._finished
            recorder = self._recorder
            while times and times[-1] - times[0] > _WINDOW:
                times.popleft()
            span = times[-1] - times[0] if len(times) > 1 else 0.0
            return Status(
                phase=self._phase,
                message=self._message,
                fps=(len(times) - 1) / span if span else 0.0,
                latency=shown.finished - shown.captured if shown else 0.0,
                segments=len(shown.segmentation.segments) if shown else 0,
                warm=float(shown.segmentation.stats["warm"]) if shown else 0.0,
                dropped=self._slot.dropped,
                quality=self._quality.name,
                wanted=self._params.stream.segments,
                paused=self._paused,
                recording=recorder.path.name if recorder else None,
                recorded=recorder.frames if recorder else 0,
                trouble=self._trouble,
            )

    def pause(self) -> None:
        """Keep the picture as it is; a file's clock stops, a camera's frames go unseen."""
        self._change(_paused=True)

    def resume(self) -> None:
        """Go on after a pause."""
        self._change(_paused=False, _steps=0)

    def step(self) -> None:
        """Pause, and let one more frame through."""
        with self._changed:
            self._change(_paused=True, _steps=self._steps + 1)

    def want(self, segments: int) -> None:
        """Ask for about so many segments a frame, from the next frame on."""
        with self._changed:
            self._change(_params=self._params.updated({"stream": {"segments": segments}}))

    def record(self, path: Path, *, with_video: bool = False) -> None:
        """Begin to write every segmented frame to a new volume."""
        from aaams_stream.store import Header

        header = Header(
            **self._header,
            selection={},
            configuration=self._params.to_dict(),
            with_video=with_video,
        )
        recorder = Recorder(path, header)
        self.stop_recording()
        with self._recorder_lock:
            self._change(_recorder=recorder, _trouble="")

    def stop_recording(self) -> Path | None:
        """Finish the volume; return its path, or None if nothing is recorded."""
        with self._recorder_lock:
            recorder = self._recorder
            if recorder is None:
                return None
            self._change(_recorder=None)
        recorder.close()
        return recorder.path

    def _change(self, **values: Any) -> None:
        """Set fields and let everyone who waits look again."""
        with self._changed:
            for name, value in values.items():
                setattr(self, name, value)
            self._version += 1
            self._changed.notify_all()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            message = str(error) or type(error).__name__
            self._change(failure=error, _phase="failed", _message=message)

    def _read(self) -> None:
        """Put frame after frame into the slot, each at its time."""
        clock = _FileClock(self) if not self._source.live else None
        shift = next_time = Fraction(0)
        while True:
            last = shift
            for frame in self._source:
                frame = dataclasses.replace(frame, time=frame.time + shift)
                last = frame.time
                if self._halted:
                    return
                if frame.time < next_time:
                    continue
                if self._interval:  # in step with the wanted rate, whatever the source's
                    next_time = max(next_time + self._interval, frame.time)
                if clock is None:
                    self._offer(frame)
                elif not clock.hand_over(frame):
                    return
            if self._halted:
                return
            ended = self._source.ended
            if self._reopen is None:
                break
            self._source.close()
            self._source = self._reopen()
            shift = last + 1 / self._source.rate
        self._ended = ended

    def _offer(self, frame: Frame) -> None:
        item = (frame, time.monotonic())
        if self._paused or self._phase == "starting":
            self._slot.replace(item)  # nobody is late while nobody takes
        else:
            self._slot.put(item)

    def _compute(self) -> None:
        """Segment the newest frame, again and again."""
        compile_ahead()
        segmenter = Segmenter(self._params)
        self._warm_up()
        self._change(_phase="running")
        while not self._halted:
            with self._changed:
                free = self._changed.wait_for(
                    lambda: self._halted or self._steps or not self._paused, _POLL
                )
            ended = self._ended
            taken = self._slot.take(_POLL) if free else None
            if taken is None:
                if ended is not None and self._phase == "running":
                    self._change(_phase="ended", _message=ended)
                continue
            begun = time.monotonic()
            frame, captured = taken
            if self._paused:  # it was waited for
                captured = begun
            result = self._segment(segmenter, frame)
            self._publish(frame, result, captured)
            if self._governor is not None and result.stats["warm"]:  # a cut is no trend
                now = time.monotonic()
                self._quality = self._governor.note(now - begun, now)

    def _segment(self, segmenter: Segmenter, frame: Frame) -> FrameSegmentation:
        """Segment one frame with the quality there is."""
        segmenter.params = self._quality.applied(self._params)
        return segmenter.step(frame.rgb, float(frame.time))

    def _publish(self, frame: Frame, result: FrameSegmentation, captured: float) -> None:
        self.memory.add(result)
        with self._recorder_lock:
            if self._recorder is not None:
                try:
                    self._recorder.put(frame, result)
                except AaamsError as error:
                    self._change(_recorder=None, _trouble=str(error))
        now = time.monotonic()
        with self._changed:
            number = self._newest.number + 1 if self._newest else 1
            self._finished.append(now)
            self._change(
                _newest=LiveFrame(number, frame, result, captured, now),
                _steps=max(self._steps - 1, 0),
            )

    def _warm_up(self) -> None:
        """Load or compile the kernels before the first frame is taken."""
        from aaams_stream.source.demo import demo_frame

        trial = Segmenter(self._params)
        for index in range(3):
            if self._halted:
                return
            trial.step(demo_frame(8 * index).rgb[::2, ::2].copy())


class _FileClock:
    """Hands the frames of a file over at their presentation times; it stops with the loop."""

    def __init__(self, loop: LiveLoop) -> None:
        self._loop = loop
        self._begin: float | None = None  # monotonic time at which time 0 is due

    def hand_over(self, frame: Frame) -> bool:
        """Wait for the frame's time and offer it; False if the loop was stopped."""
        loop, at = self._loop, float(frame.time)
        with loop._changed:
            while not loop._halted:
                now = time.monotonic()
                if loop._paused or loop._phase == "starting":
                    break
                if self._begin is None or now - (self._begin + at) > _LATE:
                    self._begin = now - at
                if self._begin + at <= now:
                    loop._offer(frame)
                    return True
                loop._changed.wait(self._begin + at - now)
        while not loop._halted:
            if loop._slot.put_after((frame, time.monotonic()), _POLL):
                self._begin = time.monotonic() - at  # the clock goes on from this frame
                return not loop._halted
        return False

"""The live loop: a reader, a slot in which the newest frame wins, threads that compute.

The reader takes frames as a camera sends them, or from a file at their presentation times. The
newest goes through the stages of `run/stages.py` with the quality the governor allows, a thread
each, and is published; no stage holds more than one frame. None of them waits for those who look
on.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, NamedTuple, Self, TypeVar

from aaams_stream.core.describe import Labelled, describe
from aaams_stream.core.live_levels import LiveLevels
from aaams_stream.core.prepare import Prepared, Preparer
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.threads import thread_count
from aaams_stream.jit import tell_progress
from aaams_stream.live.board import Board, LiveFrame, Status
from aaams_stream.live.clock import SYSTEM_CLOCK, Clock
from aaams_stream.live.following import Following
from aaams_stream.live.history import History
from aaams_stream.live.quality import LADDER, Governor, Quality, ladder_for
from aaams_stream.live.reader import Reader
from aaams_stream.live.recorder import Recordings
from aaams_stream.live.slot import Captured, FrameSlot
from aaams_stream.run.threads import prefetch
from aaams_stream.run.warmup import warm_following, warm_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from aaams_stream.core.roi import Roi
    from aaams_stream.live.reader import FrameSource
    from aaams_stream.live.recorder import Limits
    from aaams_stream.params import Params

Made = TypeVar("Made")

_GETTING_READY = 2.0  # seconds that a click waits for compiled code
_POLL = 0.1  # seconds between looks whether frames go on
# seconds a stopped thread is waited for; one stuck in a read is left alone, soon if likely
_PATIENCE, _IF_DEAF = 2.0, 0.1
_SILENT = 1.5  # seconds without a frame that are worth a word
_FASTEST = 60.0  # frames a second: a rate beyond is a mistake of the source


class LiveLoop:
    """Segments `source` on threads of its own, from `start` (or `with`) to `close`.

    source: it is closed with the loop. reopen: opens it again when it has ended, for ever; times
    go on growing. fps: at most so many frames are taken a second, and quality gives way until as
    many are segmented (None: the source's rate; 0: take all, never give way). clock: what every
    time here is told by. roi: what of each frame is segmented.
    """

    def __init__(
        self,
        source: FrameSource,
        params: Params,
        *,
        fps: float | None = None,
        reopen: Callable[[], FrameSource] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        roi: Roi | None = None,
    ) -> None:
        self.description = source.description
        self.width, self.height = source.width, source.height
        self.clock = clock
        self.history = History()
        self.following = Following()
        self.past = (0, 0)  # numbers of the frames that viewers may look at again: see `past.py`
        self._levels = LiveLevels((self.height, self.width), params)
        self._depth = 1 if thread_count() > 1 else 0  # frames a stage may be ahead of the next
        self._source = source
        self._roi = roi
        self._params = params
        self._quality = LADDER[0]
        self._governor: Governor[Quality] | None = None
        if fps is None or fps > 0:
            rate = min(float(source.rate), _FASTEST) if fps is None else fps
            self._governor = Governor(1 / rate, ladder_for(params))
        interval = 1 / Fraction(fps).limit_denominator(1000) if fps else Fraction(0)
        self._slot = FrameSlot(clock)
        self._board = Board(clock)
        self._quiet = max(_SILENT, 3 / float(source.rate))
        self._recordings = Recordings()
        self._reader = Reader(source, self._slot, interval=interval, reopen=reopen)
        self._warmed = threading.Event()  # what following takes is compiled
        self._began = 0.0  # when the first frame was asked for
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
            for name, work in (
                ("live-read", self._reader.run),
                ("live-compute", self._compute),
                ("live-warm", self._warm),
            )
        ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin to read and to segment."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop for good; a recording under way is finished. A second time does nothing."""
        self._slot.close()
        self._board.close()
        self._reader.stop()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                deaf = self._source.remote and thread is self._threads[0]
                thread.join(_IF_DEAF if deaf else _PATIENCE)
        try:
            self._recordings.close()
        finally:
            self._reader.close()

    @property
    def failure(self) -> BaseException | None:
        """What ended a thread."""
        return self._board.failure

    @property
    def status(self) -> Status:
        """How it is going just now."""
        shown, recording = self._board.newest, self._recordings.current
        silent, waiting_for = self._silence(shown)
        return Status(
            phase=self._board.phase,
            message=self._board.message,
            fps=self._board.fps,
            latency=shown.finished - shown.captured if shown else 0.0,
            segments=len(shown.segmentation.segments) if shown else 0,
            warm=float(shown.segmentation.stats["warm"]) if shown else 0.0,
            dropped=self._slot.dropped,
            quality=self._quality.name,
            wanted=self._params.stream.segments,
            paused=self._slot.paused,
            recording=recording.path.name if recording else None,
            recorded=recording.frames if recording else 0,
            trouble=self._recordings.trouble,
            silent=silent,
            waiting_for=waiting_for,
            objects=self._objects(shown),
            past=self.past,
            age=self.clock.now() - shown.captured if shown else 0.0,
        )

    def _silence(self, shown: LiveFrame | None) -> tuple[float, str]:
        """Return for how long no frame has come that should have, and from where."""
        if self._board.phase != "running" or self._slot.paused or self._board.closed:
            return 0.0, ""
        now = self.clock.now()
        if now - self._slot.since > self._quiet:
            return now - self._slot.since, "source"
        # frames come in, and none goes out
        begun = max(self._began, shown.finished if shown else 0.0)
        if now - begun > 2 * self._quiet:
            return now - begun, "segmenter"
        return 0.0, ""

    def _objects(self, shown: LiveFrame | None) -> list[dict[str, object]]:
        if shown is None or shown.scene is None:
            return []
        trails = self.following.trails()
        return [
            {
                "number": one.number,
                "state": one.state,
                "sure": round(one.sure, 3),
                "area": one.area,
                "box": one.box,
                "trail": trails.get(one.number, []),
            }
            for one in shown.scene.sightings
        ]

    def _warm(self) -> None:
        """Have compiled what following takes, so that no click holds up the picture."""
        warm_following()
        self._warmed.set()

    def follow(self, ids: list[int]) -> int:
        """Follow segments of the newest frame as one object, for all to see; return its number."""
        if not self._warmed.wait(_GETTING_READY):
            raise ValueError("following is being compiled, once; try again in half a minute")
        with self.following.lock:
            number = self.following.begin(ids)
            self._board.amend(self.following.scene)
            return number

    def correct(self, number: int, ids: list[int], *, inside: bool) -> None:
        """Say of segments of the newest frame that they belong to an object, or do not."""
        with self.following.lock:
            self.following.correct(number, ids, inside=inside)
            self._board.amend(self.following.scene)

    def let_go(self, number: int) -> None:
        """Follow an object no longer."""
        with self.following.lock:
            self.following.end(number)
            self._board.amend(self.following.scene)

    @property
    def version(self) -> int:
        """Counts what happens."""
        return self._board.version

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener` called whenever something happens; it must be quick."""
        self._board.listen(listener)

    def recent(self, number: int) -> LiveFrame | None:
        """Return a frame of the last few; the newest if that one is gone."""
        return self._board.recent(number)

    def wait(self, version: int, timeout: float) -> tuple[int, LiveFrame | None]:
        """Wait until something is newer than `version`; return the version and newest frame."""
        return self._board.wait(version, timeout)

    def frames(self) -> Iterator[LiveFrame]:
        """Yield the newest frame, again and again, to the end of the source.

        Who takes long over one misses others. What ended the loop is raised here.
        """
        version = number = 0
        while not self._board.closed:
            ended = self._board.phase == "ended"  # asked first: the last frame may come meanwhile
            version, shown = self.wait(version, _POLL)
            if self.failure is not None:
                raise self.failure
            if shown is not None and shown.number > number:
                number = shown.number
                yield shown
            elif ended:
                return

    def pause(self) -> None:
        """Keep the picture as it is; a file's clock stops, a camera's frames go unseen."""
        self._slot.pause()
        self._board.touch()

    def resume(self) -> None:
        """Go on after a pause."""
        self._slot.resume()
        self._board.touch()

    def step(self) -> None:
        """Pause, and let one more frame through."""
        self._slot.step()
        self._board.touch()

    def want(self, segments: int) -> None:
        """Ask for about so many segments a frame, from the next frame on."""
        self._params = self._params.updated({"stream": {"segments": segments}})
        self._board.touch()

    def record(self, path: Path, *, with_video: bool = False, limits: Limits | None = None) -> None:
        """Begin to write every segmented frame to a new volume; one under way is finished.

        limits: when the recording ends by itself.
        """
        from aaams_stream.store import Header

        source = self._source
        header = Header(
            width=source.width,
            height=source.height,
            rate=source.rate,
            time_base=source.time_base,
            spec=source.spec,
            fingerprint=None,  # a stretch of a live stream cannot be read again
            selection={},
            configuration=self._params.to_dict(),
            with_video=with_video,
            roi=None if self._roi is None else self._roi.to_text(),
        )
        self._recordings.begin(path, header, limits)
        self._board.touch()

    def stop_recording(self) -> Path | None:
        """Finish the volume; return its path, or None if nothing is recorded."""
        path = self._recordings.stop()
        self._board.touch()
        return path

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._board.fail(error)

    def _compute(self) -> None:
        """Segment the newest frame, again and again; this thread does the last of the stages."""
        board = weakref.ref(self._board)  # listeners stay for as long as the process

        def tell(done: int, kernels: int) -> None:
            if (told := board()) is not None and told.phase == "starting":
                told.enter("starting", f"compiling: {done} of {kernels} parts are ready")

        tell_progress(tell)
        warm_stream(should_stop=lambda: self._slot.closed)
        segmenter = Segmenter(self._params, roi=self._roi)
        self._began = self.clock.now()
        self._slot.open()
        self._board.enter("running")
        over = threading.Event()
        prepared = prefetch(self._prepare(), self._depth, should_stop=over.is_set)
        labelled = prefetch(
            self._label(prepared, segmenter), self._depth, stop=over.set, first=True
        )
        with closing(labelled) as frames:
            for frame in frames:
                self._show(frame)
        if not self._slot.closed:
            self._board.enter("ended", self._slot.ended)

    def _prepare(self) -> Generator[_InWork[Prepared]]:
        """Take the newest frame, and prepare it for the quality there is."""
        preparer = Preparer(self._params, roi=self._roi)
        while (taken := self._slot.take()) is not None:
            begun = self.clock.now()
            quality = self._quality
            preparer.params = quality.applied(self._params)
            prepared = preparer.prepare(taken.frame.rgb, float(taken.frame.time))
            yield _InWork(taken, quality.name, prepared, (self.clock.now() - begun,))

    def _label(
        self, frames: Generator[_InWork[Prepared]], segmenter: Segmenter
    ) -> Generator[_InWork[Labelled]]:
        with closing(frames):
            for taken, quality, prepared, busy in frames:
                begun = self.clock.now()
                labelled = segmenter.label(prepared)
                yield _InWork(taken, quality, labelled, (*busy, self.clock.now() - begun))

    def _show(self, frame: _InWork[Labelled]) -> None:
        """Publish a frame, and let the governor choose the quality of those to come."""
        begun = self.clock.now()
        result = describe(frame.made)
        self.history.add(result)
        self._recordings.put(frame.taken.frame, result, frame.quality)
        self._levels.update(result)
        merges = self._levels.merges()
        if self._governor is not None and result.stats["warm"]:  # a cut is no trend
            now = self.clock.now()
            busy = (*frame.busy, now - begun)
            # side by side, the stage that takes longest sets the pace
            self._quality = self._governor.note(max(busy) if self._depth else sum(busy), now)
        with self.following.lock:
            scene = self.following.step(frame.taken.frame, result)
            self._board.publish(frame.taken, result, merges, scene)


class _InWork(NamedTuple, Generic[Made]):
    """A frame on its way through the stages."""

    taken: Captured
    quality: str
    made: Made
    busy: tuple[float, ...]  # seconds in each stage so far

"""Source to segmenter to volume: a thread each, bounded queues between.

The calling thread computes: numba's parallel kernels must all be called from one. Decoding runs
ahead of it by a few frames and looks for motion, which needs no labels; writing follows behind.
"""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aaams_stream import __version__
from aaams_stream.errors import SinkError, SourceError
from aaams_stream.model import Clip, Frame, FrameSegmentation
from aaams_stream.params import Params, resolve
from aaams_stream.run.threads import Behind, prefetch

AHEAD, BEHIND = 3, 4  # frames decoded in advance, frames waiting to be written
INTERRUPTED = "interrupted"
# Between commits. One takes 0.2 s of processor time at 640x480, because it writes the last, partial
# chunk of every column once more; a crash loses what came after it.
COMMIT_SECONDS = 10.0
_SMOOTH = 0.1  # weight of the newest frame in the speed shown
_UNSTEADY = 2  # frames at the start that say nothing of the pace: they load or compile kernels


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    frames: int  # in the volume or on their way there
    total: int | None  # an estimate
    fps: float | None  # of late; None until there is a pace
    segments: int
    warm: float  # share of pixels taken over from the frame before
    seconds_left: float | None
    stopping: bool = False  # Ctrl-C was pressed; the chunk at hand is being finished


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run left behind."""

    store: Path
    frames: int  # in the volume
    resumed_from: int  # frames that were there before
    width: int
    height: int
    complete: bool
    ended: str  # how the source ended: "complete", "damaged: …", "interrupted"
    seconds: float
    fps: float
    segments: float  # mean per frame of this run
    identities: int
    events: int
    size: int  # bytes on disk
    warnings: tuple[str, ...]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after the volume was brought to a valid end; `summary` tells what it holds."""

    def __init__(self, summary: Summary) -> None:
        super().__init__(f"{summary.store}: {summary.frames} frames")
        self.summary = summary


def segment_video(
    source: str | Path,
    store: str | Path,
    params: Params | str | Path | None = None,
    *,
    segments: int | None = None,
    start: float | Fraction | None = None,
    duration: float | Fraction | None = None,
    every: int = 1,
    size: tuple[int, int] | None = None,
    with_video: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    overlay: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Segment a video into the Zarr volume `store`.

    source, start, duration, every, size: see `Clip`. segments: the wanted number
    per frame, instead of the settings'. with_video: store the frames too. resume: continue a
    volume that is not complete, or begin one. overwrite: replace a volume. overlay: an MP4 to
    write beside it. progress: called after every frame.

    The first Ctrl-C finishes the chunk at hand and raises `Interrupted`; a second one stops at
    once, and the volume ends at its last commit. Either way it can be resumed.
    """
    from aaams_stream import store as stores
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.core.state import SegmenterState
    from aaams_stream.draw.video import check_video_target
    from aaams_stream.jit import compile_ahead
    from aaams_stream.source import local_file, open_source

    clip = Clip(start, duration, every, size)
    settings = resolve(params)
    if segments is not None:
        settings = settings.updated({"stream": {"segments": segments}})
    path = Path(store).expanduser()
    film_path = None if overlay is None else Path(overlay).expanduser()
    begun = time.monotonic()
    with ExitStack() as stack:
        # first the source: a wrong name must not cost an existing volume
        frames = stack.enter_context(open_source(source, clip))
        header = stores.Header(
            width=frames.width,
            height=frames.height,
            rate=frames.rate,
            time_base=frames.time_base,
            spec=frames.spec,
            fingerprint=frames.fingerprint,
            selection=clip.to_record(),
            configuration=settings.to_dict(),
            with_video=with_video,
        )
        # what can go wrong with the film does so before a volume is begun or replaced
        saved = film = None
        if film_path is not None:
            apart = {"source": local_file(source), "volume": path}
            check_video_target(film_path, overwrite or resume, **apart)
        if resume and stores.is_volume(path):
            writer, saved = stores.resume(path, header, __version__)
        else:
            if film_path is not None:
                film = stack.enter_context(_film(film_path, header, overwrite or resume))
            writer = stores.create(path, header, __version__, overwrite=overwrite)
        stack.callback(writer.release)
        tally = _Tally(writer.frames, frames.frame_estimate, progress)
        interrupted = False
        if not writer.complete:
            try:
                state = None if saved is None else SegmenterState.from_arrays(saved)
            except ValueError as error:
                raise SinkError(f"{path}: {error}; --overwrite begins anew") from None
            frames.skip(writer.frames)
            compile_ahead()
            interrupted = _run(frames, Segmenter(settings, state=state), writer, film, tally)
    if film_path is not None and film is None and not interrupted:
        render_volume(path, film_path, source=source, overwrite=True)  # its beginning was missing
    summary = tally.summary(path, time.monotonic() - begun, tuple(frames.warnings))
    if interrupted:
        raise Interrupted(summary)
    return summary


def stream(
    source: str | Path,
    params: Params | str | Path | None = None,
    *,
    segments: int | None = None,
    start: float | Fraction | None = None,
    duration: float | Fraction | None = None,
    every: int = 1,
    size: tuple[int, int] | None = None,
) -> Generator[FrameSegmentation]:
    """Segment a source live: yield each frame as it is done, with its picture.

    Takes what `segment_video` takes, and stores nothing. Never looks ahead. Decoding runs in a
    thread of its own, which ends with the generator.
    """
    from aaams_stream.core.flow import with_flow
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.jit import compile_ahead
    from aaams_stream.source import open_source

    segmenter = Segmenter(params, segments=segments)
    compile_ahead()
    with open_source(source, Clip(start, duration, every, size)) as frames:
        seen = with_flow(frames, segmenter.params)
        with closing(prefetch(seen, AHEAD, stop=frames.stop)) as pictures:
            for frame, hint in pictures:
                result = segmenter.step(frame.rgb, float(frame.time), hint)
                yield dataclasses.replace(result, rgb=frame.rgb)


def replay(volume: Any, source: str | Path | None = None) -> Generator[FrameSegmentation]:
    """Yield the frames of a volume as `stream` would have, with their pictures.

    The pictures come from `source` if given, else from the volume if they are stored there, else
    from where the volume was made.
    """
    with closing(pictures_of(volume, source)) as pictures:
        for t, picture in zip(range(volume.frame_count), pictures, strict=False):
            yield FrameSegmentation(
                index=t,
                time=float(volume.times[t]),
                ids=volume.ids[t],
                segments=volume.segments(t),
                adjacency=volume.adjacency(t),
                events=volume.events_at(t),
                stats={},
                rgb=picture.rgb,
            )


def render_volume(
    store: str | Path,
    output: str | Path,
    *,
    view: str = "boundaries",
    source: str | Path | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Draw a volume over its source as an H.264 film that keeps the source's times.

    The pictures come from `source` if given, else from the volume if they are stored there, else
    from where the volume was made. progress: called with frames done and all. Returns the count.
    """
    from aaams_stream.draw.video import check_video_target
    from aaams_stream.draw.views import draw_view
    from aaams_stream.source import local_file
    from aaams_stream.store import open_volume

    volume = open_volume(store)
    path = Path(output).expanduser()
    origin = local_file(volume.source if source is None else source)
    check_video_target(path, overwrite, source=origin, volume=volume.path)
    total = volume.frame_count
    if not total:
        raise SinkError(f"{volume.path}: holds no frames yet; --resume goes on with it")
    done = 0
    with _film(path, volume.header, overwrite) as film:
        with closing(pictures_of(volume, source)) as pictures:
            for t, picture in zip(range(total), pictures, strict=False):
                film.add(draw_view(picture.rgb, volume.ids[t], view), picture.time)
                done = t + 1
                if progress is not None:
                    progress(done, total)
        if done < total:
            raise SourceError(
                f"{source or volume.source}: ended after {done} frames of {total}; name the "
                "pictures the volume was made from with --source"
            )
    return done


def pictures_of(volume: Any, source: str | Path | None) -> Generator[Frame]:
    """Yield the frames a volume was made from."""
    from aaams_stream.source import open_source

    header = volume.header
    if source is None and volume.video is not None:
        for index, seconds in enumerate(volume.times):
            when = round(Fraction(float(seconds)) / header.time_base) * header.time_base
            rgb = np.ascontiguousarray(volume.video[index].transpose(1, 2, 0))
            yield Frame(index, when, rgb)
        return
    clip = Clip(**{**header.selection, "size": (volume.width, volume.height)})
    try:
        opened = open_source(header.spec if source is None else source, clip)
    except SourceError as error:
        if source is not None:
            raise
        raise SourceError(f"{error}; the volume was made from it: name it with --source") from error
    with opened as frames:
        if source is None and frames.fingerprint != header.fingerprint:
            raise SourceError(
                f"{header.spec}: has changed since the volume was made; name the right file with "
                "--source"
            )
        with closing(prefetch(frames, AHEAD, stop=frames.stop)) as stream:
            yield from stream


def _film(path: Path, header: Any, overwrite: bool) -> Any:
    from aaams_stream.draw.video import VideoWriter

    size = (header.width, header.height)
    return VideoWriter(
        path, size, rate=header.rate, time_base=header.time_base, overwrite=overwrite
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """One frame on its way to the volume, with the state after it where a commit is due."""

    frame: Frame
    segmentation: FrameSegmentation
    state: Any = None


def _run(frames: Any, segmenter: Any, writer: Any, film: Any, tally: _Tally) -> bool:
    """Segment `frames` to their end or to Ctrl-C; return whether it was Ctrl-C."""
    from aaams_stream.core.flow import with_flow
    from aaams_stream.draw.views import draw_view
    from aaams_stream.store import CHUNK_FRAMES

    def write(item: _Written) -> None:
        frame, segmentation = item.frame, item.segmentation
        writer.append(segmentation, float(frame.time), frame.rgb)
        if item.state is not None:
            writer.commit(item.state.to_arrays())
        if film is not None:
            film.add(draw_view(frame.rgb, segmentation.ids), frame.time)

    interrupted = False
    tally.start()
    last_commit = time.monotonic()
    with _CtrlC() as ctrl_c, Behind(write, BEHIND) as sink:

        def give_up() -> bool:
            nonlocal interrupted
            interrupted = frames.live and ctrl_c.pressed
            return interrupted

        seen = with_flow(frames, segmenter.params)
        with closing(prefetch(seen, AHEAD, stop=frames.stop, give_up=give_up)) as stream:
            for frame, hint in stream:
                segmentation = segmenter.step(frame.rgb, float(frame.time), hint)
                whole = (frame.index + 1) % CHUNK_FRAMES == 0
                stopping = ctrl_c.pressed  # once: a press from here on counts with the next frame
                due = stopping or time.monotonic() - last_commit >= COMMIT_SECONDS
                state = None
                if whole and due:
                    last_commit, state = time.monotonic(), segmenter.state
                sink.put(_Written(frame, segmentation, state))
                tally.add(frame.index + 1, segmentation, stopping)
                if stopping and (whole or frames.live):
                    interrupted = True
                    break
    if not interrupted:
        writer.finish(frames.ended)
    elif frames.live:  # which has no other end and cannot be resumed
        writer.finish(INTERRUPTED)
    return interrupted


class _CtrlC:
    """Notes the first Ctrl-C and lets the second one through. Only the main thread gets any."""

    def __init__(self) -> None:
        self.pressed = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True


class _Tally:
    """Counts what a run does, and reports it."""

    def __init__(
        self, done: int, total: int | None, progress: Callable[[Progress], None] | None
    ) -> None:
        self.resumed_from = done
        self._total = total
        self._progress = progress
        self._frames = done
        self._segments = 0
        self._pace: float | None = None  # seconds a frame, of late
        self.start()

    def start(self) -> None:
        """Start the clock: kernels may have been compiled meanwhile, which says nothing of pace."""
        self._begun = self._last = time.monotonic()

    def add(self, frames: int, segmentation: FrameSegmentation, stopping: bool) -> None:
        """Count one more frame."""
        now = time.monotonic()
        took, self._last = now - self._last, now
        if self._frames - self.resumed_from >= _UNSTEADY:
            self._pace = took if self._pace is None else self._pace + _SMOOTH * (took - self._pace)
        self._frames = frames
        self._segments += len(segmentation.segments)
        if self._progress is None:
            return
        pace, left = self._pace, None
        if self._total is not None and (pace is not None or frames >= self._total):
            left = max(0, self._total - frames) * (pace or 0.0)
        self._progress(
            Progress(
                frames=frames,
                total=self._total,
                fps=None if pace is None else 1 / max(pace, 1e-9),
                segments=len(segmentation.segments),
                warm=float(segmentation.stats.get("warm", 0.0)),
                seconds_left=left,
                stopping=stopping,
            )
        )

    def summary(self, path: Path, seconds: float, warnings: tuple[str, ...]) -> Summary:
        """Tell what the volume holds now."""
        from aaams_stream.store import open_volume

        volume = open_volume(path)
        here = self._frames - self.resumed_from
        events = volume.events
        return Summary(
            store=path,
            frames=volume.frame_count,
            resumed_from=self.resumed_from,
            width=volume.width,
            height=volume.height,
            complete=volume.complete,
            ended=volume.ended,
            seconds=seconds,
            fps=here / max(self._last - self._begun, 1e-9),
            segments=self._segments / max(here, 1),
            identities=_largest(volume, events),
            events=len(events),
            size=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
            warnings=warnings,
        )


def _largest(volume: Any, events: NDArray[Any]) -> int:
    """Return the largest id given out: ids grow from 1 and are never used again."""
    largest = int(events["id"].max(initial=0))
    if volume.frame_count:
        largest = max(largest, int(volume.segments(-1)["id"].max(initial=0)))
    return largest

"""Source to segmenter to volume: a thread each, bounded queues between.

The calling thread decides labels, alone: each frame needs the one before. Decoding and what else
needs no labels runs ahead of it by a few frames; what only reads them, and writing, follows behind.
"""

from __future__ import annotations

import logging
import math
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from aaams_stream import __version__
from aaams_stream import store as stores
from aaams_stream.core.threads import thread_count
from aaams_stream.draw.video import check_video_target
from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.model import Clip, Frame
from aaams_stream.params import Params
from aaams_stream.run.interrupt import Stopped, noting_stop
from aaams_stream.run.progress import Progress, Tally, missed_count
from aaams_stream.run.render import render_volume
from aaams_stream.run.sink import COMMIT_SECONDS, MARKS, VolumeSink, open_film
from aaams_stream.run.stages import prepare_frames
from aaams_stream.run.threads import AHEAD, BEHIND, AsyncSink, prefetch
from aaams_stream.source import INTERRUPTED, local_file, open_source

if TYPE_CHECKING:
    from aaams_stream.core.describe import Labelled
    from aaams_stream.core.roi import Roi
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.core.state import SegmenterState
    from aaams_stream.source import Source

_log = logging.getLogger(__name__)
_SILENCE = 0.3  # seconds after Ctrl-C in which an address must bring another frame


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be segmented, how, and where it goes."""

    source: str | Path
    store: stores.Target
    params: Params = field(default_factory=Params)
    clip: Clip = field(default_factory=Clip)
    with_video: bool = False
    resume: bool = False
    overwrite: bool = False
    overlay: Path | None = None  # a film beside the volume
    at: int | None = None  # groups a frame in the film; None: the boundaries of segments
    roi: Roi | None = None  # what of each frame is segmented; None: all of it


def _never(*_: object) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Span:
    """Which frames of a source a run is about, if not all: one part of several.

    The volume of a part counts frames and ids from its own beginning.
    """

    begin: int = 0  # number of the first frame
    marks: NDArray[Any] | None = None  # by which a seek leads there, as `Source.start_at` takes it
    # whether the part ends before a frame, given its number and whether the scene changes with it
    ends: Callable[[int, Callable[[], bool]], bool] = _never
    should_stop: Callable[[], bool] = _never  # asked after every frame, as Ctrl-C is heard
    ended: str = "part"  # what the volume then says of how its source ended


WHOLE = Span()


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run left behind."""

    store: Path | str  # an address
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
    size: int  # bytes it takes up
    warnings: tuple[str, ...]


class Interrupted(Stopped):
    """Ctrl-C or its like, after the volume was brought to a valid end.

    `summary` tells what it holds, `code` the exit code that is expected of a program.
    """

    def __init__(self, summary: Summary, number: int) -> None:
        super().__init__(number, f"{summary.store}: {summary.frames} frames")
        self.summary = summary


def run_job(
    job: Job,
    progress: Callable[[Progress], None] | None = None,
    *,
    commit_seconds: float = COMMIT_SECONDS,
    span: Span = WHOLE,
) -> Summary:
    """Segment a video in one pass, as `segment_video` promises.

    commit_seconds: lie between two commits; span: a part of the video, if not all of it.
    """
    begun = time.monotonic()
    if job.at is not None and (job.overlay is None or job.at < 1):
        raise ConfigError(f"--at {job.at} must be >= 1 and needs --overlay, the film it is about")
    with ExitStack() as stack:
        # first the source: a wrong name must not cost an existing volume
        frames = stack.enter_context(open_source(job.source, job.clip))
        if job.roi is not None:
            job.roi.require_size((frames.height, frames.width))
        # what may fall silent is waited for on another thread, so that Ctrl-C is heard meanwhile
        beside = thread_count() > 1 or frames.live or frames.remote
        header = header_of(job, frames)
        # what can go wrong with the film does so before a volume is begun or replaced
        saved = film = None
        replace = job.overwrite or job.resume
        if job.overlay is not None:
            if job.at is not None and frames.fingerprint is None and not job.with_video:
                raise ConfigError(
                    f"{frames.spec} cannot be read again for a film with --at; add --with-video"
                )
            folder = job.store if isinstance(job.store, Path) else None
            check_video_target(job.overlay, replace, source=local_file(job.source), volume=folder)
        if job.resume and stores.is_volume(job.store):
            writer, saved = stores.resume(job.store, header, __version__)
        else:
            if job.overlay is not None and job.at is None:
                film = stack.enter_context(open_film(job.overlay, header, replace))
            writer = stores.create(job.store, header, __version__, overwrite=job.overwrite)
        stack.callback(writer.release)
        tally = Tally(writer.frames, frames.frame_estimate, progress)
        _log.info(
            "%s: %dx%d, into %s from frame %d on",
            *(frames.spec, frames.width, frames.height, job.store, writer.frames),
        )
        stopped = 0  # by which signal
        if not writer.complete:
            segmenter = _segmenter(job, saved)
            frames.start_at(span.begin + writer.frames, (saved or {}).get(MARKS, span.marks))
            sink = VolumeSink(writer, film, lambda count: frames.marks(span.begin + count))
            depths = (AHEAD, BEHIND) if beside else (0, 0)
            stopped = _segment(frames, segmenter, sink, tally, depths, commit_seconds, span)
    if job.overlay is not None and film is None and (frames.live or not stopped):
        draw_film(job, job.overlay)
    for warning in (missed := missed_count(job.params, tally.segments)):
        _log.warning("%s: %s", job.store, warning)
    warnings = (*frames.warnings, *missed)
    summary = summarise(job.store, tally, time.monotonic() - begun, warnings)
    _log.info("%s: %d frames, %s", job.store, summary.frames, frames.ended)
    if stopped:
        raise Interrupted(summary, stopped)
    return summary


def draw_film(job: Job, path: Path) -> None:
    """Draw the film of a volume that is there: its beginning was missing, or it is of groups."""
    volume = stores.open_volume(job.store)
    source = None if job.with_video else job.source
    if job.at is None:
        render_volume(volume, path, source=source, overwrite=True)
    else:
        seen = volume.at(segments=job.at)
        render_volume(seen, path, view="objects", source=source, overwrite=True)


def header_of(job: Job, frames: Source) -> stores.Header:
    """Return what the volume of a job is about."""
    return stores.Header(
        width=frames.width,
        height=frames.height,
        rate=frames.rate,
        time_base=frames.time_base,
        spec=frames.spec,
        fingerprint=frames.fingerprint,
        selection=frames.clip.to_record(),
        configuration=job.params.to_dict(),
        with_video=job.with_video,
        roi=None if job.roi is None else job.roi.to_text(),
    )


def _segmenter(job: Job, saved: Mapping[str, NDArray[Any]] | None) -> Segmenter:
    """Return a segmenter, new or with the state that was saved with a volume."""
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.core.state import SegmenterState
    from aaams_stream.jit import compile_ahead

    compile_ahead()
    try:
        state = None if saved is None else SegmenterState.from_arrays(saved)
    except ValueError as error:
        raise SinkError(f"{job.store}: {error}; --overwrite begins anew") from None
    return Segmenter(job.params, state=state, roi=job.roi)


@dataclass(frozen=True, slots=True)
class _Segmented:
    """One frame on its way to the volume, with the state after it where a commit is due."""

    frame: Frame
    labelled: Labelled
    state: SegmenterState | None


def _segment(
    frames: Source,
    segmenter: Segmenter,
    sink: VolumeSink,
    tally: Tally,
    depths: tuple[int, int],
    commit_seconds: float,
    span: Span,
) -> int:
    """Segment `frames` to their end, or until a signal asks to end; return its number, or 0.

    depths: how many frames the thread before and the one behind may be apart, 0 for none.
    """
    from aaams_stream.core.describe import describe

    def write(item: _Segmented) -> None:
        sink.append(item.frame, describe(item.labelled), item.state)

    stopped, silent_since = 0, math.inf
    over = False
    tally.start()
    last_commit = time.monotonic()
    with noting_stop() as stop, AsyncSink(write, depths[1]) as behind:

        def should_stop() -> bool:
            """Say whether to wait no longer for a frame."""
            nonlocal stopped, silent_since
            if stop.asked and frames.live:
                stopped = stop.number
            elif stop.asked and frames.remote:  # the chunk at hand may never be finished
                silent_since = min(silent_since, time.monotonic())
                if time.monotonic() - silent_since > _SILENCE:
                    raise Stopped(stop.number)
            return bool(stopped)

        seen = prepare_frames(frames, segmenter.params, segmenter.roi)
        ahead = prefetch(
            seen, depths[0], stop=frames.stop, should_stop=should_stop, deaf=frames.remote
        )
        with closing(ahead) as stream:
            for frame, prepared in stream:
                silent_since = math.inf
                if span.ends(frame.index, partial(segmenter.sees_scene_change, prepared)):
                    over = True
                    break
                labelled = segmenter.label(prepared)
                whole = (frame.index - span.begin + 1) % stores.CHUNK_FRAMES == 0
                # once: a signal from here on counts with the next frame
                asked = stop.number or span.should_stop() * signal.SIGTERM
                due = asked or time.monotonic() - last_commit >= commit_seconds
                state = None
                if whole and due:
                    last_commit, state = time.monotonic(), segmenter.state
                behind.put(_Segmented(frame, labelled, state))
                tally.add(labelled.count, labelled.explained, bool(asked))
                if asked and (whole or frames.live):
                    stopped = asked
                    break
    if not stopped:
        sink.finish(span.ended if over else frames.ended)
    elif frames.live:  # which has no other end and cannot be resumed
        sink.finish(INTERRUPTED)
    return stopped


class Pace(Protocol):
    """How fast a run was."""

    @property
    def resumed_from(self) -> int:
        """Frames that were there before."""

    @property
    def fps(self) -> float:
        """Frames a second."""

    @property
    def segments(self) -> float:
        """Segments a frame."""


def summarise(
    path: stores.Target, tally: Pace, seconds: float, warnings: tuple[str, ...]
) -> Summary:
    """Tell what the volume holds now."""
    volume = stores.open_volume(path)
    counts = volume.counts
    return Summary(
        store=path if isinstance(path, Path) else str(path),
        frames=volume.frame_count,
        resumed_from=tally.resumed_from,
        width=volume.width,
        height=volume.height,
        complete=volume.complete,
        ended=volume.ended,
        seconds=seconds,
        fps=tally.fps,
        segments=tally.segments,
        identities=counts.identities,
        events=sum(counts.events.values()),
        size=stores.size_of(path) or 0,
        warnings=warnings,
    )

"""Source to segmenter to volume: a thread each, bounded queues between.

The calling thread decides labels, alone: each frame needs the one before. Decoding and what else
needs no labels runs ahead of it by a few frames; what only reads them, and writing, follows behind.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from aaams_stream import __version__
from aaams_stream import store as stores
from aaams_stream.core.threads import thread_count
from aaams_stream.draw.video import check_video_target
from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.model import Clip, Frame, Timecode
from aaams_stream.params import Params, resolve
from aaams_stream.paths import expanded
from aaams_stream.run.interrupt import Stopped, noting_stop
from aaams_stream.run.progress import Progress, Tally
from aaams_stream.run.render import render_volume
from aaams_stream.run.sink import MARKS, VolumeSink, open_film
from aaams_stream.run.stages import prepare_frames
from aaams_stream.run.threads import AHEAD, BEHIND, AsyncSink, prefetch
from aaams_stream.source import INTERRUPTED, local_file, open_source

if TYPE_CHECKING:
    from aaams_stream.core.describe import Labelled
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.core.state import SegmenterState
    from aaams_stream.source import Source

_log = logging.getLogger(__name__)
# Between commits. One takes 0.2 s of processor time at 640x480, because it writes the last, partial
# chunk of every column once more; a crash loses what came after it.
COMMIT_SECONDS = 10.0
MET_SHARE = 0.8  # of the segments wanted, below which somebody who asked for them is told
_SILENCE = 0.3  # seconds after Ctrl-C in which an address must bring another frame


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be segmented, how, and where it goes."""

    source: str | Path
    store: Path
    params: Params = field(default_factory=Params)
    clip: Clip = field(default_factory=Clip)
    with_video: bool = False
    resume: bool = False
    overwrite: bool = False
    overlay: Path | None = None  # a film beside the volume
    at: int | None = None  # groups a frame in the film; None: the boundaries of segments


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


class Interrupted(Stopped):
    """Ctrl-C or its like, after the volume was brought to a valid end.

    `summary` tells what it holds, `code` the exit code that is expected of a program.
    """

    def __init__(self, summary: Summary, number: int) -> None:
        super().__init__(number, f"{summary.store}: {summary.frames} frames")
        self.summary = summary


def segment_video(
    source: str | Path,
    store: str | Path,
    params: Params | str | Path | None = None,
    *,
    segments: int | None = None,
    start: float | Fraction | Timecode | None = None,
    duration: float | Fraction | Timecode | None = None,
    every: int = 1,
    size: tuple[int, int] | None = None,
    with_video: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    overlay: str | Path | None = None,
    at: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Segment a video into the Zarr volume `store`.

    The first Ctrl-C finishes the chunk at hand and raises `Interrupted`, and so do SIGTERM and
    SIGHUP where the program has no handler of its own; another Ctrl-C stops at once, and the volume
    ends at its last commit. Either way it can be resumed.

    Args:
        source: a file, a folder or pattern of images, `camera:N`, an address, `-` or `demo`.
        store: the volume to write; a folder.
        params: settings, a path to a TOML file or the name of a set; None for the defaults.
        segments: the wanted number per frame, instead of the settings'.
        start: seconds from the first frame at which to begin.
        duration: seconds of the source to segment.
        every: keep each n-th frame.
        size: width and height to scale the frames to.
        with_video: store the frames too.
        resume: continue a volume that is not complete, or begin one.
        overwrite: replace a volume.
        overlay: an MP4 to write beside it.
        at: the overlay shows about so many groups a frame in colours; it is drawn when all frames
            are there.
        progress: called after every frame.

    Returns:
        What the run left behind.

    Raises:
        ConfigError: settings or arguments are wrong.
        SourceError: the source cannot be opened.
        SinkError: the volume is there already, or cannot be written.
        Interrupted: Ctrl-C or a signal, after the volume was brought to a valid end.

    Example:
        >>> import aaams_stream as aaams
        >>> summary = aaams.segment_video("demo", "demo.zarr", duration=0.25, size=(160, 120))
        >>> summary.frames, summary.complete
        (6, True)
    """
    settings = resolve(params)
    if segments is not None:
        settings = settings.updated({"stream": {"segments": segments}})
    job = Job(
        source=source,
        store=expanded(store),
        params=settings,
        clip=Clip(start, duration, every, size),
        with_video=with_video,
        resume=resume,
        overwrite=overwrite,
        overlay=None if overlay is None else expanded(overlay),
        at=at,
    )
    return run_job(job, progress)


def run_job(
    job: Job,
    progress: Callable[[Progress], None] | None = None,
    *,
    commit_seconds: float = COMMIT_SECONDS,
) -> Summary:
    """Do what `segment_video` promises; `commit_seconds` lie between two commits."""
    begun = time.monotonic()
    if job.at is not None and (job.overlay is None or job.at < 1):
        raise ConfigError(f"--at {job.at} must be >= 1 and needs --overlay, the film it is about")
    with ExitStack() as stack:
        # first the source: a wrong name must not cost an existing volume
        frames = stack.enter_context(open_source(job.source, job.clip))
        # what may fall silent is waited for on another thread, so that Ctrl-C is heard meanwhile
        beside = thread_count() > 1 or frames.live or frames.remote
        header = _header(job, frames)
        # what can go wrong with the film does so before a volume is begun or replaced
        saved = film = None
        replace = job.overwrite or job.resume
        if job.overlay is not None:
            if job.at is not None and frames.fingerprint is None and not job.with_video:
                raise ConfigError(
                    f"{frames.spec} cannot be read again for a film with --at; add --with-video"
                )
            check_video_target(
                job.overlay, replace, source=local_file(job.source), volume=job.store
            )
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
            frames.start_at(writer.frames, (saved or {}).get(MARKS))
            sink = VolumeSink(writer, film, frames.marks)
            depths = (AHEAD, BEHIND) if beside else (0, 0)
            stopped = _segment(frames, segmenter, sink, tally, depths, commit_seconds)
    if job.overlay is not None and film is None and (frames.live or not stopped):
        _draw_film(job, job.overlay)
    warnings = (*frames.warnings, *_missed_count(job.params, tally))
    summary = _summary(job.store, tally, time.monotonic() - begun, warnings)
    _log.info("%s: %d frames, %s", job.store, summary.frames, frames.ended)
    if stopped:
        raise Interrupted(summary, stopped)
    return summary


def _missed_count(params: Params, tally: Tally) -> tuple[str, ...]:
    """Say once where far fewer segments were found than somebody asked for."""
    wanted, found = params.stream.segments, tally.segments
    if wanted == Params().stream.segments or not 0 < found < MET_SHARE * wanted:
        return ()
    finer = "; stream.scale=1 shows more" if params.stream.scale < 1 else ""
    return (
        f"{wanted} segments a frame were wanted, and {found:.0f} found: the picture shows no more "
        f"at its size{finer}",
    )


def _draw_film(job: Job, path: Path) -> None:
    """Draw the film of a volume that is there: its beginning was missing, or it is of groups."""
    volume = stores.open_volume(job.store)
    source = None if job.with_video else job.source
    if job.at is None:
        render_volume(volume, path, source=source, overwrite=True)
    else:
        seen = volume.at(segments=job.at)
        render_volume(seen, path, view="objects", source=source, overwrite=True)


def _header(job: Job, frames: Source) -> stores.Header:
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
    return Segmenter(job.params, state=state)


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
) -> int:
    """Segment `frames` to their end, or until a signal asks to end; return its number, or 0.

    depths: how many frames the thread before and the one behind may be apart, 0 for none.
    """
    from aaams_stream.core.describe import describe

    def write(item: _Segmented) -> None:
        sink.append(item.frame, describe(item.labelled), item.state)

    stopped, silent_since = 0, math.inf
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

        seen = prepare_frames(frames, segmenter.params)
        ahead = prefetch(seen, depths[0], stop=frames.stop, should_stop=should_stop)
        with closing(ahead) as stream:
            for frame, prepared in stream:
                silent_since = math.inf
                labelled = segmenter.label(prepared)
                whole = (frame.index + 1) % stores.CHUNK_FRAMES == 0
                asked = stop.number  # once: a signal from here on counts with the next frame
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
        sink.finish(frames.ended)
    elif frames.live:  # which has no other end and cannot be resumed
        sink.finish(INTERRUPTED)
    return stopped


def _summary(path: Path, tally: Tally, seconds: float, warnings: tuple[str, ...]) -> Summary:
    """Tell what the volume holds now."""
    volume = stores.open_volume(path)
    counts = volume.counts
    return Summary(
        store=path,
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
        size=stores.size_on_disk(path),
        warnings=warnings,
    )

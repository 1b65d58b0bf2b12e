"""Films in parts, from the first task to the volume that is complete."""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from aaams_stream import __version__
from aaams_stream import store as stores
from aaams_stream.cluster.engines import Engine, News, Outcome, TaskError
from aaams_stream.cluster.film import Film, remove_parts
from aaams_stream.cluster.part import require_folder
from aaams_stream.cluster.plan import Request, Survey, local_store
from aaams_stream.draw.video import check_video_target
from aaams_stream.errors import AaamsError, ConfigError, SinkError, SourceError
from aaams_stream.run.interrupt import noting_stop
from aaams_stream.run.progress import Progress, missed_count
from aaams_stream.run.segment_video import (
    Interrupted,
    Job,
    Summary,
    draw_film,
    header_of,
    summarise,
)
from aaams_stream.source import local_file, open_source

LEAD = 12  # frames by which stretches overlap; with more, ids go on no better
_POLL = 0.2  # seconds between looks at what there is to do
_PATIENCE = 60.0  # seconds for parts to finish the chunk at hand after Ctrl-C
_SMOOTH = 0.2  # of the pace


def prepare(job: Job, stretch: float | Fraction | None = None, spacing: int | None = None) -> Film:
    """Open what a film comes from and goes to; what can go wrong with them does so here.

    stretch: seconds after which a part ends; None: parts end with scenes. spacing: frames that lie
    between two beginnings at least.
    """
    check_overlay(job)
    store = local_store(job)
    with open_source(job.source, job.clip) as frames:
        if frames.fingerprint is None:
            raise SourceError(
                f"{frames.spec}: cannot be read a second time, as parts are; save it to a file"
            )
        header = header_of(job, frames)
        length = 0
        if stretch is not None:
            length = _length(stretch, header.rate)
            header = dataclasses.replace(header, stretch=float(stretch))
        if job.overlay is not None:
            check_video_target(job.overlay, True, source=local_file(job.source), volume=store)
        job = dataclasses.replace(job, source=frames.spec, store=store.resolve())
    said = json.dumps({**header.to_record(), "version": __version__}, sort_keys=True)
    request = Request(job, said, length=length, lead=LEAD if length else 0)
    if spacing is not None:
        request = dataclasses.replace(request, spacing=spacing)
    resumed = stores.is_volume(job.store) and not job.overwrite
    if resumed:
        writer, _ = stores.resume(job.store, header, __version__)
        if writer.frames and not writer.complete:
            writer.release()
            raise SinkError(
                f"{job.store}: was begun in one pass; go on without --dask, by --resume, or use "
                "--overwrite"
            )
    else:
        writer = stores.create(job.store, header, __version__, overwrite=job.overwrite)
    try:
        known = Survey.load(request.folder)
        if writer.complete or job.overwrite or (known is not None and known.header != said):
            remove_parts(request)
        if not writer.complete:
            require_folder(request)
        film = Film(request, writer)
        film.complete = writer.complete
    except BaseException:
        writer.release()
        raise
    return film


def check_overlay(job: Job) -> None:
    """Raise a ConfigError for a film of groups that is not wanted."""
    if job.at is not None and (job.overlay is None or job.at < 1):
        raise ConfigError(f"--at {job.at} must be >= 1 and needs --overlay, the film it is about")


def _length(stretch: float | Fraction, rate: Fraction) -> int:
    """Return the frames of a stretch."""
    if not isinstance(stretch, numbers.Real) or not math.isfinite(stretch):
        raise ConfigError(f"stretch must be a number of seconds, got {stretch!r}")
    length = round(Fraction(stretch) * rate)
    least = 2 * LEAD
    if not length >= least:
        raise ConfigError(
            f"--stretch must be at least {least} frames ({float(least / rate):.3g} s), got "
            f"{float(stretch):g} s"
        )
    return length


@dataclass(slots=True)
class Pace:
    """How fast frames come, of all films and workers together."""

    resumed_from: int = 0
    segments: float = 0.0
    frames: int = 0
    _begun: float = dataclasses.field(default_factory=time.monotonic)
    _last: float = dataclasses.field(default_factory=time.monotonic)
    _rate: float | None = None

    @property
    def fps(self) -> float:
        """Frames a second since the beginning."""
        return (self.frames - self.resumed_from) / max(time.monotonic() - self._begun, 1e-9)

    @property
    def lately(self) -> float | None:
        """Frames a second of late; None before there is anything to say."""
        return self._rate

    def note(self, frames: int) -> None:
        """Note how many frames there are now."""
        now = time.monotonic()
        if now - self._last < 1.0:
            return
        rate = max(0, frames - self.frames) / (now - self._last)
        self._rate = rate if self._rate is None else self._rate + _SMOOTH * (rate - self._rate)
        self.frames, self._last = frames, now


@dataclass(slots=True)
class Standing:
    """A film under way, and what is told of it."""

    film: Film
    pace: Pace
    begun: float
    latest: Progress | None = None
    error: BaseException | None = None
    stopped: int = 0  # by which signal


def run_films(
    films: Iterable[Film],
    engine: Engine,
    watch: Callable[[Sequence[Standing]], None] = lambda standings: None,
    standings: list[Standing] | None = None,
    at_once: int = 1,
) -> list[Standing]:
    """Do all that is to be done for films; what becomes of each is told in its standing.

    Films are taken as there is room, `at_once` under way. The first Ctrl-C, and the like, has parts
    finish the chunk at hand; they can be gone on with. standings: filled in with those that are
    returned, for who hears of progress by another way.
    """
    standings = [] if standings is None else standings
    try:
        _run(iter(films), engine, watch, standings, at_once)
    finally:
        for standing in standings:
            standing.film.writer.release()
    return standings


def _run(
    films: Iterator[Film],
    engine: Engine,
    watch: Callable[[Sequence[Standing]], None],
    standings: list[Standing],
    at_once: int,
) -> None:
    until = float("inf")
    active: dict[int, Standing] = {}
    with noting_stop() as stop:
        while True:
            active = {n: s for n, s in active.items() if not s.film.complete and s.error is None}
            while len(active) < at_once and not stop.asked:
                film = next(films, None)
                if film is None:
                    break
                standing = Standing(film, Pace(), time.monotonic())
                standings.append(standing)
                if not film.complete:
                    number = len(standings) - 1
                    active[number] = standing
                    for task in film.begin():
                        engine.submit(number, task)
            if stop.asked and until == float("inf"):
                until = time.monotonic() + _PATIENCE
                for standing in active.values():
                    standing.stopped = stop.number
                    standing.film.stop()
            if not active or time.monotonic() > until or (stop.asked and not engine.busy()):
                engine.drop()
                watch(standings)
                return
            for number, standing in active.items():
                if not stop.asked:
                    _advance(number, standing, engine)
            try:
                outcomes, news = engine.wait(_POLL)
            except Interrupted as stopped:  # a part that was segmented here
                for standing in active.values():
                    standing.stopped = stopped.number
                engine.drop()
                return
            for told in news:
                hear(standings[told.film], told)
            for outcome in outcomes:
                _take(standings[outcome.film], outcome, engine)
            watch(standings)


def _advance(number: int, standing: Standing, engine: Engine) -> None:
    film = standing.film
    try:
        film.passed()
        for task in film.next():
            engine.submit(number, task)
    except AaamsError as error:
        _give_up(number, standing, engine, error)


def _take(standing: Standing, outcome: Outcome, engine: Engine) -> None:
    if standing.error is not None:
        return
    if outcome.error is None:
        standing.film.take(outcome.task, outcome.result)
        return
    error = outcome.error
    if not isinstance(error, AaamsError):
        task, film = outcome.task, standing.film.request.job
        what = f"the part from frame {task.number} on" if task.kind == "part" else task.kind
        text = str(error)
        if not isinstance(error, TaskError):
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        error = SinkError(
            f"{film.store}: {what} failed on every worker that tried ({text}); what is done is "
            "kept: run the same again to go on"
        )
        error.__cause__ = outcome.error
    _give_up(outcome.film, standing, engine, error)


def _give_up(number: int, standing: Standing, engine: Engine, error: BaseException) -> None:
    """Leave a film as it is; the others go on."""
    standing.error = error
    standing.film.stop()
    engine.drop(number)


def hear(standing: Standing, told: News) -> None:
    """Note how far a part is."""
    film, progress = standing.film, told.progress
    film.frames[told.begin] = progress.frames
    standing.latest = progress
    standing.pace.segments += _SMOOTH * (progress.segments - standing.pace.segments)


def progress_of(standing: Standing, workers: int) -> Progress:
    """Return how a film stands, as a meter shows it."""
    film, latest = standing.film, standing.latest
    standing.pace.note(film.done)
    done, known = film.parts
    fps = standing.pace.lately
    left = None
    if fps and film.total:
        left = max(0, film.total - film.done) / fps
    return Progress(
        frames=film.done,
        total=film.total,
        fps=fps,
        segments=0 if latest is None else latest.segments,
        warm=0.0 if latest is None else latest.warm,
        seconds_left=left,
        stopping=bool(standing.stopped),
        note=f"{done} of {known}{'' if film.survey.complete else ' or more'} parts, "
        f"{workers} worker{'' if workers == 1 else 's'}",
    )


def finish_film(standing: Standing, warnings: Sequence[str] = ()) -> Summary:
    """Return what became of a film that is complete; draw it if that is wanted."""
    film, job = standing.film, standing.film.request.job
    if job.overlay is not None:
        draw_film(job, job.overlay)
    volume = stores.open_volume(job.store)
    standing.pace.frames = volume.frame_count
    standing.pace.segments = volume.row_count("segments") / max(volume.frame_count, 1)
    seen = (*film.survey.warnings, *missed_count(job.params, standing.pace.segments))
    seconds = time.monotonic() - standing.begun
    return summarise(job.store, standing.pace, seconds, (*warnings, *seen))


def stopped_film(standing: Standing) -> Interrupted:
    """Return what is raised for a film that was stopped: its parts can be gone on with."""
    store = standing.film.request.job.store
    seconds = time.monotonic() - standing.begun
    summary = summarise(store, standing.pace, seconds, ())
    with suppress(OSError):
        standing.film.request.stop_sign().unlink()
    return Interrupted(summary, standing.stopped)

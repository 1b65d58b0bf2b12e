"""Many videos in parts: workers take parts of several at a time, the longest first."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from aaams_stream.cluster.connect import prepare_workers, require_workers
from aaams_stream.cluster.engines import DaskEngine, Engine, News, SerialEngine
from aaams_stream.cluster.film import Film
from aaams_stream.cluster.run import (
    Standing,
    finish_film,
    hear,
    prepare,
    progress_of,
    run_films,
)
from aaams_stream.errors import AaamsError
from aaams_stream.run import batch
from aaams_stream.run.batch import Outcome, complete_frames, weight_of
from aaams_stream.run.progress import Progress
from aaams_stream.run.videos import Task
from aaams_stream.source import COMPLETE

if TYPE_CHECKING:
    from distributed import Client

_SPARE = 4  # films under way beside one for every worker: the last part of one keeps nobody waiting


def run_batch_in_parts(
    tasks: Sequence[Task],
    client: Client | None,
    stretch: float | Fraction | None = None,
    watch: Callable[[batch.Standing], None] = lambda standing: None,
) -> list[Outcome]:
    """Do all tasks on the workers of a cluster or, without a client, here; return all outcomes.

    What is complete is left alone, as `run_batch` does, and a film that fails is an outcome like
    others.
    """
    return _Batch(tasks, client, stretch, watch).run()


class _Batch:
    """The films under way, and what the others came to."""

    def __init__(
        self,
        tasks: Sequence[Task],
        client: Client | None,
        stretch: float | Fraction | None,
        watch: Callable[[batch.Standing], None],
    ) -> None:
        self._tasks = tasks
        self._client = client
        self._stretch = stretch
        self._watch = watch
        self._begun = time.monotonic()
        self._outcomes: dict[int, Outcome] = {}
        self._standings: list[Standing] = []
        self._task_of: list[int] = []  # by standing
        self._warnings: tuple[str, ...] = ()
        self._stopping = 0

    def run(self) -> list[Outcome]:
        with ExitStack() as stack:
            engine: Engine
            if self._client is None:
                engine = SerialEngine(self._hear)
            else:
                self._warnings = tuple(prepare_workers(self._client, []))
                engine = stack.enter_context(closing(DaskEngine(self._client)))
            self._engine = engine
            at_once = engine.workers + _SPARE if self._client is not None else 1
            run_films(self._films(), engine, self._settle, self._standings, at_once)
        self._settle(self._standings)
        waiting = (self._outcome(i, batch.WAITING) for i in range(len(self._tasks)))
        return [self._outcomes.get(i, other) for i, other in enumerate(waiting)]

    def _films(self) -> Iterator[Film]:
        """Yield films as there is room for them, the longest first."""
        weights = [weight_of(task.job.source) for task in self._tasks]
        for index in sorted(range(len(self._tasks)), key=lambda i: -weights[i]):
            film = self._prepared(index)
            if film is not None:
                self._task_of.append(index)
                yield film

    def _prepared(self, index: int) -> Film | None:
        job = self._tasks[index].job
        try:
            frames = complete_frames(job) if self._stretch is None else None
            if frames is not None:
                self._note(index, batch.SKIPPED, frames=frames, note="already complete")
                return None
            film = prepare(job, self._stretch)
            try:
                if self._client is not None and not film.complete:
                    require_workers(self._client, [film.request])
            except BaseException:
                film.writer.release()
                raise
            return film
        except AaamsError as error:
            self._note(index, batch.FAILED, note=str(error))
        except Exception as error:  # whatever it is, the others must not pay for it
            note = f"{job.source}: {type(error).__name__}: {error}"
            self._note(index, batch.FAILED, note=note, trace=traceback.format_exc())
        return None

    def _hear(self, news: News) -> None:
        hear(self._standings[news.film], news)
        self._tell()

    def _settle(self, standings: Sequence[Standing]) -> None:
        """Note what became of films that have come to an end."""
        for number, standing in enumerate(standings):
            index = self._task_of[number]
            if index in self._outcomes:
                continue
            seconds = time.monotonic() - standing.begun
            self._stopping = self._stopping or standing.stopped
            if standing.error is not None:
                self._note(index, batch.FAILED, note=str(standing.error), seconds=seconds)
            elif standing.film.complete:
                self._finish(index, standing)
            elif standing.stopped and not self._engine.busy(number):
                self._note(index, batch.INTERRUPTED, seconds=seconds)
        self._tell()

    def _finish(self, index: int, standing: Standing) -> None:
        try:
            summary = finish_film(standing, self._warnings)
        except AaamsError as error:  # of the film that is drawn
            self._note(index, batch.FAILED, note=str(error))
            return
        self._note(
            index,
            batch.DONE,
            frames=summary.frames,
            fps=summary.fps,
            seconds=summary.seconds,
            note="" if summary.ended == COMPLETE else summary.ended,
            warnings=summary.warnings,
        )

    def _tell(self) -> None:
        running: dict[str, Progress | None] = {}
        for number, standing in enumerate(self._standings):
            index = self._task_of[number]
            if index not in self._outcomes:
                running[self._tasks[index].name] = progress_of(standing, self._engine.workers)
        self._watch(
            batch.Standing(
                videos=len(self._tasks),
                running=running,
                outcomes=tuple(self._outcomes.values()),
                seconds=time.monotonic() - self._begun,
                seconds_left=None,
                stopping=self._stopping,
            )
        )

    def _note(self, index: int, status: str, **facts: Any) -> None:
        self._outcomes[index] = self._outcome(index, status, **facts)

    def _outcome(self, index: int, status: str, **facts: Any) -> Outcome:
        name, job = self._tasks[index]
        return Outcome(name, str(job.source), str(job.store), status, **facts)

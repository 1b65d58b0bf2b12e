"""Many videos, several at a time, each in a process of its own.

The processes are plain ones (`run/worker.py`), started anew for every video and never forked,
which numba's threads do not survive. A pool of `concurrent.futures` would be broken as a whole by
one worker that is killed; here that costs its own video alone. Each has a session of its own, so
that a terminal's Ctrl-C reaches the batch and nobody else; closing a worker's standard input asks
it to finish the chunk at hand.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aaams_stream import store as stores
from aaams_stream.core.threads import VARIABLE, available_cores
from aaams_stream.errors import AaamsError, SinkError
from aaams_stream.run.interrupt import noting_stop
from aaams_stream.run.progress import Progress
from aaams_stream.run.segment_video import Job, Summary
from aaams_stream.run.videos import Task
from aaams_stream.run.worker import Failure
from aaams_stream.source import COMPLETE, fingerprint

DONE, RESUMED, SKIPPED = "done", "resumed", "skipped"  # skipped: was complete already
FAILED, INTERRUPTED, WAITING = "failed", "interrupted", "waiting"  # waiting: not begun

_POLL = 0.1  # seconds between looks at Ctrl-C while no worker has anything to say
_SIGKILL = 9  # which Windows has no name for
_UNREAD = 16  # answers in memory; workers that are ahead of them wait


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one video."""

    name: str
    source: str
    store: str
    status: str
    frames: int = 0  # in the volume
    seconds: float = 0.0
    fps: float = 0.0
    note: str = ""  # why it failed, or how the source ended
    warnings: tuple[str, ...] = ()
    trace: str = ""  # of a bug; empty where a failure is one the user can do something about


@dataclass(frozen=True, slots=True)
class Standing:
    """How a batch stands."""

    videos: int
    running: Mapping[str, Progress | None]  # by name; None until the first frame
    outcomes: Sequence[Outcome]  # in the order they came
    seconds: float
    seconds_left: float | None  # an estimate, by the sizes of the files
    stopping: int  # the signal at which the chunks at hand are being finished; 0: none came


def run_batch(
    tasks: Sequence[Task],
    jobs: int | None = None,
    watch: Callable[[Standing], None] = lambda standing: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Outcome]:
    """Do all tasks, `jobs` at a time, and return what became of each, in their order.

    jobs: by default as many as there are processors: a frame's way has stages that wait for each
    other, so that two jobs of one thread each do more than one job of two. The processors are
    shared out evenly, unless AAAMS_THREADS is set. watch: called many times a second.

    What is complete is left alone, if it was made from the same source with the same settings. A
    task that fails, or whose process dies, is an outcome like others. The first Ctrl-C finishes the
    chunks at hand, as SIGTERM and SIGHUP do, and another one stops at once; in either case the
    volumes can be resumed.
    """
    return _Batch(tasks, min(jobs or available_cores(), max(len(tasks), 1)), watch, clock).run()


class _Batch:
    """The tasks under way, and what the others came to."""

    def __init__(
        self,
        tasks: Sequence[Task],
        jobs: int,
        watch: Callable[[Standing], None],
        clock: Callable[[], float],
    ) -> None:
        self._tasks = tasks
        self._jobs = jobs
        self._watch = watch
        self._clock = clock
        self._begun = clock()
        self._waiting = deque(range(len(tasks)))
        self._workers: dict[int, _Worker] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._weights = [weight_of(task.job.source) for task in tasks]
        self._left = sum(self._weights)  # weight of what is not begun
        self._work = 0.0  # weight of what was segmented here and is finished
        self._inbox: queue.Queue[tuple[int, object]] = queue.Queue(_UNREAD)
        threads = max(1, available_cores() // jobs)
        self._environment = {
            VARIABLE: str(threads),
            **os.environ,
            "PYTHONPATH": os.pathsep.join(folder or os.getcwd() for folder in sys.path),
        }

    def run(self) -> list[Outcome]:
        try:
            with noting_stop() as stop:
                while self._workers or (self._waiting and not stop.asked):
                    if stop.asked:
                        for worker in self._workers.values():
                            worker.stop()
                    while self._waiting and len(self._workers) < self._jobs and not stop.asked:
                        self._begin(self._waiting.popleft())
                        self._watch(self._standing(stop.number))
                    with suppress(queue.Empty):
                        self._take(*self._inbox.get(timeout=_POLL))
                    self._watch(self._standing(stop.number))
                self._watch(self._standing(stop.number))
        except KeyboardInterrupt:
            pass  # the second one
        finally:
            for worker in self._workers.values():
                worker.kill()
            for index in list(self._workers):
                self._stopped(index)
        return [self._outcomes.get(i) or self._outcome(i, WAITING) for i in range(len(self._tasks))]

    def _begin(self, index: int) -> None:
        """Start a worker, unless there is nothing to do."""
        from aaams_stream.jit import compile_ahead

        job = self._tasks[index].job
        self._left -= self._weights[index]
        try:
            frames = complete_frames(job)
            if frames is not None:
                self._settle(index, SKIPPED, frames=frames, note="already complete")
                return
            compile_ahead()  # once, and not by every worker
            self._workers[index] = _Worker(index, job, self._environment, self._inbox, self._clock)
        except AaamsError as error:
            self._settle(index, FAILED, note=str(error))
        except OSError as error:
            self._settle(index, FAILED, note=f"{job.source}: {error.strerror or error}")
        except Exception as error:  # whatever it is, the others must not pay for it
            note = f"{job.source}: {type(error).__name__}: {error}"
            self._settle(index, FAILED, note=note, trace=traceback.format_exc())

    def _take(self, index: int, answer: object) -> None:
        """Take in what a worker says; None is the last that is heard of it."""
        worker = self._workers[index]
        if isinstance(answer, Progress):
            worker.note(answer)
        elif answer is not None:
            worker.answer = answer
        else:
            self._end(index)

    def _end(self, index: int) -> None:
        worker = self._workers[index]
        code, last_words = worker.wait()
        answer, job = worker.answer, self._tasks[index].job
        if isinstance(answer, Summary):
            self._summed_up(index, answer)
        elif isinstance(answer, Failure):
            self._settle(index, FAILED, note=answer.reason, trace=answer.trace)
        elif code == 130:
            self._settle(index, INTERRUPTED, frames=committed_frames(job.store))
        else:
            self._settle(
                index,
                FAILED,
                frames=committed_frames(job.store),
                note=f"{job.source}: {_told(code)}{last_words}; run the same again to go on",
            )

    def _summed_up(self, index: int, summary: Summary) -> None:
        status = RESUMED if summary.resumed_from else DONE
        self._settle(
            index,
            status if summary.complete else INTERRUPTED,
            frames=summary.frames,
            fps=summary.fps,
            note=summary.ended if summary.complete and summary.ended != COMPLETE else "",
            warnings=summary.warnings,
        )

    def _stopped(self, index: int) -> None:
        """Note a worker that was stopped at once; its volume ends at the last commit."""
        self._workers[index].wait()
        self._settle(index, INTERRUPTED, frames=committed_frames(self._tasks[index].job.store))

    def _settle(self, index: int, status: str, **facts: Any) -> None:
        worker = self._workers.pop(index, None)
        if worker is not None:
            facts["seconds"] = self._clock() - worker.begun
            self._work += self._weights[index] * worker.share
        self._outcomes[index] = self._outcome(index, status, **facts)

    def _outcome(self, index: int, status: str, **facts: Any) -> Outcome:
        name, job = self._tasks[index]
        return Outcome(name, str(job.source), str(job.store), status, **facts)

    def _standing(self, stopping: int) -> Standing:
        running = {self._tasks[i].name: worker.progress for i, worker in self._workers.items()}
        seconds = self._clock() - self._begun
        here = [(self._weights[index], worker) for index, worker in self._workers.items()]
        work = self._work + sum(weight * worker.share for weight, worker in here)
        left = self._left + sum(weight * worker.rest for weight, worker in here)
        return Standing(
            videos=len(self._tasks),
            running=running,
            outcomes=tuple(self._outcomes.values()),
            seconds=seconds,
            seconds_left=None if stopping or not work else seconds * left / work,
            stopping=stopping,
        )


class _Worker:
    """A process that does one job, and the thread that hears what it says."""

    def __init__(
        self,
        index: int,
        job: Job,
        environment: Mapping[str, str],
        inbox: queue.Queue[tuple[int, object]],
        clock: Callable[[], float],
    ) -> None:
        self.begun = clock()
        self.progress: Progress | None = None
        self.answer: object = None
        self._before = 0  # frames that were there at the start
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  until the process has ended
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "aaams_stream.run.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            start_new_session=True,
        )
        self._inbox = inbox
        self._listener = threading.Thread(target=self._listen, args=(index,), daemon=True)
        self._listener.start()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it died; its end will be told
            pickle.dump(job, self._process.stdin)
            self._process.stdin.flush()

    @property
    def share(self) -> float:
        """The share of the video that was segmented here."""
        if self.progress is None or not self.progress.total:
            return 0.0
        return max(0.0, (self.progress.frames - self._before) / self.progress.total)

    @property
    def rest(self) -> float:
        """The share of the video that is still to do."""
        if self.progress is None or not self.progress.total:
            return 1.0
        return max(0.0, 1 - self.progress.frames / self.progress.total)

    def note(self, progress: Progress) -> None:
        """Note how far it is."""
        if self.progress is None:
            self._before = progress.frames - 1
        self.progress = progress

    def stop(self) -> None:
        """Have it finish the chunk at hand."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        while self._listener.is_alive():  # it may wait for room
            with suppress(queue.Empty):
                self._inbox.get(timeout=_POLL)

    def wait(self) -> tuple[int, str]:
        """Wait for the end; return the exit code, and the last line on standard error."""
        self._listener.join()
        self.stop()
        code = self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        with self._errors as errors:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return code, f" ({said[-1]})" if said else ""

    def _listen(self, index: int) -> None:
        assert self._process.stdout is not None
        # whatever half an answer is read as: the process is gone
        with suppress(Exception):
            while True:
                self._inbox.put((index, pickle.load(self._process.stdout)))
        self._inbox.put((index, None))


def complete_frames(job: Job) -> int | None:
    """Return the frames of a volume that is complete, and its film; None if there is work to do.

    A SinkError if it was made from another source, or with other settings.
    """
    if job.overwrite or not stores.is_volume(job.store):
        return None
    volume = stores.open_volume(job.store)
    if not volume.complete:
        return None
    wanted = dataclasses.replace(
        volume.header,
        fingerprint=fingerprint(Path(job.source)),
        selection=job.clip.at_rate(volume.header.rate * job.clip.every).to_record(),
        configuration=job.params.to_dict(),
        with_video=job.with_video,
        roi=None if job.roi is None else job.roi.to_text(),
    )
    stores.require_same(job.store, volume.header, wanted)
    if job.overlay is not None:
        # one that is older was drawn when the volume was not complete
        assert isinstance(job.store, Path)  # as all of a batch
        finished = (job.store / "zarr.json").stat().st_mtime_ns
        if not job.overlay.exists() or job.overlay.stat().st_mtime_ns < finished:
            return None
    return volume.frame_count


def committed_frames(store: stores.Target) -> int:
    """Return how many frames a volume holds, if there is one."""
    try:
        return stores.open_volume(store).frame_count
    except SinkError:
        return 0


def _told(code: int) -> str:
    """Say how a process ended that did not say it itself."""
    if code == -_SIGKILL:
        return "its process was killed, by hand or for want of memory (then try fewer --jobs)"
    reason = signal.strsignal(-code) or f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"its process ended with {reason.lower()}"


def weight_of(source: str | Path) -> float:
    """Return the size of a video, as a measure of the work it is."""
    path = Path(source)
    try:
        return float(stores.size_on_disk(path) if path.is_dir() else path.stat().st_size)
    except OSError:
        return 0.0

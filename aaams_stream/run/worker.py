"""One job in a process of its own, for `run/batch.py`.

    python -P -m aaams_stream.run.worker

Standard input brings a pickled `Job`. Standard output takes, pickled too, a `Progress` after every
frame and at the end a `Summary` or a `Failure`. When standard input ends, the chunk at hand is
finished and the volume left to be resumed, as after Ctrl-C: so a worker outlives neither a batch
that is stopped nor one that was killed.
"""

from __future__ import annotations

import _thread
import os
import pickle
import signal
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aaams_stream.errors import AaamsError
from aaams_stream.run.interrupt import raising_stop

if TYPE_CHECKING:
    from aaams_stream.run.segment_video import Job


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job came to nothing."""

    reason: str  # one line
    trace: str = ""  # of a bug; empty: the user can do something about it


def main() -> None:
    """Run the job that standard input brings."""
    # the end of standard input is told as this signal is, which must not have been ignored before
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with raising_stop():
            _serve()
    except (KeyboardInterrupt, EOFError):  # before there was anything to finish
        sys.exit(130)


def _serve() -> None:
    job = pickle.load(sys.stdin.buffer)
    # a library that prints must not print into the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    threading.Thread(target=_stop_at_the_end_of_input, daemon=True).start()

    def send(answer: object) -> None:
        with suppress(BrokenPipeError):  # the batch is gone; standard input ends too
            pickle.dump(answer, answers)
            answers.flush()

    answer = _run(job, send)
    for number in (signal.SIGINT, signal.SIGTERM):  # nothing is left to be interrupted
        signal.signal(number, signal.SIG_IGN)
    send(answer)


def _run(job: Job, send: Any) -> object:
    from aaams_stream.run.segment_video import Interrupted, run_job

    try:
        return run_job(job, send)
    except Interrupted as stopped:
        return stopped.summary
    except AaamsError as error:
        return Failure(str(error))
    except MemoryError as error:
        return Failure(
            f"{job.source}: there is not enough memory ({error}); try smaller frames or fewer jobs"
        )
    except Exception as error:
        reason = f"{job.source}: {type(error).__name__}: {error}"
        return Failure(" ".join(reason.split()), traceback.format_exc())


def _stop_at_the_end_of_input() -> None:
    # not through sys.stdin, whose lock a waiting thread would hold when Python ends
    while os.read(0, 1):
        pass
    # not as Ctrl-C, of which a second one, from elsewhere, would stop at once
    _thread.interrupt_main(signal.SIGTERM)


if __name__ == "__main__":
    from aaams_stream.run import worker  # what is pickled must not belong to `__main__`

    worker.main()

"""Kills runs with SIGKILL at any moment of the clock, and resumes them to the end.

    python tests/support/kill_by_clock.py CLIP FOLDER COUNT SEED [real]

Commits come in the shipped rhythm, by a clock that runs faster, so that a short clip has as many
as a long one. Kills COUNT times, some of them a run that was resumed already; runs are plain, with
frames, with a film beside, or both. Prints how many kills there were, how many volumes were
finished after them, and how many of those differ from an unbroken run in any byte or have no whole
film. Each run is a fork of this process, so that imports are paid once; the segmenter is a stand-in
unless the last word asks for the real one.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from aaams_stream.run import segment_video
from aaams_stream.run.segment_video import Job, run_job
from aaams_stream.run.sink import COMMIT_SECONDS
from support import standin
from support.clips import film_times
from support.volumes import files

if sys.argv[5:] == ["real"]:
    from aaams_stream.jit import compile_ahead

    compile_ahead()
else:
    sys.modules.update(standin.modules())

COMMITS = 6  # of an unbroken run, about
MODES = ((False, False), (True, False), (False, True), (True, True))  # frames, film


class Clock:
    """Stands in for `time` where commits are timed."""

    def __init__(self, speed: float) -> None:
        self._speed = speed

    def monotonic(self) -> float:
        """Return seconds that pass `speed` times as fast."""
        return self._speed * time.monotonic()


def run(job: Job, speed: float, dying: float | None = None) -> bool:
    """Run a job in a fork, killed after `dying` seconds; return whether it came to its end."""
    child = os.fork()
    if not child:
        segment_video.time = Clock(speed)  # type: ignore[attr-defined]
        os.setpgid(0, 0)
        run_job(job)
        os._exit(0)
    if dying is not None:
        until = time.monotonic() + dying
        while time.monotonic() < until and not os.waitid(
            os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            time.sleep(min(0.01, dying))
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return False
    assert status == 0, "a run failed"
    return True


def main() -> None:
    """Run, kill, resume, compare."""
    clip, folder = Path(sys.argv[1]), Path(sys.argv[2])
    count, rng = int(sys.argv[3]), random.Random(int(sys.argv[4]))
    expected, took = {}, {}
    for mode in MODES:
        whole = Job(clip, folder / "whole.zarr", with_video=mode[0], overwrite=True)
        for _ in range(2):  # the shorter: the machine may have been busy with something else
            begun = time.monotonic()
            run(whole, 1.0)
            took[mode] = min(took.get(mode, math.inf), time.monotonic() - begun)
        expected[mode] = files(whole.store)
    frames = len(film_times(clip))
    kills = finished = wrong = 0
    while kills < count:
        mode = MODES[finished % len(MODES)]
        target, film = folder / "torn.zarr", folder / "torn.mp4"
        shutil.rmtree(target, ignore_errors=True)
        film.unlink(missing_ok=True)
        overlay = film if mode[1] else None
        job = Job(clip, target, with_video=mode[0], overlay=overlay, resume=True)
        speed = COMMITS * COMMIT_SECONDS / took[mode]
        for _ in range(rng.choice((1, 1, 2, 3))):
            kills += not run(job, speed, rng.uniform(0, took[mode]))
        run(job, speed)
        finished += 1
        shown = overlay is None or len(film_times(film)) == frames
        if files(target) != expected[mode] or not shown:
            wrong += 1
            print(f"after {kills} kills: {mode} differs, film {shown}", file=sys.stderr)
    print(kills, finished, wrong)


if __name__ == "__main__":
    main()

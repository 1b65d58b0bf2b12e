"""Kills a run with SIGKILL at its n-th write to disk, again and again, and resumes it.

    python tests/support/kill_and_resume.py CLIP FOLDER COUNT [real]

Kills at COUNT moments spread over all writes of a run, in the middle of a write and between two,
and prints how many resumed volumes differ from an uninterrupted one in any byte of any file. Each
run is a fork of this process, so that imports are paid once. The segmenter is a stand-in unless the
last word asks for the real one.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
import zarr.storage._local as local

from aaams_stream.run.segment_video import Job, run_job
from support import standin
from support.volumes import files

if sys.argv[4:] == ["real"]:
    from aaams_stream.jit import compile_ahead

    compile_ahead()
else:
    sys.modules.update(standin.modules())
put = local._put


def run(clip: Path, target: Path, dying: tuple[int, bool] | None = None) -> int:
    """Segment in a fork that dies at write `dying`; return how many writes there were, or -1."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        os.waitpid(child, 0)
        told = os.read(reading, 100)
        os.close(reading)
        return int(told or -1)
    writes = 0

    def counted(path: Path, value: Any, exclusive: bool = False) -> int:
        nonlocal writes
        writes += 1
        if dying and writes == dying[0]:
            if dying[1]:  # in the middle: half a file under its temporary name
                path.parent.mkdir(parents=True, exist_ok=True)
                half = bytes(value.as_buffer_like())
                path.with_suffix(".0.partial").write_bytes(half[: len(half) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return put(path, value, exclusive)

    local._put = counted
    run_job(Job(clip, target, resume=True, with_video=True), commit_seconds=0.0)
    os.write(writing, str(writes).encode())
    os._exit(0)


def main() -> None:
    """Run, kill, resume, compare."""
    clip, folder, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    whole, torn = folder / "whole.zarr", folder / "torn.zarr"
    writes = run(clip, whole)
    expected = files(whole)
    rng = random.Random(0)
    moments = sorted({*(round(n * writes / count) for n in range(1, count)), 1, writes})
    wrong = 0
    for moment in moments:
        shutil.rmtree(torn, ignore_errors=True)
        died = run(clip, torn, (moment, rng.random() < 0.5)) == -1
        done = run(clip, torn) != -1
        if not (died and done and files(torn) == expected):
            wrong += 1
            print(f"write {moment}: died {died}, finished {done}", file=sys.stderr)
    print(len(moments), writes, wrong)


if __name__ == "__main__":
    main()

"""One job in a process of its own: what it is told, and what it answers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import contextmanager

from support import ROOT
from support.clips import moving_frames, write_clip

from aaams_stream.run.progress import Progress
from aaams_stream.run.segment_video import Job
from aaams_stream.run.worker import Failure
from aaams_stream.store import CHUNK_FRAMES, open_volume

MORE_THAN_A_PIPE_HOLDS = 1000  # answers: a worker ahead of its reader waits before it is through


@contextmanager
def worker(job):
    """Start a worker and hand it a job."""
    command = [sys.executable, "-m", "aaams_stream.run.worker"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    with process:
        if job is not None:
            pickle.dump(job, process.stdin)
            process.stdin.flush()
        yield process
        process.stdin.close()


def answers_of(process):
    """Return all answers that are still to come."""
    answers = []
    try:
        while True:
            answers.append(pickle.load(process.stdout))
    except EOFError:
        return answers


def test_worker_tells_every_frame_and_then_what_it_made(clip, tmp_path):
    with worker(Job(clip, tmp_path / "a.zarr")) as process:
        *frames, summary = answers_of(process)
    assert process.returncode == 0
    assert [at.frames for at in frames] == list(range(1, 38))
    assert all(isinstance(at, Progress) for at in frames)
    assert (summary.frames, summary.complete) == (37, True)
    assert open_volume(tmp_path / "a.zarr").complete


def test_worker_finishes_the_chunk_at_hand_when_its_input_ends(tmp_path):
    clip = write_clip(tmp_path / "a.mkv", moving_frames(MORE_THAN_A_PIPE_HOLDS, 24, 32))
    with worker(Job(clip, tmp_path / "a.zarr")) as process:
        pickle.load(process.stdout)
        process.stdin.close()
        summary = answers_of(process)[-1]
    assert process.returncode == 0
    volume = open_volume(tmp_path / "a.zarr")
    assert not volume.complete
    assert 0 < volume.frame_count == summary.frames < MORE_THAN_A_PIPE_HOLDS
    assert volume.frame_count % CHUNK_FRAMES == 0


def test_worker_outlives_nobody_who_reads_its_answers(tmp_path):
    """As after the end of a batch that was killed: both pipes are gone."""
    clip = write_clip(tmp_path / "a.mkv", moving_frames(MORE_THAN_A_PIPE_HOLDS, 24, 32))
    with worker(Job(clip, tmp_path / "a.zarr")) as process:
        pickle.load(process.stdout)
        process.stdout.close()
        process.stdin.close()
        assert process.wait() == 0
    volume = open_volume(tmp_path / "a.zarr")
    assert not volume.complete
    assert volume.frame_count > 0


def test_worker_without_a_job_ends():
    with worker(None) as process:
        process.stdin.close()
        assert answers_of(process) == []
    assert process.returncode == 130


def test_worker_tells_in_one_line_what_the_user_can_fix(tmp_path):
    (tmp_path / "a.mp4").write_text("no film")
    with worker(Job(tmp_path / "a.mp4", tmp_path / "a.zarr")) as process:
        (failure,) = answers_of(process)
    assert failure == Failure(failure.reason, trace="")
    assert "not a video" in failure.reason
    assert "\n" not in failure.reason


def test_worker_keeps_the_traceback_of_a_bug(clip, tmp_path):
    with worker(Job(clip, tmp_path / "a.zarr", params=None)) as process:
        (failure,) = answers_of(process)
    assert failure.reason.startswith(f"{clip}: AttributeError: ")
    assert failure.trace.startswith("Traceback")

"""Runs that are asked to end, and runs whose output is taken away."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from support import ROOT
from support.clips import moving_frames, write_clip
from support.threads import PATIENCE
from support.volumes import files

from aaams_stream.cluster.door import segment_video
from aaams_stream.errors import SinkError
from aaams_stream.run import batch
from aaams_stream.run.batch import run_batch
from aaams_stream.run.interrupt import Stopped
from aaams_stream.run.segment_video import Interrupted, Job, run_job
from aaams_stream.run.videos import find_videos, plan
from aaams_stream.store import CHUNK_FRAMES, open_volume

POLITE = [signal.SIGTERM] + [signal.SIGHUP] * hasattr(signal, "SIGHUP")


@pytest.mark.parametrize("number", POLITE)
def test_a_run_that_is_asked_to_end_finishes_its_chunk_and_is_resumed(clip, tmp_path, number):
    def ask(progress):
        if progress.frames == 11:
            signal.raise_signal(number)
            signal.raise_signal(number)  # as a closing terminal does

    with pytest.raises(Interrupted) as stopped:
        segment_video(clip, tmp_path / "a.zarr", progress=ask)
    assert (stopped.value.summary.frames, stopped.value.code) == (16, 128 + number)
    segment_video(clip, tmp_path / "a.zarr", resume=True)
    segment_video(clip, tmp_path / "b.zarr")
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


LONG = 1000  # frames: more answers than a pipe holds


@pytest.mark.skipif(os.name != "posix", reason="signals are a POSIX matter")
@pytest.mark.parametrize("number", POLITE)
def test_a_batch_that_is_asked_to_end_finishes_the_chunks_at_hand(tmp_path, monkeypatch, number):
    """Also where a service manager asks every process of it."""
    write_clip(tmp_path / "a.mkv", moving_frames(LONG, 24, 32))
    like = Job("", tmp_path, resume=True)
    tasks = plan(find_videos([tmp_path / "a.mkv"]), tmp_path, like)
    seen, started = [], [os.getpid()]

    class Noted(subprocess.Popen):
        def __init__(self, *args, **words):
            super().__init__(*args, **words)
            started.append(self.pid)

    def watch(standing):
        if not seen and standing.running.get("a.mkv"):
            for pid in started:
                os.kill(pid, number)
        if standing.running.get("a.mkv"):
            seen.append(standing.stopping)

    monkeypatch.setattr(batch.subprocess, "Popen", Noted)
    (outcome,) = run_batch(tasks, jobs=1, watch=watch)
    assert outcome.status == "interrupted"
    assert seen[-1] == number
    volume = open_volume(tmp_path / "a.mkv.zarr")
    assert 0 < volume.frame_count == outcome.frames < LONG
    assert volume.frame_count % CHUNK_FRAMES == 0


COMMAND = """
import os, signal, sys
from support import standin
sys.modules.update(standin.modules())
from aaams_stream.cli import main, options
from aaams_stream.cli.meter import Meter

frame, number = Meter.frame, int(sys.argv.pop(1))

def ask(meter, progress):
    frame(meter, progress)
    if progress.frames == 11:
        os.kill(os.getpid(), number)

Meter.frame = ask
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are a POSIX matter")
@pytest.mark.parametrize("number", [signal.SIGINT, *POLITE])
def test_segment_exits_with_the_code_of_the_signal(clip, tmp_path, number):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    words = ["segment", str(clip), "-o", str(tmp_path / "a.zarr")]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, str(int(number)), *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + number
    assert done.stderr.endswith("a.zarr holds 16 frames; --resume continues\n")
    assert open_volume(tmp_path / "a.zarr").frame_count == 16


def test_ctrl_c_does_not_wait_for_an_address_that_has_fallen_silent(tmp_path, monkeypatch):
    """The chunk at hand would need frames that may never come: the volume ends at its last."""
    from aaams_stream.source.source import Source

    frames = Source.__iter__
    silent, over = threading.Event(), threading.Event()

    def falls_silent(source):
        for frame in frames(source):
            if frame.index == 20:
                silent.set()
                assert over.wait(PATIENCE)
            yield frame

    def press():
        assert silent.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    clip = write_clip(tmp_path / "a.mkv", moving_frames(37))
    opened = Source.__init__

    def remote(source, *arguments, **words):
        opened(source, *arguments, **{**words, "remote": True})

    monkeypatch.setattr(Source, "__init__", remote)
    monkeypatch.setattr(Source, "__iter__", falls_silent)
    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(Stopped) as stopped:
        run_job(Job(clip, tmp_path / "a.zarr"), commit_seconds=0)
    over.set()
    presser.join()
    assert not isinstance(stopped.value, Interrupted)
    # the last frames may have been on their way to the disk
    assert open_volume(tmp_path / "a.zarr").frame_count in (8, 16)


def take_away(how, path):
    if how == "half removed":  # as while `rm -r` is at it
        (path / "zarr.json").unlink()
        shutil.rmtree(path / "labels")
        return
    path.rename(path.with_name("moved.zarr"))
    if how != "renamed":
        shutil.rmtree(path.with_name("moved.zarr"))
        if how == "replaced":
            path.mkdir()
            (path / "mine.txt").touch()


@pytest.mark.parametrize("count", ["1", "2"])
@pytest.mark.parametrize("how", ["removed", "half removed", "renamed", "replaced"])
@pytest.mark.parametrize("moment", [3, 14, 37])  # at which no chunk is on its way to the disk
def test_a_volume_that_is_taken_away_ends_the_run_and_leaves_its_name_free(
    clip, tmp_path, monkeypatch, how, moment, count
):
    def act(progress):
        if progress.frames == moment:
            take_away(how, path)

    monkeypatch.setenv("AAAMS_THREADS", count)
    path = tmp_path / "out" / "a.zarr"
    words = {"overlay": tmp_path / "out" / "a.mp4"}
    with pytest.raises(SinkError, match=r"a\.zarr: was removed or renamed while it was being writ"):
        segment_video(clip, path, progress=act, **words)
    left = sorted(entry.name for entry in path.parent.iterdir())
    assert left == {"renamed": ["moved.zarr"], "replaced": ["a.zarr"]}.get(how, [])
    if how == "replaced":  # what somebody else put there is his
        assert [entry.name for entry in path.iterdir()] == ["mine.txt"]
        return
    segment_video(clip, path)
    if how == "renamed":
        segment_video(clip, path.with_name("moved.zarr"), resume=True)
        assert files(path.with_name("moved.zarr")) == files(path)

"""Many videos at a time, in processes that fail, die and are interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from support.clips import moving_frames, write_clip
from support.volumes import files

from aaams_stream.run import batch
from aaams_stream.run.batch import run_batch
from aaams_stream.run.segment_video import Job
from aaams_stream.run.videos import find_videos, plan
from aaams_stream.store import CHUNK_FRAMES, open_volume

LONG = 1000  # frames: a worker cannot be through before its first answer is heard
SHORT = 12


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Write three clips: two long ones and a short one."""
    folder = tmp_path_factory.mktemp("videos")
    for seed, (name, count) in enumerate([("a.mkv", LONG), ("b.mkv", LONG), ("c.mkv", SHORT)]):
        write_clip(folder / name, moving_frames(count, 24, 32, seed))
    return folder


@pytest.fixture(scope="module")
def one_by_one(videos, tmp_path_factory):
    """Make all volumes one after the other; return their files, and what was seen meanwhile."""
    folder, seen = tmp_path_factory.mktemp("one_by_one"), []
    outcomes = run_batch(tasks(videos, folder), jobs=1, watch=seen.append)
    assert statuses(outcomes) == {"a.mkv": "done", "b.mkv": "done", "c.mkv": "done"}
    return files(folder), seen


@pytest.fixture
def started(monkeypatch):
    """Note the processes that are started, and with which environment."""
    found = []

    class Noted(subprocess.Popen):
        def __init__(self, *args, **words):
            super().__init__(*args, **words)
            found.append((self.pid, words["env"]))

    monkeypatch.setattr(batch.subprocess, "Popen", Noted)
    return found


def tasks(videos, volumes, **changes):
    return plan(find_videos([videos]), Path(volumes), Job("", Path(), resume=True, **changes))


def statuses(outcomes):
    return {outcome.name: outcome.status for outcome in outcomes}


def when_all_are_at_work(names, act):
    """Return a watcher that acts once, when each of these videos has had its first frame."""
    acted = []

    def watch(standing):
        if not acted and all(standing.running.get(name) for name in names):
            acted.append(True)
            act()

    return watch


def test_batch_gives_the_same_bytes_for_any_number_of_jobs(videos, one_by_one, tmp_path):
    seen = []
    outcomes = run_batch(tasks(videos, tmp_path), jobs=3, watch=seen.append)
    assert statuses(outcomes) == {"a.mkv": "done", "b.mkv": "done", "c.mkv": "done"}
    assert [outcome.frames for outcome in outcomes] == [LONG, LONG, SHORT]
    assert max(len(standing.running) for standing in seen) == 3
    assert seen[-1].running == {}
    assert set(seen[-1].outcomes) == set(outcomes)
    assert files(tmp_path) == one_by_one[0]


def test_batch_that_is_interrupted_goes_on_when_it_is_run_again(videos, one_by_one, tmp_path):
    def press():
        signal.raise_signal(signal.SIGINT)

    watch = when_all_are_at_work(["a.mkv", "b.mkv"], press)
    outcomes = run_batch(tasks(videos, tmp_path), jobs=2, watch=watch)
    assert statuses(outcomes) == {
        "a.mkv": "interrupted",
        "b.mkv": "interrupted",
        "c.mkv": "waiting",
    }
    for outcome in outcomes[:2]:
        volume = open_volume(outcome.store)
        assert 0 < volume.frame_count == outcome.frames < LONG
        assert volume.frame_count % CHUNK_FRAMES == 0
    outcomes = run_batch(tasks(videos, tmp_path), jobs=2)
    assert statuses(outcomes) == {"a.mkv": "resumed", "b.mkv": "resumed", "c.mkv": "done"}
    assert files(tmp_path) == one_by_one[0]


def test_batch_stops_at_once_at_the_second_ctrl_c(videos, tmp_path, started):
    def press_twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    watch = when_all_are_at_work(["a.mkv", "b.mkv"], press_twice)
    outcomes = run_batch(tasks(videos, tmp_path), jobs=2, watch=watch)
    assert list(statuses(outcomes).values()) == ["interrupted", "interrupted", "waiting"]
    assert signal.getsignal(signal.SIGINT) is handler
    for pid, _ in started:  # they were waited for: nobody is left
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    for outcome in outcomes[:2]:
        volume = open_volume(outcome.store)
        assert not volume.complete
        assert volume.frame_count == outcome.frames


def test_batch_reports_a_worker_that_was_killed_and_does_the_rest(
    videos, one_by_one, tmp_path, started
):
    def kill():
        os.kill(started[0][0], signal.SIGKILL)

    watch = when_all_are_at_work(["a.mkv"], kill)
    outcomes = run_batch(tasks(videos, tmp_path), jobs=2, watch=watch)
    assert statuses(outcomes) == {"a.mkv": "failed", "b.mkv": "done", "c.mkv": "done"}
    assert "a.mkv: its process was killed" in outcomes[0].note
    assert "fewer --jobs" in outcomes[0].note
    assert outcomes[0].trace == ""
    outcomes = run_batch(tasks(videos, tmp_path), jobs=2)
    assert list(statuses(outcomes).values())[1:] == ["skipped", "skipped"]
    assert files(tmp_path) == one_by_one[0]


def test_batch_goes_on_after_a_file_that_fails(videos, tmp_path):
    shutil.copytree(videos, tmp_path / "videos", ignore=lambda *_: ["a.mkv", "b.mkv"])
    (tmp_path / "videos" / "a.mp4").write_text("no film")
    outcomes = run_batch(tasks(tmp_path / "videos", tmp_path / "out"), jobs=1)
    assert statuses(outcomes) == {"a.mp4": "failed", "c.mkv": "done"}
    assert "not a video" in outcomes[0].note


@pytest.fixture
def short(videos, tmp_path):
    """Return a folder with one short video, and one for its volume, which is complete."""
    shutil.copytree(videos, tmp_path / "videos", ignore=lambda *_: ["a.mkv", "b.mkv"])
    assert statuses(run_batch(tasks(tmp_path / "videos", tmp_path))) == {"c.mkv": "done"}
    return tmp_path / "videos", tmp_path


def test_batch_leaves_alone_what_is_complete(short, started):
    before = files(short[1])
    (outcome,) = run_batch(tasks(*short))
    assert (outcome.status, outcome.frames, outcome.note) == ("skipped", 12, "already complete")
    assert started == []
    assert files(short[1]) == before


def test_batch_takes_no_volume_for_complete_that_was_made_otherwise(short, started):
    before = files(short[1])
    (outcome,) = run_batch(tasks(*short, with_video=True))
    assert outcome.status == "failed"
    assert "was begun with with video False and not True; use that, or --overwrite" in outcome.note
    write_clip(short[0] / "c.mkv", moving_frames(SHORT, 24, 32, seed=7))
    (outcome,) = run_batch(tasks(*short))
    assert outcome.status == "failed"
    assert "another source" in outcome.note
    assert started == []
    del before["videos/c.mkv"]
    assert {name: data for name, data in files(short[1]).items() if name in before} == before


def test_batch_draws_a_film_that_is_missing_or_older_than_its_volume(short):
    def run():
        found = find_videos([short[0]])
        like = Job("", Path(), resume=True)
        return run_batch(plan(found, short[1], like, short[1] / "films"))[0].status

    film = short[1] / "films" / "c.mkv.mp4"
    assert run() == "resumed"
    drawn = film.read_bytes()
    assert run() == "skipped"
    film.write_bytes(b"half a film")
    os.utime(film, (0, 0))
    assert run() == "resumed"
    assert len(film.read_bytes()) == len(drawn)


def test_batch_shares_the_processors_among_its_jobs(videos, tmp_path, started, monkeypatch):
    monkeypatch.setattr(batch, "available_cores", lambda: 9)
    monkeypatch.delenv("AAAMS_THREADS", raising=False)
    shutil.copytree(videos, tmp_path / "videos", ignore=lambda *_: ["a.mkv", "b.mkv"])
    shutil.copy(videos / "c.mkv", tmp_path / "videos" / "d.mkv")
    run_batch(tasks(tmp_path / "videos", tmp_path))  # as many jobs as videos, not as processors
    assert [env["AAAMS_THREADS"] for _, env in started] == ["4", "4"]
    monkeypatch.setenv("AAAMS_THREADS", "3")
    (tmp_path / "videos" / "d.mkv").unlink()
    run_batch(tasks(tmp_path / "videos", tmp_path / "again"))
    assert started[-1][1]["AAAMS_THREADS"] == "3"


def test_batch_estimates_what_is_left_by_the_sizes_of_the_files(one_by_one):
    seen = one_by_one[1]
    assert seen[0].seconds_left is None  # nothing is done yet
    assert seen[-1].seconds_left == 0
    first = next(at for at in seen if len(at.outcomes) == 1 and not at.running.get("b.mkv"))
    assert first.seconds_left == pytest.approx(first.seconds, rel=0.3)  # one of two long ones

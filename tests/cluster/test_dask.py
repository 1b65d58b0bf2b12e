"""A film on workers of Dask: the same bytes, whoever dies on the way."""

from __future__ import annotations

import dataclasses
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from distributed import LocalCluster
from support import ROOT
from support.threads import PATIENCE
from support.volumes import files

from aaams_stream import SinkError, SourceError, __version__
from aaams_stream.cluster import door
from aaams_stream.cluster.batch import run_batch_in_parts
from aaams_stream.cluster.connect import connected, own_traits, prepare_workers
from aaams_stream.cluster.engines import DaskEngine, run_task
from aaams_stream.cluster.film import PART, SURVEY, Film, Task
from aaams_stream.cluster.run import prepare, run_films, stopped_film
from aaams_stream.errors import ConfigError
from aaams_stream.run.batch import DONE, FAILED, SKIPPED
from aaams_stream.run.videos import Task as VideoTask
from aaams_stream.store import open_volume

pytestmark = pytest.mark.campaign

SPACING = 8


def run(job, client, watch=lambda standings: None, **options):
    film = prepare(job, **{"spacing": SPACING, **options})
    with closing(DaskEngine(client)) as engine:
        (standing,) = run_films([film], engine, watch)
    return standing


def test_workers_make_the_volume_of_one_pass(job, one_pass, client):
    assert prepare_workers(client, []) == []
    standing = run(job, client)
    assert standing.error is None
    assert files(job.store) == one_pass


def kill_one(client):
    """Kill a worker that is at a part; return whether there was one."""
    pids = client.run(os.getpid)
    for worker, keys in client.processing().items():
        if any("-part-" in str(key) for key in keys):
            os.kill(pids[worker], signal.SIGKILL)
            return True
    return False


def test_killed_workers_cost_nothing_but_their_parts(job, one_pass, client, tmp_path):
    kills, done = [], {}

    def watch(standings):
        (standing,) = standings
        # what is done stays as it is: its files are not written again
        for begin in standing.film._done:
            done.setdefault(begin, files(standing.film.request.part(begin)))
        for begin, known in done.items():
            path = standing.film.request.part(begin)
            assert not path.exists() or files(path) == known
        if standing.latest is not None and len(kills) < 3 and kill_one(client):
            kills.append(time.monotonic())
            standing.latest = None

    standing = run(job, client, watch)
    assert standing.error is None
    assert kills
    assert files(job.store) == one_pass
    client.wait_for_workers(2, timeout=PATIENCE)  # those that were killed come back


def test_ctrl_c_cancels_and_the_same_goes_on(job, one_pass, client):
    pressed = []

    def watch(standings):
        if standings[0].latest is not None and not pressed:
            pressed.append(1)
            signal.raise_signal(signal.SIGINT)

    standing = run(job, client, watch)
    assert standing.stopped == signal.SIGINT
    assert stopped_film(standing).code == 130
    assert not open_volume(job.store).complete
    standing = run(job, client)
    assert standing.error is None
    assert files(job.store) == one_pass


CLIENT = """
import sys
from aaams_stream.cluster import plan
plan.SPACING = {spacing}
plan.Request.__dataclass_fields__["spacing"].default = plan.SPACING
plan.Request.__init__.__defaults__ = (plan.SPACING, 0, 0)
from aaams_stream.cli import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


def command(job, *more, spacing=SPACING):
    words = ["-c", CLIENT.format(spacing=spacing), "segment", str(job.source), "-o", str(job.store)]
    settings = ["--set", "stream.segments=16", "--set", "stream.refresh=7", "--with-video"]
    return [sys.executable, *words, *settings, "--json", *more]


def test_a_client_that_is_killed_can_be_run_again(job, one_pass):
    parts = job.store.with_name("film.zarr.parts")
    first = subprocess.Popen(command(job, "--dask", "local:1"), cwd=ROOT, start_new_session=True)
    deadline = time.monotonic() + PATIENCE
    while not any(_is_complete(path) for path in parts.glob("*.zarr")):
        assert time.monotonic() < deadline
        assert first.poll() is None
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert not open_volume(job.store).complete
    done = {path.name: files(path) for path in parts.glob("*.zarr") if _is_complete(path)}
    again = subprocess.run(
        command(job, "--dask", "local:1"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert done
    assert files(job.store) == one_pass
    assert not parts.exists()


def _is_complete(path):
    try:
        return open_volume(path).complete
    except SinkError:  # being begun
        return False


def fail(*_):
    raise RuntimeError("no luck")


def test_a_task_that_always_raises_is_an_error_in_a_line(job, client, monkeypatch):
    monkeypatch.setattr(Film, "begin", lambda film: [Task(PART, 0, fail, (film.request,), 0.0)])
    standing = run(job, client)
    assert isinstance(standing.error, SinkError)
    assert "\n" not in str(standing.error)
    assert "the part from frame 0 on failed on every worker that tried (RuntimeError: no luck)" in (
        str(standing.error)
    )


def fail_beyond_words(*_):
    error = RuntimeError("no luck")
    error.reason = lambda: None  # which cannot be sent
    raise error


def fail_deeply(*_):
    return fail_deeply(*_)


@pytest.mark.parametrize("work", [fail_beyond_words, fail_deeply])
def test_a_task_whose_error_cannot_be_sent_is_not_waited_for(job, client, monkeypatch, work):
    monkeypatch.setattr(Film, "begin", lambda film: [Task(PART, 0, work, (film.request,), 0.0)])
    standing = run(job, client)
    assert re.search(r"\((RuntimeError: no luck|RecursionError: .*)\)", str(standing.error))


def test_one_film_that_fails_leaves_the_others_alone(job, one_pass, client, monkeypatch):
    begin = Film.begin

    def begun(film):
        if film.request.job.store.name == "bad.zarr":
            return [Task(PART, 0, fail, (film.request,), 0.0)]
        return begin(film)

    monkeypatch.setattr(Film, "begin", begun)
    bad = dataclasses.replace(job, store=job.store.with_name("bad.zarr"))
    with closing(DaskEngine(client)) as engine:
        made = [prepare(one, spacing=SPACING) for one in (bad, job)]
        failed, fine = run_films(made, engine, at_once=2)
    assert failed.error is not None
    assert fine.error is None
    assert files(job.store) == one_pass


def test_a_batch_goes_on_where_one_film_is_missing(job, one_pass, client):
    gone = dataclasses.replace(
        job, source=job.store.with_name("gone.mkv"), store=job.store.with_name("gone.zarr")
    )
    told = []
    tasks = [VideoTask("gone", gone), VideoTask("film", job)]
    missing, done = run_batch_in_parts(tasks, client, watch=told.append)
    assert (missing.status, done.status) == (FAILED, DONE)
    assert "gone.mkv: no such file or folder" in missing.note
    assert files(job.store) == one_pass
    assert told[-1].running == {}
    again = run_batch_in_parts(tasks[1:], client)
    assert [outcome.status for outcome in again] == [SKIPPED]


def test_a_worker_that_cannot_see_the_source_is_told_of(job, client):
    film = prepare(job)
    film.writer.release()
    missing = dataclasses.replace(film.request.job, source=str(job.store.with_name("gone.mkv")))
    request = dataclasses.replace(film.request, job=missing)
    with pytest.raises(SourceError, match=r"gone.mkv: worker .* cannot read it \(there is no such"):
        prepare_workers(client, [request])


def test_a_worker_that_cannot_see_the_output_is_told_of(job, client, monkeypatch):
    film = prepare(job)
    film.writer.release()
    monkeypatch.setattr("aaams_stream.cluster.connect._PROBE", ".other-probe")
    with pytest.raises(SinkError, match=r"film.zarr.parts: worker .* cannot write there"):
        prepare_workers(client, [film.request])


def test_a_worker_that_came_later_with_another_version_is_told_of():
    client = dataclasses.replace(own_traits(), version="0.0.1")
    told = run_task("topic", 0, Task(SURVEY, 0, fail, (), 0.0), client)
    assert isinstance(told.error, ConfigError)
    assert f"has aaams_stream {__version__} and here it is 0.0.1" in str(told.error)


def test_workers_that_cannot_compile_are_told_of(client, monkeypatch):
    monkeypatch.setattr("aaams_stream.cluster.connect.compile_here", fail)
    with pytest.raises(ConfigError, match=r"cannot be compiled on .* \(no luck\)$"):
        prepare_workers(client, [])


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_die_as_they_compile_are_told_of(client, monkeypatch):
    monkeypatch.setattr("aaams_stream.cluster.connect.compile_here", die)
    with pytest.raises(ConfigError, match=r"cannot be compiled on \S+ \(.* workers died") as told:
        prepare_workers(client, [])
    assert "\n" not in str(told.value)
    client.wait_for_workers(2, timeout=PATIENCE)


def test_a_last_worker_that_dies_as_it_compiles_is_told_of(monkeypatch):
    """Nobody begins it anew, and the task would wait for others for ever."""
    monkeypatch.setattr("aaams_stream.cluster.connect.compile_here", die)
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
        words = ["-m", "distributed.cli.dask_worker", cluster.scheduler_address]
        words += ["--nthreads", "1", "--no-nanny", "--no-dashboard"]
        worker = subprocess.Popen([sys.executable, *words], cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            with connected(cluster.scheduler_address) as client:
                client.wait_for_workers(1, timeout=PATIENCE)
                monkeypatch.setattr("aaams_stream.cluster.connect._WORKERS", 0.5)
                with pytest.raises(ConfigError, match=r"on \S+ \(its workers died of it; their"):
                    prepare_workers(client, [])
        finally:
            worker.kill()
            worker.wait()


def test_a_worker_that_dask_gives_up_is_replaced():
    """As one that is killed while it begins anew: without any, a film would wait for ever."""
    with connected("local:1") as client:
        (nanny,) = client.cluster.workers.values()
        client.cluster.sync(nanny.close)
        assert client.submit(os.getpid, pure=False).result(timeout=PATIENCE) != os.getpid()


def test_an_address_without_a_scheduler_is_told_of():
    with (
        pytest.raises(ConfigError, match=r"--dask tcp://127.0.0.1:9: no scheduler answers"),
        connected("tcp://127.0.0.1:9"),
    ):
        pass


def test_another_server_than_a_scheduler_is_told_of(capfd, tmp_path):
    """As the port of a dashboard, whose answer read as one of Dask's is of exabytes."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    handler.func.log_message = lambda *told: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_port}"
        with (
            pytest.raises(ConfigError, match=f"{address}: no scheduler answers"),
            connected(address),
        ):
            pass
        server.shutdown()
    gc.collect()
    assert capfd.readouterr().err == ""


def test_the_file_of_a_scheduler_that_holds_something_else_is_told_of(tmp_path):
    for text in ("", "[]", '{"id": 1}'):
        (tmp_path / "cluster.json").write_text(text)
        with (
            pytest.raises(ConfigError, match="is not the file of a scheduler"),
            connected(str(tmp_path / "cluster.json")),
        ):
            pass


@pytest.mark.parametrize("address", ["local:0", "local:many", "local:", "nowhere.json"])
def test_an_address_that_means_nothing_is_told_of(address):
    with pytest.raises(ConfigError, match=f"--dask {address}: expected "), connected(address):
        pass


WITHOUT_PACKAGE = """
import sys
sys.modules["aaams_stream"] = None
from distributed.cli.dask_worker import main
main()
"""


def test_a_worker_without_the_package_is_told_of(job, client):
    address = client.scheduler.address
    words = [address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", "bare"]
    worker = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_PACKAGE, *words], stderr=subprocess.DEVNULL
    )
    try:
        client.wait_for_workers(3, timeout=PATIENCE)
        film = prepare(job)
        film.writer.release()
        with pytest.raises(ConfigError, match=r"worker tcp://\S+ has no package aaams_stream"):
            prepare_workers(client, [film.request])
    finally:
        worker.kill()
        worker.wait()
        deadline = time.monotonic() + PATIENCE
        while len(client.scheduler_info(n_workers=-1)["workers"]) > 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_segment_video_takes_a_client(job, one_pass, client, monkeypatch):
    monkeypatch.setattr(
        door, "prepare", lambda job, stretch: prepare(job, stretch, spacing=SPACING)
    )
    told = []
    summary = door.segment_video(
        job.source,
        job.store,
        job.params,
        with_video=True,
        overlay=job.store.with_name("film.mp4"),
        client=client,
        progress=told.append,
    )
    assert (summary.frames, summary.complete, summary.ended) == (98, True, "complete")
    assert files(job.store) == one_pass
    assert job.store.with_name("film.mp4").exists()
    assert told[-1].note.endswith("2 workers")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups here")
def test_ctrl_c_of_a_terminal_leaves_parts_to_go_on_with(job):
    """It reaches the workers as well, which must not die of it."""
    parts = job.store.with_name("film.zarr.parts")
    run = subprocess.Popen(
        command(job, "--dask", "local:1"),
        cwd=ROOT,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + PATIENCE
    while not any(parts.glob("*.zarr")):
        assert time.monotonic() < deadline
        assert run.poll() is None
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGINT)
    _, told = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130, told
    assert told.splitlines()[-1].endswith("run the same again to go on")
    assert "Traceback" not in told
    assert any(parts.glob("*.zarr"))

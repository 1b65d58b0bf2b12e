"""Volumes behind addresses: the bytes of a local one, one writer, and crashes cost nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import obstore
import pytest
import zarr
from obstore.store import from_url
from support import TESTS
from support.buckets import environment, note_requests, objects, put_all
from support.volumes import HEADER, VERSION, files, fill

from aaams_stream import open_volume, store
from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.paths import reason_of
from aaams_stream.store import fence

pytestmark = pytest.mark.campaign

FRAMES = 17


def create(address, **options):
    return store.create(store.target_of(address), HEADER, VERSION, **options)


def resume(address):
    return store.resume(store.target_of(address), HEADER, VERSION)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Write the volume that all others are compared with."""
    path = tmp_path_factory.mktemp("local") / "local.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, FRAMES)
    writer.finish("complete")
    return path


@pytest.fixture
def elsewhere(monkeypatch):
    """Let others write from another machine, of which nobody knows whether they are alive."""
    monkeypatch.setattr(fence, "_is_alive", lambda mark: False)


def test_a_volume_in_a_bucket_has_the_bytes_of_a_local_one(bucket, local):
    writer = create(f"{bucket}/a.zarr")
    fill(writer, FRAMES)
    writer.finish("complete")
    assert objects(f"{bucket}/a.zarr") == files(local)


def test_reading_from_a_bucket_gives_what_a_local_volume_gives(bucket, local):
    put_all(f"{bucket}/a.zarr", local)
    there, here = open_volume(f"{bucket}/a.zarr/"), open_volume(local)
    assert str(there.path) == f"{bucket}/a.zarr"
    assert "a.zarr: 17 frames" in repr(there)
    np.testing.assert_array_equal(there.ids[:], here.ids[:])
    np.testing.assert_array_equal(there.tracks, here.tracks)
    np.testing.assert_array_equal(there.at(segments=3).ids[7], here.at(segments=3).ids[7])
    assert store.size_of(there.path) == store.size_on_disk(local)
    assert store.check(f"{bucket}/a.zarr").sound
    there.require_chunks()


def test_opening_a_volume_asks_for_each_document_once(bucket, local, monkeypatch):
    put_all(f"{bucket}/a.zarr", local)
    asked = note_requests(monkeypatch)
    volume = open_volume(f"{bucket}/a.zarr")
    assert volume.counts.identities
    assert len(volume.tracks)
    documents = [key for key in asked if key.endswith("zarr.json")]
    assert sorted(documents) == sorted(set(documents))


def test_what_is_missing_or_damaged_in_a_bucket_is_named(bucket, local):
    put_all(f"{bucket}/a.zarr", local)
    objects_there = from_url(f"{bucket}/a.zarr")
    obstore.delete(objects_there, "labels/ids/0/c/1/0/0")
    volume = open_volume(f"{bucket}/a.zarr")
    with pytest.raises(SinkError, match=r"a\.zarr: chunk labels/ids/0/c/1/0/0 is missing"):
        _ = volume.ids[9]
    assert volume.ids[3].shape == (48, 64)
    with pytest.raises(SinkError, match="c/1/0/0 is missing"):
        volume.require_chunks()
    obstore.put(objects_there, "time/c/0", b"no chunk of ours")
    told = {damage.part for damage in store.check(f"{bucket}/a.zarr").damages}
    assert told == {"labels/ids/0/c/1/0/0", "time/c/0"}
    obstore.delete(objects_there, "segments/area/zarr.json")
    with pytest.raises(SinkError, match=r"a part of the volume is missing \(segments/area\)"):
        open_volume(f"{bucket}/a.zarr")


def test_a_run_that_was_stopped_is_resumed_to_the_bytes_of_a_whole_one(bucket, local):
    writer = create(f"{bucket}/a.zarr")
    fill(writer, 8)
    fill(writer, 13, commit=False)
    writer.release()
    assert fence.WRITER not in json.loads(objects(f"{bucket}/a.zarr")["zarr.json"])["attributes"]
    writer, state = resume(f"{bucket}/a.zarr")
    assert writer.frames == 8
    fill(writer, FRAMES, state=state)
    writer.finish("complete")
    assert objects(f"{bucket}/a.zarr") == files(local)


def write_in_a_process(address, dying):
    command = [sys.executable, str(TESTS / "support/write_remote.py"), address, str(FRAMES)]
    return subprocess.Popen(
        [*command, str(dying)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def test_a_run_that_was_killed_is_resumed_to_the_bytes_of_a_whole_one(bucket, local):
    with write_in_a_process(f"{bucket}/whole.zarr", 0) as other:
        writes = int(other.stdout.readline())
        # while it is alive nobody else writes
        for attempt in (resume, partial(create, overwrite=True)):
            with pytest.raises(SinkError, match=rf"being written by another process \({other.pid}"):
                attempt(f"{bucket}/whole.zarr")
        other.kill()
    writer, state = resume(f"{bucket}/whole.zarr")
    fill(writer, FRAMES, state=state)
    writer.finish("complete")
    assert objects(f"{bucket}/whole.zarr") == files(local)
    # among the first there is no volume yet, among the last it is as good as done
    for dying in (30, writes // 2, writes + 40):
        address = f"{bucket}/{dying}.zarr"
        with write_in_a_process(address, dying) as other:
            assert other.stdout.read() == ""
        assert other.returncode == -signal.SIGKILL
        if store.is_volume(address):
            writer, state = resume(address)
        else:
            assert dying == 30
            with pytest.raises(SinkError, match="no such volume"):
                open_volume(address)
            writer, state = create(address), None
        fill(writer, FRAMES, state=state)
        writer.finish("complete")
        assert objects(address) == files(local), dying


def test_a_second_writer_is_told_so_and_the_first_goes_on(bucket, local):
    writer = create(f"{bucket}/a.zarr")
    fill(writer, 8)
    with pytest.raises(SinkError, match=r"exists \(incomplete, 8 frames\); --resume continues it"):
        create(f"{bucket}/a.zarr")
    for attempt in (resume, partial(create, overwrite=True)):
        with pytest.raises(SinkError, match="is being written by another process"):
            attempt(f"{bucket}/a.zarr")
    fill(writer, FRAMES, state=None)
    writer.finish("complete")
    assert open_volume(f"{bucket}/a.zarr").complete


def go_on_to_the_end(writer, state):
    for frames in range(writer.frames, FRAMES):
        fill(writer, frames + 1, state=state, commit=False)
        writer._flush()
    writer.finish("complete")


@pytest.mark.parametrize(("ahead", "behind"), [(0, 16), (9, 0), (5, 16)])
def test_a_writer_whose_right_was_taken_over_stops_and_spoils_nothing(
    bucket, local, elsewhere, ahead, behind
):
    address = f"{bucket}/a.zarr"
    stale = create(address)
    fill(stale, 8)
    state = store.writer.load_state(stale._root, 8)
    fill(stale, 8 + ahead, state=state, commit=False)
    writer, saved = resume(address)
    assert writer.frames == 8
    fill(writer, max(8, behind), state=saved)
    committed = open_volume(address).frame_count
    with pytest.raises(SinkError, match="another process writes to it now") as told:
        go_on_to_the_end(stale, state)
    assert "\n" not in str(told.value)
    stale.release()
    assert open_volume(address).frame_count == committed
    writer.release()
    writer, saved = resume(address)
    fill(writer, FRAMES, state=saved)
    writer.finish("complete")
    assert objects(address) == files(local)


def test_of_many_who_begin_at_once_one_writes(bucket, local, elsewhere):
    address = f"{bucket}/a.zarr"
    writers, told = [], []
    start = threading.Barrier(4)

    def begin():
        start.wait()
        try:
            writers.append(create(address))
        except SinkError as error:
            told.append(str(error))

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # one may have been overtaken as it was done: then it learns so when it writes
    finished = 0
    for writer in writers:
        try:
            fill(writer, FRAMES)
            writer.finish("complete")
            finished += 1
        except SinkError as error:
            told.append(str(error))
    assert finished <= 1
    assert all("another process" in text for text in told)
    assert all(text.startswith(address) and "\n" not in text for text in told)
    if not finished:  # all were overtaken before there was a volume
        writer = create(address, overwrite=store.is_volume(address))
        fill(writer, FRAMES)
        writer.finish("complete")
    assert objects(address) == files(local)


def test_overwriting_leaves_nothing_of_the_volume_before(bucket, local):
    address = f"{bucket}/a.zarr"
    writer = create(address)
    fill(writer, 25, commit=False)
    writer.finish("complete")
    writer = create(address, overwrite=True)
    assert open_volume(address).frame_count == 0
    fill(writer, FRAMES)
    writer.finish("complete")
    assert objects(address) == files(local)


def test_a_failure_on_the_way_to_a_new_volume_leaves_nothing(bucket, monkeypatch):
    def publish(store):
        raise ValueError("on the way")

    address = f"{bucket}/a.zarr"
    monkeypatch.setattr(fence.FencedStore, "publish", publish)
    with pytest.raises(ValueError, match="on the way"):
        create(address)
    assert objects(address) == {}


def test_only_volumes_of_ours_are_replaced(bucket):
    obstore.put(from_url(f"{bucket}/a.zarr"), "thesis.txt", b"all of it")
    for overwrite in (False, True):
        with pytest.raises(SinkError, match="exists and is not a volume of ours"):
            create(f"{bucket}/a.zarr", overwrite=overwrite)
    assert objects(f"{bucket}/a.zarr") == {"thesis.txt": b"all of it"}
    with pytest.raises(SinkError, match="a whole bucket is no volume"):
        create(bucket.rpartition("/")[0])


def test_levels_and_coarse_labels_are_added_behind_an_address(bucket, local, tmp_path):
    address, copy = f"{bucket}/a.zarr", tmp_path / "a.zarr"
    for target in (address, copy):
        writer = store.create(store.target_of(target), HEADER, VERSION)
        fill(writer, FRAMES)
        writer.finish("complete")
        assert not store.add_levels(target)
        assert store.add_levels(target, overwrite=True)
        assert store.materialise(target, 3) == "labels/coarse_3"
    assert objects(address) == files(copy)
    assert store.check(address).sound


@pytest.mark.parametrize("kind", [zarr.storage.MemoryStore, obstore.store.MemoryStore])
def test_any_store_of_zarr_holds_a_volume(local, kind):
    given = kind()
    if kind is obstore.store.MemoryStore:
        given = zarr.storage.ObjectStore(given)
    writer = store.create(store.target_of(given), HEADER, VERSION)
    with pytest.raises(SinkError, match="is being written"):
        store.create(store.target_of(given), HEADER, VERSION, overwrite=True)
    fill(writer, FRAMES)
    writer.finish("complete")
    np.testing.assert_array_equal(open_volume(given).ids[:], open_volume(local).ids[:])
    assert store.check(given).sound
    with pytest.raises(SinkError, match=r"exists \(complete, 17 frames\)"):
        store.create(store.target_of(given), HEADER, VERSION)


def test_a_local_store_of_zarr_is_its_folder(local):
    given = zarr.storage.LocalStore(local)
    assert store.target_of(given) == local
    assert store.target_of(local.as_uri()) == local
    assert open_volume(given).path == local


def test_a_volume_on_the_web_is_read_by_name_and_not_written(local):
    handler = partial(SimpleHTTPRequestHandler, directory=str(local.parent))
    handler.func.log_message = lambda *told: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, name="asyncio_web", daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/local.zarr"
        volume = open_volume(address)
        volume.require_chunks()  # cannot be listed: nobody looks, and nobody complains
        np.testing.assert_array_equal(volume.ids[:], open_volume(local).ids[:])
        np.testing.assert_array_equal(volume.events, open_volume(local).events)
        assert store.size_of(volume.path) is None
        assert store.check(address).sound
        with pytest.raises(SinkError, match="what lies on the web is only read"):
            create(address, overwrite=True)
        with pytest.raises(SinkError, match=r"nothing\.zarr: no such volume"):
            open_volume(f"http://127.0.0.1:{server.server_port}/nothing.zarr")
        server.shutdown()


def test_who_cannot_be_reached_is_told_in_one_line(bucket, monkeypatch):
    with pytest.raises(SinkError, match=r"nowhere\.zarr: no such volume"):
        open_volume(f"{bucket}/nowhere.zarr")
    with pytest.raises(SinkError, match="The specified bucket does not exist"):
        create("s3://nobodys-bucket/a.zarr")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # where nobody listens
    with pytest.raises(SinkError, match=r"a\.zarr: cannot be reached \(Connection refused\)$"):
        open_volume(f"{bucket}/a.zarr")
    with pytest.raises(ConfigError, match="nothing is known of such addresses"):
        open_volume("ftp://example.org/a.zarr")


def test_reasons_of_failures_are_one_line():
    assert reason_of(OSError("")) == "OSError"
    asked = "Error performing PUT http://169.254.169.254/latest/api/token\n\nDebug source:\n…"
    assert reason_of(ValueError(asked)).startswith("no credentials: name them in the environment")
    assert len(reason_of(ValueError("long " * 100))) <= 160


def test_without_the_extra_an_address_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ConfigError, match=r"pip install 'aaams-stream\[remote\]'"):
        open_volume("s3://bucket/a.zarr")

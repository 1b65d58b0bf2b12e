"""Beginning and resuming volumes, one writer at a time; nothing is destroyed by mistake."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import zarr
from support import TESTS
from support.hierarchies import drop_levels
from support.volumes import HEADER, VERSION, files, fill

from aaams_stream import store
from aaams_stream.errors import SinkError
from aaams_stream.params import Params
from aaams_stream.store import lock as locking
from aaams_stream.store import open_volume


@pytest.mark.parametrize("committed", [0, 8, 16])
def test_resume_leads_to_what_an_uninterrupted_run_writes(whole, tmp_path, committed):
    path = tmp_path / "a.zarr"
    header = dataclasses.replace(HEADER, with_video=True)
    writer = store.create(path, header, VERSION)
    fill(writer, committed)
    fill(writer, committed + 12, commit=False)
    (path / "labels" / "zarr.123.partial").write_bytes(b"half")
    writer.release()
    writer, state = store.resume(path, header, VERSION)
    assert writer.frames == committed
    fill(writer, 29, state=state)
    writer.finish("complete")
    assert files(path) == files(whole[0])


def test_resume_cuts_off_what_was_not_committed_even_if_nothing_follows(tmp_path):
    torn, plain = tmp_path / "torn.zarr", tmp_path / "plain.zarr"
    writer = store.create(torn, HEADER, VERSION, chunk_rows=16)
    fill(writer, 8)
    fill(writer, 29, commit=False)
    writer.release()
    writer, _ = store.resume(torn, HEADER, VERSION)
    writer.finish("complete")
    writer = store.create(plain, HEADER, VERSION, chunk_rows=16)
    fill(writer, 8)
    writer.finish("complete")
    assert files(torn) == files(plain)


def test_resume_changes_nothing_in_a_complete_volume(whole):
    before = files(whole[0])
    writer, state = store.resume(whole[0], dataclasses.replace(HEADER, with_video=True), VERSION)
    assert writer.complete
    assert state is None
    assert files(whole[0]) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": "sha256:1"}, "another source"),
        ({"fingerprint": None}, "cannot be read a second time"),
        ({"configuration": Params().updated({"post": {"level": 7}}).to_dict()}, "post.level"),
        ({"selection": {**HEADER.selection, "every": 2}}, "every"),
        ({"with_video": True}, "with video"),
    ],
)
def test_resume_needs_the_same_run(tmp_path, change, message):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 8)
    before = files(tmp_path)
    with pytest.raises(SinkError, match=message):
        store.resume(tmp_path / "a.zarr", dataclasses.replace(HEADER, **change), VERSION)
    with pytest.raises(SinkError, match="version 1 and this is 2"):
        store.resume(tmp_path / "a.zarr", HEADER, "2")
    assert files(tmp_path) == before


def test_resume_says_so_if_a_part_is_missing(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 8)
    writer.release()
    shutil.rmtree(path / "time")
    with pytest.raises(SinkError, match=r"part of the volume is missing \(time\)"):
        store.resume(path, HEADER, VERSION)


def test_create_never_replaces_a_volume_in_which_the_source_lies(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    writer.release()
    (path / "clip.mkv").touch()
    header = dataclasses.replace(HEADER, spec=str(path / "clip.mkv"))
    with pytest.raises(SinkError, match=r"a\.zarr: holds the source, .*clip\.mkv; choose another"):
        store.create(path, header, VERSION, overwrite=True)
    assert (path / "clip.mkv").exists()


@pytest.mark.parametrize("committed", [0, 8, 16])
def test_resume_makes_an_older_volume_one_of_this_schema(tmp_path, committed):
    older, whole = tmp_path / "older.zarr", tmp_path / "whole.zarr"
    writer = store.create(older, HEADER, VERSION, chunk_rows=16)
    fill(writer, committed)
    writer.release()
    drop_levels(older)
    writer, state = store.resume(older, HEADER, VERSION)
    fill(writer, 29, state=state)
    writer.finish("complete")
    writer = store.create(whole, HEADER, VERSION, chunk_rows=16)
    fill(writer, 29)
    writer.finish("complete")
    assert files(older) == files(whole)


def test_resume_leaves_a_complete_older_volume_as_it_is(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 3)
    writer.finish("complete")
    drop_levels(path)
    before = files(path)
    store.resume(path, HEADER, VERSION)[0].release()
    assert files(path) == before


def test_create_replaces_an_existing_volume_only_on_demand(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 8)
    with pytest.raises(SinkError, match=r"incomplete, 8 frames.*--resume.*--overwrite"):
        store.create(path, HEADER, VERSION)
    assert open_volume(path).frame_count == 8
    writer.release()
    store.create(path, HEADER, VERSION, overwrite=True)
    assert open_volume(path).frame_count == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zarr"]


def test_create_never_replaces_what_others_put_into_a_volume(tmp_path):
    path = tmp_path / "a.zarr"
    store.create(path, HEADER, VERSION).release()
    (path / ".DS_Store").write_text("")
    store.create(path, HEADER, VERSION, overwrite=True).release()
    (path / "notes").mkdir()
    with pytest.raises(SinkError, match=r"a\.zarr: holds notes, which .* would be lost"):
        store.create(path, HEADER, VERSION, overwrite=True)
    assert (path / "notes").is_dir()


@pytest.mark.parametrize("name", ["b.zarr", "labels/b.zarr", "deep/down/b.zarr"])
def test_create_puts_no_volume_into_another(tmp_path, name):
    path = tmp_path / "a.zarr"
    store.create(path, HEADER, VERSION).release()
    before = files(path)
    with pytest.raises(SinkError, match=r"lies in the volume .*a\.zarr"):
        store.create(path / name, HEADER, VERSION)
    assert files(path) == before
    assert not (path / "deep").exists()


def test_create_never_replaces_what_is_not_ours(tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter1.txt").write_text("years of work")
    foreign = tmp_path / "foreign.zarr"
    zarr.create_group(str(foreign), attributes={"ome": {}})
    file = tmp_path / "file"
    file.write_text("one line")
    for path in (folder, foreign, file):
        before = files(tmp_path)
        with pytest.raises(SinkError, match="not a volume of ours"):
            store.create(path, HEADER, VERSION, overwrite=True)
        assert files(tmp_path) == before
    (tmp_path / "empty").mkdir()
    store.create(tmp_path / "empty", HEADER, VERSION)


def test_create_fails_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="cannot be written"):
        store.create(tmp_path / "file" / "a.zarr", HEADER, VERSION)


def test_create_leaves_a_link_to_a_volume_one(tmp_path):
    (tmp_path / "big").mkdir()
    place, link = tmp_path / "big" / "a.zarr", tmp_path / "a.zarr"
    store.create(place, HEADER, VERSION).release()
    link.symlink_to(place)
    for _ in range(2):
        writer = store.create(link, HEADER, VERSION, overwrite=True)
        fill(writer, 3, commit=False)
        writer.finish("complete")
        assert link.is_symlink()
        assert open_volume(link).frame_count == open_volume(place).frame_count == 3
    assert sorted(entry.name for entry in tmp_path.rglob("*a.zarr*")) == ["a.zarr", "a.zarr"]


@pytest.mark.parametrize("name", [Path(), Path("/"), Path("x" * 300)])
def test_create_refuses_what_cannot_be_a_name(name):
    with pytest.raises(SinkError, match=r"not a name for a volume|name too long"):
        store.create(name, HEADER, VERSION)


def test_opening_tells_other_schema_versions_from_strangers(tmp_path):
    path = tmp_path / "a.zarr"
    store.create(path, HEADER, VERSION)
    record = json.loads((path / "zarr.json").read_text())
    record["attributes"]["aaams_stream"]["schema"] = 99
    (path / "zarr.json").write_text(json.dumps(record))
    with pytest.raises(SinkError, match="schema version 99, this program reads 2, 3 and 4"):
        open_volume(path)
    with pytest.raises(SinkError, match="another schema version"):
        store.create(path, HEADER, VERSION)
    with pytest.raises(SinkError, match="schema version 99"):
        store.resume(path, HEADER, VERSION)
    (path / "zarr.json").write_text("{")
    with pytest.raises(SinkError, match=r"a\.zarr"):
        open_volume(path)
    with pytest.raises(SinkError, match="no such volume"):
        open_volume(tmp_path / "none.zarr")
    zarr.create_group(str(tmp_path / "other.zarr"))
    with pytest.raises(SinkError, match="a Zarr group, but not a volume of ours"):
        open_volume(tmp_path / "other.zarr")
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="not a volume of ours"):
        open_volume(tmp_path / "file")


def test_lock_lets_one_process_write_a_volume_at_a_time(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 8)
    before = files(tmp_path)
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from support.volumes import HEADER, VERSION\n"
        "from aaams_stream import SinkError, store\n"
        "for begin in (store.resume, lambda *of: store.create(*of, overwrite=True)):\n"
        "    try:\n"
        "        begin(Path(sys.argv[1]), HEADER, VERSION)\n"
        "        print('taken')\n"
        "    except SinkError as error:\n"
        "        print(error)\n"
    )
    command = [sys.executable, "-c", code, str(path), str(TESTS)]

    def others():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    refused = f"{path}: is being written by another process; wait for it, or choose another name"
    assert others() == [refused, refused]
    assert files(tmp_path) == before
    fill(writer, 9, commit=False)
    writer.finish("complete")
    assert others() == ["taken", "taken"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("overwrite", [False, True])
def test_of_processes_that_begin_a_volume_at_once_one_wins_and_holds_it(tmp_path, overwrite):
    command = [sys.executable, str(TESTS / "support" / "race.py"), str(tmp_path), "6"]
    done = subprocess.run(
        command + ["overwrite"] * overwrite,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (TESTS.parent, TESTS)))},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["6", "0"], done.stderr


def test_resume_is_not_taken_in_by_a_folder_that_was_replaced(tmp_path, monkeypatch):
    """Between opening a folder and locking it, another process may put a new one in its place."""
    path, flock = tmp_path / "a.zarr", locking.fcntl.flock
    store.create(path, HEADER, VERSION).release()
    winners = []

    def late(handle, operation):
        if not winners:
            winners.append(None)  # the one below is let through
            winners.append(store.create(path, HEADER, VERSION, overwrite=True))
        return flock(handle, operation)

    monkeypatch.setattr(locking.fcntl, "flock", late)
    with pytest.raises(SinkError, match="is being written by another process"):
        locking.WriteLock(path, path)


def test_beginning_waits_in_steps_and_not_by_the_clock(tmp_path, monkeypatch):
    """A machine that slept, or a process that was stopped, has not waited meanwhile."""
    with locking.beginning_in(tmp_path):
        now, slept = [0.0], []

        def sleep(seconds):
            now[0] += 100.0  # the machine sleeps, too
            slept.append(seconds)

        monkeypatch.setattr(locking.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(locking.time, "sleep", sleep)
        with (
            pytest.raises(SinkError, match="another process is beginning"),
            locking.beginning_in(tmp_path),
        ):
            pass
    assert 50 < sum(slept) < 70

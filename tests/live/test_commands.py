"""What viewers may ask of a loop, and what comes of it."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import NamedTuple

import cv2
import pytest
from support.clocks import HandClock
from support.live import newest, preview, watch
from support.viewers import Viewer, order

from aaams_stream.draw.views import LIVE_VIEWS
from aaams_stream.live.commands import Commands, RefusedError
from aaams_stream.store import open_volume

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ({}, "unknown command"),
        ({"do": "format"}, "unknown command; expected one of pause, resume"),
        ({"do": ["pause"]}, "unknown command"),
        ({"do": "detail"}, "segments must be a whole number"),
        ({"do": "detail", "segments": True}, "segments must be"),
        ({"do": "detail", "segments": 0}, "segments must be"),
        ({"do": "detail", "segments": 10**9}, "segments must be"),
        ({"do": "snapshot", "view": "../x"}, "view must be one of boundaries"),
        ({"do": "snapshot", "opacity": 7}, "opacity must be in 0..1"),
        ({"do": "snapshot", "groups": 0}, "groups must be a whole number"),
        ({"do": "snapshot", "groups": "25"}, "groups must be a whole number"),
        ({"do": "stop"}, "nothing is recorded"),
        ({"do": "about"}, "id must be a whole number"),
        ({"do": "about", "id": -1}, "id must be a whole number"),
        ({"do": "about", "id": 10**40}, "id must be a whole number"),
        ({"do": "about", "id": 123456}, "no such segment"),
        ([], "expected a JSON object"),
        ("pause", "expected a JSON object"),
    ],
)
def test_commands_refuse_what_makes_no_sense(shared, command, message):
    assert message in order(shared[1].url, command)["error"]


def test_commands_act_and_everyone_learns_of_it(tmp_path):
    with preview(tmp_path) as (loop, server), Viewer(server.url) as viewer:
        viewer.see_frame()
        assert viewer.order({"do": "pause"}) == {}
        while not viewer.see().head["paused"]:
            pass
        held = newest(loop)
        viewer.order({"do": "step"})
        while (seen := viewer.see_frame()).head["number"] <= held.number:
            pass
        assert seen.head["paused"]
        viewer.order({"do": "detail", "segments": 33})
        while viewer.see().head["wanted"] != 33:
            pass
        viewer.order({"do": "resume"})
        while viewer.see().head["paused"]:
            pass


def test_commands_put_snapshots_and_recordings_into_the_folder_under_names_of_ours(tmp_path):
    folder = tmp_path / "made" / "here"
    with preview(folder) as (_, server), Viewer(server.url) as viewer:
        viewer.see_frame()
        names = set()
        for view in LIVE_VIEWS:
            command = {
                "do": "snapshot",
                "view": view,
                "opacity": 0.5,
                "path": "/etc/x",
                "name": "x",
            }
            answer = viewer.order(command)
            names.add(answer["saved"])
            assert cv2.imread(str(folder / answer["saved"])).shape == (120, 160, 3)
        assert len(names) == len(LIVE_VIEWS)
        answer = viewer.order({"do": "record", "path": "/etc/x"})
        assert re.fullmatch(r"preview-\d{8}-\d{6}\.zarr", answer["recording"])
        assert "error" in viewer.order({"do": "record"})
        while viewer.see_frame().head["recorded"] < 3:
            pass
        assert viewer.order({"do": "stop"}) == {"saved": answer["recording"]}
    assert {path.name for path in folder.iterdir()} == names | {answer["recording"]}
    assert open_volume(folder / answer["recording"]).complete


def test_commands_tell_of_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with preview(tmp_path / "file" / "sub") as (_, server), Viewer(server.url) as viewer:
        viewer.see_frame()
        answer = viewer.order({"do": "snapshot"})
    assert "cannot be made" in answer["error"]


def test_commands_keep_every_one_of_many_snapshots_at_once(tmp_path):
    with preview(tmp_path) as (loop, server), ThreadPoolExecutor(12) as pool:
        watch(loop, 1)
        answers = list(pool.map(lambda _: order(server.url, {"do": "snapshot"}), range(12)))
    names = {answer["saved"] for answer in answers}
    assert len(names) == 12
    assert {path.name for path in tmp_path.iterdir()} == names
    for name in names:
        assert cv2.imread(str(tmp_path / name)).shape == (120, 160, 3)


def test_commands_refuse_more_snapshots_than_anybody_looks_at(tmp_path):
    with preview(tmp_path, clock=HandClock()) as (loop, _server):
        watch(loop, 1)
        commands = Commands(loop, tmp_path)
        for _ in range(20):
            commands.run({"do": "snapshot"})
        with pytest.raises(RefusedError, match="too many snapshots at a time"):
            commands.run({"do": "snapshot"})
    assert len(list(tmp_path.iterdir())) == 20


def test_commands_follow_no_link_out_of_the_folder(tmp_path, monkeypatch):
    """Whatever name comes next, a link is there already: to a file, to a folder, to nothing."""
    monkeypatch.setattr("aaams_stream.live.kept.datetime", Noon)
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for place in (outside, folder, outside / "empty"):
        place.mkdir()
    (outside / "file").write_text("precious")
    stem = "preview-20260102-120000"
    for name, target in ((".png", "file"), ("-2.png", "nothing"), (".zarr", "empty")):
        (folder / f"{stem}{name}").symlink_to(outside / target)
    (folder / f"{stem}-2.zarr").symlink_to(outside / "none.zarr")
    with preview(folder) as (loop, server), Viewer(server.url) as viewer:
        watch(loop, 1)
        assert viewer.order({"do": "snapshot"}) == {"saved": f"{stem}-3.png"}
        assert viewer.order({"do": "record"}) == {"recording": f"{stem}-3.zarr"}
        while viewer.see_frame().head["recorded"] < 3:
            pass
        viewer.order({"do": "stop"})
    assert open_volume(folder / f"{stem}-3.zarr").complete
    assert (outside / "file").read_text() == "precious"
    assert {path.name for path in outside.iterdir()} == {"file", "empty"}
    assert not list((outside / "empty").iterdir())


def test_commands_keep_room_on_the_disk(tmp_path, monkeypatch):
    with preview(tmp_path) as (loop, server), Viewer(server.url) as viewer:
        watch(loop, 1)
        monkeypatch.setattr("aaams_stream.live.kept.shutil.disk_usage", lambda _: Disk(5 << 20))
        for name in ("snapshot", "record"):
            assert "make room" in viewer.order({"do": name})["error"]
    assert not list(tmp_path.iterdir())


class Disk(NamedTuple):
    """What `shutil.disk_usage` tells."""

    free: int


class Noon(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 2, 12)

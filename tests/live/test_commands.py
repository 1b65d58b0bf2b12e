"""What viewers may ask of a loop, and what comes of it."""

from __future__ import annotations

import re

import cv2
import pytest
from support.live import newest, preview
from support.viewers import Viewer, ask

from aaams_stream.draw.views import LIVE_VIEWS
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
        ([], "expected a JSON object"),
        ("pause", "expected a JSON object"),
    ],
)
def test_commands_refuse_what_makes_no_sense(shared, command, message):
    status, answer = ask(shared[1].url, "/command", command)
    assert status == 400
    assert message in answer["error"]


def test_commands_act_and_everyone_learns_of_it(tmp_path):
    with preview(tmp_path) as (loop, server), Viewer(server.url) as viewer:
        viewer.see_frame()
        assert ask(server.url, "/command", {"do": "pause"})[0] == 200
        while not viewer.see().head["paused"]:
            pass
        held = newest(loop)
        ask(server.url, "/command", {"do": "step"})
        while (seen := viewer.see_frame()).head["number"] <= held.number:
            pass
        assert seen.head["paused"]
        ask(server.url, "/command", {"do": "detail", "segments": 33})
        while viewer.see().head["wanted"] != 33:
            pass
        ask(server.url, "/command", {"do": "resume"})
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
            status, answer = ask(server.url, "/command", command)
            assert status == 200
            names.add(answer["saved"])
            assert cv2.imread(str(folder / answer["saved"])).shape == (120, 160, 3)
        assert len(names) == len(LIVE_VIEWS)
        status, answer = ask(server.url, "/command", {"do": "record", "path": "/etc/x"})
        assert status == 200
        assert re.fullmatch(r"preview-\d{8}-\d{6}\.zarr", answer["recording"])
        assert ask(server.url, "/command", {"do": "record"})[0] == 400
        while viewer.see_frame().head["recorded"] < 3:
            pass
        assert ask(server.url, "/command", {"do": "stop"})[1] == {"saved": answer["recording"]}
    assert {path.name for path in folder.iterdir()} == names | {answer["recording"]}
    assert open_volume(folder / answer["recording"]).complete


def test_commands_tell_of_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with preview(tmp_path / "file" / "sub") as (_, server), Viewer(server.url) as viewer:
        viewer.see_frame()
        status, answer = ask(server.url, "/command", {"do": "snapshot"})
    assert status == 400
    assert "cannot be made" in answer["error"]

"""What one viewer gets, and what it may say."""

from __future__ import annotations

import http.client
import math
import socket
import threading
from urllib.parse import urlsplit

import numpy as np
import pytest
from support.cameras import GatedSource, fake_camera
from support.clocks import PATIENCE, HandClock
from support.live import newest, play, preview, wait_for_phase, wait_until, watch
from support.viewers import Viewer, ask, order, unpack

from aaams_stream.live.connection import Connection

pytestmark = pytest.mark.usefixtures("compiled")


def test_session_sends_frames_with_their_segments(shared):
    with Viewer(shared[1].url) as viewer:
        numbers = []
        for _ in range(5):
            seen = viewer.see_frame()
            numbers.append(seen.head["number"])
            assert seen.ids.shape == (120, 160)
            assert len(np.unique(seen.ids)) == seen.head["rows"]
            high, wide, _ = seen.rgb.shape  # less on a slow line, which a busy machine is
            assert high * 160 == wide * 120
        assert numbers == sorted(set(numbers))
        for figure in ("fps", "latency", "warm", "dropped", "quality", "wanted", "viewers"):
            assert figure in seen.head
        assert seen.head["captured"] < seen.head["now"]  # by one clock
        assert viewer.order({"do": "time"})["now"] >= seen.head["now"]


def test_session_lets_a_slow_viewer_slow_nobody_and_see_the_newest_when_it_looks_again(shared):
    loop, server = shared
    with Viewer(server.url) as slow, Viewer(server.url) as quick:
        slow.see_frame()
        code, _ = slow.hear()  # and does not say that it has shown it
        assert code == 2
        begun = newest(loop).number
        frames = [quick.see_frame().head["number"] for _ in range(15)]
        assert len(set(frames)) == 15
        behind = newest(loop).number - begun
        assert behind >= 10
        slow.say(b"shown")
        assert slow.see_frame().head["number"] > begun + 5


@pytest.mark.parametrize(
    ("said", "code", "mask"), [(b"", 0x8, True), (b"hello", 0x1, False), (b"x" * 100, 0x8, True)]
)
def test_session_lets_a_viewer_go_that_closes_or_babbles(shared, said, code, mask):
    _, server = shared
    wait_until(lambda: server.viewers == 0)
    with Viewer(server.url) as viewer:
        viewer.say(said, code, mask)
        wait_until(lambda: server.viewers == 0)


def test_session_answers_a_ping(shared):
    with Viewer(shared[1].url) as viewer:
        viewer.say(b"there?", 0x9)
        while (heard := viewer.hear())[0] == 2:
            viewer.say(b"shown")
        assert heard == (0xA, b"there?")


@pytest.mark.parametrize("said", [(b"there?", 0x9), (b"shown", 0x1), (b"{}", 0x1)])
def test_session_does_not_hear_a_viewer_that_floods_for_a_while(tmp_path, monkeypatch, said):
    held, resting = threading.Event(), []

    def rest(connection, seconds):
        connection.deaf_until = math.inf
        resting.append(connection)
        held.set()

    monkeypatch.setattr(Connection, "rest", rest)
    with preview(tmp_path, clock=HandClock()) as (_, server), Viewer(server.url) as viewer:
        for _ in range(2000):
            viewer.say(*said)
        assert held.wait(PATIENCE)
        with Viewer(server.url) as other:
            other.order({"do": "time"})
        assert server.viewers >= 1  # it is not sent away: it would be back at once
        (resting,) = set(resting)
        monkeypatch.undo()
        resting.deaf_until = 1e-9  # long ago
        viewer.say(b"", 0x8)  # heard when its turn has come
        wait_until(lambda: server.viewers == 0)


def test_session_that_does_not_hear_ends_with_the_server(tmp_path, caplog):
    with preview(tmp_path, clock=HandClock()) as (_, server):
        viewer = Viewer(server.url)
        for _ in range(2000):
            viewer.say(b"there?", 0x9)
        wait_until(lambda: server.viewers == 1)
    assert viewer.gone()
    viewer.leave()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_session_sends_nothing_more_to_who_takes_nothing(tmp_path):
    """Whatever he says to have shown: what the system does not take would fill the memory."""
    with preview(tmp_path) as (loop, server), Viewer(server.url) as viewer:
        wait_until(lambda: server.viewers == 1)
        (connection,) = server._connections
        watch(loop, 1)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        for _ in range(100):
            viewer.say(b"shown")
            watch(loop, 1, after=newest(loop).number)
        wait_until(lambda: connection.queued > connection.sent)
        told = connection.queued
        for _ in range(5):
            viewer.say(b"shown")
            watch(loop, 1, after=newest(loop).number)
        assert connection.queued == told


def test_session_answers_so_many_questions_and_no_more(tmp_path):
    with preview(tmp_path, clock=HandClock()) as (_, server), Viewer(server.url) as viewer:
        answers = [viewer.order({"do": "about", "id": 1}) for _ in range(50)]
    told = [answer.get("error", "") for answer in answers]
    assert "too many questions at a time" in told[-1]
    assert 30 < sum("too many" not in text for text in told) < 50


def test_session_numbers_its_answers(shared):
    with Viewer(shared[1].url) as viewer:
        assert viewer.order({"do": "resume", "question": 7}) == {"question": 7}
        assert viewer.order({"do": "x", "question": 8})["question"] == 8
        assert "question" not in viewer.order({"do": "resume", "question": [9]})


def test_session_sends_a_heartbeat_where_nothing_happens(tmp_path):
    camera = GatedSource(fake_camera())
    with preview(tmp_path, camera) as (loop, server), Viewer(server.url) as viewer:
        wait_for_phase(loop, "running")
        for _ in range(5):
            assert viewer.see().ids is None


def test_session_says_what_the_page_may_load(shared):
    server = urlsplit(shared[1].url)
    connection = http.client.HTTPConnection(server.hostname, server.port)
    connection.request("GET", f"/?{server.query}")
    response = connection.getresponse()
    page = response.read().decode()
    connection.close()
    assert response.status == 200
    assert "<title>aaams-stream preview</title>" in page
    assert "/* page." not in page
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        *("/../../etc/passwd", "/etc/passwd", "/%2e%2e/x", "//etc/passwd", "/page.js"),
        *("/command", "/segment", "/stream/", "/stream/x"),
    ],
)
def test_session_leads_by_no_path_anywhere_else(shared, path):
    assert ask(shared[1].url, path)[0] == 404


def test_session_tells_of_a_segment(shared):
    _, server = shared
    with Viewer(server.url) as viewer:
        track = int(viewer.see_frame().ids[60, 80])
        known = viewer.order({"do": "about", "id": track})
    assert known["id"] == track
    assert known["history"][-1][3] > 0
    assert set(known) >= {"age", "area", "lab", "motion", "events"}


def test_session_goes_back_to_a_frame_of_the_past_and_to_now(tmp_path):
    camera = GatedSource(fake_camera())
    with preview(tmp_path, camera) as (loop, server), Viewer(server.url) as viewer:
        frames = []
        for _ in range(4):
            play(loop, camera, 1)
            while not frames or len(frames) < newest(loop).number:
                frames.append(viewer.see_frame())
        wait_until(lambda: loop.past == (1, 4))
        assert viewer.order({"do": "look", "number": 2}) == {}
        then = viewer.see_frame()
        assert (then.head["number"], then.head["live"]) == (2, False)
        np.testing.assert_array_equal(then.ids, frames[1].ids)
        np.testing.assert_array_equal(then.rgb, frames[1].rgb)
        play(loop, camera, 1)
        for _ in range(3):  # what comes meanwhile is not shown
            assert viewer.see().ids is None
        viewer.order({"do": "look", "number": None})
        assert viewer.see_frame().head["number"] == 5
        viewer.order({"do": "look", "number": 1})
        assert viewer.see_frame().head["number"] == 1
        viewer.order({"do": "look", "number": None})
        assert viewer.see_frame().head["number"] == 5  # again, though none has come meanwhile
        assert "whole number" in viewer.order({"do": "look", "number": "2"})["error"]


def test_session_makes_the_picture_small_for_who_asks_and_for_nobody_else(shared):
    with Viewer(shared[1].url) as one, Viewer(shared[1].url) as other:
        assert one.order({"do": "picture", "picture": "low"}) == {}
        while (seen := one.see_frame()).head["picture"] != "low":
            pass
        assert one.see_frame().rgb.shape == (60, 80, 3)
        assert seen.ids.shape == (120, 160)
        assert other.see_frame().rgb.shape == (120, 160, 3)
        one.order({"do": "picture", "picture": "auto"})
        while one.see_frame().head["picture"] != "full":
            pass
        assert "auto or low" in one.order({"do": "picture", "picture": 7})["error"]


def test_session_makes_the_picture_smaller_where_the_line_takes_long(tmp_path):
    """The clock moves while a frame is on its way to one viewer: half a second each."""
    camera, clock = GatedSource(fake_camera()), HandClock()
    with preview(tmp_path, camera, clock=clock) as (_, server), Viewer(server.url) as viewer:
        names = []
        for _ in range(12):
            camera.send()
            while True:
                data = viewer.hear()[1]
                if unpack(data).ids is not None:
                    break
                viewer.say(b"shown")
            names.append(unpack(data).head["picture"])
            clock.advance(0.5)
            viewer.say(b"shown")
        assert names[0] == "full"
        assert names[-1] == "low"


def test_session_keeps_the_picture_where_the_viewer_takes_long_to_paint(tmp_path):
    """It says for how many milliseconds it has had the frame."""
    camera, clock = GatedSource(fake_camera()), HandClock()
    with preview(tmp_path, camera, clock=clock) as (_, server), Viewer(server.url) as viewer:
        for _ in range(12):
            camera.send()
            while unpack(data := viewer.hear()[1]).ids is None:
                viewer.say(b"shown")
            assert unpack(data).head["picture"] == "full"
            clock.advance(0.5)
            viewer.say(b"shown 500")


def test_session_gives_the_link_for_guests_to_the_owner_alone(tmp_path):
    with preview(tmp_path, token="0123456789abcdef") as (_, server):
        told = order(server.url, {"do": "share"})
        guest = f"{server.url.split('?')[0]}?token={told['token']}"
        with Viewer(guest) as viewer:
            assert viewer.see_frame().head["owner"] is False
            assert "looking on only" in viewer.order({"do": "share"})["error"]

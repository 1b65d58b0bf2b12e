"""Requests to the live page: the page, the stream, questions and commands."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import numpy as np
import pytest
from support.live import newest, wait_until
from support.viewers import Viewer, ask

pytestmark = pytest.mark.usefixtures("compiled")


def test_handler_sends_frames_with_their_segments(shared):
    with Viewer(shared[1].url) as viewer:
        numbers = []
        for _ in range(5):
            seen = viewer.see_frame()
            numbers.append(seen.head["number"])
            assert seen.ids.shape == (120, 160)
            assert len(np.unique(seen.ids)) == seen.head["segments"]
            assert seen.rgb.shape == (120, 160, 3)
        assert numbers == sorted(set(numbers))
        for figure in ("fps", "latency", "warm", "dropped", "quality", "wanted", "viewers"):
            assert figure in seen.head
        assert seen.head["glass"] > 0


def test_handler_lets_a_slow_viewer_slow_nobody_and_see_the_newest_when_it_looks_again(shared):
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
def test_handler_lets_a_viewer_go_that_closes_or_babbles(shared, said, code, mask):
    _, server = shared
    wait_until(lambda: server.viewers == 0)
    with Viewer(server.url) as viewer:
        viewer.say(said, code, mask)
        wait_until(lambda: server.viewers == 0)


def test_handler_answers_a_ping(shared):
    with Viewer(shared[1].url) as viewer:
        viewer.hear()
        viewer.say(b"there?", 0x9)
        assert viewer.hear() == (0xA, b"there?")


def test_handler_says_what_the_page_may_load(shared):
    server = urlsplit(shared[1].url)
    connection = http.client.HTTPConnection(server.hostname, server.port)
    connection.request("GET", "/")
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
        *("/command", "/segment", "/segment?id=../x", "/segment?id=-1", f"/segment?id={'9' * 40}"),
        "/segment?id=%D9%A1",  # a digit, but not one of ours
    ],
)
def test_handler_leads_by_no_path_anywhere_else(shared, path):
    assert ask(shared[1].url, path)[0] == 404


def test_handler_takes_only_short_json_as_a_command(shared):
    url = shared[1].url
    assert ask(url, "/command", {"do": "x" * 5000})[0] == 413
    assert ask(url, "/command", {"do": "pause"}, {"Content-Type": "text/plain"})[0] == 400
    assert not shared[0].status.paused


def test_handler_tells_of_a_segment(shared):
    _, server = shared
    with Viewer(server.url) as viewer:
        seen = viewer.see_frame()
        track = int(seen.ids[60, 80])
        status, known = ask(server.url, f"/segment?id={track}")
    assert status == 200
    assert known["id"] == track
    assert known["history"][-1][3] > 0
    assert set(known) >= {"age", "area", "lab", "motion", "events"}

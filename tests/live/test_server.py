"""The preview's server: what viewers get, and who gets nothing."""

from __future__ import annotations

import contextlib
import http.client
import socket
from urllib.parse import urlsplit

import numpy as np
import pytest
from support.cameras import fake_camera
from support.clocks import HandClock
from support.live import PARAMS, newest, preview, wait_until
from support.viewers import Viewer, ask

from aaams_stream.errors import ConfigError
from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.server import PreviewServer

pytestmark = pytest.mark.usefixtures("compiled")
TOKEN = "0123456789abcdef"


def test_server_sends_frames_with_their_segments(shared):
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


def test_server_lets_a_slow_viewer_slow_nobody_and_see_the_newest_when_it_looks_again(shared):
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


def test_server_survives_killed_viewers(shared):
    _, server = shared
    wait_until(lambda: server.viewers == 0)
    viewers = [Viewer(server.url) for _ in range(3)]
    for viewer in viewers:
        viewer.see_frame()
    with Viewer(server.url) as witness:
        witness.see_frame()
        assert server.viewers == 4
        for viewer in viewers:
            viewer.leave()
        for _ in range(5):
            witness.see_frame()
        wait_until(lambda: server.viewers == 1)


@pytest.mark.parametrize(
    ("said", "code", "mask"), [(b"", 0x8, True), (b"hello", 0x1, False), (b"x" * 100, 0x8, True)]
)
def test_server_lets_a_viewer_go_that_closes_or_babbles(shared, said, code, mask):
    _, server = shared
    wait_until(lambda: server.viewers == 0)
    with Viewer(server.url) as viewer:
        viewer.say(said, code, mask)
        wait_until(lambda: server.viewers == 0)


def test_server_answers_a_ping(shared):
    with Viewer(shared[1].url) as viewer:
        viewer.hear()
        viewer.say(b"there?", 0x9)
        assert viewer.hear() == (0xA, b"there?")


def test_server_is_idle_when_the_last_viewer_has_left_for_long_enough(tmp_path):
    clock = HandClock()
    with preview(tmp_path, clock=clock) as (_, server):
        assert not server.idle(0.0)
        with Viewer(server.url) as viewer:
            viewer.see_frame()
            assert not server.idle(0.0)
        wait_until(lambda: server.idle(0.0))
        assert not server.idle(60.0)
        clock.advance(60.0)
        assert server.idle(60.0)
        with Viewer(server.url) as viewer:
            viewer.see_frame()
            assert not server.idle(0.0)


def test_server_says_what_the_page_may_load(shared):
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
    "host",
    [
        *("evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "192.0.2.7:{port}"),
        *("user@127.0.0.1:{port}", "127.0.0.1:{port}/x", "127.0.0.1:{port}x", "", "[::1"),
    ],
)
def test_server_refuses_a_request_for_another_host(shared, host):
    url = shared[1].url
    port = urlsplit(url).port
    status, answer = ask(url, "/segment?id=1", headers={"Host": host.format(port=port)})
    assert (status, answer) == (421, {"error": "unknown host"})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.2"])
def test_server_answers_a_request_for_this_machine(shared, host):
    url = shared[1].url
    headers = {"Host": f"{host}:{urlsplit(url).port}"}
    assert ask(url, "/segment?id=123456", headers=headers)[0] == 404


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"]
)
def test_server_refuses_another_origin_everywhere(shared, origin):
    url = shared[1].url
    headers = {"Origin": origin}
    assert ask(url, "/segment?id=1", headers=headers)[0] == 403
    assert ask(url, "/command", {"do": "pause"}, headers)[0] == 403
    with Viewer(url, headers=headers) as viewer:
        assert viewer.status == 403
    assert not shared[0].status.paused


def test_server_welcomes_its_own_origin(shared):
    url = shared[1].url
    headers = {"Origin": url.rstrip("/")}
    assert ask(url, "/command", {"do": "resume"}, headers)[0] == 200
    with Viewer(url, headers=headers) as viewer:
        assert viewer.status == 101


def test_server_asks_for_a_token_on_every_request(tmp_path):
    with preview(tmp_path, token=TOKEN) as (loop, server):
        assert server.url.endswith(f"/?token={TOKEN}")
        for wrong in ("", "?token=", "?token=0123456789abcdeF", f"?token={TOKEN}0", "?Token=x"):
            assert ask(server.url, f"/{wrong}")[0] == 401
            assert ask(server.url, f"/segment{wrong}")[0] == 401
            assert ask(server.url, f"/nowhere{wrong}")[0] == 401
            assert ask(server.url, f"/command{wrong}", {"do": "pause"})[0] == 401
            with Viewer(server.url, f"/stream{wrong}") as viewer:
                assert viewer.status == 401
        assert not loop.status.paused
        assert ask(server.url, f"/command?token={TOKEN}", {"do": "pause"})[0] == 200
        assert loop.status.paused
        with Viewer(server.url, f"/stream?token={TOKEN}") as viewer:
            assert viewer.status == 101


def test_server_needs_a_token_on_another_address(tmp_path):
    with LiveLoop(fake_camera(), PARAMS) as loop:
        for host in ("0.0.0.0", "::", "192.0.2.7", "example.org"):
            with pytest.raises(ConfigError, match="needs a token"):
                PreviewServer(loop, Commands(loop, tmp_path), host=host)


def test_server_beyond_loopback_wants_an_address_or_our_name_for_a_host(tmp_path):
    """Addresses cannot be spoofed by a name that resolves to us; the token does the rest."""
    with preview(tmp_path, host="0.0.0.0", token=TOKEN) as (_, server):
        port = urlsplit(server.url).port
        url = f"http://127.0.0.1:{port}/"
        for host, status in (
            ("192.0.2.7", 404),
            (socket.gethostname(), 404),
            ("evil.example", 421),
        ):
            headers = {"Host": f"{host}:{port}"}
            assert ask(url, f"/segment?id=77777&token={TOKEN}", headers=headers)[0] == status


@pytest.mark.parametrize(
    "path",
    [
        *("/../../etc/passwd", "/etc/passwd", "/%2e%2e/x", "//etc/passwd", "/page.js"),
        *("/command", "/segment", "/segment?id=../x", "/segment?id=-1", f"/segment?id={'9' * 40}"),
        "/segment?id=%D9%A1",  # a digit, but not one of ours
    ],
)
def test_server_leads_by_no_path_anywhere_else(shared, path):
    assert ask(shared[1].url, path)[0] == 404


def test_server_takes_only_short_json_as_a_command(shared):
    url = shared[1].url
    assert ask(url, "/command", {"do": "x" * 5000})[0] == 413
    assert ask(url, "/command", {"do": "pause"}, {"Content-Type": "text/plain"})[0] == 400
    assert not shared[0].status.paused


def test_server_tells_of_a_segment(shared):
    _, server = shared
    with Viewer(server.url) as viewer:
        seen = viewer.see_frame()
        track = int(seen.ids[60, 80])
        status, known = ask(server.url, f"/segment?id={track}")
    assert status == 200
    assert known["id"] == track
    assert known["history"][-1][3] > 0
    assert set(known) >= {"age", "area", "lab", "motion", "events"}


def test_server_turns_too_many_connections_away(tmp_path, monkeypatch):
    monkeypatch.setattr("aaams_stream.live.server._MOST_CONNECTIONS", 3)
    with preview(tmp_path) as (_, server), contextlib.ExitStack() as stack:
        viewers = [stack.enter_context(Viewer(server.url)) for _ in range(3)]
        with pytest.raises(ConnectionError):
            Viewer(server.url)
        for viewer in viewers:
            viewer.see_frame()

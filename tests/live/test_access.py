"""Who may ask a preview for anything, and who gets nothing."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

import pytest
from support.live import preview
from support.viewers import Viewer, ask, order

from aaams_stream.live.access import Access, is_loopback

pytestmark = pytest.mark.usefixtures("compiled")
TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "192.0.2.7:{port}"),
        *("user@127.0.0.1:{port}", "127.0.0.1:{port}/x", "127.0.0.1:{port}x", "", "[::1"),
    ],
)
def test_access_is_refused_to_a_request_for_another_host(shared, host):
    url = shared[1].url
    port = urlsplit(url).port
    status, answer = ask(url, "/", headers={"Host": host.format(port=port)})
    assert (status, answer) == (421, {"error": "unknown host"})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.2"])
def test_access_is_granted_to_a_request_for_this_machine(shared, host):
    url = shared[1].url
    headers = {"Host": f"{host}:{urlsplit(url).port}"}
    assert ask(url, "/", headers=headers)[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"]
)
def test_access_is_refused_to_another_origin_everywhere(shared, origin):
    url = shared[1].url
    headers = {"Origin": origin}
    assert ask(url, "/", headers=headers)[0] == 403
    assert ask(url, "/nowhere", headers=headers)[0] == 403
    with Viewer(url, headers=headers) as viewer:
        assert viewer.status == 403


def test_access_is_granted_to_the_servers_own_origin(shared):
    url = shared[1].url
    headers = {"Origin": url.split("/?")[0]}
    assert ask(url, "/", headers)[0] == 200
    with Viewer(url, headers=headers) as viewer:
        assert viewer.status == 101


def test_access_needs_the_token_on_every_request(tmp_path):
    with preview(tmp_path, token=TOKEN) as (_, server):
        assert server.url.endswith(f"/?token={TOKEN}")
        bare = server.url.split("?")[0]
        for wrong in ("", "?token=", "?token=0123456789abcdeF", f"?token={TOKEN}0", "?Token=x"):
            assert ask(bare, f"/{wrong}")[0] == 401
            assert ask(bare, f"/nowhere{wrong}")[0] == 401
            with Viewer(bare, f"/stream{wrong}") as viewer:
                assert viewer.status == 401
        with Viewer(bare, f"/stream?token={TOKEN}") as viewer:
            assert viewer.status == 101


def test_access_is_by_a_token_that_is_made_up_where_none_is_given(tmp_path):
    with preview(tmp_path) as (_, server):
        token = urlsplit(server.url).query.removeprefix("token=")
        assert re.fullmatch("[0-9a-f]{32}", token)
        assert ask(server.url.split("?")[0], "/")[0] == 401
        assert ask(server.url, "/")[0] == 200


def test_access_without_a_token_is_for_everybody_on_the_machine(tmp_path):
    with preview(tmp_path, token="") as (_, server):
        assert "?" not in server.url
        assert ask(server.url, "/")[0] == 200
        assert order(server.url, {"do": "resume"}) == {}


def test_access_of_a_guest_is_to_look_and_to_ask(tmp_path):
    with preview(tmp_path, token=TOKEN) as (loop, server):
        guest = Access("127.0.0.1", urlsplit(server.url).port, TOKEN).guest_url
        assert TOKEN not in guest
        with Viewer(guest) as viewer:
            seen = viewer.see_frame()
            assert viewer.order({"do": "about", "id": int(seen.ids[0, 0])})["area"] > 0
            for name in ("pause", "resume", "step", "snapshot", "record", "stop", "detail"):
                assert "for looking on only" in viewer.order({"do": name})["error"]
        assert not loop.status.paused
    assert not list(tmp_path.iterdir())


def test_access_beyond_loopback_wants_an_address_or_our_name_for_a_host(tmp_path):
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
            assert ask(url, f"/nowhere?token={TOKEN}", headers=headers)[0] == status


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        *(("localhost", True), ("127.0.0.1", True), ("127.8.9.10", True), ("::1", True)),
        *(("0.0.0.0", False), ("::", False), ("192.0.2.7", False), ("example.org", False)),
    ],
)
def test_is_loopback_where_only_this_machine_can_reach(host, alone):
    assert is_loopback(host) == alone


def test_access_says_where_the_page_is():
    assert Access("127.0.0.1", 8000, "").url == "http://127.0.0.1:8000/"
    assert Access("::1", 8000, TOKEN).url == f"http://[::1]:8000/?token={TOKEN}"
    assert Access("0.0.0.0", 80, TOKEN).url.startswith(f"http://{socket.gethostname()}:80/")

"""Who may ask a preview for anything, and who gets nothing."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest
from support.live import preview
from support.viewers import Viewer, ask

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
    status, answer = ask(url, "/segment?id=1", headers={"Host": host.format(port=port)})
    assert (status, answer) == (421, {"error": "unknown host"})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.2"])
def test_access_is_granted_to_a_request_for_this_machine(shared, host):
    url = shared[1].url
    headers = {"Host": f"{host}:{urlsplit(url).port}"}
    assert ask(url, "/segment?id=123456", headers=headers)[0] == 404


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"]
)
def test_access_is_refused_to_another_origin_everywhere(shared, origin):
    url = shared[1].url
    headers = {"Origin": origin}
    assert ask(url, "/segment?id=1", headers=headers)[0] == 403
    assert ask(url, "/command", {"do": "pause"}, headers)[0] == 403
    with Viewer(url, headers=headers) as viewer:
        assert viewer.status == 403
    assert not shared[0].status.paused


def test_access_is_granted_to_the_servers_own_origin(shared):
    url = shared[1].url
    headers = {"Origin": url.rstrip("/")}
    assert ask(url, "/command", {"do": "resume"}, headers)[0] == 200
    with Viewer(url, headers=headers) as viewer:
        assert viewer.status == 101


def test_access_needs_the_token_on_every_request(tmp_path):
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
            assert ask(url, f"/segment?id=77777&token={TOKEN}", headers=headers)[0] == status


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

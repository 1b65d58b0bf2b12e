"""Requests that mean no good: none gets anything, none brings the preview down.

Each is sent as it stands; `{host}` is the server's own, `{token}` the right token, which a page of
another site may have got hold of.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
from urllib.parse import urlsplit

import pytest
from support.clocks import PATIENCE
from support.live import newest, wait_until, watch
from support.viewers import Viewer, ask

pytestmark = pytest.mark.usefixtures("compiled")

OWN = "Host: {host}\r\n"
UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"

TARGETS = [
    *("/", "/stream", "/?token=", "/?token=x", "/?token[]={token}", "/?TOKEN={token}"),
    *("/?token={token}x", "/?token=%00", "/?token=%ff%fe", "/#token={token}", "/?x=token={token}"),
    *("/;token={token}", "/../?token=x", "/%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "//x/../y"),
    *("http://[/x", "http://evil.example/?token=x", "http://[::1/", "http://]/", "http://[[[/"),
    *("*", "?", "x", "\\..\\..\\x", "/\x7f", "/" + "a" * 7000, "/?" + "a=b&" * 1500),
    *("/?" + "&".join(f"token={n}" for n in range(15)), "/stream?token=" + "0" * 6000),
    *("/?token=" + "[" * 4090, "/" + "%00" * 1000, "/?token={token}%0d%0aX: y", "/?token=+{token}"),
    *("/command", "/segment?id=1", "/favicon.ico", "/.git/config", "/page.js", "/static/../x"),
]
METHODS = ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "G" * 99]
HEADERS = [
    *("Host: evil.example\r\n", "Host: evil.example:{port}\r\n", "", OWN + OWN, "Host:\r\n"),
    *("Host: {host}, evil\r\n", "Host: user@{host}\r\n", "Host: {host}/\r\n", "Host: [::1\r\n"),
    *("Host: 192.0.2.7:{port}\r\n", "Host: {host}x\r\n", "Host: 127.0.0.1:99999\r\n"),
    *(OWN + "Origin: http://evil.example\r\n", OWN + "Origin: null\r\n", OWN + "Origin: \r\n"),
    *(OWN + "Origin: https://{host}\r\n", OWN + "Origin: http://{host}.evil.example\r\n"),
    *(OWN + "Origin: http://{host}\r\nOrigin: http://evil.example\r\n",),
    *(OWN + "Content-Length: " + "9" * 5000 + "\r\n", OWN + "Content-Length: -1\r\n"),
    *(OWN + "Content-Length: 10\r\n", OWN + "Transfer-Encoding: chunked\r\n"),
    *(
        OWN + "X: " + "y" * 9000 + "\r\n",
        OWN + "X: y\r\n" * 200,
        OWN + "X y\r\n",
        OWN + " fold\r\n",
    ),
    *(OWN + "X: \x00\r\n", OWN + "\x00: y\r\n", OWN + ": y\r\n", OWN + "X:\ny\r\n"),
]
STREAMS = [
    *(OWN, OWN + "Upgrade: websocket\r\n", OWN + UPGRADE, OWN + UPGRADE + KEY + KEY),
    *(OWN + UPGRADE + "Sec-WebSocket-Key: \r\n", OWN + UPGRADE + "Sec-WebSocket-Key: ###\r\n"),
    *(OWN + UPGRADE.replace("13", "8") + KEY, OWN + UPGRADE.replace("13", "x") + KEY),
    *(OWN + UPGRADE.replace("websocket", "h2c") + KEY, OWN + KEY + "Connection: Upgrade\r\n"),
    *("Host: evil.example\r\n" + UPGRADE + KEY, OWN + UPGRADE + KEY + "Origin: null\r\n"),
    *(OWN + UPGRADE + KEY + "Origin: http://evil.example\r\n",),
]
RAW = [
    *(
        b"\r\n\r\n",
        b"\0" * 100 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ),
    *(
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\n\n\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ),
    *(
        b"GET  /  HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1 x\r\n\r\n",
        "GET /\u00e9 HTTP/1.1\r\n\r\n".encode(),
    ),
    *(b"\xff\xfe" * 50 + b"\r\n\r\n", b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n"),
]
REQUESTS = [
    *(f"GET {target} HTTP/1.1\r\n{OWN}\r\n" for target in TARGETS),
    *(f"{method} /?token={{token}} HTTP/1.1\r\n{OWN}\r\n" for method in METHODS),
    *(f"GET /?token={{token}} HTTP/1.1\r\n{headers}\r\n" for headers in HEADERS),
    *(f"GET /stream?token={{token}} HTTP/1.1\r\n{headers}\r\n" for headers in STREAMS),
    *(f"GET /stream HTTP/1.1\r\n{OWN}{UPGRADE}{KEY}\r\n", f"GET / HTTP/1.0\r\n{OWN}\r\n"),
    *RAW,
]
# What is said after a connection was let in, with the right token.
MESSAGES = {
    "64-bit length": b"\x81\xff" + struct.pack("!Q", 1 << 40) + b"\0\0\0\0",
    "64-bit length, negative": b"\x81\xff" + b"\xff" * 8 + b"\0\0\0\0",
    "a length of 5000": b"\x81\xfe" + struct.pack("!H", 5000) + b"\0" * 5004,
    "reserved bits": b"\xf1\x85\0\0\0\0shown",
    "a lone continuation": b"\x80\x85\0\0\0\0shown",
    "a message within another": b"\x01\x80\0\0\0\0\x81\x80\0\0\0\0",
    "a ping of 1000 bytes": b"\x89\xfe" + struct.pack("!H", 1000) + b"\0" * 1004,
    "a ping in parts": b"\x09\x80\0\0\0\0",
    "an unknown kind": b"\x83\x80\0\0\0\0",
    "another unknown kind": b"\x8f\x80\0\0\0\0",
    "no mask": b"\x81\x05shown",
    "not UTF-8": b"\x81\x82\0\0\0\0\xff\xfe",
    "a close of one byte": b"\x88\x81\0\0\0\0\x03",
    "endless parts": b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 5000,
}


def exchange(url, sent):
    """Send bytes and return all that comes back."""
    server = urlsplit(url)
    with socket.create_connection((server.hostname, server.port), timeout=PATIENCE) as connection:
        heard = b""
        try:
            connection.sendall(sent)
            while data := connection.recv(1 << 16):
                heard += data
        except ConnectionError:
            pass
        return heard


def filled_in(request, url):
    if isinstance(request, bytes):
        return request
    server = urlsplit(url)
    token = server.query.removeprefix("token=")
    for name, value in (("host", server.netloc), ("port", server.port), ("token", token)):
        request = request.replace(f"{{{name}}}", str(value))
    return request.encode("latin-1")


def test_hostile_requests_are_a_hundred_and_more():
    assert len(set(REQUESTS)) + len(MESSAGES) >= 100


def test_hostile_requests_get_nothing_and_harm_nobody(shared, caplog):
    loop, server = shared
    with Viewer(server.url) as witness:
        witness.see_frame()
        for request in REQUESTS:
            heard = exchange(server.url, filled_in(request, server.url))
            told = re.match(rb"HTTP/1.1 (\d+) ", heard)
            assert not heard or told, (request, heard[:100])
            harmless = request.startswith("GET / HTTP/1.0") if isinstance(request, str) else False
            assert told is None or int(told[1]) >= 400 or harmless, (request, heard[:100])
            assert b"<title>" not in heard, request
            assert b"Traceback" not in heard
            witness.see_frame()
        assert ask(server.url, "/")[0] == 200
        assert server.viewers == 1
    assert loop.status.phase == "running"
    assert not loop.status.paused
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("said", MESSAGES.values(), ids=MESSAGES)
def test_hostile_messages_end_the_connection(shared, said, caplog):
    loop, server = shared
    wait_until(lambda: server.viewers == 0)
    with Viewer(server.url) as viewer:
        viewer.see_frame()
        with contextlib.suppress(ConnectionError):
            viewer.send(said)
        assert viewer.gone()
    wait_until(lambda: server.viewers == 0)
    watch(loop, 1, after=newest(loop).number)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_hostile_noise_after_the_door_ends_the_connection(shared):
    server = shared[1]
    for seed in range(20):
        with Viewer(server.url) as viewer:
            viewer.see_frame()
            noise = bytes([0xC0 | seed]) + os.urandom(200)  # reserved bits are set
            viewer.send(noise)
            assert viewer.gone()
    wait_until(lambda: server.viewers == 0)

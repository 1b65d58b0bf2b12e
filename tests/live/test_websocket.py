"""The server's side of a WebSocket, over a pair of sockets."""

from __future__ import annotations

import socket
import threading

import pytest
from support.clocks import PATIENCE

from aaams_stream.live.websocket import WebSocket


@pytest.mark.parametrize("gathers", [True, False])
def test_websocket_sends_a_message_longer_than_the_line_takes(gathers, monkeypatch):
    monkeypatch.setattr("aaams_stream.live.websocket._GATHERS", gathers)
    parts = [b"head", bytes(range(256)) * 20_000, b"tail"]
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as reader:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)  # far less than the message
        ours.settimeout(PATIENCE)
        sender = threading.Thread(target=WebSocket(ours, reader).send, args=parts)
        sender.start()
        data = reader.read(10 + sum(map(len, parts)))
        sender.join()
    assert data[:2] == b"\x82\x7f"
    assert data[10:] == b"".join(parts)

"""The server's side of a WebSocket (RFC 6455), as far as a page that only listens needs it."""

from __future__ import annotations

import base64
import hashlib
import select
import socket
import struct
from collections.abc import Mapping
from typing import BinaryIO

_SALT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # the one of RFC 6455
_BINARY, _CLOSE, _PING, _PONG = 0x2, 0x8, 0x9, 0xA
_LONGEST = 4096  # bytes a viewer may say at a time
_GATHERS = hasattr(socket.socket, "sendmsg")


class ClosedError(ConnectionError):
    """The viewer has left, or says what it should not."""


def accept_key(headers: Mapping[str, str]) -> str | None:
    """Return the answer to an upgrade request, None if it is none."""
    fields = {name.lower(): value.strip() for name, value in headers.items()}
    upgrade = fields.get("upgrade", "").lower() == "websocket"
    key = fields.get("sec-websocket-key")
    if not upgrade or not key or fields.get("sec-websocket-version") != "13":
        return None
    digest = hashlib.sha1(key.encode() + _SALT, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


class WebSocket:
    """Sends binary messages; takes messages of the viewer one by one."""

    def __init__(self, connection: socket.socket, reader: BinaryIO) -> None:
        self._connection = connection
        self._reader = reader

    def send(self, *parts: bytes) -> None:
        """Send one binary message made of parts; what the connection cannot take is an OSError."""
        self._send(_BINARY, *parts)

    def heard(self) -> bool:
        """Tell whether the viewer has said something, or left."""
        return bool(select.select([self._connection], [], [], 0)[0])

    def receive(self) -> bytes:
        """Wait for the next message; raise ClosedError when there is none."""
        while True:
            first, second = self._read(2)
            code, length = first & 0x0F, second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", self._read(2))
            # a page must mask what it says, and ours has little to say
            if not second & 0x80 or not first & 0x80 or length > _LONGEST:
                raise ClosedError("malformed message")
            mask = self._read(4)
            said = bytes(byte ^ mask[k % 4] for k, byte in enumerate(self._read(length)))
            if code == _CLOSE:
                self._send(_CLOSE, said[:2])
                raise ClosedError("left")
            if code == _PING:
                self._send(_PONG, said)
            elif code != _PONG:
                return said

    def _read(self, count: int) -> bytes:
        data = self._reader.read(count) if count else b""
        if len(data) < count:
            raise ClosedError("gone")
        return data

    def _send(self, code: int, *parts: bytes) -> None:
        length = sum(map(len, parts))
        if length < 126:
            head = struct.pack("!BB", 0x80 | code, length)
        elif length < 1 << 16:
            head = struct.pack("!BBH", 0x80 | code, 126, length)
        else:
            head = struct.pack("!BBQ", 0x80 | code, 127, length)
        # in one go and without a copy, where the system can: each piece would wake the viewer
        sent = self._connection.sendmsg([head, *parts]) if _GATHERS else 0
        for part in (head, *parts):
            if sent < len(part):
                self._connection.sendall(memoryview(part)[sent:])
            sent = max(sent - len(part), 0)

"""A viewer of the preview without a browser: speaks to its server over a plain socket."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import cv2
import numpy as np
from numpy.typing import NDArray

from support.clocks import PATIENCE


class Seen(NamedTuple):
    """One message of the stream, taken apart."""

    head: dict[str, Any]
    ids: NDArray[np.uint32] | None = None  # (h, w)
    rgb: NDArray[np.uint8] | None = None  # (h, w, 3)
    colours: NDArray[np.uint8] | None = None  # (k, 3)
    merges: NDArray[np.uint32] | None = None  # (n, 2)
    objects: NDArray[np.uint32] | None = None  # (h, w) which of the objects in order, 0: none


def ask(
    url: str, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, dict[str, Any]]:
    """Send one request, with the token of the address unless the path has one."""
    server = urlsplit(url)
    if "?" not in path and server.query:
        path = f"{path}?{server.query}"
    connection = http.client.HTTPConnection(str(server.hostname), server.port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        body = response.read()
        found = response.headers["Content-Type"].startswith("application/json")
        return response.status, json.loads(body) if found else {"text": body.decode()}
    finally:
        connection.close()


def order(url: str, command: object) -> dict[str, Any]:
    """Come in, give one command, and leave with the answer."""
    with Viewer(url) as viewer:
        return viewer.order(command)


class Viewer:
    """Looks at the stream; shows nothing until asked to."""

    def __init__(
        self, url: str, path: str = "/stream", headers: dict[str, str] | None = None
    ) -> None:
        server = urlsplit(url)
        if "?" not in path and server.query:
            path = f"{path}?{server.query}"
        self._socket = socket.create_connection((server.hostname, server.port), timeout=PATIENCE)
        self._file = self._socket.makefile("rb")
        fields = {
            "Host": server.netloc,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        } | (headers or {})
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._socket.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        answer = self._file.readline()
        if not answer:
            self.leave()
            raise ConnectionError("turned away")
        self.status = int(answer.split()[1])
        while self._file.readline().strip():
            pass

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Go without a word, as a killed browser does."""
        self._file.close()
        self._socket.close()

    def say(self, text: bytes, code: int = 0x1, mask: bool = True) -> None:
        """Send one message."""
        key = os.urandom(4)
        masked = bytes(byte ^ key[k % 4] for k, byte in enumerate(text))
        head = struct.pack("!B", 0x80 | code)
        bit = 0x80 if mask else 0
        if len(text) < 126:
            head += struct.pack("!B", bit | len(text))
        else:
            head += struct.pack("!BH", bit | 126, len(text))
        self.send(head + (key + masked if mask else text))

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def order(self, command: object) -> dict[str, Any]:
        """Give a command and wait for its answer; what is shown meanwhile goes by."""
        self.say(command if isinstance(command, bytes) else json.dumps(command).encode())
        while True:
            code, data = self.hear()
            if code == 1:
                return json.loads(data)
            if code != 2:
                raise ConnectionError("turned away")
            self.say(b"shown")

    def gone(self) -> bool:
        """Wait until the server ends the connection; whatever it sends until then goes by."""
        try:
            while self._socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        return True

    def hear(self) -> tuple[int, bytes]:
        """Wait for one message; return its kind and what it says."""
        start = self._file.read(2)
        if len(start) < 2:
            raise ConnectionError("turned away")
        first, length = start
        if length == 126:
            (length,) = struct.unpack("!H", self._file.read(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._file.read(8))
        return first & 0x0F, self._file.read(length)

    def see(self) -> Seen:
        """Take the next message and ask for another."""
        while True:
            code, data = self.hear()
            if code == 2:
                self.say(b"shown")
                return unpack(data)
            assert code == 1, code  # an answer that nobody waited for

    def see_frame(self) -> Seen:
        """Take messages until one has a picture."""
        while (seen := self.see()).ids is None:
            pass
        return seen


def unpack(data: bytes, outside: int | None = None) -> Seen:
    """Take a message of the stream apart, as its description says; outside: id of no segment."""
    length = int.from_bytes(data[:4], "little")
    head = json.loads(data[4 : 4 + length])
    if "packed" not in head:
        return Seen(head)
    at = 4 + length
    packed = zlib.decompress(data[at : at + head["packed"]])
    k, n = head["rows"], head["merges"]
    ids = np.cumsum(np.frombuffer(packed, "<u4", k), dtype=np.uint32)
    merges = np.frombuffer(packed, "<u2", 2 * n, 4 * k).reshape(-1, 2)
    colours = np.frombuffer(packed, "u1", 3 * k, 4 * k + 4 * n).reshape(-1, 3)
    rest = packed[7 * k + 4 * n :]
    maps = []
    for codes, values in zip(head["codes"][::2], head["codes"][1::2], strict=True):
        shape = (head["height"], head["width"])
        maps.append(decode_labels(rest[:codes], rest[codes : codes + values], shape))
        rest = rest[codes + values :]
    assert rest == b""
    jpeg = np.frombuffer(data, np.uint8, -1, at + head["packed"])
    rgb = cv2.cvtColor(cv2.imdecode(jpeg, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    if outside is not None:
        ids = np.append(ids, np.uint32(outside))
    return Seen(head, ids[maps[0]], rgb, colours, merges, *maps[1:])


def decode_labels(codes: bytes, values: bytes, shape: tuple[int, int]) -> NDArray[np.uint32]:
    """Return a label map (h, w) from its codes and values."""
    numbers = _numbers(values)
    labels = np.empty(shape, np.uint32)
    above: list[tuple[int, int]] = []  # first pixel and label of each run
    y, i, line = 0, 0, []
    for code in codes:
        if code <= 6:
            line.append((above[i][0] + code - 3, above[i][1]))
            i += 1
        elif code == 7:
            i += 1
        elif code == 8:
            line.append(((line[-1][0] if line else 0) + next(numbers), next(numbers)))
        elif code == 9:
            moved = next(numbers)
            moved = -(moved + 1) // 2 if moved % 2 else moved // 2
            line.append((above[i][0] + moved, above[i][1]))
            i += 1
        else:
            for (start, label), (end, _) in zip(line, [*line[1:], (shape[1], 0)], strict=True):
                labels[y, start:end] = label
            above, line, i, y = line, [], 0, y + 1
    assert y == shape[0]
    assert next(numbers, None) is None
    return labels


def _numbers(values: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in values:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield number
            number = shift = 0

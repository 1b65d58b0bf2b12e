"""One request to the live page: the page itself, the stream, a question, a command.

Nothing of a request ever becomes part of a path.
"""

from __future__ import annotations

import contextlib
import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from aaams_stream.errors import AaamsError
from aaams_stream.live.commands import RefusedError
from aaams_stream.live.page import build_page, title_of
from aaams_stream.live.websocket import WebSocket, accept_key
from aaams_stream.live.wire import Messages, with_latency

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aaams_stream.live import LiveLoop
    from aaams_stream.live.access import Access
    from aaams_stream.live.clock import Clock
    from aaams_stream.live.commands import Commands
    from aaams_stream.live.server import ConnectionServer

IDLE = 0.5  # seconds between looks whether a viewer is still there
_LONGEST_BODY = 4096
_TIMEOUT = 20.0  # seconds a viewer may leave a request or a frame unanswered


class Viewers:
    """Counts who looks on, and remembers when the last one left."""

    def __init__(self, clock: Clock) -> None:
        self.count = 0
        self._clock = clock
        self._left_at: float | None = None
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Count a viewer in."""
        with self._lock:
            self.count += 1
            self._left_at = None

    def leave(self) -> None:
        """Count a viewer out."""
        with self._lock:
            self.count -= 1
            if self.count == 0:
                self._left_at = self._clock.now()

    def idle(self, seconds: float) -> bool:
        """Tell whether there have been viewers and the last one left so long ago."""
        left = self._left_at
        return left is not None and self._clock.now() - left >= seconds


class Site:
    """What all requests share."""

    def __init__(self, loop: LiveLoop, commands: Commands, access: Access) -> None:
        self.loop, self.commands, self.access = loop, commands, access
        self.viewers = Viewers(loop.clock)
        self.messages = Messages(loop, title_of(loop.description))
        self.page = build_page()
        self.closing = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """Answers one request, or streams frames until the viewer leaves."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "aaams-stream", ""
    timeout = _TIMEOUT
    disable_nagle_algorithm = True
    server: ConnectionServer

    def do_GET(self) -> None:
        """Answer what only looks."""
        self._route({"/": self._page, "/stream": self._stream, "/segment": self._segment})

    def do_POST(self) -> None:
        """Answer what changes something."""
        self._route({"/command": self._command})

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal belongs to the command."""

    @property
    def _site(self) -> Site:
        return self.server.site

    def _route(self, routes: Mapping[str, Callable[[], None]]) -> None:
        parts = urlsplit(self.path)
        self._query = parse_qs(parts.query)
        refusal = self._site.access.refusal(
            self.headers.get("Host", ""), self.headers.get("Origin"), self._asked("token")
        )
        if refusal is not None:
            self._refuse(*refusal)
        elif parts.path not in routes:
            self._refuse(HTTPStatus.NOT_FOUND, "no such page")
        else:
            routes[parts.path]()

    def _asked(self, name: str) -> str:
        return self._query.get(name, [""])[-1]

    def _page(self) -> None:
        page = self._site.page
        self._answer(HTTPStatus.OK, "text/html; charset=utf-8", page.html, page.policy)

    def _segment(self) -> None:
        asked = self._asked("id")
        known = None
        if asked.isascii() and asked.isdecimal() and len(asked) <= 10:
            known = self._site.loop.history.about(int(asked))
        if known is None:
            self._refuse(HTTPStatus.NOT_FOUND, "no such segment")
        else:
            self._answer_json(HTTPStatus.OK, known)

    def _command(self) -> None:
        length = self.headers.get("Content-Length", "")
        kind = self.headers.get_content_type()
        if not (length.isascii() and length.isdecimal()) or int(length) > _LONGEST_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no length, or too long")
            return
        body = self.rfile.read(int(length))
        try:
            command = json.loads(body) if kind == "application/json" else None
        except ValueError:
            command = None
        if not isinstance(command, dict):
            self._refuse(HTTPStatus.BAD_REQUEST, "expected a JSON object")
            return
        try:
            answer = self._site.commands.run(command)
        except (RefusedError, AaamsError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        else:
            self._answer_json(HTTPStatus.OK, answer)

    def _stream(self) -> None:
        """Send the newest frame whenever the viewer has shown the one before."""
        key = accept_key(dict(self.headers.items()))
        if key is None:
            self._refuse(HTTPStatus.BAD_REQUEST, "expected a WebSocket")
            return
        self.send_response(HTTPStatus.SWITCHING_PROTOCOLS)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", key)
        self.end_headers()
        self.close_connection = True
        self._site.viewers.enter()
        try:
            with contextlib.suppress(OSError):  # a viewer may leave in any way it likes
                self._send_frames(WebSocket(self.connection, self.rfile))  # type: ignore[arg-type]
        finally:
            self._site.viewers.leave()

    def _send_frames(self, viewer: WebSocket) -> None:
        site, clock = self._site, self._site.loop.clock
        version = number = 0
        latency = 0.0
        while not site.closing.is_set():
            newer, shown = site.loop.wait(version, IDLE)
            if newer == version:
                if viewer.heard():
                    viewer.receive()
                continue
            version = newer
            fresh = shown if shown is not None and shown.number > number else None
            head, picture = site.messages.frame_message(version, fresh, site.viewers.count)
            viewer.send(with_latency(head, latency), picture)
            viewer.receive()
            if fresh is not None:
                latency = clock.now() - fresh.captured
                number = fresh.number

    def _answer_json(self, status: HTTPStatus, value: Mapping[str, Any]) -> None:
        self._answer(status, "application/json", json.dumps(value).encode())

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._answer_json(status, {"error": reason})

    def _answer(
        self, status: HTTPStatus, kind: str, body: bytes, policy: str = "default-src 'none'"
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": f"{policy}; frame-ancestors 'none'; base-uri 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
            "Connection": "close",  # a body that was not read must not pass for a request
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

"""The live page over HTTP: one page, one stream per viewer, commands, questions.

Nothing of a request ever becomes part of a path. Every request must name this server as its host,
come from its own page if a browser sends it, and carry the token if there is one.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import hmac
import ipaddress
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import PurePath
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from aaams_stream.errors import AaamsError, ConfigError
from aaams_stream.live import LiveFrame, LiveLoop
from aaams_stream.live.commands import Desk, RefusedError
from aaams_stream.live.websocket import WebSocket, accept_key
from aaams_stream.live.wire import Encoder

LOOPBACK = "127.0.0.1"
_MOST_CONNECTIONS = 64
_LONGEST_BODY = 4096
_IDLE = 0.5  # seconds between looks whether a viewer is still there
_TIMEOUT = 20.0  # seconds a viewer may leave a request or a frame unanswered


class PreviewServer:
    """Serves the page of a loop on threads of its own, from `start` (or `with`) to `close`."""

    def __init__(
        self, loop: LiveLoop, desk: Desk, *, host: str = LOOPBACK, port: int = 0, token: str = ""
    ) -> None:
        if not is_loopback(host) and not token:
            raise ConfigError(f"{host}: can be reached from elsewhere, and so needs a token")
        try:
            self._server = _Server(host, port)
        except OSError as error:
            raise ConfigError(
                f"{host}:{port}: cannot be listened on ({error.strerror}); "
                "try another --port or --host"
            ) from error
        self._server.site = _Site(loop, desk, host, self._server.server_address[1], token)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="preview-server", daemon=True
        )

    @property
    def url(self) -> str:
        """Where the page is, token included."""
        return self._server.site.url

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Send everyone away and stop."""
        self._server.site.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def viewers(self) -> int:
        """How many look on."""
        return self._server.site.viewers

    def deserted(self, seconds: float) -> bool:
        """Tell whether there have been viewers and the last one left so long ago."""
        left = self._server.site.left_at
        return left is not None and time.monotonic() - left >= seconds


class _Site:
    """What all requests share."""

    def __init__(self, loop: LiveLoop, desk: Desk, host: str, port: int, token: str) -> None:
        self.loop, self.desk, self.token, self.port = loop, desk, token, port
        self.encoder = Encoder()
        self.closing = threading.Event()
        self.viewers = 0
        self.left_at: float | None = None
        self._lock = threading.Lock()
        self._bulletin_lock = threading.Lock()
        self._bulletin_of: tuple[int, int | None] | None = None
        self._bulletin = b"{}", b""
        self._loopback = is_loopback(host)
        self._names = {"localhost", host.lower()}
        if not self._loopback:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
        self.url = f"http://{_bracketed(shown)}:{port}/" + (f"?token={token}" if token else "")
        self.title = title_of(loop.description)
        self.page, self.policy = _build_page()

    def bulletin(self, version: int, shown: LiveFrame | None) -> tuple[bytes, bytes]:
        """Return the state of things as a JSON object, and a frame if there is a new one.

        The bytes are made once for each version of the loop, by the first viewer who asks.
        """
        asked = (version, shown.number if shown is not None else None)
        with self._bulletin_lock:
            if self._bulletin_of != asked:
                head: dict[str, Any] = dataclasses.asdict(self.loop.status)
                head |= {"source": self.title, "viewers": self.viewers}
                picture = b""
                if shown is not None:
                    sizes, picture = self.encoder.encode(shown)
                    head |= {"number": shown.number, "time": shown.segmentation.time, **sizes}
                self._bulletin_of = asked
                self._bulletin = json.dumps(head).encode(), picture
            return self._bulletin

    def knows(self, host: str) -> bool:
        """Tell whether a Host header names this server.

        A page of another site can reach us under a name of its own that resolves to our address;
        it cannot do so under an address.
        """
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self.port or parts.username is not None or parts.path:
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback

    def enter(self) -> None:
        """Count a viewer in."""
        with self._lock:
            self.viewers += 1
            self.left_at = None

    def leave(self) -> None:
        """Count a viewer out."""
        with self._lock:
            self.viewers -= 1
            if self.viewers == 0:
                self.left_at = time.monotonic()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16
    site: _Site

    def __init__(self, host: str, port: int) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self._open: dict[Any, threading.Thread] = {}
        self._open_lock = threading.Lock()
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give each connection a thread that is known, so that closing can end it."""
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="preview-viewer",
            daemon=True,
        )
        with self._open_lock:
            room = len(self._open) < _MOST_CONNECTIONS
            if room:
                self._open[request] = thread
        if room:
            thread.start()
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that has ended."""
        with self._open_lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """End every connection and wait for their threads."""
        super().server_close()
        with self._open_lock:
            left = dict(self._open)
        for request, thread in left.items():
            with contextlib.suppress(OSError):  # it may have ended meanwhile
                request.shutdown(socket.SHUT_RDWR)
            thread.join(_IDLE + 1.0)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about viewers that vanish; anything else is a bug and is shown."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "aaams-stream", ""
    timeout = _TIMEOUT
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._route({"/": self._page, "/stream": self._stream, "/segment": self._segment})

    def do_POST(self) -> None:
        self._route({"/command": self._command})

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal belongs to the command."""

    def _route(self, routes: dict[str, Callable[[], None]]) -> None:
        parts = urlsplit(self.path)
        self._query = parse_qs(parts.query)
        site = self.server.site
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if not site.knows(host):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "unknown host")
        elif origin is not None and origin.lower() != f"http://{host.lower()}":
            self._refuse(HTTPStatus.FORBIDDEN, "another origin")
        elif site.token and not self._knows_token(site.token):
            self._refuse(HTTPStatus.UNAUTHORIZED, "wrong or missing token")
        elif parts.path not in routes:
            self._refuse(HTTPStatus.NOT_FOUND, "no such page")
        else:
            routes[parts.path]()

    def _knows_token(self, token: str) -> bool:
        given = self._query.get("token", [""])[-1]
        return hmac.compare_digest(given.encode(), token.encode())

    def _page(self) -> None:
        site = self.server.site
        self._answer(HTTPStatus.OK, "text/html; charset=utf-8", site.page, site.policy)

    def _segment(self) -> None:
        asked = self._query.get("id", [""])[-1]
        known = None
        if asked.isascii() and asked.isdecimal() and len(asked) <= 10:
            known = self.server.site.loop.memory.about(int(asked))
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
            order = json.loads(body) if kind == "application/json" else None
        except ValueError:
            order = None
        if not isinstance(order, dict):
            self._refuse(HTTPStatus.BAD_REQUEST, "expected a JSON object")
            return
        try:
            answer = self.server.site.desk.carry_out(order)
        except (RefusedError, AaamsError) as error:
            self._answer_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
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
        site = self.server.site
        site.enter()
        try:
            with contextlib.suppress(OSError):  # a viewer may leave in any way it likes
                self._send_frames(WebSocket(self.connection, self.rfile))  # type: ignore[arg-type]
        finally:
            site.leave()

    def _send_frames(self, viewer: WebSocket) -> None:
        site = self.server.site
        version = number = 0
        latency = 0.0
        while not site.closing.is_set():
            newer, shown = site.loop.wait(version, _IDLE)
            if newer == version:
                if viewer.heard():
                    viewer.receive()
                continue
            version = newer
            fresh = shown if shown is not None and shown.number > number else None
            text, picture = site.bulletin(version, fresh)
            text = b'%s, "glass": %.4f}' % (text[:-1], latency)
            text += b" " * (-len(text) % 4)
            viewer.send(len(text).to_bytes(4, "little") + text, picture)
            viewer.receive()
            if fresh is not None:
                latency = time.monotonic() - fresh.captured
                number = fresh.number

    def _answer_json(self, status: HTTPStatus, value: dict[str, Any]) -> None:
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


def title_of(source: str) -> str:
    """Return what viewers may know of a source: no folders, and no password of an address."""
    if "://" in source:
        parts = urlsplit(source)
        return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    return PurePath(source).name or source


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _build_page() -> tuple[bytes, str]:
    """Return the page with style and script inside, and the policy that allows just these."""
    folder = resources.files("aaams_stream.live")
    page, style, script = (
        (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    )
    page = page.replace("/* page.css */", style).replace("/* page.js */", script)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "connect-src 'self'; img-src 'self' data:"
    )
    return page.encode(), policy


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

"""What is answered to requests: the page to those who may have it, and the stream to the page.

Nothing of a request ever becomes part of a path.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from websockets.datastructures import Headers, MultipleValuesError
from websockets.http11 import Response

from aaams_stream.live.page import build_page, title_of
from aaams_stream.live.past import Past
from aaams_stream.live.wire import PICTURES, Messages

if TYPE_CHECKING:
    from websockets.http11 import Request

    from aaams_stream.live import LiveFrame, LiveLoop
    from aaams_stream.live.access import Access, Role
    from aaams_stream.live.clock import Clock
    from aaams_stream.live.commands import Commands

_MOST_VIEWERS = 32


class Viewers:
    """Counts who looks on, and remembers when the last one left."""

    def __init__(self, clock: Clock) -> None:
        self.count = 0
        self._clock = clock
        self._left_at: float | None = None

    def enter(self) -> bool:
        """Count a viewer in; False if there are too many."""
        if self.count >= _MOST_VIEWERS:
            return False
        self.count += 1
        self._left_at = None
        return True

    def leave(self) -> None:
        """Count a viewer out."""
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
        self.past = Past()
        self._page = build_page()
        self._kept: LiveFrame | None = None  # the frame that was kept last

    def answer(self, request: Request) -> Response | None:
        """Return what a request gets; None: it is the page's and may have the stream."""
        try:
            target = urlsplit(request.path)
            host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
            token = _token(request.path)
        except (ValueError, MultipleValuesError):
            return _refusal(HTTPStatus.BAD_REQUEST, "not a request")
        refusal = self.access.refusal(host, origin, token)
        if refusal is not None:
            return _refusal(*refusal)
        if getattr(request, "method", "GET") != "GET":  # websockets 15 and 16 let in no other
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is known here")
        if target.path == "/stream":
            return None
        if target.path == "/":
            return _response(
                HTTPStatus.OK, "text/html; charset=utf-8", self._page.html, self._page.policy
            )
        return _refusal(HTTPStatus.NOT_FOUND, "no such page")

    def role(self, request: Request) -> Role:
        """Return what a viewer may do who has been let in."""
        return self.access.role(_token(request.path)) or "guest"

    def keep_newest(self) -> None:
        """Keep the newest frame, to be gone back to."""
        shown = self.loop.wait(0, 0)[1]
        if shown is not None and shown is not self._kept:
            self._kept = shown
            self.past.keep(self.messages.encoder.encode(shown, PICTURES[0]))
            self.loop.past = self.past.numbers


def _token(path: str) -> str:
    return parse_qs(urlsplit(path).query, max_num_fields=20).get("token", [""])[-1]


def _refusal(status: HTTPStatus, reason: str) -> Response:
    return _response(status, "application/json", json.dumps({"error": reason}).encode())


def _response(
    status: HTTPStatus, kind: str, body: bytes, policy: str = "default-src 'none'"
) -> Response:
    headers = Headers(
        {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": f"{policy}; frame-ancestors 'none'; base-uri 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
            "Connection": "close",
        }
    )
    return Response(status.value, status.phrase, headers, body)

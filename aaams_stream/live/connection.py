"""A connection to somebody who asked at the door: messages in, messages out, and nobody waits.

`websockets` knows the protocol, and no socket; here bytes go to and fro as far as they go at once.
"""

from __future__ import annotations

import logging
import math
import selectors
import socket
import time
from collections import deque
from typing import TYPE_CHECKING

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from aaams_stream.live.limits import Allowance

if TYPE_CHECKING:
    from websockets.http11 import Response

    from aaams_stream.live.clock import Clock

LOGGER = logging.getLogger("aaams_stream.live")
LOGGER.setLevel(logging.WARNING)  # below it requests are told, which carry the token
FAREWELL = 0.5  # seconds in which the other side may close what has come to its end
PATIENCE = 20.0  # seconds that an answer to a request may take on its way
_AT_ONCE = 1024  # bytes that are read: a flood is noticed after as many
_LONGEST = 16384  # bytes that may be said at a time
_PINGS = 1.0  # a second


class Connection:
    """One connection; all of its methods belong to the thread that serves.

    Who says more than is any use is not heard for a while, and held up by his own system as soon
    as that has no room left. To end the connection instead would have him back at once, and a new
    one costs more than he had cost.
    """

    def __init__(self, connected: socket.socket, clock: Clock) -> None:
        connected.setblocking(False)
        self.socket = connected
        self.over = False  # nothing goes either way any longer
        self.ends_at = time.monotonic() + PATIENCE  # when it is cut at the latest
        self.deaf_until = 0.0
        self._protocol = ServerProtocol(max_size=_LONGEST, logger=LOGGER)
        self._out: deque[memoryview] = deque()  # what the system has not taken yet
        self.queued = self.sent = 0  # bytes that were to be sent so far, and those of them that are
        self._pings = Allowance(_PINGS, 5, clock)
        self._ended = False  # the other side says nothing any more

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._protocol.state is State.OPEN and not self.over

    @property
    def events(self) -> int:
        """What a selector is to look for."""
        hears = not self._ended and not self.deaf_until
        return (selectors.EVENT_READ * hears) | (selectors.EVENT_WRITE * bool(self._out))

    @property
    def due(self) -> float:
        """When it must be looked after, by the system's clock."""
        return min(self.ends_at, self.deaf_until or math.inf)

    def rest(self, seconds: float) -> None:
        """Hear nothing for so long."""
        self.deaf_until = time.monotonic() + seconds

    def look_after(self, now: float) -> None:
        """Do what is due."""
        if now >= self.ends_at:
            self.over = True
        if now >= self.deaf_until:
            self.deaf_until = 0.0

    def receive(self) -> list[Request | str | bytes]:
        """Return what was said, as far as it has come."""
        try:
            data = self.socket.recv(_AT_ONCE if self.is_open else _LONGEST)
        except BlockingIOError:
            return []
        except OSError:
            self.over = True
            return []
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
            self._ended = True
            self.ends_at = min(self.ends_at, time.monotonic() + PATIENCE)
        said = [
            message
            for event in self._protocol.events_received()
            if (message := self._message_of(event)) is not None
        ]
        self.flush()
        return said

    def _message_of(self, event: object) -> Request | str | bytes | None:
        """Return what an event says; None if that is no more than the protocol's affair."""
        if isinstance(event, Request):
            return event
        if not isinstance(event, Frame):
            return None
        if event.opcode is Opcode.PING and not self._pings.take():
            self.rest(1 / _PINGS)
        if event.opcode is Opcode.CONT or not event.fin:
            self.fail(CloseCode.UNSUPPORTED_DATA, "messages come whole")
        elif event.opcode is Opcode.TEXT:
            try:
                return bytes(event.data).decode()
            except UnicodeDecodeError:
                self.fail(CloseCode.INVALID_DATA, "not UTF-8")
        elif event.opcode is Opcode.BINARY:
            return bytes(event.data)
        return None

    def respond(self, request: Request, response: Response | None) -> None:
        """Answer the request with a page, or with None let the stream begin if it asks for that."""
        self._protocol.send_response(response or self._protocol.accept(request))
        if self._protocol.state is State.OPEN:
            self.ends_at = math.inf
        self.flush()

    def send(self, message: str | bytes) -> None:
        """Send a message, unless it has come to its end."""
        if not self.is_open:
            return
        if isinstance(message, str):
            self._protocol.send_text(message.encode())
        else:
            self._protocol.send_binary(message)
        self.flush()

    def end(self, code: CloseCode, reason: str = "") -> None:
        """Say that it ends, and leave a moment for the other side to close it."""
        if self.is_open:
            self._protocol.send_close(code, reason)
            self.flush()
        self.ends_at = min(self.ends_at, time.monotonic() + FAREWELL)

    def fail(self, code: CloseCode, reason: str = "") -> None:
        """End it because of what was said."""
        if self.is_open:
            self._protocol.fail(code, reason)
            self.flush()

    def flush(self) -> None:
        """Hand on what is to be sent, as far as the system takes it."""
        new = self._protocol.data_to_send()
        self._out.extend(map(memoryview, new))
        self.queued += sum(map(len, new))
        try:
            while self._out:
                part = self._out[0]
                if part:
                    sent = self.socket.send(part)
                    self.sent += sent
                    if sent < len(part):
                        self._out[0] = part[sent:]
                        continue
                else:  # so the protocol says that nothing follows
                    self.socket.shutdown(socket.SHUT_WR)
                    self.ends_at = min(self.ends_at, time.monotonic() + FAREWELL)
                self._out.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self.over = True
        if self._ended and not self._out:
            self.over = True

    def cut(self) -> None:
        """Give the socket back."""
        self.over = True
        self.socket.close()

"""One viewer: frames go out, each when the one before is on the screen; questions come in."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode, Frame, Opcode
from websockets.sync.server import ServerConnection

from aaams_stream.errors import AaamsError
from aaams_stream.live.commands import RefusedError
from aaams_stream.live.limits import Allowance
from aaams_stream.live.wire import with_latency

if TYPE_CHECKING:
    from aaams_stream.live.clock import Clock
    from aaams_stream.live.site import Site

HEARTBEAT = 0.5  # seconds between messages when nothing happens
TIMEOUT = 20.0  # seconds a viewer may leave a frame unanswered
NAME = "preview-viewer"  # of all threads that serve viewers
_MESSAGES = 200.0  # a second that a viewer may send: three for each frame, and its questions
_QUESTIONS = 20.0  # a second: each may take milliseconds
_PINGS = 1.0  # a second


class ViewerConnection(ServerConnection):
    """A connection that ends when it pings more than is any use."""

    recv_bufsize = 1024  # a flood is noticed after as many bytes

    def __init__(self, *args: Any, clock: Clock, **options: Any) -> None:
        self._pings = Allowance(_PINGS, 5, clock)
        super().__init__(*args, **options)
        self.recv_events_thread.name = NAME

    def process_event(self, event: Any) -> None:
        """Take note of one incoming frame."""
        if isinstance(event, Frame) and event.opcode is Opcode.PING and not self._pings.take():
            self.cut()
        super().process_event(event)

    def cut(self) -> None:
        """End the connection without a word."""
        with contextlib.suppress(OSError):  # it may have ended
            self.socket.shutdown(socket.SHUT_RDWR)


class Session:
    """Serves one viewer on the thread that calls `run` and one for its frames."""

    def __init__(self, site: Site, connection: ViewerConnection) -> None:
        self._site, self._connection = site, connection
        self._owner = site.role(connection) == "owner"
        self._allowance = Allowance(_MESSAGES, int(2 * _MESSAGES), site.loop.clock)
        self._questions = Allowance(_QUESTIONS, int(2 * _QUESTIONS), site.loop.clock)
        self._shown = threading.Event()  # the viewer has shown what was sent last
        self._over = threading.Event()

    def run(self) -> None:
        """Serve until the viewer leaves, or the server closes."""
        if not self._site.viewers.enter():
            self._connection.close(CloseCode.TRY_AGAIN_LATER, "too many viewers")
            return
        sender = threading.Thread(target=self._send, name=NAME, daemon=True)
        sender.start()
        try:
            with contextlib.suppress(ConnectionClosed):
                for said in self._connection:
                    self._hear(said)
        finally:
            self.end()
            self._connection.cut()
            sender.join()
            self._site.viewers.leave()

    def end(self) -> None:
        """Let the viewer go as soon as it has what is being sent."""
        self._over.set()
        self._shown.set()

    def cut(self) -> None:
        """Let it go now."""
        self._connection.cut()

    def _send(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            self._send_frames()
            # the server closes, or the viewer has been silent for too long
            self._connection.close(CloseCode.GOING_AWAY)

    def _send_frames(self) -> None:
        """Send the newest frame whenever the viewer has shown the one before."""
        site, clock = self._site, self._site.loop.clock
        version = number = 0
        latency = 0.0
        while not self._over.is_set():
            version, shown = site.loop.wait(version, HEARTBEAT)
            fresh = shown if shown is not None and shown.number > number else None
            head, picture = site.messages.frame_message(version, fresh, site.viewers.count)
            self._shown.clear()
            self._connection.send(with_latency(head, latency) + picture)
            if not self._shown.wait(TIMEOUT):
                return
            if fresh is not None:
                latency = clock.now() - fresh.captured
                number = fresh.number

    def _hear(self, said: str | bytes) -> None:
        if not self._allowance.take():
            self._connection.cut()
        elif said == "shown":
            self._shown.set()
        else:
            self._connection.send(json.dumps(self._answer(said)))

    def _answer(self, said: str | bytes) -> dict[str, object]:
        """Do what a viewer asks; return the answer, with the number of the question."""
        try:
            asked = json.loads(said)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            return {"error": "expected a JSON object"}
        number = asked.get("question")
        question = {"question": number} if type(number) is int else {}
        if not self._questions.take():
            return {**question, "error": "too many questions at a time; wait a moment"}
        try:
            answer = self._site.commands.run(asked, owner=self._owner)
        except (RefusedError, AaamsError) as error:
            return {**question, "error": str(error)}
        return {**question, **answer}

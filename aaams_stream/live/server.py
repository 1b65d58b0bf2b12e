"""The live page's server: a door, a thread that serves all who were let in, others for commands."""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Self

from websockets.frames import CloseCode
from websockets.http11 import Request

from aaams_stream.errors import AaamsError, ConfigError
from aaams_stream.live.access import LOOPBACK, Access, is_loopback
from aaams_stream.live.commands import RefusedError
from aaams_stream.live.connection import LOGGER, Connection
from aaams_stream.live.door import Door
from aaams_stream.live.session import Session
from aaams_stream.live.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable

    from aaams_stream.live import LiveLoop
    from aaams_stream.live.commands import Commands

    Asked = dict[str, object]

NAME = "preview-serve"  # of the threads that serve viewers
_PATIENCE = 1.5  # seconds in which viewers may take their leave
_LOOK = 1.0  # seconds between looks at the clock, at most


class PreviewServer:
    """Serves the page of a loop on threads of its own, from `start` (or `with`) to `close`.

    token: what every request must carry; None: one is made up, empty: none is needed, which is
    possible only where other machines cannot reach the server.
    """

    def __init__(
        self,
        loop: LiveLoop,
        commands: Commands,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        token: str | None = None,
    ) -> None:
        if token is None:
            token = secrets.token_hex(16)
        if not is_loopback(host) and not token:
            raise ConfigError(f"{host}: can be reached from elsewhere, and so needs a token")
        try:
            self._door = Door(host, port, loop.clock)
        except OSError as error:
            raise ConfigError(
                f"{host}:{port}: cannot be listened on ({error.strerror}); "
                "try another --port or --host"
            ) from error
        access = Access(host, self._door.getsockname()[1], token)
        self._site = Site(loop, commands, access)
        self._closing = threading.Event()
        # what follows belongs to the thread that serves
        self._selector = selectors.DefaultSelector()
        self._connections: dict[Connection, Session | None] = {}
        self._watched: dict[Connection, int] = {}  # what the selector looks for
        self._answers: deque[tuple[Connection, Asked, Asked, Callable[[], None]]] = deque()
        self._bell, self._rope = socket.socketpair()  # readable: there is news
        self._rung = False
        for end in (self._bell, self._rope):
            end.setblocking(False)
        self._thread = threading.Thread(target=self._serve, name=NAME, daemon=True)

    @property
    def url(self) -> str:
        """Where the page is, token included."""
        return self._site.access.url

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin to answer."""
        self._site.loop.listen(self._ring)
        self._door.open(self._site.access)
        self._thread.start()

    def close(self) -> None:
        """Send everyone away and stop; a second time does nothing."""
        self._closing.set()
        self._ring()
        if self._thread.ident is not None:
            self._thread.join()
        self._door.close()
        self._selector.close()
        self._bell.close()
        self._rope.close()

    @property
    def viewers(self) -> int:
        """How many look on."""
        return self._site.viewers.count

    def idle(self, seconds: float) -> bool:
        """Tell whether there have been viewers and the last one left so long ago."""
        return self._site.viewers.idle(seconds)

    def _ring(self) -> None:
        """Let the thread that serves look what is new; called by any thread."""
        if not self._rung:
            self._rung = True
            with contextlib.suppress(OSError):  # it is full, and so heard; or all is over
                self._rope.send(b".")

    def _serve(self) -> None:
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._selector.register(self._door, selectors.EVENT_READ)
        until = float("inf")
        while self._connections or not self._closing.is_set():
            now = time.monotonic()
            rest = max(0.0, min(self._due(), until, now + _LOOK) - now)
            for key, events in self._selector.select(rest):
                if key.fileobj is self._door:
                    self._welcome()
                elif key.fileobj is self._bell:
                    self._bell.recv(16)
                    self._rung = False
                    self._tell()
                else:
                    self._attend(key.data, events)
            now = time.monotonic()
            if self._closing.is_set() and until == float("inf"):
                until = now + _PATIENCE
                for connection in self._connections:
                    connection.end(CloseCode.GOING_AWAY)
            for connection, session in list(self._connections.items()):
                if now >= connection.due:
                    connection.look_after(now)
                if session is not None and now >= session.due:
                    session.go_on(now)
                self._keep(connection, over=now >= until)

    def _due(self) -> float:
        """Return when somebody must be looked after."""
        return min(
            (
                min(connection.due, session.due if session is not None else connection.due)
                for connection, session in self._connections.items()
            ),
            default=float("inf"),
        )

    def _welcome(self) -> None:
        """Take in who has been let in at the door."""
        connection = Connection(self._door.accept(), self._site.loop.clock)
        self._connections[connection] = None
        self._attend(connection, selectors.EVENT_READ)  # the request is there

    def _attend(self, connection: Connection, events: int) -> None:
        """Do what a connection is ready for."""
        try:
            if events & selectors.EVENT_WRITE:
                connection.flush()
            if events & selectors.EVENT_READ:
                for said in connection.receive():
                    self._hear(connection, said)
        except Exception:  # a fault of ours, which is to harm one alone
            LOGGER.exception("a viewer could not be served")
            connection.over = True
        self._keep(connection)

    def _hear(self, connection: Connection, said: Request | str | bytes) -> None:
        session = self._connections[connection]
        if isinstance(said, Request):
            connection.respond(said, self._site.answer(said))
            if connection.is_open and self._closing.is_set():
                connection.end(CloseCode.GOING_AWAY)
            elif connection.is_open and not self._site.viewers.enter():
                connection.end(CloseCode.TRY_AGAIN_LATER, "too many viewers")
            elif connection.is_open:
                owner = self._site.role(said) == "owner"
                session = Session(
                    self._site, connection, owner=owner, do=self._doing(connection, owner)
                )
                self._connections[connection] = session
                session.go_on(time.monotonic())
        elif session is not None:
            session.hear(said)

    def _doing(self, connection: Connection, owner: bool) -> Callable[[Asked], None]:
        """Return what has the commands of a viewer carried out by other threads, in order."""
        asked: deque[Asked] = deque()

        def work() -> None:
            self._answers.append((connection, asked[0], self._carry_out(asked[0], owner), done))
            self._ring()

        def begin() -> None:
            threading.Thread(target=work, name=NAME, daemon=True).start()

        def done() -> None:
            asked.popleft()
            if asked:
                begin()

        def do(one: Asked) -> None:
            asked.append(one)
            if len(asked) == 1:
                begin()

        return do

    def _carry_out(self, asked: Asked, owner: bool) -> Asked:
        try:
            return self._site.commands.run(asked, owner=owner)
        except (RefusedError, AaamsError) as error:
            return {"error": str(error)}
        except Exception:
            LOGGER.exception("a command could not be carried out")
            return {"error": "this went wrong; the log of the preview has more"}

    def _tell(self) -> None:
        """Hand on answers, keep the newest frame, and send it to all who are ready for it."""
        while self._answers:
            connection, asked, answer, done = self._answers.popleft()
            done()
            if (session := self._connections.get(connection)) is not None:
                session.answer(asked, answer)
        self._site.keep_newest()
        now = time.monotonic()
        for connection, session in list(self._connections.items()):
            if session is not None:
                session.go_on(now)
                self._keep(connection)

    def _keep(self, connection: Connection, over: bool = False) -> None:
        """Watch for what a connection waits for, or forget it if it has come to its end."""
        session = self._connections.get(connection)
        if session is not None and not connection.is_open:
            self._connections[connection] = None
            self._site.viewers.leave()
        if over or connection.over:
            self._watch(connection, 0)
            connection.cut()
            self._connections.pop(connection, None)
        else:
            self._watch(connection, connection.events)

    def _watch(self, connection: Connection, events: int) -> None:
        before = self._watched.pop(connection, 0)
        if before and not events:
            self._selector.unregister(connection.socket)
        elif events and not before:
            self._selector.register(connection.socket, events, connection)
        elif events != before:
            self._selector.modify(connection.socket, events, connection)
        if events:
            self._watched[connection] = events

"""The live page's server: a door, `websockets` behind it, and a session for each viewer."""

from __future__ import annotations

import functools
import logging
import secrets
import threading
from typing import TYPE_CHECKING, Any, Self, cast

from websockets.exceptions import InvalidHandshake
from websockets.sync.server import Server, ServerConnection, serve

from aaams_stream.errors import ConfigError
from aaams_stream.live.access import LOOPBACK, Access, is_loopback
from aaams_stream.live.door import Door
from aaams_stream.live.session import NAME, TIMEOUT, Session, ViewerConnection
from aaams_stream.live.site import Site

if TYPE_CHECKING:
    from aaams_stream.live import LiveLoop
    from aaams_stream.live.commands import Commands

_LONGEST = 16384  # bytes a viewer may say at a time
_FAREWELL = 0.5  # seconds in which a viewer may close a connection from its side
_PATIENCE = 1.5  # seconds in which sessions end by themselves
# It hears no requests, which carry the token; what is a bug of ours is still told.
_LOGGER = logging.getLogger("aaams_stream.live")


def _is_ours(record: logging.LogRecord) -> bool:
    """Leave out requests that are none, each of which websockets 15 and 16 tell by a traceback."""
    return not (record.exc_info and isinstance(record.exc_info[1], InvalidHandshake))


_LOGGER.addFilter(_is_ours)


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
            self._door = Door(host, port, loop.clock, TIMEOUT)
        except OSError as error:
            raise ConfigError(
                f"{host}:{port}: cannot be listened on ({error.strerror}); "
                "try another --port or --host"
            ) from error
        access = Access(host, self._door.getsockname()[1], token)
        self._site = Site(loop, commands, access)
        self._closing = threading.Event()
        self._sessions: set[Session] = set()
        self._changed = threading.Condition()  # of the sessions
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

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
        clock = self._site.loop.clock
        self._server = serve(
            self._serve,
            sock=cast("Any", self._door),
            process_request=self._site.answer,
            compression=None,
            server_header=None,
            ping_interval=None,  # frames and heartbeats are answered
            close_timeout=_FAREWELL,
            max_size=_LONGEST,
            max_queue=4,
            logger=_LOGGER,
            create_connection=cast(
                "type[ServerConnection]", functools.partial(ViewerConnection, clock=clock)
            ),
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="preview-server", daemon=True
        )
        self._site.past.start()
        self._door.open(self._site.access)
        self._thread.start()

    def close(self) -> None:
        """Send everyone away and stop; a second time does nothing."""
        self._closing.set()
        self._door.close()
        with self._changed:
            for session in self._sessions:
                session.end()
            if not self._changed.wait_for(lambda: not self._sessions, _PATIENCE):
                for session in self._sessions:  # who does not take what was sent
                    session.cut()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._site.past.close()

    @property
    def viewers(self) -> int:
        """How many look on."""
        return self._site.viewers.count

    def idle(self, seconds: float) -> bool:
        """Tell whether there have been viewers and the last one left so long ago."""
        return self._site.viewers.idle(seconds)

    def _serve(self, connection: ServerConnection) -> None:
        assert isinstance(connection, ViewerConnection)
        threading.current_thread().name = NAME
        session = Session(self._site, connection)
        with self._changed:
            if self._closing.is_set():
                return
            self._sessions.add(session)
        try:
            session.run()
        finally:
            with self._changed:
                self._sessions.discard(session)
                self._changed.notify_all()

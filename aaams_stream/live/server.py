"""The live page's server: listens, gives every connection a thread, and ends them all."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from aaams_stream.errors import ConfigError
from aaams_stream.live.access import LOOPBACK, Access, is_loopback
from aaams_stream.live.handler import IDLE, Handler, Site

if TYPE_CHECKING:
    from aaams_stream.live import LiveLoop
    from aaams_stream.live.commands import Commands

_MOST_CONNECTIONS = 64


class PreviewServer:
    """Serves the page of a loop on threads of its own, from `start` (or `with`) to `close`."""

    def __init__(
        self,
        loop: LiveLoop,
        commands: Commands,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        token: str = "",
    ) -> None:
        if not is_loopback(host) and not token:
            raise ConfigError(f"{host}: can be reached from elsewhere, and so needs a token")
        try:
            self._server = ConnectionServer(host, port)
        except OSError as error:
            raise ConfigError(
                f"{host}:{port}: cannot be listened on ({error.strerror}); "
                "try another --port or --host"
            ) from error
        access = Access(host, self._server.server_address[1], token)
        self._site = self._server.site = Site(loop, commands, access)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="preview-server", daemon=True
        )

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
        self._thread.start()

    def close(self) -> None:
        """Send everyone away and stop."""
        self._site.closing.set()
        if self._thread.ident is not None:  # it was started: else there is nobody to shut down
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    @property
    def viewers(self) -> int:
        """How many look on."""
        return self._site.viewers.count

    def idle(self, seconds: float) -> bool:
        """Tell whether there have been viewers and the last one left so long ago."""
        return self._site.viewers.idle(seconds)


class ConnectionServer(ThreadingHTTPServer):
    """Knows its connections and their threads, so that there are not too many and all end."""

    daemon_threads = True
    request_queue_size = 16
    site: Site

    def __init__(self, host: str, port: int) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self._open: dict[Any, threading.Thread] = {}
        self._open_lock = threading.Lock()
        super().__init__((host, port), Handler)

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
            thread.join(IDLE + 1.0)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about viewers that vanish; anything else is a bug and is shown."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

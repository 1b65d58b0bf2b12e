"""Where connections come in: none costs a thread before its whole request is there.

A connection may take its time, or send its request byte by byte: it then waits at the door, of
which a thread takes care that looks after all of them. There is room for so many; whoever comes
when it is full takes the place of the one that has waited longest, so that a newcomer who says at
once what he wants always gets in. Requests with a token go in as they come, others so many a
second.
"""

from __future__ import annotations

import collections
import contextlib
import re
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from aaams_stream.live.limits import Allowance

if TYPE_CHECKING:
    from aaams_stream.live.access import Access
    from aaams_stream.live.clock import Clock

PATIENCE = 5.0  # seconds in which a connection must have sent its request
_LONGEST = 16384  # bytes of a request
_UNHEARD = 32768  # bytes that the system keeps of what a connection says: more than is ever said
_MOST_WAITING = 256
_MOST_OF_AN_ADDRESS = 64
_STRANGERS = 50.0  # requests a second without a token
_FRIENDS = 200.0  # and with one: more is no viewer
_BACKLOG = 128
_HOLD = 0.001  # seconds between two of those who are turned away for being too many
_LOOK = 0.05  # seconds between looks at requests that have come in part
_REST = 0.25  # seconds between looks at the clock
_END = b"\r\n\r\n"
_TOKEN = re.compile(rb"[?&]token=([0-9A-Za-z]*)")


class _Waiting(NamedTuple):
    """A connection that has not said yet what it wants."""

    address: str
    since: float


class Door:
    """Like a listening socket, by its `fileno`, `accept` and `close`.

    `accept` hands out connections whose request is there to be read at once.
    """

    def __init__(self, host: str, port: int, clock: Clock) -> None:
        self.family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=self.family, backlog=_BACKLOG)
        self._listening.setblocking(False)
        # who floods us is held up when this is full; those who come in have it from here
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNHEARD)
        self._name = self._listening.getsockname()
        self._clock = clock
        self._access: Access | None = None
        self._strangers = Allowance(_STRANGERS, int(2 * _STRANGERS), clock)
        self._friends = Allowance(_FRIENDS, int(2 * _FRIENDS), clock)
        self._waiting: dict[socket.socket, _Waiting] = {}  # in the order in which they came
        self._partly: set[socket.socket] = set()  # of these: those that have begun to speak
        self._ready: collections.deque[socket.socket] = collections.deque()
        self._bell, self._rope = socket.socketpair()  # readable: somebody is ready
        self._selector = selectors.DefaultSelector()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="preview-door", daemon=True)

    def open(self, access: Access) -> None:
        """Begin to let in."""
        self._access = access
        self._thread.start()

    def getsockname(self) -> Any:
        """Return the address listened on."""
        return self._name

    def fileno(self) -> int:
        """Return what becomes readable when `accept` has somebody."""
        return self._bell.fileno()

    def accept(self) -> socket.socket:
        """Return the next connection, once there is one."""
        self._bell.recv(1)
        return self._ready.popleft()

    def close(self) -> None:
        """Turn everybody away who waits; a second time does nothing."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._listening.close()
        self._selector.close()
        for connection in self._waiting:
            connection.close()
        self._rope.close()
        self._bell.close()
        for connection in self._ready:
            connection.close()

    def _watch(self) -> None:
        self._selector.register(self._listening, selectors.EVENT_READ)
        while not self._closed.is_set():
            for key, _ in self._selector.select(_LOOK if self._partly else _REST):
                if key.fileobj is self._listening:
                    self._take()
                else:
                    self._listen_to(key.fileobj)  # type: ignore[arg-type]
            for connection in list(self._partly):
                self._listen_to(connection)
            now = self._clock.now()
            for connection, waiting in list(self._waiting.items()):
                if now - waiting.since < PATIENCE:
                    break  # those behind came later
                self._turn_away(connection)

    def _take(self) -> None:
        """Let a newcomer wait, in the place of another if there is none left."""
        try:
            connection, address = self._listening.accept()
        except BlockingIOError:
            return
        except OSError:  # no descriptor is left, or it is gone already
            self._turn_away_first(list(self._waiting))
            return
        connection.setblocking(False)
        same = [one for one, other in self._waiting.items() if other.address == address[0]]
        if len(same) >= _MOST_OF_AN_ADDRESS:
            self._turn_away_first(same)
        elif len(self._waiting) >= _MOST_WAITING:
            self._turn_away_first(list(self._waiting))
        self._waiting[connection] = _Waiting(address[0], self._clock.now())
        self._selector.register(connection, selectors.EVENT_READ)
        self._listen_to(connection)  # mostly the request is there already

    def _turn_away_first(self, waiting: list[socket.socket]) -> None:
        if waiting:
            self._turn_away(waiting[0])

    def _listen_to(self, connection: socket.socket) -> None:
        """Look what a connection has sent so far; its request stays there to be read."""
        if connection not in self._waiting:
            return
        try:
            sent = connection.recv(_LONGEST, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            sent = b""
        if _END in sent:
            self._let_in(connection, sent)
        elif not sent or len(sent) >= _LONGEST:
            self._turn_away(connection)
        elif connection not in self._partly:
            # a selector would tell again and again of the part that is there
            self._selector.unregister(connection)
            self._partly.add(connection)

    def _let_in(self, connection: socket.socket, sent: bytes) -> None:
        assert self._access is not None
        found = _TOKEN.search(sent.partition(b"\r\n")[0])
        friend = found is not None and self._access.role(found[1].decode()) is not None
        if not (self._friends if friend else self._strangers).take():
            self._turn_away(connection)
            self._closed.wait(_HOLD)  # else a flood would have us do nothing else
            return
        self._forget(connection)
        self._ready.append(connection)
        self._rope.send(b".")

    def _turn_away(self, connection: socket.socket) -> None:
        self._forget(connection)
        with contextlib.suppress(OSError):
            connection.close()

    def _forget(self, connection: socket.socket) -> None:
        if connection in self._partly:
            self._partly.discard(connection)
        else:
            self._selector.unregister(connection)
        del self._waiting[connection]

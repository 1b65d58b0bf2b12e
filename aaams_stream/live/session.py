"""One viewer: frames go out, each when the one before is on the screen; questions come in."""

from __future__ import annotations

import contextlib
import json
import math
import re
import socket
import threading
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.sync.server import ServerConnection

from aaams_stream.errors import AaamsError
from aaams_stream.live.commands import RefusedError
from aaams_stream.live.limits import Allowance
from aaams_stream.live.quality import Governor
from aaams_stream.live.wire import PICTURES, Picture, framed

if TYPE_CHECKING:
    from aaams_stream.live.clock import Clock
    from aaams_stream.live.past import Kept
    from aaams_stream.live.site import Site

HEARTBEAT = 0.5  # seconds between messages when nothing happens
TIMEOUT = 20.0  # seconds a viewer may leave a frame unanswered
NAME = "preview-viewer"  # of all threads that serve viewers
_MESSAGES = 200.0  # a second that a viewer may send: one for each frame, and its questions
_SHOWN = re.compile(r"shown(?: (\d{1,6}))?")  # and milliseconds since it was received
_REST = 1.0  # seconds in which one who says more is not heard
_QUESTIONS = 20.0  # a second: each may take milliseconds
_PINGS = 1.0  # a second
_LINE = 0.06  # seconds that a picture may take on its way


class ViewerConnection(ServerConnection):
    """A connection that is not read from while its viewer says more than is any use.

    Whoever floods it is held up by his own system as soon as that has no room left. To end the
    connection instead would have him back at once, and a new one costs more than he had cost.
    """

    recv_bufsize = 1024  # a flood is noticed after as many bytes

    def __init__(self, *args: Any, clock: Clock, **options: Any) -> None:
        self._pings = Allowance(_PINGS, 5, clock)
        self._over = threading.Event()
        super().__init__(*args, **options)
        self.recv_events_thread.name = NAME

    def process_event(self, event: Any) -> None:
        """Take note of one incoming frame."""
        if isinstance(event, Frame) and event.opcode is Opcode.PING and not self._pings.take():
            self.rest(1 / _PINGS)
        super().process_event(event)

    def rest(self, seconds: float) -> None:
        """Hear nothing for so long, unless the connection ends."""
        self._over.wait(seconds)

    def cut(self) -> None:
        """End the connection without a word."""
        self._over.set()
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
        self._got: float | None = None  # when the viewer had received it
        self._way = math.inf  # seconds that a message takes which says next to nothing
        self._looking: int | None = None  # number of a frame of the past
        self._governor: Governor[Picture] | None = Governor(_LINE, PICTURES)
        self.picture = PICTURES[0]

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
        self._connection.cut()

    def _send_frames(self) -> None:
        """Send the newest frame whenever the viewer has shown the one before.

        Who looks at a frame of the past gets that one, and else what there is to say of now.
        """
        site, clock = self._site, self._site.loop.clock
        version, last = 0, None
        then: Kept | None = None  # the frame of the past that was sent
        at = -math.inf  # when the last picture was sent
        while not self._over.is_set():
            picture = self.picture
            version, shown = site.loop.wait(version, self._rest(clock.now() - at, picture))
            past = self._looked_at()
            count = site.viewers.count
            if then is not None and past is None:
                last = None  # back to now, whether a frame has come meanwhile or not
            if past is not None:
                message = site.messages.message(None, count)
                if past is not then:
                    message = site.messages.past_message(past.sizes, past.body, count)
            elif shown is None or shown is last or clock.now() - at < picture.pause:
                message = site.messages.message(None, count)
            else:
                message = site.messages.message(shown, count, picture)
                last = shown
            then = past
            head = {
                **message.head,
                "live": past is None,
                "owner": self._owner,
                "picture": picture.name,
            }
            self._shown.clear()
            if self._over.is_set():  # it may have come between
                return
            self._got = None
            sent = clock.now()
            if message.body:
                at = sent
            self._connection.send(framed(head) + message.body)
            if not self._is_shown():
                return
            self._judge(sent, bool(message.body), clock)

    def _is_shown(self) -> bool:
        """Wait until the viewer has shown what was sent; False if it never does, or is gone."""
        for _ in range(int(TIMEOUT / HEARTBEAT)):
            if self._shown.wait(HEARTBEAT):
                return True
            if self._connection.state is not State.OPEN:
                return False
        return False

    def _rest(self, since: float, picture: Picture) -> float:
        """Return how long to wait for news, at most."""
        if 0 < picture.pause - since < HEARTBEAT:
            return picture.pause - since
        return HEARTBEAT

    def _judge(self, sent: float, pictured: bool, clock: Clock) -> None:
        """Choose the picture's quality by what the last message took on its way."""
        took = max((clock.now() if self._got is None else self._got) - sent, 0.0)
        if not pictured:
            self._way = min(self._way, took)
        elif self._governor is not None:
            way = 0.0 if self._way == math.inf else self._way
            self.picture = self._governor.note(max(took - way, 0.0), clock.now())

    def _looked_at(self) -> Kept | None:
        looking = self._looking
        return None if looking is None else self._site.past.at(looking)

    def _hear(self, said: str | bytes) -> None:
        if not self._allowance.take():
            self._connection.rest(_REST)
        elif isinstance(said, str) and (shown := _SHOWN.fullmatch(said)):
            # by the viewer's clock: a message of its own would cost as much as a frame
            self._got = self._site.loop.clock.now() - 1e-3 * int(shown[1] or 0)
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
            own = {
                "look": self._look,
                "picture": self._choose,
                "share": self._share,
                "time": self._time,
            }
            name = asked.get("do")
            if isinstance(name, str) and name in own:
                return {**question, **own[name](asked)}
            answer = self._site.commands.run(asked, owner=self._owner)
        except (RefusedError, AaamsError) as error:
            return {**question, "error": str(error)}
        return {**question, **answer}

    def _look(self, asked: dict[str, object]) -> dict[str, object]:
        """Look at a frame of the past, or again at what is now."""
        number = asked.get("number")
        if number is not None and (type(number) is not int or number < 0):
            raise RefusedError("number must be a whole number, or null for now")
        self._looking = number
        self._site.loop.nudge()
        return {}

    def _choose(self, asked: dict[str, object]) -> dict[str, object]:
        """Have the picture as good as the line takes, or always small."""
        wanted = asked.get("picture")
        if wanted == "auto":
            self._governor = Governor(_LINE, PICTURES)
            self.picture = self._governor.quality
        elif wanted == "low":
            self._governor, self.picture = None, PICTURES[-1]
        else:
            raise RefusedError("picture must be auto or low")
        return {}

    def _share(self, asked: dict[str, object]) -> dict[str, object]:
        """Tell the address for those who may only look on."""
        if not self._owner:
            raise RefusedError("this link is for looking on only")
        return {"token": self._site.access.guest_token}

    def _time(self, asked: dict[str, object]) -> dict[str, object]:
        """Tell the time by which frames are told to have come."""
        return {"now": self._site.loop.clock.now()}

"""One viewer: frames go out, each when the one before is on the screen; questions come in."""

from __future__ import annotations

import json
import math
import re
import time
from typing import TYPE_CHECKING

from websockets.frames import CloseCode

from aaams_stream.live.commands import RefusedError
from aaams_stream.live.limits import Allowance
from aaams_stream.live.quality import Governor
from aaams_stream.live.wire import PICTURES, Picture, framed

if TYPE_CHECKING:
    from collections.abc import Callable

    from aaams_stream.live.connection import Connection
    from aaams_stream.live.site import Site
    from aaams_stream.live.wire import Encoded

    Asked = dict[str, object]

HEARTBEAT = 0.5  # seconds between messages when nothing happens
TIMEOUT = 20.0  # seconds a viewer may leave a frame unanswered
_MESSAGES = 200.0  # a second that a viewer may send: one for each frame, and its questions
_SHOWN = re.compile(r"shown(?: (\d{1,6}))?")  # and milliseconds since it was received
_REST = 1.0  # seconds in which one who says more is not heard
_QUESTIONS = 20.0  # a second: each may take milliseconds
_LINE = 0.06  # seconds that a picture may take on its way


class Session:
    """Serves one viewer, on the thread that serves all of them and so waits for none.

    do: has a command carried out on another thread, and its answer handed to `answer`.
    """

    def __init__(
        self, site: Site, connection: Connection, *, owner: bool, do: Callable[[Asked], None]
    ) -> None:
        self._site, self._connection, self._owner, self._do = site, connection, owner, do
        self._allowance = Allowance(_MESSAGES, int(2 * _MESSAGES), site.loop.clock)
        self._questions = Allowance(_QUESTIONS, int(2 * _QUESTIONS), site.loop.clock)
        self.due = 0.0  # when `go_on` has something to do at the latest, by the system's clock
        self._version = -1  # of the loop, that was told last
        self._last: object = None  # the frame that was sent last
        self._then: Encoded | None = None  # the same, of the past
        self._sent: float | None = None  # when, by the loop's clock; None: it has been shown
        self._until = 0  # of all bytes to the viewer, the end of that
        self._pictured = False  # there was a picture in it
        self._at = -math.inf  # when the last picture was sent
        self._way = math.inf  # seconds that a message takes which says next to nothing
        self._looking: int | None = None  # number of a frame of the past
        self._governor: Governor[Picture] | None = Governor(_LINE, PICTURES)
        self.picture = PICTURES[0]

    def go_on(self, now: float) -> None:
        """Send what is new if the viewer has shown what was sent before; now: the system's time.

        Who looks at a frame of the past gets that one, and else what there is to say of now.
        """
        loop = self._site.loop
        if self._sent is not None:
            if now >= self.due:  # it has been silent for too long
                self._connection.end(CloseCode.GOING_AWAY)
            return
        version, shown = loop.wait(0, 0)
        if version == self._version and now < self.due:
            return
        at, past = loop.clock.now(), self._looked_at()
        if self._then is not None and past is None:
            self._last = None  # back to now, whether a frame has come meanwhile or not
        rest = self.picture.pause - (at - self._at)
        if past is not None:
            message = self._site.messages.past_message(None if past is self._then else past)
        elif rest > 0 and now < self.due:  # not so many pictures for this one
            self.due = min(self.due, now + rest)
            return
        else:
            new = None if shown is self._last or rest > 0 else shown
            message = self._site.messages.message(new, self.picture)
            self._last = shown if rest <= 0 else self._last
        self._version, self._then = version, past
        self._sent, self._pictured = at, bool(message.body)
        if message.body:
            self._at = at
        self.due = now + TIMEOUT
        own = {
            "live": past is None,
            "owner": self._owner,
            "picture": self.picture.name,
            "viewers": self._site.viewers.count,
        }
        self._connection.send(framed(*message.heads, json.dumps(own)) + message.body)
        self._until = self._connection.queued

    def hear(self, said: str | bytes) -> None:
        """Take what the viewer says."""
        if not self._allowance.take():
            self._connection.rest(_REST)
        elif isinstance(said, str) and (shown := _SHOWN.fullmatch(said)):
            self._is_shown(int(shown[1] or 0))
        else:
            self._ask(said)
            self.go_on(time.monotonic())

    def _is_shown(self, took: int) -> None:
        """Go on, and choose the picture's quality by what the last message took on its way.

        Since when the viewer has had it counts by his clock: a message of its own would cost as
        much as a frame.
        """
        if self._sent is None or self._connection.sent < self._until:
            return  # it cannot have shown what it does not have
        now = self._site.loop.clock.now()
        way = max(now - 1e-3 * took - self._sent, 0.0)
        if not self._pictured:
            self._way = min(self._way, way)
        elif self._governor is not None:
            least = 0.0 if self._way == math.inf else self._way
            self.picture = self._governor.note(max(way - least, 0.0), now)
        self._sent, self.due = None, time.monotonic() + HEARTBEAT
        self.go_on(time.monotonic())

    def _looked_at(self) -> Encoded | None:
        return None if self._looking is None else self._site.past.at(self._looking)

    def _ask(self, said: str | bytes) -> None:
        """Do what a viewer asks; the answer has the number of the question."""
        try:
            asked = json.loads(said)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            self.answer({}, {"error": "expected a JSON object"})
            return
        if not self._questions.take():
            self.answer(asked, {"error": "too many questions at a time; wait a moment"})
            return
        own = {
            "look": self._look,
            "picture": self._choose,
            "share": self._share,
            "time": self._time,
        }
        name = asked.get("do")
        if not isinstance(name, str) or name not in own:
            self._do(asked)
            return
        try:
            self.answer(asked, own[name](asked))
        except RefusedError as error:
            self.answer(asked, {"error": str(error)})

    def answer(self, asked: Asked, answer: dict[str, object]) -> None:
        """Send the answer to a question."""
        number = asked.get("question")
        question = {"question": number} if type(number) is int else {}
        self._connection.send(json.dumps({**question, **answer}))

    def _look(self, asked: dict[str, object]) -> dict[str, object]:
        """Look at a frame of the past, or again at what is now."""
        number = asked.get("number")
        if number is not None and (type(number) is not int or number < 0):
            raise RefusedError("number must be a whole number, or null for now")
        self._looking = number
        self._version = -1
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

"""What viewers may ask of a live loop, whichever way they look at it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from aaams_stream import files
from aaams_stream.draw.views import LIVE_VIEWS
from aaams_stream.errors import SinkError

if TYPE_CHECKING:
    from pathlib import Path

    from aaams_stream.live import LiveLoop

Command = Mapping[str, object]  # as it came from a viewer: `do` names it
Answer = dict[str, object]  # ready for JSON

MOST_SEGMENTS = 5000


class RefusedError(ValueError):
    """A command that makes no sense; the text tells why."""


class Commands:
    """Runs commands on a loop; files go into `folder` alone, under names made here."""

    def __init__(self, loop: LiveLoop, folder: Path, *, with_video: bool = False) -> None:
        self._loop = loop
        self._folder = folder
        self._with_video = with_video
        self._plain = {"pause": loop.pause, "resume": loop.resume, "step": loop.step}
        self._others: dict[str, Callable[[Command], Answer]] = {
            "detail": self._detail,
            "snapshot": self._snapshot,
            "record": self._record,
            "stop": self._stop,
        }

    def run(self, command: Command) -> Answer:
        """Do what `command["do"]` says; raise a RefusedError where it makes no sense."""
        name = str(command.get("do"))
        if name in self._plain:
            self._plain[name]()
            return {}
        if name in self._others:
            return self._others[name](command)
        known = ", ".join([*self._plain, *self._others])
        raise RefusedError(f"unknown command; expected one of {known}")

    def _detail(self, command: Command) -> Answer:
        segments = command.get("segments")
        if type(segments) is not int or not 1 <= segments <= MOST_SEGMENTS:
            raise RefusedError(f"segments must be a whole number in 1..{MOST_SEGMENTS}")
        self._loop.want(segments)
        return {}

    def _snapshot(self, command: Command) -> Answer:
        view, opacity = command.get("view", LIVE_VIEWS[0]), command.get("opacity", 1.0)
        if view not in LIVE_VIEWS:
            raise RefusedError(f"view must be one of {', '.join(LIVE_VIEWS)}")
        if not isinstance(opacity, int | float) or not 0 <= opacity <= 1:
            raise RefusedError("opacity must be in 0..1")
        groups = command.get("groups")
        if groups is not None and (type(groups) is not int or not 1 <= groups <= MOST_SEGMENTS):
            raise RefusedError(f"groups must be a whole number in 1..{MOST_SEGMENTS}")
        shown = self._loop.wait(0, 0)[1]
        if shown is None:
            raise RefusedError("there is no frame yet")
        path = self._new_path(".png")
        picture = files.encode_image(path, shown.drawn(view, float(opacity), groups))
        files.write_files({path: picture})
        return {"saved": path.name}

    def _record(self, command: Command) -> Answer:
        if self._loop.status.recording is not None:
            raise RefusedError("a recording is under way")
        path = self._new_path(".zarr")
        self._loop.record(path, with_video=self._with_video)
        return {"recording": path.name}

    def _stop(self, command: Command) -> Answer:
        path = self._loop.stop_recording()
        if path is None:
            raise RefusedError("nothing is recorded")
        return {"saved": path.name}

    def _new_path(self, suffix: str) -> Path:
        """Return a name in the folder that nothing has yet."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkError(f"{self._folder}: cannot be made ({error.strerror})") from error
        stem = datetime.now().strftime("preview-%Y%m%d-%H%M%S")
        return next(path for path in self._names(stem, suffix) if not path.exists())

    def _names(self, stem: str, suffix: str) -> Iterator[Path]:
        yield self._folder / f"{stem}{suffix}"
        for count in itertools.count(2):
            yield self._folder / f"{stem}-{count}{suffix}"

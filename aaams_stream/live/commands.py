"""What viewers may ask of a live loop, whichever way they look at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from aaams_stream import files
from aaams_stream.draw.views import LIVE_VIEWS
from aaams_stream.errors import SinkError
from aaams_stream.live.kept import Folder
from aaams_stream.live.limits import Allowance
from aaams_stream.live.recorder import Limits

if TYPE_CHECKING:
    from aaams_stream.live import LiveLoop

Command = Mapping[str, object]  # as it came from a viewer: `do` names it
Answer = dict[str, object]  # ready for JSON
Made = TypeVar("Made")

MOST_SEGMENTS = 5000
LONGEST_RECORDING = 3600.0  # seconds, where nothing else is said
_MOST_ID = 1 << 32
_PNG = Path("snapshot.png")
_SNAPSHOTS = 2.0  # a second in the long run; twenty at once


class RefusedError(ValueError):
    """A command that makes no sense; the text tells why."""


class Commands:
    """Runs commands on a loop; files go into `folder` alone, under names made here.

    max_recording: seconds after which a recording ends by itself (0: never).
    """

    def __init__(
        self,
        loop: LiveLoop,
        folder: Path,
        *,
        with_video: bool = False,
        max_recording: float = LONGEST_RECORDING,
    ) -> None:
        self._loop = loop
        self._folder = Folder(folder)
        self._with_video = with_video
        self._max_recording = max_recording
        self._snapshots = Allowance(_SNAPSHOTS, 20, loop.clock)
        self._questions: dict[str, Callable[[Command], Answer]] = {"about": self._about}
        self._orders: dict[str, Callable[[Command], Answer]] = {
            "pause": self._plainly(loop.pause),
            "resume": self._plainly(loop.resume),
            "step": self._plainly(loop.step),
            "detail": self._detail,
            "snapshot": self._snapshot,
            "record": self._record,
            "stop": self._stop,
            "follow": self._follow,
            "correct": self._correct,
            "let go": self._let_go,
            "save": self._save,
        }

    def run(self, command: Command, *, owner: bool = True) -> Answer:
        """Do what `command["do"]` says; raise a RefusedError where it makes no sense.

        Who is not the owner may only ask questions.
        """
        name = str(command.get("do"))
        if name in self._questions:
            return self._questions[name](command)
        if name in self._orders:
            if not owner:
                raise RefusedError("this link is for looking on only")
            return self._orders[name](command)
        known = ", ".join([*self._orders, *self._questions])
        raise RefusedError(f"unknown command; expected one of {known}")

    @staticmethod
    def _plainly(act: Callable[[], None]) -> Callable[[Command], Answer]:
        def run(command: Command) -> Answer:
            act()
            return {}

        return run

    def _about(self, command: Command) -> Answer:
        known = self._loop.history.about(_whole(command, "id", 1, _MOST_ID))
        if known is None:
            raise RefusedError("no such segment")
        return known

    def _detail(self, command: Command) -> Answer:
        self._loop.want(_whole(command, "segments", 1, MOST_SEGMENTS))
        return {}

    def _snapshot(self, command: Command) -> Answer:
        view, opacity = command.get("view", LIVE_VIEWS[0]), command.get("opacity", 1.0)
        if view not in LIVE_VIEWS:
            raise RefusedError(f"view must be one of {', '.join(LIVE_VIEWS)}")
        if not isinstance(opacity, int | float) or not 0 <= opacity <= 1:
            raise RefusedError("opacity must be in 0..1")
        groups = None
        if command.get("groups") is not None:
            groups = _whole(command, "groups", 1, MOST_SEGMENTS)
        number = _whole(command, "number", 0, _MOST_ID) if "number" in command else 0
        shown = self._loop.recent(number)
        if shown is None:
            raise RefusedError("there is no frame yet")
        if not self._snapshots.take():
            raise RefusedError("too many snapshots at a time; wait a moment")
        trails = self._loop.history.trails() if view == "motion" else None
        drawn = shown.drawn(str(view), float(opacity), groups, trails)
        picture = files.encode_image(_PNG, drawn)
        return {"saved": self._folder.write(".png", picture).name}

    def _record(self, command: Command) -> Answer:
        if self._loop.status.recording is not None:
            raise RefusedError("a recording is under way")
        path = self._folder.make(".zarr")
        limits = Limits(self._max_recording or float("inf"), self._folder)
        self._loop.record(path, with_video=self._with_video, limits=limits)
        return {"recording": path.name}

    def _stop(self, command: Command) -> Answer:
        path = self._loop.stop_recording()
        if path is None:
            raise RefusedError("nothing is recorded")
        return {"saved": path.name}

    def _follow(self, command: Command) -> Answer:
        return {"object": self._on_objects(lambda: self._loop.follow(_ids(command)))}

    def _correct(self, command: Command) -> Answer:
        number, inside = _whole(command, "number", 1, _MOST_ID), command.get("inside", True)
        if not isinstance(inside, bool):
            raise RefusedError("inside must be true or false")
        ids = _ids(command)
        self._on_objects(lambda: self._loop.correct(number, ids, inside=inside))
        return {}

    def _let_go(self, command: Command) -> Answer:
        number = _whole(command, "number", 1, _MOST_ID)
        self._on_objects(lambda: self._loop.let_go(number))
        return {}

    @staticmethod
    def _on_objects(act: Callable[[], Made]) -> Made:
        try:
            return act()
        except ValueError as error:
            raise RefusedError(str(error)) from error

    def _save(self, command: Command) -> Answer:
        """Write the masks of what is followed, and a table, into a new folder."""
        following = self._loop.following
        table = following.table()
        if table.count("\n") < 2:
            raise RefusedError("nothing is followed; click something first")
        if not self._snapshots.take():
            raise RefusedError("too many files at a time; wait a moment")
        folder = self._folder.make("-objects")
        files.write_files({folder / "objects.csv": table.encode()})
        for scene, labels in following.masks():
            if not self._folder.has_room():
                raise SinkError(self._folder.no_room)
            path = folder / f"{scene.index:06d}.png"
            files.write_files({path: files.encode_labels(path, labels.astype(np.uint32))})
        return {"saved": folder.name}


def _ids(command: Command) -> list[int]:
    """Return the segments that a command names."""
    ids = command.get("ids")
    if not isinstance(ids, list) or not 1 <= len(ids) <= MOST_SEGMENTS:
        raise RefusedError("ids must be a list of segments")
    return [_whole({"ids": one}, "ids", 1, _MOST_ID - 1) for one in ids]


def _whole(command: Command, name: str, least: int, most: int) -> int:
    """Return a whole number of a command."""
    value = command.get(name)
    if type(value) is not int or not least <= value <= most:
        raise RefusedError(f"{name} must be a whole number in {least}..{most}")
    return value

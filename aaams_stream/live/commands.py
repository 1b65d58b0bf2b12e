"""What viewers may ask of a live loop, whichever way they look at it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from aaams_stream import files
from aaams_stream.draw.views import LIVE_VIEWS, draw_view
from aaams_stream.errors import SinkError
from aaams_stream.live import LiveLoop

MOST_SEGMENTS = 5000


class RefusedError(ValueError):
    """A command that makes no sense; the text tells why."""


class Desk:
    """Carries out commands; files go into `folder` alone, under names made here."""

    def __init__(self, loop: LiveLoop, folder: Path, *, with_video: bool = False) -> None:
        self._loop = loop
        self._folder = folder
        self._with_video = with_video
        self._plain = {"pause": loop.pause, "resume": loop.resume, "step": loop.step}
        self._commands: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "detail": self._detail,
            "snapshot": self._snapshot,
            "record": self._record,
            "stop": self._stop,
        }

    def carry_out(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Do what `order["do"]` says; return the answer, ready for JSON."""
        name = str(order.get("do"))
        if name in self._plain:
            self._plain[name]()
            return {}
        if name in self._commands:
            return self._commands[name](order)
        known = ", ".join([*self._plain, *self._commands])
        raise RefusedError(f"unknown command; expected one of {known}")

    def _detail(self, order: Mapping[str, Any]) -> dict[str, Any]:
        segments = order.get("segments")
        if type(segments) is not int or not 1 <= segments <= MOST_SEGMENTS:
            raise RefusedError(f"segments must be a whole number in 1..{MOST_SEGMENTS}")
        self._loop.want(segments)
        return {}

    def _snapshot(self, order: Mapping[str, Any]) -> dict[str, Any]:
        view, opacity = order.get("view", LIVE_VIEWS[0]), order.get("opacity", 1.0)
        if view not in LIVE_VIEWS:
            raise RefusedError(f"view must be one of {', '.join(LIVE_VIEWS)}")
        if not isinstance(opacity, int | float) or not 0 <= opacity <= 1:
            raise RefusedError("opacity must be in 0..1")
        shown = self._loop.wait(0, 0)[1]
        if shown is None:
            raise RefusedError("there is no frame yet")
        path = self._new_path(".png")
        seen = shown.segmentation
        picture = draw_view(
            shown.frame.rgb, seen.ids, view, opacity=float(opacity), segments=seen.segments
        )
        files.write_files({path: files.encode_image(path, picture)})
        return {"saved": path.name}

    def _record(self, order: Mapping[str, Any]) -> dict[str, Any]:
        if self._loop.status.recording is not None:
            raise RefusedError("a recording is under way")
        path = self._new_path(".zarr")
        self._loop.record(path, with_video=self._with_video)
        return {"recording": path.name}

    def _stop(self, order: Mapping[str, Any]) -> dict[str, Any]:
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

"""A stretch of a live stream into a volume, on a thread of its own."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from aaams_stream import __version__
from aaams_stream.model import EVENT_DTYPE, EventKind, Frame, FrameSegmentation
from aaams_stream.run.threads import AsyncSink

_BEHIND = 16  # frames waiting to be written, before the stream waits for the disk
_ENDED = "stopped"


class Recorder:
    """Writes every frame it is given to the new volume `path`, from `begin` to `close`.

    To a reader the volume is like any other: the ids that are there when it begins are born in
    its first frame.
    """

    def __init__(self, path: Path, header: Any) -> None:
        from aaams_stream import store

        self.path = path
        self.frames = 0
        self._writer = writer = store.create(path, header, __version__)

        # knows the writer and not the recorder: a ring of references would keep its buffers
        def write(item: tuple[Frame, FrameSegmentation]) -> None:
            frame, segmentation = item
            writer.append(segmentation, float(frame.time), frame.rgb)

        self._stack = ExitStack()
        self._sink = self._stack.enter_context(AsyncSink(write, _BEHIND))

    def put(self, frame: Frame, segmentation: FrameSegmentation) -> None:
        """Queue one frame; raises what went wrong with an earlier one."""
        if self.frames == 0:
            births = [(EventKind.BIRTH, row["id"], 0) for row in segmentation.segments]
            segmentation = dataclasses.replace(segmentation, events=np.array(births, EVENT_DTYPE))
        self._sink.put((frame, segmentation))
        self.frames += 1

    def close(self) -> None:
        """Write what is left and mark the volume complete."""
        self._stack.close()
        self._writer.finish(_ENDED)

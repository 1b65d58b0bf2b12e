"""Stretches of a live stream into volumes, on a thread of their own."""

from __future__ import annotations

import dataclasses
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from aaams_stream import __version__
from aaams_stream.errors import AaamsError
from aaams_stream.model import EVENT_DTYPE, EventKind, Frame, FrameSegmentation
from aaams_stream.run.sink import VolumeSink
from aaams_stream.run.threads import AsyncSink

if TYPE_CHECKING:
    from pathlib import Path

    from aaams_stream.store import Header

_BEHIND = 16  # frames waiting to be written, before the stream waits for the disk
_ENDED = "stopped"


class Recorder:
    """Writes every frame it is given to the new volume `path`, until `close`.

    To a reader the volume is like any other: the ids that are there when it begins are born in
    its first frame.
    """

    def __init__(self, path: Path, header: Header) -> None:
        from aaams_stream import store

        self.path = path
        self.frames = 0
        self._volume = volume = VolumeSink(store.create(path, header, __version__))

        # knows the volume and not the recorder: a ring of references would keep its buffers
        def write(item: tuple[Frame, FrameSegmentation]) -> None:
            volume.append(*item)

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
        self._volume.finish(_ENDED)


class Recordings:
    """One recording after the other, begun and ended by some threads and fed by another one."""

    def __init__(self) -> None:
        self.trouble = ""  # what ended the last recording too early
        self._lock = threading.Lock()
        self._current: Recorder | None = None
        self._closed = False

    @property
    def current(self) -> Recorder | None:
        """The recording under way."""
        return self._current

    def begin(self, path: Path, header: Header) -> None:
        """Record to a new volume from the next frame on; a recording under way is finished."""
        if self._closed:
            raise ValueError("the loop is closed: nothing is left to record")
        recorder = Recorder(path, header)  # without the lock: the stream need not wait for it
        with self._lock:
            if self._closed:  # meanwhile: the volume stays empty, but whole
                over: Recorder | None = recorder
            else:
                over, self._current = self._current, recorder
                self.trouble = ""
        if over is not None:
            over.close()

    def put(self, frame: Frame, segmentation: FrameSegmentation) -> None:
        """Hand a frame to the recording, if there is one; one that failed is over."""
        with self._lock:
            if self._current is not None:
                try:
                    self._current.put(frame, segmentation)
                except AaamsError as error:
                    self._current, self.trouble = None, str(error)

    def stop(self) -> Path | None:
        """Finish the volume; return its path, or None if nothing is recorded."""
        with self._lock:
            recorder, self._current = self._current, None
        if recorder is None:
            return None
        recorder.close()
        return recorder.path

    def close(self) -> None:
        """Finish the recording under way and take no other."""
        with self._lock:
            self._closed = True
        self.stop()

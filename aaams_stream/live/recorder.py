"""Stretches of a live stream into volumes, on a thread of their own."""

from __future__ import annotations

import dataclasses
import json
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from aaams_stream import __version__
from aaams_stream.errors import AaamsError
from aaams_stream.model import EVENT_DTYPE, EventKind, Frame, FrameSegmentation
from aaams_stream.run.sink import COMMIT_SECONDS, VolumeSink
from aaams_stream.run.threads import AsyncSink

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    from aaams_stream.live.kept import Folder
    from aaams_stream.store import Header

QUALITY_FILE = "quality.json"  # inside a volume
_BEHIND = 16  # frames waiting to be written, before the stream waits for the disk
_LOOK = 25  # frames between looks at the disk
_ENDED = "stopped"


class Limits(NamedTuple):
    """How far a recording may go."""

    seconds: float
    folder: Folder  # which knows how much room there must be left

    def reached(self, seconds: float, frames: int) -> str:
        """Return why a recording of so many seconds and frames must end; empty if it need not."""
        if seconds >= self.seconds:
            return f"the recording ended after {self.seconds:g} s, as --max-recording says"
        if frames % _LOOK == 0 and not self.folder.has_room():
            return f"the recording ended; {self.folder.no_room}"
        return ""


class Recorder:
    """Writes every frame it is given to the new volume `path`, until `close`.

    Should the program die, what was committed is there, COMMIT_SECONDS ago at most and a chunk.
    To a reader the volume is like any other: the ids that are there when it begins are born in
    its first frame. Inside it a file of JSON tells from which frames on quality was which:
    `[{"frame": 0, "quality": "full quality"}, …]`.
    """

    def __init__(self, path: Path, header: Header) -> None:
        from aaams_stream import store

        self.path = path
        self.frames = 0
        self.begun: float | None = None  # seconds: the time of the first frame
        self._qualities: list[dict[str, object]] = []
        writer = store.create(path, header, __version__)
        self._release = writer.release
        self._volume = volume = VolumeSink(writer)
        committed: Fraction | None = None  # when, in the stream's time

        # knows the volume and not the recorder: a ring of references would keep its buffers
        def write(item: tuple[Frame, FrameSegmentation]) -> None:
            nonlocal committed
            volume.append(*item)
            time = item[0].time
            committed = time if committed is None else committed
            if volume.frames % store.CHUNK_FRAMES == 0 and time - committed >= COMMIT_SECONDS:
                committed = time
                volume.commit()

        self._stack = ExitStack()
        self._sink = self._stack.enter_context(AsyncSink(write, _BEHIND))

    def put(self, frame: Frame, segmentation: FrameSegmentation, quality: str = "") -> None:
        """Queue one frame; raises what went wrong with an earlier one."""
        if self.frames == 0:
            self.begun = float(frame.time)
            births = [(EventKind.BIRTH, row["id"], 0) for row in segmentation.segments]
            segmentation = dataclasses.replace(segmentation, events=np.array(births, EVENT_DTYPE))
        if quality and (not self._qualities or self._qualities[-1]["quality"] != quality):
            self._qualities.append({"frame": self.frames, "quality": quality})
        self._sink.put((frame, segmentation))
        self.frames += 1

    def close(self) -> None:
        """Write what is left and mark the volume complete."""
        try:
            self._stack.close()
            if self._qualities:
                (self.path / QUALITY_FILE).write_text(json.dumps(self._qualities) + "\n")
            self._volume.finish(_ENDED)
        except BaseException:
            self._release()
            raise

    def abandon(self) -> None:
        """Give up after an error: what was written stays, and anybody may write to it."""
        with suppress(AaamsError):  # it is the one that is known already
            self._stack.close()
        self._release()


class Recordings:
    """One recording after the other, begun and ended by some threads and fed by another one."""

    def __init__(self) -> None:
        self.trouble = ""  # what ended the last recording too early
        self._lock = threading.Lock()
        self._current: Recorder | None = None
        self._limits: Limits | None = None
        self._closed = False
        self._closing: list[threading.Thread] = []  # recordings that ended by themselves

    @property
    def current(self) -> Recorder | None:
        """The recording under way."""
        return self._current

    def begin(self, path: Path, header: Header, limits: Limits | None = None) -> None:
        """Record to a new volume from the next frame on; a recording under way is finished."""
        if self._closed:
            raise ValueError("the loop is closed: nothing is left to record")
        recorder = Recorder(path, header)  # without the lock: the stream need not wait for it
        with self._lock:
            if self._closed:  # meanwhile: the volume stays empty, but whole
                over: Recorder | None = recorder
            else:
                over, self._current = self._current, recorder
                self._limits = limits
                self.trouble = ""
        if over is not None:
            over.close()

    def put(self, frame: Frame, segmentation: FrameSegmentation, quality: str = "") -> None:
        """Hand a frame to the recording, if there is one; one that failed or is full is over."""
        with self._lock:
            recorder = self._current
            if recorder is None:
                return
            try:
                recorder.put(frame, segmentation, quality)
            except AaamsError as error:
                self._end(recorder, f"{error}; what was recorded until then cannot be gone on with")
                return
            seconds = float(frame.time) - (recorder.begun or 0.0)
            reached = self._limits.reached(seconds, recorder.frames) if self._limits else ""
            if reached:
                self._end(recorder, reached, whole=True)

    def _end(self, recorder: Recorder, trouble: str, whole: bool = False) -> None:
        """End a recording from within the stream, which does not wait for it."""
        self._current, self.trouble = None, trouble

        def close() -> None:
            try:
                if whole:
                    recorder.close()
                else:
                    recorder.abandon()
            except AaamsError as error:
                self.trouble = str(error)

        thread = threading.Thread(target=close, name="live-recorded", daemon=True)
        thread.start()
        self._closing = [one for one in self._closing if one.is_alive()] + [thread]

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
            closing = self._closing
        try:
            self.stop()
        finally:
            for thread in closing:
                thread.join()

"""Frames that were shown, as they were sent: to go back to, as far as a bounded memory reaches."""

from __future__ import annotations

import bisect
import threading
from typing import TYPE_CHECKING, NamedTuple

from aaams_stream.live.wire import PICTURES
from aaams_stream.run.threads import step_aside

if TYPE_CHECKING:
    from aaams_stream.live import LiveLoop
    from aaams_stream.live.wire import Encoder

MOST_BYTES = 96 << 20  # about a minute and a half of 640x480
_WAIT = 0.5  # seconds between looks whether it is over


class Kept(NamedTuple):
    """One frame."""

    number: int
    sizes: dict[str, object]
    body: bytes


class Past:
    """Keeps every frame of a loop on a thread of its own, the oldest giving way."""

    def __init__(self, loop: LiveLoop, encoder: Encoder, most_bytes: int = MOST_BYTES) -> None:
        self._loop, self._encoder, self._most = loop, encoder, most_bytes
        self._frames: list[Kept] = []
        self._bytes = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="preview-past", daemon=True)

    def start(self) -> None:
        """Begin to keep frames."""
        self._thread.start()

    def close(self) -> None:
        """Keep no more, and forget all."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._frames.clear()

    def at(self, number: int) -> Kept | None:
        """Return the frame of that number, or the next one there is."""
        with self._lock:
            place = bisect.bisect_left(self._frames, number, key=lambda kept: kept.number)
            return self._frames[min(place, len(self._frames) - 1)] if self._frames else None

    def _keep(self) -> None:
        step_aside()
        version = 0
        while not self._over.is_set():
            version, shown = self._loop.wait(version, _WAIT)
            if shown is None:
                continue
            kept = Kept(shown.number, *self._encoder.encode(shown, PICTURES[0]))
            with self._lock:
                if self._frames and self._frames[-1].number >= kept.number:
                    self._bytes -= len(self._frames.pop().body)  # what is followed has changed
                self._frames.append(kept)
                self._bytes += len(kept.body)
                gone = 0
                while self._bytes > self._most and gone < len(self._frames) - 1:
                    self._bytes -= len(self._frames[gone].body)
                    gone += 1
                del self._frames[:gone]
                self._loop.past = (self._frames[0].number, kept.number)

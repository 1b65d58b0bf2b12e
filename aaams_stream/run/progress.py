"""How far a run has come, and at what pace."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from aaams_stream.params import Params

MET_SHARE = 0.9  # of the segments wanted, below which somebody who asked for them is told
_SMOOTH = 0.1  # weight of the newest frame in the speed shown
_UNSTEADY = 2  # frames at the start that say nothing of the pace: they load or compile kernels


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    frames: int  # in the volume or on their way there
    total: int | None  # an estimate
    fps: float | None  # of late; None until there is a pace
    segments: int
    warm: float  # share of pixels taken over from the frame before
    seconds_left: float | None
    stopping: bool = False  # Ctrl-C was pressed; the chunk at hand is being finished
    note: str = ""  # what else there is to tell


class Tally:
    """Counts the frames of a run, and reports each.

    done: frames that were there before. total: frames there will be, an estimate.
    """

    def __init__(
        self,
        done: int,
        total: int | None,
        report: Callable[[Progress], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resumed_from = done
        self._total = total
        self._report = report
        self._clock = clock
        self._frames = done
        self._segments = 0
        self._pace: float | None = None  # seconds a frame, of late
        self.start()

    def start(self) -> None:
        """Start the clock: kernels may have been compiled meanwhile, which says nothing of pace."""
        self._begun = self._last = self._clock()

    def add(self, segments: int, warm: float, stopping: bool = False) -> None:
        """Count one more frame, of so many segments."""
        now = self._clock()
        took, self._last = now - self._last, now
        if self._frames - self.resumed_from >= _UNSTEADY:
            self._pace = took if self._pace is None else self._pace + _SMOOTH * (took - self._pace)
        self._frames += 1
        self._segments += segments
        if self._report is None:
            return
        pace, left = self._pace, None
        if self._total is not None and (pace is not None or self._frames >= self._total):
            left = max(0, self._total - self._frames) * (pace or 0.0)
        self._report(
            Progress(
                frames=self._frames,
                total=self._total,
                fps=None if pace is None else 1 / max(pace, 1e-9),
                segments=segments,
                warm=warm,
                seconds_left=left,
                stopping=stopping,
            )
        )

    @property
    def frames(self) -> int:
        """How many frames there are by now."""
        return self._frames

    @property
    def fps(self) -> float:
        """Frames a second, over the whole run."""
        return (self._frames - self.resumed_from) / max(self._last - self._begun, 1e-9)

    @property
    def segments(self) -> float:
        """Segments a frame, the mean over this run."""
        return self._segments / max(self._frames - self.resumed_from, 1)


def missed_count(params: Params, found: float) -> tuple[str, ...]:
    """Say in one line that far fewer segments a frame were found than somebody asked for."""
    wanted, finer = params.stream.segments, params.stream.scale < 1
    if wanted == Params().stream.segments:  # nobody asked
        return ()
    return missed(f"{wanted} segments a frame", wanted, found, "stream.scale=1" if finer else "")


def missed(what: str, wanted: int, found: float, finer: str) -> tuple[str, ...]:
    """Say that a picture shows fewer than are wanted, and which setting may show more."""
    if not 0 < found < MET_SHARE * wanted:
        return ()
    hint = f"; {finer} may show more" if finer else ""
    return (
        f"{what} were wanted, and {found:.0f} found: the picture shows no more at its size{hint}",
    )

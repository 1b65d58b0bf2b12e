"""What gives way when frames come faster than they can be segmented, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from aaams_stream.params import LEAST_SCALE, Params

_WEIGHT = 0.2  # of the newest frame in the mean
_SETTLE = 4  # frames after a change before the mean means something
_FALL = 0.4  # seconds over the budget before quality gives way
_RISE = 2.0  # seconds with room to spare before it comes back
_LONGEST_RISE = 60.0  # the same, after the last tries failed
_TRIAL = 5.0  # seconds in which a better quality proves itself
_ROOM = 0.85  # of the budget: what the better quality is expected to need at most


@dataclass(frozen=True, slots=True)
class Quality:
    """How much of the wanted quality is given."""

    name: str
    refresh: int  # times as many frames until everything was re-estimated
    flow: str | None  # how motion is sought; None: as wanted
    scale: float  # times the wanted share of the frame's width and height
    cost: float  # roughly, of the quality before

    def applied(self, wanted: Params) -> Params:
        """Return the settings with which to segment."""
        stream = {
            "refresh": wanted.stream.refresh * self.refresh,
            "flow": self.flow or wanted.stream.flow,
            "scale": max(wanted.stream.scale * self.scale, LEAST_SCALE),
        }
        return wanted.updated({"stream": stream})


# First less is re-estimated, which shows last; then motion is sought more coarsely; then the
# picture is made smaller, which shows at once.
LADDER = (
    Quality("full quality", 1, None, 1.0, 1.0),
    Quality("refresh 1/2", 2, None, 1.0, 0.95),
    Quality("refresh 1/4", 4, None, 1.0, 0.97),
    Quality("coarser motion", 4, "fast", 1.0, 0.9),
    Quality("3/4 size", 4, "fast", 0.75, 0.6),
    Quality("1/2 size", 4, "fast", 0.5, 0.5),
    Quality("3/8 size", 4, "fast", 0.375, 0.6),
    Quality("1/4 size", 4, "fast", 0.25, 0.5),
)


def ladder_for(wanted: Params) -> tuple[Quality, ...]:
    """Return the rungs that change something about the wanted settings."""
    rungs = [LADDER[0]]
    for quality in LADDER[1:]:
        if quality.applied(wanted) != rungs[-1].applied(wanted):
            rungs.append(quality)
    return tuple(rungs)


class Rung(Protocol):
    """One of several qualities, the best first."""

    @property
    def cost(self) -> float:
        """What it takes, roughly, of what the one before takes."""


Chosen = TypeVar("Chosen", bound=Rung)


class Governor(Generic[Chosen]):
    """Chooses the quality of the next frame so that frames keep within a budget of seconds.

    Above the budget it goes down the ladder, as many rungs as it takes by their rough cost. It
    climbs one rung at a time, after a while in which the better quality would have fitted; a climb
    that fails doubles the wait for the next. Knows no clock: the caller tells the time.
    """

    def __init__(self, budget: float, ladder: tuple[Chosen, ...]) -> None:
        self._budget = budget
        self._ladder = ladder
        self._rung = 0
        self._mean = 0.0
        self._frames = 0  # since the last change
        self._changed = 0.0  # when
        self._over: float | None = None  # since when the mean has been above the budget
        self._rise = _RISE
        self._on_trial = False

    @property
    def quality(self) -> Chosen:
        """What the next frame gets."""
        return self._ladder[self._rung]

    def note(self, seconds: float, now: float) -> Chosen:
        """Take note of what a frame took, at time `now`; return the quality to go on with."""
        if self._frames == 0:
            self._mean, self._changed = seconds, now
        self._frames += 1
        # one slow frame must not pass for a trend
        self._mean += _WEIGHT * (min(seconds, 4 * self._mean) - self._mean)
        if self._mean <= self._budget:
            self._over = None
        elif self._over is None:
            self._over = now
        if self._on_trial and now - self._changed >= _TRIAL:
            self._on_trial, self._rise = False, _RISE
        if self._frames >= _SETTLE:
            if self._over is not None and now - self._over >= _FALL:
                self._fall()
            elif self._rung and now - self._changed >= self._rise and self._fits_above():
                self._change(self._rung - 1)
                self._on_trial = True
        return self.quality

    def _fits_above(self) -> bool:
        return self._mean / self._ladder[self._rung].cost <= _ROOM * self._budget

    def _fall(self) -> None:
        if self._on_trial:
            self._rise = min(2 * self._rise, _LONGEST_RISE)
            self._on_trial = False
        rung, expected = self._rung, self._mean
        while expected > self._budget and rung < len(self._ladder) - 1:
            rung += 1
            expected *= self._ladder[rung].cost
        if rung != self._rung:
            self._change(rung)

    def _change(self, rung: int) -> None:
        self._rung, self._frames, self._over = rung, 0, None

"""A generated clip whose segments are known: something to run with nothing at hand.

A calm day by the sea: sky, hills, water, a house, and three things that move. A balloon rises, a
boat passes behind the house and comes out again, a ball bounces in front of everything. Each frame
is a pure function of its number, noise included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.source.marks import Entry
from aaams_stream.source.pixels import Picture

WIDTH, HEIGHT = 320, 240
RATE = Fraction(24)
FRAME_COUNT = 96
POSTER = 72  # a frame in which nothing hides anything: the demo as one image

# What each truth label is, in order; a later one covers an earlier one.
SURFACES = (
    "sky",
    "sun",
    "hills",
    "water",
    "boat",
    "sail",
    "balloon",
    "house",
    "roof",
    "door",
    "ball",
)
_COLOURS = np.array(
    [
        (126, 178, 232),
        (252, 226, 120),
        (86, 140, 84),
        (44, 92, 148),
        (120, 62, 40),
        (244, 240, 228),
        (214, 66, 58),
        (226, 202, 168),
        (158, 58, 48),
        (92, 60, 44),
        (246, 196, 44),
    ],
    dtype=np.float32,
)


class DemoFrame(NamedTuple):
    """One frame of the demo and what it shows."""

    rgb: NDArray[np.uint8]  # (h, w, 3)
    truth: NDArray[np.uint8]  # (h, w) an index into SURFACES


def demo_frame(index: int) -> DemoFrame:
    """Draw frame `index`; the same number always gives the same pixels."""
    y, x = np.indices((HEIGHT, WIDTH), dtype=np.float32)
    at = index / FRAME_COUNT  # 0 at the first frame, 1 after the last
    truth = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)

    def paint(name: str, where: NDArray[np.bool_]) -> None:
        truth[where] = SURFACES.index(name)

    paint("sun", _disc(x, y, 258, 46, 22))
    paint("hills", y >= 118 - 26 * np.sin(x / 52 + 0.6) - 10 * np.sin(x / 19))
    paint("water", y >= 150)
    sea = 172 + 2 * np.sin(2 * np.pi * 3 * at)
    bow = -50 + 420 * at
    paint("boat", (np.abs(x - bow) <= 34 - (y - sea)) & (y >= sea) & (y < sea + 15))
    paint("sail", (x >= bow - 4) & (y < sea - 3) & (x - bow + 4 <= 0.55 * (y - sea + 62)))
    paint("balloon", _disc(x, y, 88 + 14 * np.sin(2 * np.pi * at), 150 - 104 * at, 24))
    paint("house", (x >= 150) & (x < 226) & (y >= 122) & (y < 204))
    paint("roof", (y >= 88) & (y < 122) & (np.abs(x - 188) <= 48 * (y - 88) / 34 + 2))
    paint("door", (x >= 176) & (x < 198) & (y >= 164) & (y < 204))
    bounce = abs(np.sin(np.pi * 3 * at))
    paint("ball", _disc(x, y, 30 + 262 * at, 214 - 70 * bounce, 15))

    shade = 1.0 + 0.10 * (y / HEIGHT - 0.5) + 0.05 * (x / WIDTH - 0.5)
    waves = np.where(truth == SURFACES.index("water"), 5 * np.sin(y / 2.2 + x / 17 + 6 * at), 0)
    noise = np.random.default_rng(index).normal(0.0, 2.0, (HEIGHT, WIDTH, 3))
    rgb = _COLOURS[truth] * shade[..., None] + waves[..., None] + noise
    return DemoFrame(np.clip(np.rint(rgb), 0, 255).astype(np.uint8), truth)


def kept_things(frames: Iterable[tuple[int, NDArray[Any]]]) -> dict[str, bool]:
    """Tell of each thing that was drawn whether it kept one id through all these frames.

    frames: numbers of frames and their ids (h, w), of any size. A thing bears the id that most of
    its pixels have. It is seen where at least a quarter of the most that ever shows of it does: of
    a sliver at the edge of a house nobody could say what it is. Things not seen are left out.
    """
    names: list[NDArray[np.int64]] = []
    areas: list[NDArray[np.int64]] = []
    for index, ids in frames:
        truth = demo_frame(index).truth
        rows, columns = (
            np.arange(n) * whole // n for n, whole in zip(ids.shape, truth.shape, strict=True)
        )
        truth = truth[rows[:, None], columns]
        things = [ids[truth == k] for k in range(len(SURFACES))]
        areas.append(np.array([thing.size for thing in things]))
        names.append(np.array([_most_common(thing) for thing in things]))
    if not names:
        return {}
    area, name = np.stack(areas), np.stack(names)
    seen = (4 * area >= area.max(axis=0)) & (area > 0)
    return {
        thing: len(np.unique(name[seen[:, k], k])) == 1
        for k, thing in enumerate(SURFACES)
        if seen[:, k].any()
    }


def _most_common(ids: NDArray[Any]) -> int:
    if not ids.size:
        return 0
    values, counts = np.unique(ids, return_counts=True)
    return int(values[counts.argmax()])


class DemoReader:
    """Reads the generated clip."""

    def __init__(self) -> None:
        self.name = "demo"
        self.rate = RATE
        self.time_base = 1 / RATE
        self.frame_count: int | None = FRAME_COUNT
        self.duration: Fraction | None = FRAME_COUNT / RATE
        self.damage: str | None = None
        self.seekable = False

    def pictures(self, start: Fraction | Sequence[Entry] | None = None) -> Iterator[Picture]:
        """Draw the pictures one by one."""
        for index in range(FRAME_COUNT):
            yield Picture(index / self.rate, demo_frame(index).rgb)

    def stop(self) -> None:
        """Do nothing: drawing waits for nobody."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _disc(
    x: NDArray[np.float32], y: NDArray[np.float32], cx: float, cy: float, radius: float
) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (x - cx) ** 2 + (y - cy) ** 2 <= radius**2
    return inside

"""What the benchmarks share: tables, timing, pictures, the report's folder."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

REPORTS = Path(__file__).resolve().parent / "reports"


@dataclass(frozen=True, slots=True)
class Timing:
    """CPU and wall seconds of several runs of one call."""

    cpu: tuple[float, ...]
    wall: tuple[float, ...]

    @property
    def best_cpu(self) -> float:
        """The least disturbed run."""
        return min(self.cpu)

    @property
    def median_cpu(self) -> float:
        """The usual run."""
        return statistics.median(self.cpu)

    @property
    def best_wall(self) -> float:
        """The least disturbed run, as a clock on the wall saw it."""
        return min(self.wall)


def timed(call: Callable[[], object], repeats: int = 1) -> Timing:
    """Run `call` so many times; CPU time counts every thread of this process."""
    cpu, wall = [], []
    for _ in range(repeats):
        cpu_start, wall_start = time.process_time(), time.perf_counter()
        call()
        cpu.append(time.process_time() - cpu_start)
        wall.append(time.perf_counter() - wall_start)
    return Timing(tuple(cpu), tuple(wall))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table that reads well as Markdown and on a terminal; numbers to the right."""
    body = [[_cell(value) for value in row] for row in rows]
    numeric = [
        all(_is_number(row[i]) for row in body if row[i] not in ("", "-")) and bool(body)
        for i in range(len(header))
    ]
    widths = [max(len(row[i]) for row in [list(header), *body]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join(
        "-" * (width + 1) + (":" if right else "-")
        for width, right in zip(widths, numeric, strict=True)
    )
    return "\n".join([line(header), rule + "|", *map(line, body)])


def environment() -> str:
    """Return one line on the machine and the versions, for the foot of a report."""
    packages = ["numpy", "numba", "opencv-python", "opencv-contrib-python", "scikit-image"]
    found = [f"{name} {_version(name)}" for name in packages if _version(name)]
    return (
        f"Python {platform.python_version()}, {', '.join(found)}; "
        f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}."
    )


def report_folder(name: str) -> Path:
    """Return the (made) folder of one benchmark's report."""
    folder = REPORTS / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def say(text: str) -> None:
    """Tell the person waiting; standard output is for the result."""
    print(text, file=sys.stderr, flush=True)


class Progress:
    """Say how far a run is, at most every few seconds."""

    def __init__(self, name: str, total: int, every: float = 5.0) -> None:
        self.name, self.total, self.every = name, total, every
        self.done = 0
        self.start = self.last = time.monotonic()

    def step(self) -> None:
        """Count one more as done."""
        self.done += 1
        now = time.monotonic()
        if self.done == self.total or now - self.last >= self.every:
            self.last = now
            spent = now - self.start
            left = spent / self.done * (self.total - self.done)
            say(f"{self.name}: {self.done}/{self.total}, {spent:.0f} s, {left:.0f} s to go")


def outlined(rgb: NDArray[np.uint8], labels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the picture with its segments outlined, two pixels wide, red between."""
    edge = np.zeros(labels.shape, dtype=bool)
    edge[:, 1:] |= labels[:, 1:] != labels[:, :-1]
    edge[1:] |= labels[1:] != labels[:-1]
    out = rgb.copy()
    out[edge] = (255, 40, 30)
    return out


def mean_coloured(rgb: NDArray[np.uint8], labels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the picture with every segment in its mean colour."""
    flat = np.unique(labels, return_inverse=True)[1].ravel()
    counts = np.bincount(flat)
    means = [np.bincount(flat, rgb[..., c].ravel()) / counts for c in range(3)]
    return np.rint(np.stack(means, axis=1)[flat]).astype(np.uint8).reshape(rgb.shape)


def picture_grid(
    path: Path, rows: Sequence[Sequence[tuple[str, NDArray[np.uint8]]]], width: float = 4.0
) -> None:
    """Write rows of titled pictures as one PNG."""
    plt = pyplot()
    columns = max(len(row) for row in rows)
    height = sum(
        max(picture.shape[0] / picture.shape[1] for _, picture in row) * width + 0.35
        for row in rows
    )
    figure, axes = plt.subplots(
        len(rows), columns, figsize=(columns * width, height), squeeze=False, layout="constrained"
    )
    for axis in axes.ravel():
        axis.set_axis_off()
    for row, row_axes in zip(rows, axes, strict=True):
        for (title, picture), axis in zip(row, row_axes, strict=False):
            axis.imshow(picture)
            axis.set_title(title, fontsize=9)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def pyplot() -> Any:
    """Return matplotlib's pyplot, drawing to files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _cell(value: object) -> str:
    if isinstance(value, float | np.floating):
        size = abs(float(value))
        return f"{value:.3f}" if size < 1 else f"{value:.2f}" if size < 100 else f"{value:.0f}"
    return "-" if value is None else str(value)


def _is_number(text: str) -> bool:
    try:
        float(text.removeprefix("x").removesuffix("x"))
    except ValueError:
        return False
    return True

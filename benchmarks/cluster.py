"""What it costs and brings to segment a film in parts.

    python benchmarks/cluster.py FILM                   throughput, costs and the simulation
    python benchmarks/cluster.py FILM --only cost       survey and assembly against a single pass
    python benchmarks/cluster.py --only stretch --data DIR --clips CLIP…

`throughput` segments the film with one worker and with two, of one thread each. `cost` tells the
CPU time of the survey and of assembly beside that of a single pass, in one process, and whether the
bytes are the same. `simulate` takes the measured times of frames, survey and assembly, and lets
workers take the parts of a two-hour film in a model of the scheduler. `stretch` compares stretched
volumes with one pass: `j_prop` where there is a truth, lives everywhere.

CPU time is trustworthy on a busy machine, throughput is not: its share of the cores is told.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aaams_stream import open_volume, segment_video
from aaams_stream.cluster.chain import Chain
from aaams_stream.cluster.connect import connected
from aaams_stream.cluster.part import segment_part
from aaams_stream.cluster.plan import survey_film
from aaams_stream.cluster.run import prepare
from aaams_stream.metrics import VideoScores
from aaams_stream.model import Clip
from aaams_stream.run.segment_video import Job, run_job
from aaams_stream.run.warmup import warm_stream
from aaams_stream.source.images import read_image
from aaams_stream.store import VolumeWriter
from aaams_stream.store.join import finish_join, join_final, join_tables

PARTS = ("cost", "throughput", "simulate", "stretch")
RATE, HOURS = 25, 2
SCENES = {"a cut every 8 s": 8.0, "a cut every 5 min": 300.0}
_OVER = 20
WORKERS = (1, 2, 4, 8, 16, 32, 64)


class Costs(NamedTuple):
    """Seconds of CPU a frame."""

    single: float
    survey: float
    parts: float
    assembly: float
    finish: float  # without what is the same for every film


@contextmanager
def cpu_of(into: dict[str, float], name: str) -> Iterator[None]:
    """Add the CPU time of what is done inside."""
    begun = time.process_time()
    yield
    into[name] = into.get(name, 0.0) + time.process_time() - begun


def measure_costs(film: str, folder: Path, duration: float | None, spacing: int) -> dict[str, Any]:
    """Segment a film in one pass and in parts, in this process, and compare the bytes."""
    os.environ["AAAMS_THREADS"] = "1"
    warm_stream()
    spent: dict[str, float] = {}
    clip = Clip(duration=duration)
    with cpu_of(spent, "single"):
        run_job(Job(film, folder / "single.zarr", clip=clip))
    work = prepare(Job(film, folder / "parts.zarr", clip=clip), spacing=spacing)
    request = work.request
    with cpu_of(spent, "survey"):
        survey = survey_film(request)
    chain, done, wasted = Chain(request), 0, 0
    starts = {start.frame: start for start in survey.starts}
    while done < survey.frames:
        with cpu_of(spent, "parts"):
            part = segment_part(request, starts[done])
        assert part is not None
        chain.add_scene(part)
        wasted += sum(done < frame < chain.end for frame in starts)
        done = chain.end
        with cpu_of(spent, "assembly"):
            for write, arguments in chain.assembly(done == survey.frames):
                write(*arguments)
    with cpu_of(spent, "finish"):
        _finish(work.writer, chain)
    # what of it grows with the film: the same parts many times over, of which only tables matter
    again = prepare(Job(film, folder / "long.zarr", clip=clip), spacing=spacing)
    longer = Chain(again.request)
    for part in chain.parts * _OVER:
        longer.add_scene(part)
    begun = time.process_time()
    _finish(again.writer, longer)
    spent["finish, growing"] = max(0.0, time.process_time() - begun - spent["finish"]) / (_OVER - 1)
    same = _tree(folder / "single.zarr") == _tree(folder / "parts.zarr")
    frames = survey.frames
    extra = spent["survey"] + spent["assembly"] + spent["finish"]
    return {
        "frames": frames,
        "parts": len(chain.pieces),
        "proposals not borne out": wasted,
        "same bytes": same,
        "ms a frame": {name: round(1e3 * seconds / frames, 3) for name, seconds in spent.items()},
        "survey and assembly, share of a single pass": round(extra / spent["single"], 4),
        "parts, share of a single pass": round(spent["parts"] / spent["single"], 4),
    }


def _finish(writer: VolumeWriter, chain: Chain) -> None:
    events = np.concatenate(chain.events)
    join_tables(writer, chain.pieces, chain.parts, events)
    finish_join(writer, join_final(chain.pieces, chain.parts), events, "complete")


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def measure_throughput(film: str, folder: Path, duration: float | None) -> dict[str, Any]:
    """Segment a film with one worker and with two; seconds include nothing but the film."""
    found: dict[str, Any] = {}
    for workers in (1, 2):
        with connected(f"local:{workers}") as client:
            warm = folder / "warm.zarr"
            segment_video("demo", warm, duration=0.2, client=client)
            client.run(warm_stream)  # or all but one would load the kernels on the way
            shutil.rmtree(warm)
            store = folder / f"{workers}.zarr"
            idle, begun = _idle(), time.monotonic()
            summary = segment_video(film, store, duration=duration, client=client)
            seconds = time.monotonic() - begun
            found[f"{workers} workers"] = {
                "seconds": round(seconds, 2),
                "frames a second": round(summary.frames / seconds, 2),
                "cores idle": round((_idle() - idle) / seconds, 2),
            }
    one, two = (found[f"{n} workers"]["seconds"] for n in (1, 2))
    found["ratio"] = round(one / two, 3)
    return found


def _idle() -> float:
    """Return the seconds that all cores were idle since the machine was started."""
    words = Path("/proc/stat").read_text().split()
    return (int(words[4]) + int(words[5])) / os.sysconf("SC_CLK_TCK")


def simulate(costs: Costs, seed: int = 0) -> list[dict[str, Any]]:
    """Have workers take the parts of a long film as they become known; return efficiencies.

    `efficiency`: of so many workers against one; `against a pass`: against plain `segment` on one
    thread, which needs neither survey nor assembly.
    """
    rows = []
    for name, seconds in SCENES.items():
        scenes = _scenes(seconds * RATE, HOURS * 3600 * RATE, seed)
        alone, _ = _makespan(scenes, costs, 1)
        for workers in WORKERS:
            took, tail = _makespan(scenes, costs, workers)
            rows.append(
                {
                    "film": name,
                    "workers": workers,
                    "efficiency": round(alone / workers / took, 3),
                    "against a pass": round(sum(scenes) * costs.single / workers / took, 3),
                    "minutes": round(took / 60, 1),
                    "tail, s": round(tail, 1),  # from the first worker without work to the end
                }
            )
    return rows


def _scenes(mean: float, frames: int, seed: int) -> list[int]:
    """Return lengths of parts: scenes of .5 to 1.5 times the mean, joined until they have 200."""
    rng = np.random.default_rng(seed)
    lengths: list[int] = []
    part = 0
    while sum(lengths) + part < frames:
        part += round(mean * rng.uniform(0.5, 1.5))
        if part >= 200:
            lengths.append(min(part, frames - sum(lengths)))
            part = 0
    return lengths


def _makespan(scenes: Sequence[int], costs: Costs, workers: int) -> tuple[float, float]:
    """Return how long a film takes, and the time from the first worker without work to the end.

    One worker surveys and joins the others then; a part is known when the next one is found. Who is
    free takes the longest part that is known, and assembles as much. The rest is done at the end.
    """
    known = [float(end) for end in np.cumsum(scenes) * costs.survey]
    free = [0.0] * (workers - 1) + [known[-1]]
    heapq.heapify(free)
    waiting: list[int] = []
    position = 0
    while position < len(known) or waiting:
        now = heapq.heappop(free)
        while position < len(known) and (known[position] <= now or not waiting):
            now = max(now, known[position])  # nothing to do: waits for the survey
            heapq.heappush(waiting, -scenes[position])
            position += 1
        length = -heapq.heappop(waiting)
        heapq.heappush(free, now + length * (costs.parts + costs.assembly))
    finished = max(free) + sum(scenes) * costs.finish
    return finished, finished - min(free)


def compare_stretches(
    data: Path | None, clips: Sequence[str], stretch: float, limit: int, folder: Path
) -> list[dict[str, Any]]:
    """Score stretched volumes beside those of one pass."""
    rows = []
    sequences = sorted(data.glob("davis_*"))[:limit] if data else []
    for source, truth in itertools.chain(
        ((path / "frames", path / "gt") for path in sequences), ((Path(c), None) for c in clips)
    ):
        row: dict[str, Any] = {"clip": source.parent.name if truth else source.name}
        for name, seconds in (("one", None), ("stretched", stretch)):
            store = folder / f"{name}.zarr"
            segment_video(source, store, size=(427, 240), stretch=seconds, overwrite=True)
            row |= {f"{key}, {name}": value for key, value in _scores(store, truth).items()}
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def _scores(store: Path, truth: Path | None) -> dict[str, Any]:
    volume = open_volume(store)
    tracks = volume.tracks
    volumes = tracks["volume"].astype(float)
    frames = tracks["frames"] / volume.frame_count
    found: dict[str, Any] = {
        "life": round(float(frames.mean()), 4),
        "life_vol": round(float(frames @ volumes / volumes.sum()), 4),
    }
    if truth is not None:
        scores = VideoScores()
        for t, path in enumerate(sorted(truth.iterdir())):
            grey = read_image(path)
            grey = grey if grey.ndim == 2 else grey[..., 0]
            y = np.arange(volume.height) * grey.shape[0] // volume.height
            x = np.arange(volume.width) * grey.shape[1] // volume.width
            scores.add(volume.ids[t], grey[y[:, None], x] > 0)
        result = scores.result()
        found["j_prop"] = None if result.j_prop is None else round(result.j_prop, 4)
    return found


def main() -> None:
    """Measure what was asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("film", nargs="?", help="a film with scene changes")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--duration", type=float, help="seconds of the film")
    parser.add_argument("--spacing", type=int, default=200, help="frames between parts, at least")
    parser.add_argument("--data", type=Path, help="sequences with truth, for `stretch`")
    parser.add_argument("--clips", nargs="*", default=[], help="others, for `stretch`")
    parser.add_argument("--stretch", type=float, default=10.0, help="seconds")
    parser.add_argument("--limit", type=int, default=20, help="sequences")
    args = parser.parse_args()
    only = args.only or ["cost", "throughput", "simulate"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: dict[str, Any] = {}
        if "cost" in only or "simulate" in only:
            found["cost"] = measure_costs(args.film, folder, args.duration, args.spacing)
            ms = found["cost"]["ms a frame"]
            names = ("single", "survey", "parts", "assembly", "finish, growing")
            costs = Costs(*(1e-3 * ms[part] for part in names))
        if "simulate" in only:
            found["simulated"] = simulate(costs)
        if "throughput" in only:
            found["throughput"] = measure_throughput(args.film, folder, args.duration)
        if "stretch" in only:
            found["stretch"] = compare_stretches(
                args.data, args.clips, args.stretch, args.limit, folder
            )
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

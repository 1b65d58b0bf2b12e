"""What `speed.py` has done in processes of their own: `speed_work.py WORK JOB RESULT`.

    warm      CPU of warm frames on one thread, each set of settings and the peers in turn
    volume    a clip from file to volume on the cores the process may use
    memory    the same for a clip in a loop, watching what the process holds

JOB is a JSON object of arguments; RESULT is the file the answer goes to, JSON too.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import report
from image_speed import peak_memory, reset_peak_memory
from numpy.typing import NDArray

from aaams_stream.params import Params, resolve

SETTLED = 5  # frames after which a stream counts as warm
TURN = 3  # every so many settled frames are timed, ours and the peers
SUPERPIXELS = 400
ITERATIONS = 10
SEEDS, SLIC, FAST_SLIC, DIS = "OpenCV SEEDS", "OpenCV SLIC", "fast-slic", "OpenCV DIS fast"

Picture = NDArray[np.uint8]
Peer = Callable[[Picture, Picture], object]


def main(argv: Sequence[str]) -> int:
    """Do one piece of work."""
    work, job, result = argv
    works: dict[str, Callable[..., dict[str, Any]]] = {
        "warm": warm,
        "volume": volume,
        "memory": memory,
    }
    arguments = json.loads(job)
    arguments["size"] = tuple(arguments["size"])
    answer = works[work](**arguments)
    Path(result).write_text(json.dumps(answer), encoding="utf-8")
    return 0


def settings(config: str, changes: Sequence[str]) -> Params:
    """Return the settings of a name or file, with changes as of `--set`."""
    return resolve(None if config == "default" else config).overridden(list(changes))


def warm(
    clip: str,
    size: tuple[int, int],
    frames: int,
    configs: Sequence[str],
    changes: Sequence[str],
    repeats: int,
) -> dict[str, Any]:
    """Step through the clip; on every few frames ours and the peers take turns, several times.

    The best of the repeats counts. Ours goes back to the state before the frame each time; of a
    peer that keeps an object there is one for each repeat, so that it sees a frame once.
    """
    import cv2

    from aaams_stream import Segmenter
    from aaams_stream.model import Clip
    from aaams_stream.source import open_source

    cv2.setNumThreads(1)
    segmenters = {name: Segmenter(settings(name, changes)) for name in configs}
    cpu: dict[str, list[float]] = {name: [] for name in configs}
    stages: dict[str, dict[str, list[float]]] = {name: {} for name in configs}
    cold: dict[str, float] = {}
    peers = [at_hand(*size) for _ in range(repeats)]
    spent: dict[str, list[float]] = {name: [] for name in peers[0]}
    with open_source(clip, Clip(size=size)) as source:
        before = np.zeros((source.height, source.width, 3), np.uint8)
        for frame in source:
            if frame.index >= frames:
                break
            rgb = frame.rgb
            if frame.index == 0:
                for segmenter in segmenters.values():
                    load_kernels(segmenter.params, rgb)
                for calls in peers:
                    for call in calls.values():
                        call(rgb, rgb)
            timed = frame.index >= SETTLED and (frame.index - SETTLED) % TURN == 0
            states = {name: segmenter.state for name, segmenter in segmenters.items()}
            ours: dict[str, list[float]] = {name: [] for name in configs}
            theirs: dict[str, list[float]] = {name: [] for name in spent}
            shares: dict[str, list[dict[str, float]]] = {name: [] for name in configs}
            for repeat in range(repeats if timed else 1):
                for name, segmenter in segmenters.items():
                    segmenter.state = states[name]
                    start = time.process_time()
                    result = segmenter.step(rgb)
                    ours[name].append(time.process_time() - start)
                    shares[name].append(dict(result.stats))
                for name, call in peers[repeat].items() if timed else ():
                    start = time.process_time()
                    call(rgb, before)
                    theirs[name].append(time.process_time() - start)
            before = rgb
            if frame.index == 0:
                cold = {name: min(seconds) for name, seconds in ours.items()}
            cut = any(share[0]["warm"] == 0 for share in shares.values())  # cold again
            if not timed or cut:
                continue
            for name in configs:
                cpu[name].append(min(ours[name]))
                for stage in shares[name][0]:
                    if stage not in ("segments", "warm"):
                        best = min(share[stage] for share in shares[name])
                        stages[name].setdefault(stage, []).append(best)
            for name in spent:
                spent[name].append(min(theirs[name]))
    means = {
        name: {stage: statistics.mean(seconds) for stage, seconds in found.items()}
        for name, found in stages.items()
    }
    found = {"cpu": cpu, "cold": cold, "stages": means, "peers": spent}
    return {**found, "environment": report.environment()}


def load_kernels(params: Params, rgb: Picture) -> None:
    """Compile, or load what was compiled, so that no frame is charged for it."""
    from aaams_stream import Segmenter

    segmenter = Segmenter(params)
    for shift in range(3):
        segmenter.step(np.roll(rgb[:120, :160], shift, axis=1))


def at_hand(width: int, height: int) -> dict[str, Peer]:
    """Return the peers at hand, each a call that takes a frame and the one before it."""
    import cv2

    contrib: Any = cv2
    search: Any = contrib.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
    found: dict[str, Peer] = {}

    def flow(rgb: Picture, before: Picture) -> object:
        grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
        return search.calc(grey, cv2.cvtColor(before, cv2.COLOR_RGB2GRAY), None)

    def seeds(rgb: Picture, before: Picture) -> object:
        grid.iterate(cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB), ITERATIONS)
        return grid.getLabels()

    def slic(rgb: Picture, before: Picture) -> object:
        lab = cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB)
        side = round((width * height / SUPERPIXELS) ** 0.5)
        superpixels = contrib.ximgproc.createSuperpixelSLIC(lab, region_size=side)
        superpixels.iterate(ITERATIONS)
        return superpixels.getLabels()

    def fast_slic(rgb: Picture, before: Picture) -> object:
        return clusters.iterate(rgb, ITERATIONS)

    if hasattr(cv2, "ximgproc"):
        grid = contrib.ximgproc.createSuperpixelSEEDS(width, height, 3, SUPERPIXELS, 4)
        found |= {SEEDS: seeds, SLIC: slic}
    clusters = _fast_slic()
    if clusters is not None:
        found[FAST_SLIC] = fast_slic
    return found | {DIS: flow}


def _fast_slic() -> Any:
    """Return fast-slic's object, with AVX2 where it has it; None where it is not installed."""
    import importlib

    for module, name in (("fast_slic.avx2", "SlicAvx2"), ("fast_slic", "Slic")):
        try:
            made = getattr(importlib.import_module(module), name)
            return made(num_components=SUPERPIXELS, compactness=10, num_threads=1)
        except (ImportError, AttributeError, RuntimeError):
            continue
    return None


def volume(
    clip: str, size: tuple[int, int], frames: int, config: str, changes: Sequence[str]
) -> dict[str, Any]:
    """Segment the beginning of the clip into a volume, as `aaams-stream segment` does.

    Time runs from the first settled frame until the volume is complete. `others` is the share of
    the cores that other processes used meanwhile.
    """
    from aaams_stream.cluster.door import segment_video
    from aaams_stream.model import Clip
    from aaams_stream.source import open_source

    params = settings(config, changes)
    with open_source(clip, Clip(size=size)) as source:
        duration = frames / source.rate
        load_kernels(params, next(iter(source)).rgb)
    moments: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        cpu, begun, busy = time.process_time(), time.perf_counter(), busy_seconds()
        summary = segment_video(
            clip,
            Path(folder, "volume.zarr"),
            params,
            size=size,
            duration=duration,
            progress=lambda _: moments.append(time.perf_counter()),
        )
        cpu, done = time.process_time() - cpu, time.perf_counter()
        others = (busy_seconds() - busy - cpu) / (done - begun) / len(os.sched_getaffinity(0))
    took = np.diff(moments)[SETTLED:]
    if not took.size:
        raise ValueError(f"{clip}: {summary.frames} frames are too few to time; take more")
    median, p90 = np.percentile(took, [50, 90])
    return {
        "frames": summary.frames,
        "fps": len(took) / (done - moments[SETTLED]),
        "median": float(median),
        "p90": float(p90),
        "wall": done - begun,
        "cpu": cpu / summary.frames,
        "others": max(0.0, others),
    }


def busy_seconds() -> float:
    """Return how long the cores of this process have been busy, whoever used them; Linux only."""
    lines = map(str.split, Path("/proc/stat").read_text(encoding="ascii").splitlines())
    ticks = {words[0]: list(map(int, words[1:])) for words in lines if words}
    # user, nice and system; then, after idle and waiting, interrupts and what a host takes
    spent = (ticks[f"cpu{core}"] for core in os.sched_getaffinity(0))
    return sum(sum(times[:3]) + sum(times[5:8]) for times in spent) / os.sysconf("SC_CLK_TCK")


def memory(
    clip: str, size: tuple[int, int], frames: int, config: str, changes: Sequence[str]
) -> dict[str, Any]:
    """Segment the clip in a loop; tell the most the process held, and what it held on its way."""
    from aaams_stream.cluster.door import segment_video
    from aaams_stream.model import Clip
    from aaams_stream.source import open_source

    params = settings(config, changes)
    with open_source(clip, Clip(size=size)) as source:
        rate = source.rate
        once = sum(1 for _ in source)
    load_kernels(params, np.zeros((120, 160, 3), np.uint8))
    held: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        # FFmpeg's own list of files; a plain name beside it is what it calls safe
        film = Path(folder, f"clip{Path(clip).suffix}")
        film.symlink_to(Path(clip).resolve())
        loop = Path(folder, "loop.ffconcat")
        loop.write_text("ffconcat version 1.0\n" + f"file {film.name}\n" * (-(-frames // once)))
        begun = reset_peak_memory()

        def look(_: object) -> None:
            held.append((len(held) + 1, resident()))

        summary = segment_video(
            loop,
            Path(folder, "volume.zarr"),
            params,
            size=size,
            duration=frames / rate,
            progress=look,
        )
        peak = peak_memory()
    tenths = [held[max(0, round(len(held) * n / 10) - 1)] for n in range(1, 11)]
    return {"frames": summary.frames, "loaded": begun, "peak": peak, "held": tenths}


def resident() -> int:
    """Return the bytes this process holds now; where the system does not tell, the most so far."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return peak_memory()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError) as error:
        report.say(f"error: {error}")
        sys.exit(2)

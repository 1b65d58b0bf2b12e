"""Command `follow`: objects through a video or a volume."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaams_stream.cli import options
from aaams_stream.cli.meter import Meter
from aaams_stream.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Generator

    from aaams_stream.model import FrameSegmentation


def add_commands(commands: Any) -> None:
    """Add `follow` to the parser."""
    follow = commands.add_parser(
        "follow",
        help="follow objects from a mask or a click through a video",
        description="Follow objects through a video or a volume, given in one frame, and write a "
        "folder: masks/ (indexed PNG in the colours of DAVIS), overlay.mp4 and objects.csv (frame, "
        "time, object, area, box, how sure, and whether it is seen, lost or back). An object that "
        "is lost has no pixels.",
    )
    follow.add_argument(
        "input",
        metavar="INPUT",
        help="a volume, or what `segment` takes: it is segmented on the way",
    )
    follow.add_argument(
        "-o", "--output", metavar="FOLDER", required=True, help="a new folder for what is found"
    )
    what = follow.add_argument_group("what is followed")
    what.add_argument(
        "--mask",
        metavar="FILE",
        type=Path,
        help="a picture of the frames' size, above 0 where the object is; in the palette of DAVIS "
        "or in grey levels up to 20, each value is an object",
    )
    what.add_argument(
        "--click",
        metavar="[N:]X,Y",
        type=click,
        action="append",
        default=[],
        help="a pixel of object N (1): the segment there belongs to it; may be repeated",
    )
    what.add_argument(
        "--not",
        metavar="[N:]X,Y",
        type=click,
        action="append",
        default=[],
        dest="without",
        help="a pixel that is not of object N (1); may be repeated",
    )
    what.add_argument(
        "--frame", metavar="N", type=int, default=0, help="that of the mask or clicks, from 0 (0)"
    )
    what.add_argument(
        "--backwards", action="store_true", help="from that frame to the first; of a volume"
    )
    options.add_level(follow)
    follow.add_argument(
        "--source",
        metavar="FILE",
        help="pictures of a volume; by default those in it, or the source it was made from",
    )
    follow.add_argument("--overwrite", action="store_true", help="replace an existing folder")
    options.add_settings(follow)
    options.add_reporting(follow)
    follow.set_defaults(run=run_follow)


def run_follow(args: argparse.Namespace) -> int:
    """Follow objects; 130 after Ctrl-C and so on, with what was done until then."""
    if args.mask is None and not args.click:
        raise ConfigError("say what to follow: --mask FILE or --click X,Y")
    from aaams_stream.run.follow import Start, check_output, follow_video
    from aaams_stream.source import local_file

    pictures = None if args.source is None else local_file(args.source)
    named = {"input": local_file(args.input), "source": pictures, "mask": args.mask}
    check_output(args.output, args.overwrite, **named)
    frames = frames_of(args)
    from aaams_stream.store import is_volume

    meter = Meter(args.quiet)
    begun = time.monotonic()
    groups = None if is_volume(args.input) else args.at  # a volume is seen in groups itself
    start = Start(args.frame, args.mask, tuple(args.click), tuple(args.without), groups)
    try:
        report = follow_video(
            frames, args.output, start, overwrite=args.overwrite, progress=meter.tick
        )
    finally:
        frames.close()
        meter.close()
    if args.json:
        facts = {"output": str(report.output), "frames": report.frames, "seen": dict(report.seen)}
        print(json.dumps({**facts, "seconds": time.monotonic() - begun}))
    elif not args.quiet:
        told = ", ".join(f"object {n} seen in {seen}" for n, seen in report.seen.items())
        print(f"{report.output}: {report.frames} frames, {told}")
    if report.stopped:
        print("interrupted", file=sys.stderr)
        return 128 + report.stopped
    return 0


def frames_of(args: argparse.Namespace) -> Generator[FrameSegmentation]:
    """Return the frames of a volume, or of a source that is segmented now, from --frame on."""
    from aaams_stream.store import is_volume

    params = options.read_settings(args)
    if is_volume(args.input):
        from aaams_stream.run.follow import frames_of_volume
        from aaams_stream.store import open_volume
        from aaams_stream.store.tables import require_complete

        volume = open_volume(args.input)
        require_complete(volume, "objects are followed to its end")
        volume = options.seen_at(volume, args)
        return frames_of_volume(volume, args.frame, backwards=args.backwards, source=args.source)
    for given, name in ((args.level, "--level"), (args.source, "--source")):
        if given is not None:
            raise ConfigError(f"{args.input}: {name} is for volumes; segment it first")
    if args.backwards:
        raise ConfigError(f"{args.input}: only a volume is gone through --backwards; segment it")
    options.say_if_cold(args.quiet)
    from aaams_stream.run.follow import frames_of_source

    return frames_of_source(args.input, args.frame, params)


def click(text: str) -> tuple[int, int, int]:
    """Read X,Y or N:X,Y."""
    number, colon, place = text.rpartition(":")
    x, comma, y = place.partition(",")
    whole = all(part.strip().isdecimal() for part in (x, y, number if colon else "1"))
    if not (comma and whole and (not colon or 1 <= int(number) <= 255)):
        raise argparse.ArgumentTypeError(
            f"expected X,Y, for example 320,240, or N:X,Y for object N from 1 to 255, got {text!r}"
        )
    return int(number) if colon else 1, int(x), int(y)

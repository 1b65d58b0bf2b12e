"""The command `levels`: the tree over a volume's identities."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from aaams_stream.cli import options
from aaams_stream.cli.meter import Meter


def add_commands(commands: Any) -> None:
    """Add `levels` to the parser."""
    levels = commands.add_parser(
        "levels",
        help="add levels to an older volume, or coarse labels for viewers",
        description="Add the tree over its identities to a complete volume that lacks it: those "
        "of today have it. With --materialise also write the volume at so many groups a frame as "
        "labels/coarse_N, for viewers that know no lookup.",
    )
    levels.add_argument("volume", metavar="OUT.zarr")
    levels.add_argument(
        "--materialise",
        metavar="N",
        type=options.group_count,
        action="append",
        default=[],
        help="write labels/coarse_N; may be repeated",
    )
    levels.add_argument(
        "--overwrite",
        action="store_true",
        help="find levels anew where there are some; coarse labels made from those are removed",
    )
    options.add_reporting(levels)
    levels.set_defaults(run=run_levels)


def run_levels(args: argparse.Namespace) -> int:
    """Add levels to a volume."""
    from aaams_stream.jit import compile_ahead
    from aaams_stream.store import add_levels, materialise, open_volume

    options.say_if_cold(args.quiet)
    compile_ahead()
    begun = time.monotonic()
    added = add_levels(args.volume, overwrite=args.overwrite)
    labels = []
    for count in args.materialise:
        meter = Meter(args.quiet)
        try:
            labels.append(materialise(args.volume, count, meter.count))
        finally:
            meter.close()
    merges, seconds = open_volume(args.volume).merge_count, time.monotonic() - begun
    if args.json:
        told = {"volume": args.volume, "added": added, "merges": merges}
        print(json.dumps({**told, "labels": labels, "seconds": seconds}))
    elif not args.quiet:
        had = "added" if added else "were there"
        also = f", {', '.join(labels)} written" if labels else ""
        print(f"{args.volume}: levels {had} ({merges} merges){also} in {seconds:.1f} s")
    return 0

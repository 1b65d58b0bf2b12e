"""Commands `levels` and `objects`: the tree over a volume's identities, and things in it."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from aaams_stream.cli import options
from aaams_stream.cli.meter import Meter
from aaams_stream.errors import ConfigError


def add_commands(commands: Any) -> None:
    """Add `levels` and `objects` to the parser."""
    _add_objects(commands)
    levels = commands.add_parser(
        "levels",
        help="add levels to an older volume, or coarse labels for viewers",
        description="Add the tree over its identities to a complete volume that lacks it: those "
        "of today have it. With --materialise also write the volume at so many groups a frame as "
        "labels/coarse_N, for viewers that know no lookup.",
    )
    options.add_volume(levels)
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


def _add_objects(commands: Any) -> None:
    objects = commands.add_parser(
        "objects",
        help="what in a volume looks like things",
        description="List the groups of segments that look most like things: they move against "
        "the scene, last, and do not lie along the rim. With --to also export them, each as one "
        "identity; of two that lie in each other the better one has the pixels.",
    )
    options.add_volume(objects)
    objects.add_argument(
        "-k",
        metavar="N",
        type=options.whole_number,
        default=10,
        help="at most so many (default: %(default)s)",
    )
    objects.add_argument("--to", metavar="FORMAT", help="coco, mot, davis-png, or as for export")
    objects.add_argument("-o", "--output", metavar="PATH", help="where the export goes")
    objects.add_argument("--overwrite", action="store_true", help="replace an existing export")
    options.add_reporting(objects)
    objects.set_defaults(run=run_objects)


def run_objects(args: argparse.Namespace) -> int:
    """List what looks like things, and export it."""
    from aaams_stream.export import export_volume
    from aaams_stream.store import open_volume

    if (args.to is None) != (args.output is None):
        raise ConfigError("--to and -o belong together: a format, and where the export goes")
    volume = open_volume(args.volume)
    found = volume.objects(args.k)
    if args.to is not None:
        view = volume.only(found)
        found = view.shown  # by the ids that the export has
        meter = Meter(args.quiet)
        try:
            export_volume(
                view, args.to, args.output, overwrite=args.overwrite, progress=meter.count
            )
        finally:
            meter.close()
    names = found.dtype.names or ()
    if args.json:
        told = [dict(zip(names, row, strict=True)) for row in found.tolist()]
        print(json.dumps({"volume": args.volume, "objects": told, "output": args.output}))
    elif not args.quiet:
        print("".join(f"{name:>8}" for name in names))
        for row in found.tolist():
            print("".join(f"{_number(value):>8}" for value in row))
    return 0


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def run_levels(args: argparse.Namespace) -> int:
    """Add levels to a volume."""
    from aaams_stream.jit import compile_ahead
    from aaams_stream.store import add_levels, materialise, open_volume, require_complete

    # first: a wrong name must not cost the time to compile
    require_complete(open_volume(args.volume), "levels are found at the end")
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

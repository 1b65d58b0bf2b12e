"""Command `export`: a volume in the formats of others."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from aaams_stream.cli import options
from aaams_stream.cli.meter import Meter

FORMATS = ("parquet", "csv", "coco", "davis-png", "png16", "mots-png", "mot", "geff", "rrd")


def add_commands(commands: Any) -> None:
    """Add `export` to the parser."""
    export = commands.add_parser(
        "export",
        help="write a volume in a format others read",
        description="Write a volume as tables (parquet, csv: a folder with segments, adjacency, "
        "events and tracks), as masks (coco: YouTube-VIS run lengths in one JSON file; davis-png, "
        "png16, mots-png: a folder with a PNG per frame), as boxes (mot: one text file), as a "
        "tracking graph (geff: a Zarr group), or for Rerun (rrd).",
    )
    options.add_volume(export)
    export.add_argument("--to", metavar="FORMAT", required=True, help=", ".join(FORMATS))
    export.add_argument(
        "-o", "--output", metavar="PATH", required=True, help="the file or folder to write"
    )
    what = export.add_argument_group("what is exported")
    what.add_argument(
        "--min-area",
        metavar="N",
        type=options.whole_number,
        default=0,
        help="pixels of a segment in a frame, at least",
    )
    what.add_argument(
        "--max-area", metavar="N", type=options.whole_number, help="likewise, at most"
    )
    what.add_argument(
        "--min-life",
        metavar="N",
        type=options.whole_number,
        default=0,
        help="frames an identity is seen in, at least",
    )
    what.add_argument(
        "--start",
        metavar="TIME",
        type=options.moment,
        help="seconds or [hh:]mm:ss from the first frame, hh:mm:ss:ff, or a frame, as 120f",
    )
    what.add_argument(
        "--duration", metavar="TIME", type=options.moment, help="length of the stretch"
    )
    what.add_argument(
        "--partial", action="store_true", help="take what is there of an incomplete volume"
    )
    options.add_level(export)
    export.add_argument("--overwrite", action="store_true", help="replace an existing export")
    options.add_reporting(export)
    export.set_defaults(run=run_export)


def run_export(args: argparse.Namespace) -> int:
    """Export a volume."""
    from aaams_stream.export import Selection, export_volume
    from aaams_stream.model import Clip
    from aaams_stream.run.picture_names import picture_names
    from aaams_stream.store import open_volume

    meter = Meter(args.quiet)
    begun = time.monotonic()
    volume = open_volume(args.volume)
    wanted = Clip(args.start, args.duration).at_rate(volume.header.rate).to_record()
    selection = Selection(
        min_area=args.min_area,
        max_area=args.max_area,
        min_life=args.min_life,
        start=wanted["start"],
        duration=wanted["duration"],
    )
    try:
        frames = export_volume(
            options.seen_at(volume, args),
            args.to,
            args.output,
            selection,
            partial=args.partial,
            overwrite=args.overwrite,
            progress=meter.count,
            pictures=picture_names(volume) if args.to == "coco" else None,
        )
    finally:
        meter.close()
    took = time.monotonic() - begun
    if args.json:
        print(json.dumps({"output": args.output, "frames": frames, "seconds": took}))
    elif not args.quiet:
        print(f"{args.output}: {frames} frames as {args.to} in {took:.1f} s")
    return 0

"""Command `pack`: a complete volume in few files."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from typing import Any

from aaams_stream.cli import options
from aaams_stream.cli.meter import Meter


def add_commands(commands: Any) -> None:
    """Add `pack` to the parser."""
    pack = commands.add_parser(
        "pack",
        help="write a complete volume in few files, for archives and buckets",
        description="Write a complete volume anew in few files: chunks keep their bytes and are "
        "put together in shards, and the root document repeats all metadata. It reads as before. "
        "Both may be folders, addresses (s3://bucket/clip.zarr) or single files (clip.zarr.zip).",
    )
    options.add_volume(pack)
    pack.add_argument("output", metavar="OUT.zarr", help="the volume to write")
    pack.add_argument("--overwrite", action="store_true", help="replace an existing volume")
    options.add_reporting(pack)
    pack.set_defaults(run=run_pack)


def run_pack(args: argparse.Namespace) -> int:
    """Pack a volume."""
    from aaams_stream.store import pack

    meter = Meter(args.quiet, unit="array")
    begun = time.monotonic()
    try:
        packed = pack(args.volume, args.output, overwrite=args.overwrite, progress=meter.count)
    finally:
        meter.close()
    took = time.monotonic() - begun
    if args.json:
        told = {**dataclasses.asdict(packed), "store": str(packed.store), "seconds": took}
        print(json.dumps(told))
    elif not args.quiet:
        print(
            f"{packed.store}: {packed.files} files instead of {packed.files_before}, "
            f"{packed.size / 1e6:.1f} MB, in {took:.1f} s"
        )
    return 0

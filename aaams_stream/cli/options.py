"""Options that several commands share."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

from aaams_stream.errors import ConfigError
from aaams_stream.params import Params, shipped

if TYPE_CHECKING:
    from distributed import Client

    from aaams_stream.model import Timecode
    from aaams_stream.store import Volume

_TIME = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
_MOST_DIGITS = 18  # of any number that can be meant


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add --config, --set and --threads."""
    group = parser.add_argument_group("settings")
    group.add_argument(
        "--config",
        metavar="FILE",
        help=f"settings as TOML, or one of the sets that come along: {', '.join(shipped())}",
    )
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="override one setting, for example post.level=0.5; may be repeated",
    )
    group.add_argument(
        "--threads",
        metavar="N",
        help="how many threads compute; 1: everything in turn; the result is the same for any "
        "number (default: AAAMS_THREADS, or as many as there are cores)",
    )


def read_settings(args: argparse.Namespace, default: str | None = None) -> Params:
    """Return the defaults, overridden by --config, or the set `default`, and by each --set.

    From here on as many threads compute as --threads says.
    """
    use_threads(args.threads)
    config = args.config or default
    params = Params.load(config) if config else Params()
    return params.overridden(args.assignments)


def add_volume(parser: argparse.ArgumentParser) -> None:
    """Add the volume that a command reads."""
    parser.add_argument(
        "volume", metavar="VOLUME", help="what `segment` wrote: a folder or an address"
    )


def add_clip(parser: argparse.ArgumentParser) -> None:
    """Add which part of a video is segmented, at what size, and into how many segments."""
    group = parser.add_argument_group("what is segmented")
    group.add_argument(
        "--start",
        metavar="TIME",
        type=moment,
        help="seconds or [hh:]mm:ss from the first frame, hh:mm:ss:ff, or a frame, as 120f",
    )
    group.add_argument(
        "--duration", metavar="TIME", type=moment, help="length of the stretch; 100f: 100 frames"
    )
    group.add_argument(
        "--every", metavar="N", type=whole_number, default=1, help="keep each N-th frame"
    )
    group.add_argument("--size", metavar="WxH", type=size, help="scale the frames")
    add_mask(group)
    group.add_argument(
        "--segments",
        metavar="N",
        type=whole_number,
        help="wanted number per frame; 0: as many as post.level makes",
    )


def add_mask(group: argparse._ArgumentGroup) -> None:
    """Add which part of each frame is segmented."""
    group.add_argument(
        "--mask",
        metavar="IMAGE",
        help="segment only where this image, as large as the frames, is above 0; the rest has id 0",
    )


def add_writing(
    parser: argparse.ArgumentParser, overlay: tuple[str, str], resume: str, overwrite: str
) -> None:
    """Add --with-video, --overlay (its metavar and help), --resume and --overwrite (their help)."""
    group = parser.add_argument_group("what is written")
    group.add_argument("--with-video", action="store_true", help="store the frames too, exactly")
    group.add_argument("--overlay", metavar=overlay[0], help=overlay[1])
    group.add_argument(
        "--at",
        metavar="N",
        type=group_count,
        help="with --overlay: about N groups a frame in colours, drawn when all frames are there",
    )
    existing = group.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help=resume)
    existing.add_argument("--overwrite", action="store_true", help=overwrite)


def read_stream_settings(args: argparse.Namespace) -> Params:
    """Return the settings of a stream: --config, each --set, and --segments."""
    params = read_settings(args)
    if args.segments is None:
        return params
    if args.segments < 0:
        raise ConfigError(f"--segments must be >= 0, got {args.segments}")
    return params.updated({"stream": {"segments": args.segments}})


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add --dask and --stretch."""
    group = parser.add_argument_group("on many machines")
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="segment in parts on a cluster: tcp://HOST:PORT or the file of a Dask scheduler, or "
        "local:N for N workers on this machine; the volume is that of one pass, byte for byte, and "
        "the same command goes on after a crash",
    )
    group.add_argument(
        "--stretch",
        metavar="SECONDS",
        type=seconds,
        help="parts of this length instead of whole scenes, for films without scene changes, with "
        "or without --dask; parts are stitched, so that ids differ a little from those of one pass",
    )


@contextmanager
def cluster_of(args: argparse.Namespace) -> Iterator[Client | None]:
    """Give a client of the cluster that --dask names; None where it is not given."""
    if args.dask is None:
        yield None
        return
    from aaams_stream.cluster.connect import connected

    with connected(args.dask) as client:
        yield client


def use_threads(count: str | None = None) -> None:
    """Let so many threads compute, here and in processes started from here.

    None: as many as AAAMS_THREADS says, which is checked before anything is begun.
    """
    from aaams_stream.core import threads

    if count is not None:
        threads.read_count(count, "--threads")
        os.environ[threads.VARIABLE] = count
    threads.thread_count()


def add_level(parser: argparse.ArgumentParser) -> None:
    """Add --at and --level, of which at most one is given."""
    group = parser.add_argument_group("at which level").add_mutually_exclusive_group()
    group.add_argument(
        "--at",
        metavar="N",
        type=group_count,
        help="groups of segments instead of segments, about N a frame; 25 are about the things a "
        "person would name",
    )
    group.add_argument(
        "--level",
        metavar="L",
        type=level,
        help="groups after all merges up to this level; 0: segments",
    )


def seen_at(volume: Volume, args: argparse.Namespace) -> Volume:
    """Return a volume as --at or --level want it seen, or as it is."""
    if args.at is None and args.level is None:
        return volume
    return volume.at(level=args.level, segments=args.at)


def add_reporting(parser: argparse.ArgumentParser) -> None:
    """Add --json and --quiet."""
    group = parser.add_argument_group("what is printed")
    group.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, and nothing else there"
    )
    group.add_argument("--quiet", action="store_true", help="nothing but errors")


def say_if_cold(quiet: bool) -> None:
    """Tell a first-time user why the first run takes long, and how far it has come."""
    if quiet:
        return
    from aaams_stream.cli.meter import Meter
    from aaams_stream.jit import stream_is_compiled, tell_progress

    if stream_is_compiled():
        return
    print("compiling kernels, once, for up to a minute …", file=sys.stderr, flush=True)
    meter = Meter(quiet, unit="kernel")

    def show(done: int, total: int) -> None:
        meter.count(done, total)
        if done == total:
            meter.close()

    tell_progress(show)


def group_count(text: str) -> int:
    """Read a number of groups a frame."""
    if not (_is_number(text) and int(text) >= 1):
        raise argparse.ArgumentTypeError(
            f"expected a number of groups a frame from 1, for example 25, got {text!r}"
        )
    return int(text)


def whole_number(text: str) -> int:
    """Read a whole number; the command says in which range."""
    sign = text[:1] in ("-", "+")
    if not _is_number(text[sign:]):
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}")
    return int(text)


def _is_number(text: str) -> bool:
    """Whether a text is made of digits, and not of more than any number here can have."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def level(text: str) -> float:
    """Read a level."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(
            "expected a level from 0, for example 1.5 (info --at N tells that of N groups), "
            f"got {text!r}"
        )
    return value


def seconds(text: str) -> Fraction:
    """Read a time: seconds, or hours, minutes and seconds."""
    parts = text.split(":")
    known = all(map(_TIME.fullmatch, parts)) and all(len(part) <= _MOST_DIGITS for part in parts)
    if not known or len(parts) > 3:
        raise argparse.ArgumentTypeError(f"expected seconds or [hh:]mm:ss, got {text!r}")
    total = Fraction(0)
    for part in parts:
        total = total * 60 + Fraction(part)
    return total


def moment(text: str) -> Fraction | Timecode:
    """Read a time: seconds, a frame, or hours, minutes, seconds and frames."""
    from aaams_stream.model import Timecode

    if text.endswith("f") and _is_number(text[:-1]):
        return Timecode(int(text[:-1]))
    parts = text.split(":")
    if len(parts) == 4 and all(map(_is_number, parts)):
        hours, minutes, whole, frames = map(int, parts)
        return Timecode(frames, (hours * 60 + minutes) * 60 + whole)
    try:
        return seconds(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected seconds, [hh:]mm:ss, hh:mm:ss:ff or a frame as 120f, got {text!r}"
        ) from None


def size(text: str) -> tuple[int, int]:
    """Read a width and a height."""
    width, x, height = text.lower().partition("x")
    if not (x and _is_number(width) and _is_number(height)):
        raise argparse.ArgumentTypeError(f"expected WxH, for example 640x480, got {text!r}")
    return int(width), int(height)

"""Options that several commands share."""

from __future__ import annotations

import argparse
import sys

from aaams_stream.params import Params


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add --config and --set."""
    group = parser.add_argument_group("settings")
    group.add_argument("--config", metavar="FILE", help="settings as TOML; see configs/")
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="override one setting, for example post.level=0.5; may be repeated",
    )


def read_settings(args: argparse.Namespace) -> Params:
    """Return the defaults, overridden by --config and then by each --set."""
    params = Params.load(args.config) if args.config else Params()
    return params.overridden(args.assignments)


def add_reporting(parser: argparse.ArgumentParser) -> None:
    """Add --json and --quiet."""
    group = parser.add_argument_group("what is printed")
    group.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, and nothing else there"
    )
    group.add_argument("--quiet", action="store_true", help="nothing but errors")


def say_if_cold(quiet: bool) -> None:
    """Tell a first-time user why the first run takes long."""
    if quiet:
        return
    from aaams_stream.kernels import is_compiled, window

    if not is_compiled(window.shift_clusters):
        print("compiling kernels, once, about a minute …", file=sys.stderr, flush=True)

"""The command `doctor`: what a bug report should say of a machine."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any


def add_commands(commands: Any) -> None:
    """Add `doctor` to the parser."""
    doctor = commands.add_parser(
        "doctor",
        help="versions, threads, cameras, codecs and cache, for bug reports",
        description="Print versions, threads, cameras, codecs and where compiled code is kept: for "
        "bug reports. Ends with 2 where something cannot work, and says what.",
    )
    doctor.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, and nothing else there"
    )
    doctor.set_defaults(run=run_doctor)


def run_doctor(args: argparse.Namespace) -> int:
    """Print facts, then what is wrong."""
    from aaams_stream import __version__
    from aaams_stream.run.doctor import examine

    facts, troubles = examine(__version__)
    if args.json:
        print(json.dumps({**facts, "troubles": troubles}))
    else:
        for name, value in facts.items():
            print(f"{name + ':':<14}{_told(value)}")
    for trouble in troubles:
        print(f"error: {trouble}", file=sys.stderr)
    return 2 if troubles else 0


def _told(value: Any) -> str:
    if isinstance(value, dict):
        lines = (f"{name} {_told(part)}" for name, part in value.items())
        return f"\n{'':<14}".join(lines) or "none"
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)

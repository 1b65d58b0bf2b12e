"""The command line: argparse, one room per subject, each command a few lines.

A room `cli/<room>.py` offers `add_commands(subparsers)`. Rooms import at their top only what is
cheap, because `--help` loads them all.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from aaams_stream import __version__
from aaams_stream.errors import AaamsError

ROOMS = (
    "image",
    "warmup",
    "video",
    "batch",
    "levels",
    "evaluate",
    "export",
    "preview",
    "doctor",
    "completion",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; exit 2 on a problem the user can fix, 130 when interrupted.

    141, what a shell reports of a program that SIGPIPE ended, when nobody reads the output on.
    """
    if sys.stderr is None:  # the caller closed it; print would turn to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  for as long as the program runs
    try:
        try:
            return _run(argv)
        finally:
            _flush()  # here, where a closed pipe is expected, and not when Python ends
    except BrokenPipeError:
        _discard_output()
        return 141
    except OSError as error:  # a disk that is full, say
        _discard_output()
        print(f"error: the output cannot be written ({error.strerror})", file=sys.stderr)
        return 2


def _run(argv: Sequence[str] | None) -> int:
    args = build_parser().parse_args(argv)
    try:
        code: int = args.run(args)
    except AaamsError as error:  # most others are bugs and keep their traceback
        print(f"error: {error}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"error: there is not enough memory ({error}); try smaller frames", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return code


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as it is where the caller closed it
            stream.flush()


def _discard_output() -> None:
    """Let Python find nothing wrong when it flushes what a closed pipe has left behind."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with the commands of every room; `args.run(args)` gives the exit code."""
    parser = _Parser(
        prog="aaams-stream",
        description="Segment images and video by anisotropic agglomerative adaptive mean shift.",
    )
    parser.add_argument("--version", action="version", version=f"aaams-stream {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for room in rooms():
        room.add_commands(commands)
    return parser


def rooms() -> list[Any]:
    """Return the modules of all rooms."""
    return [importlib.import_module(f"{__name__}.{name}") for name in ROOMS]


class _Parser(argparse.ArgumentParser):
    """Argparse with our one-line errors."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")

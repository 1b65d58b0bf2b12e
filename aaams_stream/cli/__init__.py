"""The command line: argparse, one room per subject, each command a few lines.

A room `cli/<room>.py` offers `add_commands(subparsers)`. Rooms import at their top only what is
cheap, because `--help` loads them all.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from aaams_stream import __version__
from aaams_stream.cli.meter import printable
from aaams_stream.errors import AaamsError
from aaams_stream.run.interrupt import raising_stop

ROOMS = (  # in the order in which --help lists them: first what is asked for most
    *("video", "preview", "batch", "levels", "follow", "export", "image"),
    *("check", "pack", "evaluate", "warmup", "doctor", "completion"),
)

# What a call of the standard library was about, for errors that get this far.
_DOING = {
    **dict.fromkeys(("open", "read_bytes", "read_text"), "be opened"),
    **dict.fromkeys(("iterdir", "listdir", "scandir", "walk", "glob"), "be listed"),
    **dict.fromkeys(("mkdir", "makedirs", "write_bytes", "write_text"), "be written"),
    **dict.fromkeys(("rename", "replace", "unlink", "rmtree"), "be moved or removed"),
    **dict.fromkeys(("stat", "exists", "is_dir", "is_file", "resolve"), "be looked at"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; exit 2 on a problem the user can fix, 130 when interrupted.

    143 after SIGTERM, 129 after SIGHUP;
    141, what a shell reports of a program that SIGPIPE ended, when nobody reads the output on.
    """
    if sys.stderr is None:  # the caller closed it; print would turn to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  for as long as the program runs
    for stream in (sys.stdout, sys.stderr):  # names of files may hold what no text may
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            return _run(argv)
        finally:
            _flush()  # here, where a closed pipe is expected, and not when Python ends
    except BrokenPipeError:
        _discard_output()
        return 141
    except OSError as error:
        reason = error.strerror or str(error)
        if _discard_output():  # a disk that is full, say
            print(f"error: the output cannot be printed ({reason})", file=sys.stderr)
        else:
            print(f"error: {_operation(error)} ({printable(reason)})", file=sys.stderr)
        return 2


def _run(argv: Sequence[str] | None) -> int:
    args = build_parser().parse_args(argv)
    try:
        with raising_stop():
            code: int = args.run(args)
    except AaamsError as error:  # most others are bugs and keep their traceback
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"error: there is not enough memory ({error}); try smaller frames", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        print("interrupted", file=sys.stderr)
        return getattr(stopped, "code", 130)
    return code


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as it is where the caller closed it
            stream.flush()


def _discard_output() -> bool:
    """Let Python find nothing wrong when it flushes what could not be printed; tell if it was."""
    discarded = False
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            discarded = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return discarded


def _operation(error: OSError) -> str:
    """Say what failed, and with which file, where a system's error got this far."""
    calls = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    doing = next((_DOING[call] for call in reversed(calls) if call in _DOING), "be worked with")
    if error.filename is None:
        return f"something cannot {doing}"
    return f"{printable(str(error.filename))}: cannot {doing}"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with the commands of every room; `args.run(args)` gives the exit code."""
    parser = _Parser(
        prog="aaams-stream",
        description="Segment images and video by anisotropic agglomerative adaptive mean shift.",
        epilog="With nothing at hand: %(prog)s segment demo -o demo.zarr --overlay demo.mp4",
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
        self.exit(2, f"error: {printable(message)} (see {self.prog} --help)\n")

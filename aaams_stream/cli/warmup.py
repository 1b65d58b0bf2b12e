"""The command `warmup`: kernels compiled ahead of time."""

from __future__ import annotations

import argparse
import time
from typing import Any

from aaams_stream.cli import options
from aaams_stream.run.warmup import RECIPES


def add_commands(commands: Any) -> None:
    """Add `warmup` to the parser."""
    warmup = commands.add_parser(
        "warmup",
        help="compile the kernels ahead of time",
        description="Compile every kernel, so that later runs start at once.",
    )
    warmup.add_argument(
        "subject",
        metavar="SUBJECT",
        nargs="?",
        choices=tuple(RECIPES),
        help=f"compile only what this needs: {', '.join(RECIPES)}",
    )
    # for `jit.compile_ahead`: the kernels of a stream, by so many processes
    warmup.add_argument("--shares", type=int, help=argparse.SUPPRESS)
    warmup.set_defaults(run=run_warmup)


def run_warmup(args: argparse.Namespace) -> int:
    """Compile the kernels of every subject, or of one, and say how long it took."""
    options.use_threads()
    start = time.perf_counter()
    if args.shares:
        from aaams_stream.jit import compile_shares
        from aaams_stream.run.warmup import stream_calls

        compile_shares(stream_calls(), args.shares)
    else:
        for subject in [args.subject] if args.subject else RECIPES:
            RECIPES[subject]()
    print(f"kernels are ready ({time.perf_counter() - start:.1f} s)")
    return 0

"""What the command line does when nobody reads its output."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from aaams_stream import __version__

pytestmark = pytest.mark.skipif(os.name != "posix", reason="other systems have other pipes")

LONG = """
import argparse, sys
from aaams_stream import cli

def talk(args):
    for _ in range(100_000):
        print("frame", file=sys.{stream})

def build_parser():
    parser = argparse.ArgumentParser()
    parser.set_defaults(run=talk)
    return parser

cli.build_parser = build_parser
sys.exit(cli.main([]))
"""


def run_unread(*words, stream="stdout"):
    """Run Python with one output a pipe that nobody reads; return the exit code and the other."""
    reader, writer = os.pipe()
    os.close(reader)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer}
    env = {**os.environ, "PYTHONUNBUFFERED": ""}  # argparse drops errors it meets while writing
    done = subprocess.run([sys.executable, *words], env=env, **pipes, text=True, check=False)
    os.close(writer)
    return done.returncode, done.stderr if stream == "stdout" else done.stdout


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("segment", "--help")])
def test_a_short_output_that_nobody_reads_is_no_error(words):
    assert run_unread("-m", "aaams_stream", *words) == (141, "")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_leaves_ends_a_long_output_quietly(stream):
    assert run_unread("-c", LONG.format(stream=stream), stream=stream) == (141, "")


def test_an_output_that_was_closed_is_no_error():
    """`>&-` leaves Python without a stdout at all."""
    words = [sys.executable, "-m", "aaams_stream", "--version"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, f"aaams-stream {__version__}\n")  # argparse's way

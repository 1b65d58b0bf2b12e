"""The command line, called as a shell would."""

from __future__ import annotations

from aaams_stream.cli import main


def run(*words):
    """Run one command; return its exit code."""
    return main([str(word) for word in words])

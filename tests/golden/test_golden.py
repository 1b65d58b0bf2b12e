"""What the package makes of drawn scenes is kept bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from golden import digests


def test_drawn_scenes_give_the_bits_that_are_kept():
    """In a process of its own: a kernel called by itself before would round otherwise."""
    if not digests.kept_file().exists():
        pytest.skip(f"other processor: no digests are kept for {digests.machine()}")
    script = Path(digests.__file__)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "all equal\n"), run.stdout + run.stderr


def test_differences_are_named():
    kept = {"a": {"x": "1", "y": "2"}, "b": {"x": "3"}}
    assert digests.differences(kept, kept) == []
    found = {"a": {"x": "1", "y": "9"}, "c": {"x": "3"}}
    assert digests.differences(kept, found) == ["a/y", "b", "c"]

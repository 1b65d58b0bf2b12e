"""What the tests of inputs share."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest
from support.clips import moving_frames, write_clip


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    """Forty frames at ten a second, exact in RGB."""
    path = tmp_path_factory.mktemp("clip") / "clip.mkv"
    return write_clip(path, moving_frames(40), rate=10)


@pytest.fixture
def piped(monkeypatch):
    """Put a pipe in the place of standard input; return its writing end."""
    reading, writing = os.pipe()
    stdin = os.fdopen(reading, "rb")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stdin, isatty=lambda: False))
    yield writing
    stdin.close()

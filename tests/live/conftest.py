"""A preview that tests of one file share, and a clip."""

from __future__ import annotations

import pytest
from support.clips import moving_frames, write_clip
from support.live import preview
from support.viewers import Viewer


@pytest.fixture(scope="module")
def shared(compiled, tmp_path_factory):
    """Yield a loop and its server, which several tests look at and none changes for good."""
    with preview(tmp_path_factory.mktemp("shared")) as (loop, server):
        with Viewer(server.url) as viewer:
            viewer.see_frame()
        yield loop, server


@pytest.fixture
def clip(tmp_path):
    """Write twelve frames, twenty a second."""
    return write_clip(tmp_path / "clip.mkv", moving_frames(12), rate=20)

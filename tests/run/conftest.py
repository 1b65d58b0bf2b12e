"""What tests of runs share: a clip, and the tiny segmenter in place of the real one."""

from __future__ import annotations

import signal

import pytest
from support import standin
from support.clips import moving_frames, write_clip


@pytest.fixture(autouse=True)
def _tiny_segmenter(monkeypatch):
    standin.take_over(monkeypatch)


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mkv", moving_frames(37), rate=10)


@pytest.fixture
def press_at():
    """Return a maker of progress callbacks that press Ctrl-C after given frames."""

    def make(*frames):
        def press(progress):
            if progress.frames in frames:
                signal.raise_signal(signal.SIGINT)

        return press

    return make

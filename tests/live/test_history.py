"""What is remembered of a segment."""

from __future__ import annotations

import weakref

import pytest
from support.cameras import GatedSource, fake_camera
from support.clips import moving_frames
from support.live import PARAMS, play

from aaams_stream.core.segmenter import Segmenter
from aaams_stream.live import History, LiveLoop

pytestmark = pytest.mark.usefixtures("compiled")


def test_history_tells_the_course_of_a_segment():
    camera = GatedSource(fake_camera())
    with LiveLoop(camera, PARAMS, fps=0) as loop:
        rows = play(loop, camera, 15).segmentation.segments
        oldest = loop.history.about(int(rows["id"][0]))
        assert loop.history.about(10**9) is None
    assert oldest["id"] == rows["id"][0]
    assert oldest["area"] == rows["area"][0]
    assert 0 < oldest["share"] <= 1
    times = [point[0] for point in oldest["history"]]
    assert times == sorted(times)
    assert len(times) > 5
    assert oldest["events"][0]["what"] == "born"


def test_history_holds_no_pictures():
    history = History()
    result = Segmenter(PARAMS).step(moving_frames(1)[0])
    ids = weakref.ref(result.ids)
    history.add(result)
    track = int(result.segments["id"][0])
    del result
    assert ids() is None
    assert history.about(track)["id"] == track

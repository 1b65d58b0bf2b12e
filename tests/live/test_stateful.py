"""The live loop in any order of commands, against a model of what it must show and record.

The test sends every frame and no clock runs: after each command it is known what comes next.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support import standin
from support.cameras import GatedSource, Slides
from support.clips import moving_frames
from support.clocks import HandClock
from support.live import PARAMS, newest, wait_for_phase, watch
from support.threads import our_threads

from aaams_stream.live import LiveLoop
from aaams_stream.store import open_volume


class LoopMachine(RuleBasedStateMachine):
    """A camera whose frames the test sends; what was published and recorded is noted beside."""

    def __init__(self):
        super().__init__()
        self.threads_before = our_threads()
        self.patch = mock.patch.multiple(
            "aaams_stream.live.loop",
            Preparer=standin.Preparer,
            Segmenter=standin.Segmenter,
            describe=standin.describe,
        )
        self.patch.start()
        self.folder = tempfile.TemporaryDirectory()
        self.camera = GatedSource(Slides(moving_frames(8, 12, 16)))
        self.loop = LiveLoop(self.camera, PARAMS, clock=HandClock())
        self.loop.start()
        wait_for_phase(self.loop, "running")
        self.sent = 0
        self.published = []
        self.waiting = None  # index of the frame that a pause holds back
        self.steps = 0  # that wait for a frame
        self.paused = self.closed = False
        self.wanted = PARAMS.stream.segments
        self.recordings = {}  # path: frames

    def teardown(self):
        self.close()
        self.patch.stop()
        for path, frames in self.recordings.items():
            check_volume(path, frames)
        self.folder.cleanup()

    @property
    def recording(self):
        """The frames of the recording under way."""
        current = self.loop.status.recording
        return None if current is None else self.recordings[Path(self.folder.name, current)]

    def expect(self, index):
        """Wait for the frame that must be published now, and for no other."""
        (shown,) = watch(self.loop, 1, after=len(self.published))
        assert (shown.number, shown.frame.index) == (len(self.published) + 1, index)
        self.published.append(shown)
        if self.recording is not None:
            self.recording.append(shown)

    @precondition(lambda self: not self.closed)
    @rule(frames=st.integers(2, 6))
    def send(self, frames):
        for index in range(self.sent, self.sent + frames):
            self.camera.send()
            if self.paused and not self.steps:
                self.waiting = index
            else:
                self.steps -= self.paused
                self.expect(index)
        self.sent += frames

    @rule()
    def pause(self):
        self.loop.pause()
        self.paused = True

    @rule()
    def step(self):
        self.loop.step()
        self.paused = True
        if self.closed:
            return
        if self.waiting is None:
            self.steps += 1
        else:
            self.let_through()

    @rule()
    def resume(self):
        self.loop.resume()
        self.paused, self.steps = False, 0
        if self.waiting is not None and not self.closed:
            self.let_through()

    def let_through(self):
        index, self.waiting = self.waiting, None
        self.expect(index)

    @rule(segments=st.integers(1, 500))
    def want(self, segments):
        self.loop.want(segments)
        self.wanted = segments

    @precondition(lambda self: self.closed or len(self.recordings) < 3)  # they take long
    @rule(with_video=st.booleans())
    def record(self, with_video):
        path = Path(self.folder.name, f"{len(self.recordings)}.zarr")
        if self.closed:
            with pytest.raises(ValueError, match="closed"):
                self.loop.record(path)
            assert not path.exists()
            return
        self.loop.record(path, with_video=with_video)
        self.recordings[path] = []
        assert self.loop.status.recording == path.name

    @rule()
    def stop_recording(self):
        name = self.loop.status.recording
        path = self.loop.stop_recording()
        assert path == (None if name is None else Path(self.folder.name, name))

    @precondition(lambda self: len(self.published) > 12)  # it leaves little to do
    @rule()
    def close(self):
        self.loop.close()
        self.closed = True
        assert our_threads() <= self.threads_before
        assert newest(self.loop) is (self.published[-1] if self.published else None)
        assert self.loop.status.recording is None
        assert self.loop.failure is None

    @invariant()
    def shows_what_it_must(self):
        status, shown = self.loop.status, newest(self.loop)
        assert (shown.number if shown else 0) == len(self.published)
        assert status.phase == "running"
        assert status.paused == self.paused
        assert status.wanted == self.wanted
        assert status.dropped == 0
        assert status.recorded == len(self.recording or ())


def check_volume(path, frames):
    """Hold a volume against the frames that were published while it was recorded."""
    volume = open_volume(path)
    assert volume.complete
    assert volume.frame_count == len(frames)
    assert volume.times.tolist() == [shown.segmentation.time for shown in frames]
    if frames:
        ids = [shown.segmentation.ids for shown in frames]
        np.testing.assert_array_equal(volume.ids[:], ids)
    if frames and volume.video is not None:
        pictures = [shown.frame.rgb for shown in frames]
        np.testing.assert_array_equal(volume.video[:], pictures)


TestLoop = LoopMachine.TestCase
TestLoop.settings = settings(max_examples=10, stateful_step_count=30)

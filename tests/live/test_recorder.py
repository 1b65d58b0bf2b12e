"""Recordings of a live stream: whole volumes, whatever ends them."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import weakref
from fractions import Fraction

import numpy as np
import pytest
from support.cameras import fake_camera
from support.clips import moving_frames
from support.live import PARAMS, newest, wait_for_status, watch

from aaams_stream.core.segmenter import Segmenter
from aaams_stream.errors import SinkError
from aaams_stream.live import LiveLoop, Recorder
from aaams_stream.live.kept import Folder
from aaams_stream.live.recorder import QUALITY_FILE, Limits, Recordings
from aaams_stream.model import EventKind, Frame
from aaams_stream.store import Header, VolumeWriter, check, open_volume

pytestmark = pytest.mark.usefixtures("compiled")
HEADER = Header(
    width=64,
    height=48,
    rate=Fraction(10),
    time_base=Fraction(1, 10),
    spec="x",
    fingerprint=None,
    selection={},
    configuration=PARAMS.to_dict(),
)


def test_recording_is_a_volume_like_any_other(tmp_path):
    with LiveLoop(fake_camera(), PARAMS) as loop:
        watch(loop, 3)
        loop.record(tmp_path / "a.zarr", with_video=True)
        shown = watch(loop, 12, after=newest(loop).number + 1)
        assert loop.status.recording == "a.zarr"
        assert loop.status.recorded >= 10
        assert loop.stop_recording() == tmp_path / "a.zarr"
        assert loop.stop_recording() is None
    volume = open_volume(tmp_path / "a.zarr")
    assert volume.complete
    assert volume.ended == "stopped"
    assert volume.ids[:].all()
    at = volume.times.tolist().index(shown[4].segmentation.time)
    np.testing.assert_array_equal(volume.ids[at], shown[4].segmentation.ids)
    np.testing.assert_array_equal(volume.video[at], shown[4].frame.rgb)
    births = volume.events[volume.events["frame"] == 0]
    assert set(births["kind"]) == {EventKind.BIRTH}
    assert set(births["id"].tolist()) == set(np.unique(volume.ids[0]).tolist())


def test_recording_is_finished_when_the_loop_ends(tmp_path):
    with LiveLoop(fake_camera(), PARAMS) as loop:
        watch(loop, 1)
        loop.record(tmp_path / "a.zarr")
        watch(loop, 3, after=newest(loop).number)
    assert open_volume(tmp_path / "a.zarr").complete


def test_recording_that_fails_says_so_and_the_loop_goes_on(tmp_path, monkeypatch):
    def full(*args):
        raise SinkError("a.zarr: the disk is full")

    with LiveLoop(fake_camera(), PARAMS) as loop:
        watch(loop, 1)
        monkeypatch.setattr(VolumeWriter, "append", full)
        loop.record(tmp_path / "a.zarr")
        status = wait_for_status(loop, lambda status: status.trouble)
        watch(loop, 3, after=newest(loop).number)
        assert loop.status.phase == "running"
    assert status.recording is None
    assert status.trouble.startswith("a.zarr: the disk is full; what was recorded until then")
    handle = os.open(tmp_path / "a.zarr", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it
    os.close(handle)


def test_recorder_leaves_nothing_in_memory(tmp_path):
    """Not even until the garbage collector looks: its buffers are large."""
    rgb = moving_frames(1)[0]
    result = Segmenter(PARAMS).step(rgb)
    gc.disable()
    try:
        recorder = Recorder(tmp_path / "a.zarr", HEADER)
        left = weakref.ref(recorder)
        recorder.put(Frame(0, Fraction(0), rgb), result)
        recorder.close()
        del recorder
        assert left() is None
    finally:
        gc.enable()


def test_a_recording_that_dies_keeps_what_was_committed(tmp_path):
    """At most ten seconds and a chunk are lost, however it ends: here nothing is finished."""
    recorder, segmenter = Recorder(tmp_path / "a.zarr", HEADER), Segmenter(PARAMS)
    for index, rgb in enumerate(moving_frames(30)):
        recorder.put(Frame(index, Fraction(index), rgb), segmenter.step(rgb, index))
    recorder.abandon()
    volume = open_volume(tmp_path / "a.zarr")
    assert (volume.complete, volume.frame_count) == (False, 16)
    assert volume.ids[15].all()
    assert check(tmp_path / "a.zarr").sound


def test_recordings_finish_one_when_another_begins(tmp_path):
    recordings = Recordings()
    recordings.begin(tmp_path / "a.zarr", HEADER)
    recordings.begin(tmp_path / "b.zarr", HEADER)
    assert open_volume(tmp_path / "a.zarr").complete
    assert recordings.stop() == tmp_path / "b.zarr"
    assert recordings.stop() is None


def test_recordings_that_cannot_begin_leave_the_one_under_way_alone(tmp_path):
    (tmp_path / "taken").write_text("x")
    recordings = Recordings()
    recordings.begin(tmp_path / "a.zarr", HEADER)
    with pytest.raises(SinkError, match="not a volume of ours"):
        recordings.begin(tmp_path / "taken", HEADER)
    assert recordings.stop() == tmp_path / "a.zarr"


def test_recordings_take_nothing_once_closed(tmp_path):
    recordings = Recordings()
    recordings.close()
    with pytest.raises(ValueError, match="the loop is closed"):
        recordings.begin(tmp_path / "a.zarr", HEADER)
    assert not list(tmp_path.iterdir())


def test_recording_ends_by_itself_at_its_limits(tmp_path):
    for limits, told in (
        (Limits(0.5, Folder(tmp_path)), "ended after 0.5 s, as --max-recording says"),
        (Limits(100, Folder(tmp_path, kept_free=1 << 60)), "of the disk are free; make room"),
    ):
        path = tmp_path / f"{limits.seconds:g}.zarr"
        with LiveLoop(fake_camera(), PARAMS, fps=0) as loop:
            loop.record(path, limits=limits)
            assert told in wait_for_status(loop, lambda status: status.trouble).trouble
            assert loop.status.recording is None
        volume = open_volume(path)
        assert volume.complete
        assert volume.frame_count > 1


def test_recording_notes_where_quality_was_reduced(tmp_path):
    rgb = moving_frames(1)[0]
    segmenter = Segmenter(PARAMS)
    recorder = Recorder(tmp_path / "a.zarr", HEADER)
    for index, quality in enumerate(("full quality", "full quality", "1/2 size", "full quality")):
        recorder.put(Frame(index, Fraction(index), rgb), segmenter.step(rgb), quality)
    recorder.close()
    assert json.loads((tmp_path / "a.zarr" / QUALITY_FILE).read_text()) == [
        {"frame": 0, "quality": "full quality"},
        {"frame": 2, "quality": "1/2 size"},
        {"frame": 3, "quality": "full quality"},
    ]
    assert open_volume(tmp_path / "a.zarr").frame_count == 4

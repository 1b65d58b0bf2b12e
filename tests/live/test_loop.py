"""The live loop: newest wins, times are kept, pauses hold, recordings are whole."""

from __future__ import annotations

import gc
import itertools
import time
import weakref
from fractions import Fraction

import numpy as np
import pytest
from support.cameras import fake_camera
from support.clips import moving_frames, write_clip

from aaams_stream.core.segmenter import Segmenter
from aaams_stream.errors import SourceError
from aaams_stream.live import LADDER, LiveLoop, Memory, Recorder
from aaams_stream.model import EventKind, Frame
from aaams_stream.params import Params
from aaams_stream.run.threads import LatestSlot
from aaams_stream.source import open_source
from aaams_stream.store import Header, open_volume

pytestmark = pytest.mark.usefixtures("compiled")
PARAMS = Params().updated({"stream": {"segments": 12}})
PATIENCE = 60.0  # seconds


class Torrent:
    """A live source that sends frames faster than any machine segments them."""

    description, spec, live, ended = "torrent", "torrent", True, "complete"
    rate, time_base = Fraction(200), Fraction(1, 200)

    def __init__(self, frames, failure=None):
        self.height, self.width = frames[0].shape[:2]
        self._frames, self._failure = frames, failure

    def __iter__(self):
        for index in itertools.count():
            if self._failure is not None and index == len(self._frames):
                raise self._failure
            time.sleep(0.005)
            rgb = self._frames[index % len(self._frames)]
            yield Frame(index, index / self.rate, rgb)

    def stop(self):
        pass

    def close(self):
        pass


def watch(loop, count, after=0):
    """Return the next `count` frames that a viewer who never waits gets to see."""
    version, shown = 0, []
    deadline = time.monotonic() + PATIENCE
    while len(shown) < count and time.monotonic() < deadline:
        version, newest = loop.wait(version, 0.5)
        if newest is not None and newest.number > (shown[-1].number if shown else after):
            shown.append(newest)
    assert len(shown) == count, loop.status
    return shown


def wait_for(loop, phase):
    deadline = time.monotonic() + PATIENCE
    while loop.status.phase != phase and time.monotonic() < deadline:
        time.sleep(0.02)
    assert loop.status.phase == phase, loop.status


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip.mkv", moving_frames(12), rate=20)


def test_late_frames_are_dropped_and_counted_and_latency_does_not_build_up():
    with LiveLoop(Torrent(moving_frames(20, 120, 160)), PARAMS, fps=0) as loop:
        shown = watch(loop, 40)
        status = loop.status
    indices = [frame.frame.index for frame in shown]
    assert indices == sorted(indices)
    assert status.dropped > 0
    took = np.array([frame.finished - frame.captured for frame in shown])
    gaps = np.diff([frame.finished for frame in shown])
    # a frame waits at most for the one before it, the last as little as the first
    assert np.median(took[-10:]) < 2.5 * np.median(gaps) + 0.02
    assert status.phase == "running"


def test_a_camera_is_segmented_as_it_comes():
    with LiveLoop(fake_camera(), PARAMS) as loop:
        shown = watch(loop, 30)
        status = loop.status
    assert shown[-1].segmentation.ids.shape == (120, 160)
    assert shown[-1].frame.rgb.shape == (120, 160, 3)
    times = [frame.segmentation.time for frame in shown]
    assert times == sorted(times)
    assert 1 < status.fps < 35
    assert status.segments == len(shown[-1].segmentation.segments)
    assert 0 < status.warm <= 1


def test_a_file_is_played_at_its_presentation_times(clip):
    with LiveLoop(open_source(clip), PARAMS, fps=0) as loop:
        first, *_, last = watch(loop, 2) + watch(loop, 8, after=2)
        played = last.captured - first.captured
        wait_for(loop, "ended")
        assert loop.status.message == "complete"
    wanted = float(last.frame.time - first.frame.time)
    assert wanted - 0.1 < played < wanted + 1.0


def test_frames_of_a_file_come_to_their_end(clip):
    with LiveLoop(open_source(clip), PARAMS, fps=0) as loop:
        numbers = [shown.number for shown in loop.frames()]
        assert loop.wait(0, 0)[1].frame.index == 11
    assert numbers == sorted(set(numbers))
    assert numbers[-1] + loop.status.dropped == 12


def test_what_ends_a_loop_is_raised_where_its_frames_are_read():
    broken = Torrent(moving_frames(3, 60, 80), SourceError("torrent: the cable is out"))
    with LiveLoop(broken, PARAMS, fps=0) as loop, pytest.raises(SourceError, match="the cable"):
        list(loop.frames())


def test_a_file_that_is_repeated_goes_on_in_time(clip):
    loop = LiveLoop(open_source(clip), PARAMS, fps=0, reopen=lambda: open_source(clip))
    with loop:
        times = [frame.segmentation.time for frame in watch(loop, 20)]
    assert times == sorted(set(times))
    assert times[-1] >= 19 / 20 - 1e-9


def test_a_pause_holds_the_picture_and_a_step_shows_the_next_frame_of_a_file(clip):
    with LiveLoop(open_source(clip), PARAMS, fps=0) as loop:
        watch(loop, 2)
        loop.pause()
        time.sleep(0.3)
        held = loop.wait(0, 0)[1]
        time.sleep(0.3)
        assert loop.wait(0, 0)[1] is held
        assert loop.status.paused
        dropped = loop.status.dropped
        for turn in range(1, 4):
            loop.step()
            (shown,) = watch(loop, 1, after=held.number + turn - 1)
            assert shown.number == held.number + turn
            assert shown.frame.index == held.frame.index + turn
        assert loop.status.dropped == dropped
        loop.resume()
        watch(loop, 2, after=shown.number)


def test_a_step_shows_what_a_camera_sees_now():
    with LiveLoop(fake_camera(), PARAMS) as loop:
        watch(loop, 2)
        loop.pause()
        time.sleep(0.2)
        held = loop.wait(0, 0)[1]
        dropped = loop.status.dropped
        time.sleep(0.5)
        loop.step()
        (shown,) = watch(loop, 1, after=held.number)
        assert shown.frame.time - held.frame.time > 0.3
        assert loop.status.dropped == dropped


def test_detail_changes_from_the_next_frame_on():
    with LiveLoop(fake_camera(320, 240), PARAMS) as loop:
        few = watch(loop, 10)[-1]
        loop.want(150)
        many = watch(loop, 25, after=few.number)[-1]
        assert loop.status.wanted == 150
    assert len(many.segmentation.segments) > 1.5 * len(few.segmentation.segments)


def test_a_wanted_rate_thins_a_source_out_without_calling_it_dropped(clip):
    with LiveLoop(open_source(clip), PARAMS, fps=10) as loop:
        wait_for(loop, "ended")
        count, dropped = loop.wait(0, 0)[1].number, loop.status.dropped
        assert loop.wait(0, 0)[1].frame.index == 10
    assert count + dropped == 6


def test_a_recording_is_a_volume_like_any_other(tmp_path):
    with LiveLoop(fake_camera(), PARAMS) as loop:
        watch(loop, 3)
        loop.record(tmp_path / "a.zarr", with_video=True)
        begun = loop.wait(0, 0)[1]
        shown = watch(loop, 12, after=begun.number + 1)
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
    np.testing.assert_array_equal(volume.video[at], shown[4].frame.rgb.transpose(2, 0, 1))
    births = volume.events[volume.events["frame"] == 0]
    assert set(births["kind"]) == {EventKind.BIRTH}
    assert set(births["id"].tolist()) == set(np.unique(volume.ids[0]).tolist())


def test_a_recording_is_finished_when_the_loop_ends(tmp_path):
    with LiveLoop(fake_camera(), PARAMS) as loop:
        watch(loop, 1)
        loop.record(tmp_path / "a.zarr")
        watch(loop, 3, after=loop.wait(0, 0)[1].number)
    assert open_volume(tmp_path / "a.zarr").complete


def test_a_recording_leaves_nothing_in_memory(tmp_path):
    """Not even until the garbage collector looks: its buffers are large."""
    header = Header(
        width=64,
        height=48,
        rate=Fraction(10),
        time_base=Fraction(1, 10),
        spec="x",
        fingerprint=None,
        selection={},
        configuration=PARAMS.to_dict(),
    )
    rgb = moving_frames(1)[0]
    result = Segmenter(PARAMS).step(rgb)
    gc.disable()
    try:
        recorder = Recorder(tmp_path / "a.zarr", header)
        left = weakref.ref(recorder)
        recorder.put(Frame(0, Fraction(0), rgb), result)
        recorder.close()
        del recorder
        assert left() is None
    finally:
        gc.enable()


def test_a_recording_that_fails_says_so_and_the_loop_goes_on(tmp_path, monkeypatch):
    from aaams_stream.errors import SinkError
    from aaams_stream.store import VolumeWriter

    def full(*args):
        raise SinkError("a.zarr: the disk is full")

    with LiveLoop(fake_camera(), PARAMS) as loop:
        watch(loop, 1)
        monkeypatch.setattr(VolumeWriter, "append", full)
        loop.record(tmp_path / "a.zarr")
        watch(loop, 10, after=loop.wait(0, 0)[1].number)
        status = loop.status
    assert status.recording is None
    assert status.trouble == "a.zarr: the disk is full"
    assert status.phase == "running"


def test_a_source_that_fails_is_told():
    broken = Torrent(moving_frames(3, 60, 80), SourceError("torrent: the cable is out"))
    with LiveLoop(broken, PARAMS, fps=0) as loop:
        wait_for(loop, "failed")
        assert loop.status.message == "torrent: the cable is out"


def test_the_memory_tells_the_history_of_a_segment():
    with LiveLoop(fake_camera(), PARAMS) as loop:
        shown = watch(loop, 15)[-1]
        rows = shown.segmentation.segments
        oldest = loop.memory.about(int(rows["id"][0]))
        assert loop.memory.about(10**9) is None
    assert oldest["id"] == rows["id"][0]
    assert oldest["area"] > 0
    assert 0 < oldest["share"] <= 1
    times = [point[0] for point in oldest["history"]]
    assert times == sorted(times)
    assert len(times) > 5
    assert oldest["events"][0]["what"] == "born"


def test_the_memory_holds_no_pictures():
    memory = Memory()
    result = Segmenter(PARAMS).step(moving_frames(1)[0])
    ids = weakref.ref(result.ids)
    memory.add(result)
    track = int(result.segments["id"][0])
    del result
    assert ids() is None
    assert memory.about(track)["id"] == track


def test_a_loop_under_load_works_at_a_smaller_size_and_shows_the_full_one():
    """A budget no machine can keep: ids and tables still are those of the frame's own pixels."""
    with LiveLoop(Torrent(moving_frames(20, 192, 256)), PARAMS, fps=2000) as loop:
        deadline = time.monotonic() + PATIENCE
        while loop.status.quality != LADDER[-1].name and time.monotonic() < deadline:
            time.sleep(0.05)
        shown = watch(loop, 2, after=loop.wait(0, 0)[1].number)[-1]
    assert shown.segmentation.ids.shape == (192, 256)
    ids, areas = np.unique(shown.segmentation.ids, return_counts=True)
    np.testing.assert_array_equal(shown.segmentation.segments["id"], ids)
    np.testing.assert_array_equal(shown.segmentation.segments["area"], areas)


def test_a_newer_item_takes_the_place_of_one_not_taken():
    slot: LatestSlot[int] = LatestSlot()
    slot.put(1)
    slot.put(2)
    assert slot.dropped == 1
    assert slot.take(0) == 2
    assert slot.take(0.01) is None
    assert slot.put_after(3, 0)
    assert not slot.put_after(4, 0.01)
    assert slot.take(0) == 3
    slot.close()
    assert slot.take(10) is None

"""The live loop: newest wins, pauses hold, quality gives way."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from support.cameras import GatedSource, Slides, fake_camera
from support.clips import moving_frames
from support.clocks import PATIENCE, HandClock
from support.live import (
    PARAMS,
    catch_up,
    newest,
    play,
    wait_for_phase,
    watch,
    while_labelling,
    while_preparing,
)
from support.threads import all_end

from aaams_stream.core.segmenter import Segmenter
from aaams_stream.errors import ConfigError, SourceError
from aaams_stream.live import LADDER, LiveLoop
from aaams_stream.live import loop as loop_module
from aaams_stream.source import open_source

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(params=["1", "2"])
def threads(request, monkeypatch):
    """Say that stages take turns, or run beside each other."""
    monkeypatch.setenv("AAAMS_THREADS", request.param)
    return request.param


def test_loop_in_turn_drops_and_counts_late_frames_and_latency_does_not_build_up(monkeypatch):
    """While one frame is labelled, for a second, three others come."""
    busy, done = threading.Semaphore(0), threading.Semaphore(0)

    def take_long():
        busy.release()
        assert done.acquire(timeout=PATIENCE)

    monkeypatch.setenv("AAAMS_THREADS", "1")
    while_labelling(monkeypatch, take_long)
    camera, clock = GatedSource(Slides(moving_frames(20, 120, 160))), HandClock()
    shown = []
    with LiveLoop(camera, PARAMS, fps=0, clock=clock) as loop:
        wait_for_phase(loop, "running")
        camera.send()
        for turn in range(20):
            assert busy.acquire(timeout=PATIENCE)
            for _ in range(3):
                clock.advance(0.25)
                camera.send()
            clock.advance(0.25)
            done.release()
            shown += watch(loop, 1, after=turn)
        status = loop.status
        done.release()
    assert [frame.frame.index for frame in shown] == list(range(0, 60, 3))
    assert status.dropped == 2 * 20
    # a frame waits for the one before it, the last as long as the first that had to wait
    assert [frame.finished - frame.captured for frame in shown] == [1.0] + 19 * [1.25]
    assert status.latency == 1.25
    assert status.phase == "running"


def test_loop_in_stages_has_one_frame_in_each_and_latency_does_not_build_up(monkeypatch):
    """While one frame is labelled, one more is prepared; of others that come the newest waits."""
    prepared, busy, done = (threading.Semaphore(0) for _ in range(3))

    def take_long():
        busy.release()
        assert done.acquire(timeout=PATIENCE)

    monkeypatch.setenv("AAAMS_THREADS", "2")
    while_preparing(monkeypatch, prepared.release)
    while_labelling(monkeypatch, take_long)
    camera, clock = GatedSource(Slides(moving_frames(20, 120, 160))), HandClock()
    shown = []
    with LiveLoop(camera, PARAMS, fps=0, clock=clock) as loop:
        wait_for_phase(loop, "running")
        camera.send()
        assert prepared.acquire(timeout=PATIENCE)
        for turn in range(20):
            assert busy.acquire(timeout=PATIENCE)
            for sent in range(3):
                clock.advance(0.25)
                camera.send()
                if turn == sent == 0:  # it is taken at once; later ones find the stage at work
                    assert prepared.acquire(timeout=PATIENCE)
            clock.advance(0.25)
            assert not prepared.acquire(blocking=False)
            done.release()
            shown += watch(loop, 1, after=turn)
            assert prepared.acquire(timeout=PATIENCE)  # the newest, as there is room
        status = loop.status
        for _ in range(2):
            done.release()
    assert [frame.frame.index for frame in shown] == [0, 1, *range(3, 57, 3)]
    assert status.dropped == 1 + 2 * 19
    # one turn in each stage, and what was left of one until there was room
    assert [frame.finished - frame.captured for frame in shown] == [1.0, 1.75] + 18 * [2.25]
    assert status.phase == "running"


def test_loop_segments_a_camera_as_it_comes():
    camera = GatedSource(fake_camera(), released=True)
    with LiveLoop(camera, PARAMS) as loop:
        shown = watch(loop, 30)
        last = catch_up(loop, camera)
        status = loop.status
    assert last.segmentation.ids.shape == (120, 160)
    assert last.frame.rgb.shape == (120, 160, 3)
    times = [frame.segmentation.time for frame in shown]
    assert times == sorted(times)
    assert status.segments == len(last.segmentation.segments)
    assert 0 < status.warm <= 1


def test_loop_yields_the_frames_of_a_file_to_their_end(clip):
    with LiveLoop(open_source(clip), PARAMS, fps=0) as loop:
        numbers = [shown.number for shown in loop.frames()]
        assert newest(loop).frame.index == 11
    assert numbers == sorted(set(numbers))
    assert numbers[-1] + loop.status.dropped == 12


def test_loop_raises_what_ended_it_where_its_frames_are_read():
    broken = Slides(moving_frames(3, 60, 80), SourceError("slides: the cable is out"))
    with LiveLoop(broken, PARAMS, fps=0) as loop, pytest.raises(SourceError, match="the cable"):
        list(loop.frames())


def test_loop_tells_of_a_source_that_fails():
    broken = Slides(moving_frames(3, 60, 80), SourceError("slides: the cable is out"))
    with LiveLoop(broken, PARAMS, fps=0) as loop:
        assert wait_for_phase(loop, "failed").message == "slides: the cable is out"


@pytest.mark.usefixtures("threads")
def test_loop_holds_the_picture_in_a_pause_and_a_step_shows_the_next_frame_of_a_file(clip):
    source, clock = GatedSource(open_source(clip)), HandClock()
    with LiveLoop(source, PARAMS, fps=0, clock=clock) as loop:
        source.send()
        (held,) = watch(loop, 1)
        loop.pause()
        source.send()
        clock.advance(10)
        assert newest(loop) is held
        assert loop.status.paused
        for turn in range(1, 4):
            loop.step()
            (shown,) = watch(loop, 1, after=turn)
            assert shown.number == held.number + turn
            assert shown.frame.index == held.frame.index + turn
            source.send()
        loop.resume()
        watch(loop, 1, after=shown.number)
        source.release()
        clock.advance_to_next()  # the file's times go on from where they were held
        (last,) = watch(loop, 1, after=shown.number + 1)
        assert last.frame.index == shown.frame.index + 2
        assert last.captured == pytest.approx(10 + 1 / 20)
        assert loop.status.dropped == 0


@pytest.mark.usefixtures("threads")
def test_loop_shows_at_a_step_what_a_camera_sees_now():
    camera = GatedSource(Slides(moving_frames(20)))
    with LiveLoop(camera, PARAMS) as loop:
        camera.send()
        wait_for_phase(loop, "running")
        held = catch_up(loop, camera)
        loop.pause()
        camera.send(8)
        assert newest(loop) is held
        loop.step()
        (shown,) = watch(loop, 1, after=held.number)
        assert shown.frame.index == held.frame.index + 8
        assert loop.status.dropped == 0


@pytest.mark.usefixtures("threads")
def test_loop_changes_detail_from_the_next_frame_on():
    camera = GatedSource(fake_camera(320, 240))
    with LiveLoop(camera, PARAMS, fps=0) as loop:
        few = play(loop, camera, 10)
        loop.want(150)
        many = play(loop, camera, 25)
        assert loop.status.wanted == 150
    assert len(many.segmentation.segments) > 1.5 * len(few.segmentation.segments)


@pytest.mark.usefixtures("threads")
def test_loop_under_load_works_at_a_smaller_size_and_shows_the_full_one(monkeypatch):
    """A budget no machine can keep: ids and tables still are those of the frame's own pixels."""
    camera, clock = GatedSource(Slides(moving_frames(20, 192, 256))), HandClock()
    while_labelling(monkeypatch, lambda: clock.advance(1.0))
    with LiveLoop(camera, PARAMS, fps=30, clock=clock) as loop:
        wait_for_phase(loop, "running")
        sent = 0
        while loop.status.quality != LADDER[-1].name:
            assert sent < 100
            camera.send()
            sent += len(watch(loop, 1, after=sent))
        camera.send()
        (shown,) = watch(loop, 1, after=sent)
    assert shown.segmentation.ids.shape == (192, 256)
    ids, areas = np.unique(shown.segmentation.ids, return_counts=True)
    np.testing.assert_array_equal(shown.segmentation.segments["id"], ids)
    np.testing.assert_array_equal(shown.segmentation.segments["area"], areas)


def test_loop_closes_twice_and_without_a_start():
    loop = LiveLoop(Slides(moving_frames(1)), PARAMS)
    loop.close()
    loop.close()
    assert list(loop.frames()) == []


def test_loop_counts_the_stage_that_takes_longest_or_all_in_turn(monkeypatch, threads):
    """Two stages of 40 ms keep up with 20 frames a second side by side, and not in turn."""
    camera, clock = GatedSource(Slides(moving_frames(20, 48, 64))), HandClock()
    while_preparing(monkeypatch, lambda: clock.advance(0.04))
    while_labelling(monkeypatch, lambda: clock.advance(0.04))
    with LiveLoop(camera, PARAMS, fps=20, clock=clock) as loop:
        wait_for_phase(loop, "running")
        play(loop, camera, 40)
        assert (loop.status.quality == LADDER[0].name) == (threads == "2")


@pytest.mark.usefixtures("threads")
def test_loop_shows_frames_in_the_order_in_which_they_came(clip):
    """What is shown of a file is what one step after the other makes of the same frames."""
    source, shown = GatedSource(open_source(clip)), []
    clock = HandClock()
    with LiveLoop(source, PARAMS, fps=0, clock=clock) as loop:
        loop.pause()
        for turn in range(11):
            source.send()
            loop.step()
            shown += watch(loop, 1, after=turn)
    assert [frame.frame.index for frame in shown] == list(range(11))
    segmenter = Segmenter(PARAMS)
    for frame in shown:
        expected = segmenter.step(frame.frame.rgb, float(frame.frame.time))
        np.testing.assert_array_equal(frame.segmentation.ids, expected.ids)
        assert frame.segmentation.segments.tobytes() == expected.segments.tobytes()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("stage", ["prepare", "label", "describe"])
def test_loop_tells_of_a_stage_that_fails_and_leaves_no_thread(monkeypatch, stage):
    def boom(*_):
        raise ZeroDivisionError("boom")

    if stage == "prepare":
        while_preparing(monkeypatch, boom)
    elif stage == "label":
        while_labelling(monkeypatch, boom)
    else:
        monkeypatch.setattr("aaams_stream.live.loop.describe", boom)
    camera = GatedSource(Slides(moving_frames(20, 48, 64)))
    with LiveLoop(camera, PARAMS, fps=0) as loop:
        wait_for_phase(loop, "running")
        camera.send()
        wait_for_phase(loop, "failed")
        assert isinstance(loop.failure, ZeroDivisionError)
    assert all_end("prefetch", "live-compute", "live-read")


@pytest.mark.usefixtures("threads")
def test_loop_closes_while_frames_are_in_every_stage(monkeypatch):
    labelling = threading.Event()
    while_labelling(monkeypatch, labelling.set)
    camera = GatedSource(Slides(moving_frames(20, 48, 64)), released=True)
    with LiveLoop(camera, PARAMS, fps=0) as loop:
        assert labelling.wait(PATIENCE)
    assert all_end("prefetch", "live-compute", "live-read")
    assert loop.failure is None


def test_loop_refuses_a_wrong_number_of_threads(monkeypatch):
    monkeypatch.setenv("AAAMS_THREADS", "0")
    with pytest.raises(ConfigError, match="AAAMS_THREADS must be a whole number from 1 on"):
        LiveLoop(Slides(moving_frames(1)), PARAMS)


def test_loop_that_closes_leaves_alone_what_waits_for_a_silent_address(monkeypatch):
    """It would be waited for longer than the test may take."""
    silent, over = threading.Event(), threading.Event()

    class Address(Slides):
        remote = True

        def __iter__(self):
            silent.set()
            assert over.wait(PATIENCE)
            yield from ()

    monkeypatch.setattr(loop_module, "_PATIENCE", 2 * PATIENCE)
    with LiveLoop(Address(moving_frames(1)), PARAMS):
        assert silent.wait(PATIENCE)
    assert any(thread.name == "live-read" for thread in threading.enumerate())
    over.set()
    assert all_end("live-read")

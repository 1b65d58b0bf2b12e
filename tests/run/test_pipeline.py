"""The whole way from a clip to a volume, with a tiny segmenter in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from fractions import Fraction

import av
import numpy as np
import pytest
from support import ROOT, TESTS, standin
from support.clips import moving_frames, write_clip

from aaams_stream.errors import SinkError, SourceError
from aaams_stream.run import pipeline
from aaams_stream.run.pipeline import Interrupted, render_volume, segment_video, stream
from aaams_stream.run.threads import Behind, prefetch
from aaams_stream.store import VolumeWriter, open_volume


@pytest.fixture(autouse=True)
def _tiny_segmenter(monkeypatch):
    standin.take_over(monkeypatch)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mkv", moving_frames(37), rate=10)


def files(path):
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def test_a_clip_becomes_a_volume(clip, tmp_path):
    told = []
    summary = segment_video(clip, tmp_path / "a.zarr", progress=told.append)
    volume = open_volume(tmp_path / "a.zarr")
    segmenter = standin.Segmenter()
    for t, rgb in enumerate(moving_frames(37)):
        expected = segmenter.step(rgb)
        np.testing.assert_array_equal(volume.ids[t], expected.ids)
        np.testing.assert_array_equal(volume.segments(t), expected.segments)
    assert (summary.frames, summary.complete, summary.ended) == (37, True, "complete")
    assert (summary.width, summary.height) == (64, 48)
    assert summary.events == len(volume.events)
    assert summary.size == sum(len(data) for data in files(tmp_path / "a.zarr").values())
    assert [progress.frames for progress in told] == list(range(1, 38))
    assert told[-1].total == 37
    assert told[-1].seconds_left == 0


def test_the_selection_reaches_the_source(clip, tmp_path):
    summary = segment_video(
        clip, tmp_path / "a.zarr", start=1, duration=2, every=2, size=(32, 24), segments=9
    )
    volume = open_volume(tmp_path / "a.zarr")
    np.testing.assert_allclose(volume.times, 1 + np.arange(10) / 5)
    assert summary.width == volume.ids.shape[2] == 32
    assert volume.params.stream.segments == 9


def test_a_wrong_source_costs_no_volume(clip, tmp_path):
    path = tmp_path / "a.zarr"
    segment_video(clip, path)
    before = files(path)
    with pytest.raises(SourceError):
        segment_video(tmp_path / "none.mp4", path, overwrite=True)
    assert files(path) == before


def test_a_damaged_source_makes_a_complete_volume_that_says_so(tmp_path):
    source = write_clip(tmp_path / "a.mp4", moving_frames(40), codec="libx264", pix_fmt="yuv420p",
                        container_options={"movflags": "faststart"})  # fmt: skip
    data = source.read_bytes()
    source.write_bytes(data[: len(data) * 7 // 10])
    summary = segment_video(source, tmp_path / "a.zarr")
    assert summary.complete
    assert summary.ended.startswith("damaged: ")
    assert "were read" in summary.warnings[0]
    assert open_volume(tmp_path / "a.zarr").ended == summary.ended
    assert open_volume(tmp_path / "a.zarr").frame_count == summary.frames > 0


class BoomError(Exception):
    pass


def boom(*_, **__):
    raise BoomError


@pytest.mark.parametrize("stage", ["decode", "compute", "write", "progress"])
def test_an_error_in_any_stage_stops_all_and_reaches_the_caller(tmp_path, monkeypatch, clip, stage):
    from aaams_stream.source import Source

    calls = 0

    def fails_later(original):
        def wrapped(*args, **kwargs):
            nonlocal calls
            calls += 1
            return boom() if calls > 20 else original(*args, **kwargs)

        return wrapped

    progress = None
    if stage == "decode":
        monkeypatch.setattr(
            "aaams_stream.source.pixels.Converter.rgb",
            fails_later(Source.__init__.__globals__["Converter"].rgb),
        )
    elif stage == "compute":
        monkeypatch.setattr(standin.Segmenter, "step", fails_later(standin.Segmenter.step))
    elif stage == "write":
        monkeypatch.setattr(VolumeWriter, "append", fails_later(VolumeWriter.append))
    else:
        progress = fails_later(lambda _: None)
    monkeypatch.setattr(pipeline, "COMMIT_SECONDS", 0)
    begun = time.monotonic()
    with pytest.raises(BoomError):
        segment_video(clip, tmp_path / "a.zarr", progress=progress)
    assert time.monotonic() - begun < 2
    volume = open_volume(tmp_path / "a.zarr")
    assert not volume.complete
    assert volume.frame_count in (8, 16)
    monkeypatch.undo()
    standin.take_over(monkeypatch)
    segment_video(clip, tmp_path / "a.zarr", resume=True)
    segment_video(clip, tmp_path / "b.zarr")
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


def test_ctrl_c_finishes_the_chunk_and_resume_the_volume(clip, tmp_path):
    def press(progress):
        if progress.frames == 11:
            signal.raise_signal(signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted) as stopped:
        segment_video(clip, tmp_path / "a.zarr", progress=press)
    assert signal.getsignal(signal.SIGINT) is handler
    assert stopped.value.summary.frames == 16
    volume = open_volume(tmp_path / "a.zarr")
    assert (volume.frame_count, volume.complete, volume.ended) == (16, False, "interrupted")
    summary = segment_video(clip, tmp_path / "a.zarr", resume=True)
    assert (summary.resumed_from, summary.frames, summary.complete) == (16, 37, True)
    segment_video(clip, tmp_path / "b.zarr")
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


def test_ctrl_c_after_the_last_frame_of_a_chunk_loses_none(clip, tmp_path):
    def press(progress):
        if progress.frames == 8:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted) as stopped:
        segment_video(clip, tmp_path / "a.zarr", progress=press)
    assert stopped.value.summary.frames == 16


def test_a_volume_begun_by_another_build_is_not_continued(clip, tmp_path, monkeypatch):
    def press(progress):
        if progress.frames == 11:
            signal.raise_signal(signal.SIGINT)

    def refuse(arrays):
        raise ValueError(f"the state was saved by another version: it lacks {len(arrays)}")

    with pytest.raises(Interrupted):
        segment_video(clip, tmp_path / "a.zarr", progress=press)
    before = files(tmp_path / "a.zarr")
    monkeypatch.setattr(standin.SegmenterState, "from_arrays", refuse)
    with pytest.raises(SinkError, match=r"a\.zarr: the state was saved .*--overwrite begins anew"):
        segment_video(clip, tmp_path / "a.zarr", resume=True)
    assert files(tmp_path / "a.zarr") == before


def test_a_second_ctrl_c_stops_at_once(clip, tmp_path):
    def press(progress):
        if progress.frames in (9, 10):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as stopped:
        segment_video(clip, tmp_path / "a.zarr", progress=press)
    assert not isinstance(stopped.value, Interrupted)
    assert not open_volume(tmp_path / "a.zarr").complete


def test_ctrl_c_in_the_last_chunk_still_completes(clip, tmp_path):
    def press(progress):
        if progress.frames == 36:
            signal.raise_signal(signal.SIGINT)

    assert segment_video(clip, tmp_path / "a.zarr", progress=press).complete


def test_resuming_what_is_complete_does_nothing(clip, tmp_path):
    segment_video(clip, tmp_path / "a.zarr")
    before = files(tmp_path / "a.zarr")
    told = []
    summary = segment_video(clip, tmp_path / "a.zarr", resume=True, progress=told.append)
    assert summary.complete
    assert summary.resumed_from == summary.frames == 37
    assert told == []
    assert files(tmp_path / "a.zarr") == before


def test_resume_begins_where_nothing_is(clip, tmp_path):
    assert segment_video(clip, tmp_path / "a.zarr", resume=True).frames == 37


def test_an_existing_volume_needs_a_word(clip, tmp_path):
    segment_video(clip, tmp_path / "a.zarr", duration=1)
    with pytest.raises(SinkError, match="--overwrite"):
        segment_video(clip, tmp_path / "a.zarr")
    assert segment_video(clip, tmp_path / "a.zarr", overwrite=True).frames == 37


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kill_at_any_write_then_resume_gives_the_same_bytes(tmp_path):
    clip = write_clip(tmp_path / "clip.mkv", moving_frames(21))
    script = TESTS / "support" / "kill_and_resume.py"
    run = subprocess.run(
        [sys.executable, str(script), str(clip), str(tmp_path), "20"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, TESTS)))},
    )
    assert run.returncode == 0, run.stderr
    moments, _, wrong = map(int, run.stdout.split())
    assert moments >= 20
    assert wrong == 0, run.stderr


def test_memory_is_bounded_by_the_queues(clip, tmp_path, monkeypatch):
    """A slow writer holds the decoder back."""
    decoded = written = furthest = 0
    from aaams_stream.source import pixels

    original, append = pixels.Converter.rgb, VolumeWriter.append

    def rgb(*args):
        nonlocal decoded
        decoded += 1
        return original(*args)

    def slow(*args):
        nonlocal written, furthest
        time.sleep(0.01)
        written += 1
        furthest = max(furthest, decoded - written)
        return append(*args)

    monkeypatch.setattr(pixels.Converter, "rgb", rgb)
    monkeypatch.setattr(VolumeWriter, "append", slow)
    segment_video(clip, tmp_path / "a.zarr")
    assert written == 37
    assert furthest <= pipeline.AHEAD + pipeline.BEHIND + 4


def test_a_live_source_is_complete_when_it_is_interrupted(tmp_path, monkeypatch):
    reading, writing = os.pipe()
    data = write_clip(
        tmp_path / "a.y4m", moving_frames(12), codec="wrapped_avframe", pix_fmt="yuv444p"
    ).read_bytes()
    stdin = os.fdopen(reading, "rb")
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stdin, "isatty": lambda _: 0})())
    thread = threading.Thread(target=lambda: os.write(writing, data))  # and then silence
    thread.start()
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(Interrupted):
        segment_video("-", tmp_path / "a.zarr")
    for started in (thread, timer):
        started.join()
    os.close(writing)
    stdin.close()
    volume = open_volume(tmp_path / "a.zarr")
    assert volume.complete
    assert volume.ended == "interrupted"
    assert volume.frame_count >= 11
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SourceError, match="nothing is piped in"):
        segment_video("-", tmp_path / "a.zarr", resume=True)


def times_of(path):
    with av.open(str(path)) as container:
        return [Fraction(frame.pts * frame.time_base) for frame in container.decode(video=0)]


def test_an_overlay_is_written_on_the_fly_with_the_times_of_the_source(tmp_path):
    ticks = [0, 1, 2, 7, 8, 20, 23, 24, 25, 30, 31]
    source = write_clip(
        tmp_path / "a.mp4",
        moving_frames(11),
        ticks=ticks,
        time_base=Fraction(1, 30),
        codec="libx264",
        pix_fmt="yuv420p",
    )
    film = tmp_path / "o.mp4"
    segment_video(source, tmp_path / "a.zarr", overlay=film)
    assert times_of(film) == [Fraction(tick, 30) for tick in ticks]
    with pytest.raises(SinkError, match="exists"):
        segment_video(source, tmp_path / "b.zarr", overlay=film)
    assert not (tmp_path / "b.zarr").exists()


def test_a_resumed_overlay_has_its_beginning(clip, tmp_path):
    def press(progress):
        if progress.frames == 11:
            signal.raise_signal(signal.SIGINT)

    film = tmp_path / "o.mp4"
    with pytest.raises(Interrupted):
        segment_video(clip, tmp_path / "a.zarr", overlay=film, progress=press)
    assert len(times_of(film)) == 16
    segment_video(clip, tmp_path / "a.zarr", overlay=film, resume=True)
    assert len(times_of(film)) == 37


def test_a_film_never_takes_the_place_of_its_source_or_a_part_of_the_volume(tmp_path):
    source = write_clip(tmp_path / "clip.mp4", moving_frames(9), codec="libx264", pix_fmt="yuv420p")
    store, before = tmp_path / "a.zarr", source.read_bytes()
    for words in ({"overwrite": True}, {"resume": True}):
        with pytest.raises(SinkError, match=r"clip\.mp4: is the source"):
            segment_video(source, store, overlay=source, **words)
        with pytest.raises(SinkError, match="lies in the volume"):
            segment_video(source, store, overlay=store / "film.mp4", **words)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["clip.mp4"]
    segment_video(source, store)
    for words in ({}, {"source": source}):
        with pytest.raises(SinkError, match=r"clip\.mp4: is the source"):
            render_volume(store, source, overwrite=True, **words)
    assert source.read_bytes() == before


def test_a_film_that_cannot_be_begun_costs_no_volume(clip, tmp_path):
    segment_video(clip, tmp_path / "a.zarr")
    (tmp_path / "file").write_text("in the way")
    before = files(tmp_path)
    film = tmp_path / "file" / "film.mp4"
    with pytest.raises(SinkError, match="cannot be written"):
        segment_video(clip, tmp_path / "a.zarr", overwrite=True, overlay=film)
    assert files(tmp_path) == before


def test_a_volume_without_frames_is_not_rendered(clip, tmp_path):
    def press(progress):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        segment_video(clip, tmp_path / "a.zarr", progress=press)
    assert open_volume(tmp_path / "a.zarr").frame_count == 0
    with pytest.raises(SinkError, match=r"a\.zarr: holds no frames yet; --resume"):
        render_volume(tmp_path / "a.zarr", tmp_path / "a.mp4")


@pytest.mark.parametrize("with_video", [False, True])
def test_a_volume_is_rendered_from_its_source_or_its_own_pictures(tmp_path, with_video):
    source = write_clip(tmp_path / "a.mkv", moving_frames(11), rate=10)
    segment_video(source, tmp_path / "a.zarr", with_video=with_video, start=0.5)
    if with_video:
        source.unlink()
    film = tmp_path / "o.mp4"
    assert render_volume(tmp_path / "a.zarr", film, view="colours") == 6
    assert times_of(film) == [Fraction(tick, 10) for tick in range(5, 11)]
    with pytest.raises(SinkError, match="--overwrite"):
        render_volume(tmp_path / "a.zarr", film)
    assert render_volume(tmp_path / "a.zarr", film, overwrite=True) == 6


def test_a_source_that_moved_or_changed_is_asked_for(tmp_path):
    source = write_clip(tmp_path / "a.mkv", moving_frames(11), rate=10)
    segment_video(source, tmp_path / "a.zarr")
    moved = source.rename(tmp_path / "b.mkv")
    with pytest.raises(SourceError, match="--source"):
        render_volume(tmp_path / "a.zarr", tmp_path / "o.mp4")
    write_clip(source, moving_frames(11, seed=1), rate=10)
    with pytest.raises(SourceError, match="has changed"):
        render_volume(tmp_path / "a.zarr", tmp_path / "o.mp4")
    assert not (tmp_path / "o.mp4").exists()
    write_clip(source, moving_frames(4), rate=10)
    with pytest.raises(SourceError, match="ended after 4 frames of 11"):
        render_volume(tmp_path / "a.zarr", tmp_path / "o.mp4", source=source)
    assert not (tmp_path / "o.mp4").exists()
    assert render_volume(tmp_path / "a.zarr", tmp_path / "o.mp4", source=moved) == 11


def test_prefetch_runs_ahead_but_not_far():
    taken = []

    def numbers():
        for n in range(100):
            taken.append(n)
            yield n

    with closing(prefetch(numbers(), 3)) as stream:
        assert next(stream) == 0
        time.sleep(0.2)
        assert len(taken) <= 6
    time.sleep(0.2)
    assert len(taken) <= 6


def test_prefetch_hands_errors_to_the_consumer():
    def fails():
        yield 1
        raise BoomError

    with closing(prefetch(fails(), 3)) as stream:
        assert next(stream) == 1
        with pytest.raises(BoomError):
            next(stream)


def test_behind_handles_everything_in_order_before_it_is_left():
    handled = []

    def handle(n):
        time.sleep(0.005)
        handled.append(n)

    with Behind(handle, 2) as sink:
        for n in range(20):
            sink.put(n)
    assert handled == list(range(20))


def test_behind_raises_at_the_end_what_nobody_has_seen():
    with pytest.raises(BoomError), Behind(boom, 2) as sink:
        sink.put(1)


# The live stream.


def test_a_stream_yields_what_a_volume_would_hold(clip, tmp_path):
    segment_video(clip, tmp_path / "a.zarr")
    volume = open_volume(tmp_path / "a.zarr")
    for t, frame in enumerate(stream(clip)):
        np.testing.assert_array_equal(frame.ids, volume.ids[t])
        np.testing.assert_array_equal(frame.segments, volume.segments(t))
        np.testing.assert_array_equal(frame.adjacency, volume.adjacency(t))
        np.testing.assert_array_equal(frame.events, volume.events_at(t))
        np.testing.assert_array_equal(frame.rgb, moving_frames(37)[t])
        assert frame.time == volume.times[t]
    assert t == 36


def test_a_stream_may_be_left_early_and_chosen_from(clip):
    frames = stream(clip, start=1, every=2, size=(32, 24))
    first = next(frames)
    assert (first.index, first.time, first.ids.shape) == (0, 1.0, (24, 32))
    frames.close()  # the autouse fixture sees to it that no thread is left


def test_the_package_offers_the_stream_by_name():
    import aaams_stream

    assert aaams_stream.stream is stream

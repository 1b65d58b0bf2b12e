"""The whole way from a clip to a volume, with a tiny segmenter in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from support import ROOT, TESTS, standin
from support.clips import film_times, moving_frames, write_clip, write_images
from support.threads import PATIENCE, all_end
from support.volumes import files, spoil_early_rows

from aaams_stream import __version__, store
from aaams_stream.cluster.door import segment_video
from aaams_stream.errors import ConfigError, SinkError, SourceError
from aaams_stream.model import Timecode
from aaams_stream.run.render import render_volume
from aaams_stream.run.segment_video import Interrupted, Job, run_job
from aaams_stream.run.sink import MARKS
from aaams_stream.run.stream import replay
from aaams_stream.run.threads import AHEAD, BEHIND
from aaams_stream.source import open_source, pixels
from aaams_stream.source.reader import Pipe
from aaams_stream.store import VolumeWriter, open_volume


class BoomError(Exception):
    pass


def boom(*_, **__):
    raise BoomError


def test_segment_video_makes_a_volume_of_a_clip(clip, tmp_path):
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


def test_segment_video_takes_the_wanted_part_of_the_source(clip, tmp_path):
    summary = segment_video(
        clip, tmp_path / "a.zarr", start=1, duration=2, every=2, size=(32, 24), segments=9
    )
    volume = open_volume(tmp_path / "a.zarr")
    np.testing.assert_allclose(volume.times, 1 + np.arange(10) / 5)
    assert summary.width == volume.ids.shape[2] == 32
    assert volume.params.stream.segments == 9


def test_segment_video_keeps_the_volume_if_the_source_is_wrong(clip, tmp_path):
    path = tmp_path / "a.zarr"
    segment_video(clip, path)
    before = files(path)
    with pytest.raises(SourceError):
        segment_video(tmp_path / "none.mp4", path, overwrite=True)
    assert files(path) == before


def test_segment_video_gives_no_volume_the_name_of_the_pattern_it_reads(tmp_path):
    pattern = write_images(tmp_path / "images", moving_frames(3), "{}.png") / "*.png"
    with pytest.raises(SinkError, match="is a pattern of files"):
        segment_video(pattern, pattern)
    assert len(list(pattern.parent.iterdir())) == 3


def test_segment_video_completes_the_volume_of_a_damaged_source_and_says_so(tmp_path):
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


STAGES = {
    "decode": (pixels.Converter, "rgb"),
    "prepare": (standin.Preparer, "prepare"),
    "label": (standin.Segmenter, "label"),
    "describe": (standin, "describe"),
    "write": (VolumeWriter, "append"),
}


@pytest.mark.parametrize("count", ["1", "2"])
@pytest.mark.parametrize("stage", [*STAGES, "progress"])
def test_segment_video_stops_every_stage_at_an_error_in_one(
    tmp_path, monkeypatch, clip, stage, count
):
    calls = 0

    def fails_later(original):
        def wrapped(*args, **kwargs):
            nonlocal calls
            calls += 1
            return boom() if calls > 20 else original(*args, **kwargs)

        return wrapped

    monkeypatch.setenv("AAAMS_THREADS", count)
    progress = None
    if stage == "progress":
        progress = fails_later(lambda _: None)
    else:
        owner, name = STAGES[stage]
        monkeypatch.setattr(owner, name, fails_later(getattr(owner, name)))
    with pytest.raises(BoomError) as caught:
        run_job(Job(clip, tmp_path / "a.zarr"), progress, commit_seconds=0)
    assert all_end("prefetch", "async-sink")  # though its error is still held
    assert caught.value.__traceback__ is not None
    volume = open_volume(tmp_path / "a.zarr")
    assert not volume.complete
    assert volume.frame_count in (8, 16)
    monkeypatch.undo()
    standin.take_over(monkeypatch)
    segment_video(clip, tmp_path / "a.zarr", resume=True)
    segment_video(clip, tmp_path / "b.zarr")
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


def test_segment_video_keeps_the_volume_if_the_number_of_threads_is_wrong(
    clip, tmp_path, monkeypatch
):
    segment_video(clip, tmp_path / "a.zarr")
    before = files(tmp_path / "a.zarr")
    monkeypatch.setenv("AAAMS_THREADS", "many")
    with pytest.raises(ConfigError, match=r"AAAMS_THREADS must be .* got 'many'"):
        segment_video(clip, tmp_path / "a.zarr", overwrite=True)
    assert files(tmp_path / "a.zarr") == before


@pytest.mark.parametrize("count", ["1", "2"])
def test_segment_video_keeps_to_as_many_threads_as_are_said(clip, tmp_path, monkeypatch, count):
    """On one thread everything happens in turn, on that of the caller."""
    seen = {}

    def noted(stage, original):
        def wrapped(*args, **kwargs):
            seen[stage] = threading.current_thread()
            return original(*args, **kwargs)

        return wrapped

    monkeypatch.setenv("AAAMS_THREADS", count)
    for stage, (owner, name) in STAGES.items():
        monkeypatch.setattr(owner, name, noted(stage, getattr(owner, name)))
    segment_video(clip, tmp_path / "a.zarr")
    caller = threading.current_thread()
    assert seen.keys() == STAGES.keys()
    assert seen["label"] is caller
    if count == "1":
        assert set(seen.values()) == {caller}
    else:
        assert seen["decode"] is seen["prepare"] is not caller
        assert seen["describe"] is seen["write"] is not caller
        assert seen["write"] is not seen["decode"]


def test_segment_video_decodes_no_further_ahead_than_the_queues_hold(clip, tmp_path, monkeypatch):
    """The writer waits until every queue is full, and finds nothing decoded beyond them."""
    monkeypatch.setenv("AAAMS_THREADS", "2")
    at_hand = 2  # one frame that is labelled, one that is written
    most = AHEAD + BEHIND + at_hand
    decoded = written = furthest = 0
    turn = threading.Condition()
    original, append = pixels.Converter.rgb, VolumeWriter.append

    def rgb(*args):
        nonlocal decoded, furthest
        with turn:
            decoded += 1
            furthest = max(furthest, decoded - written)
            turn.notify_all()
        return original(*args)

    def slow(*args):
        nonlocal written
        with turn:
            assert turn.wait_for(lambda: decoded >= min(written + most, 37), PATIENCE)
            written += 1
        return append(*args)

    monkeypatch.setattr(pixels.Converter, "rgb", rgb)
    monkeypatch.setattr(VolumeWriter, "append", slow)
    segment_video(clip, tmp_path / "a.zarr")
    assert written == 37
    assert furthest == most


def resumed_after_kills(script, *words):
    """Run a script that kills runs and resumes them; return the numbers it prints."""
    run = subprocess.run(
        [sys.executable, str(TESTS / "support" / script), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, TESTS)))},
    )
    assert run.returncode == 0, run.stderr
    return [*map(int, run.stdout.split()), run.stderr]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_segment_video_killed_at_any_write_and_resumed_gives_the_same_bytes(tmp_path):
    clip = write_clip(tmp_path / "clip.mkv", moving_frames(21))
    moments, _, wrong, told = resumed_after_kills("kill_and_resume.py", clip, tmp_path, 20)
    assert moments >= 20
    assert wrong == 0, told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_segment_video_killed_at_any_moment_and_resumed_gives_the_same_bytes(tmp_path):
    clip = write_clip(tmp_path / "clip.mkv", moving_frames(40))
    kills, finished, wrong, told = resumed_after_kills("kill_by_clock.py", clip, tmp_path, 4, 0)
    assert kills >= 4
    assert finished
    assert wrong == 0, told


def test_ctrl_c_finishes_the_chunk_and_resume_the_volume(clip, tmp_path, press_at):
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted) as stopped:
        segment_video(clip, tmp_path / "a.zarr", progress=press_at(11))
    assert signal.getsignal(signal.SIGINT) is handler
    assert stopped.value.summary.frames == 16
    volume = open_volume(tmp_path / "a.zarr")
    assert (volume.frame_count, volume.complete, volume.ended) == (16, False, "interrupted")
    summary = segment_video(clip, tmp_path / "a.zarr", resume=True)
    assert (summary.resumed_from, summary.frames, summary.complete) == (16, 37, True)
    segment_video(clip, tmp_path / "b.zarr")
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


def test_ctrl_c_after_the_last_frame_of_a_chunk_loses_none(clip, tmp_path, press_at):
    with pytest.raises(Interrupted) as stopped:
        segment_video(clip, tmp_path / "a.zarr", progress=press_at(8))
    assert stopped.value.summary.frames == 16


def test_ctrl_c_stops_at_once_the_second_time(clip, tmp_path, press_at):
    with pytest.raises(KeyboardInterrupt) as stopped:
        segment_video(clip, tmp_path / "a.zarr", progress=press_at(9, 10))
    assert not isinstance(stopped.value, Interrupted)
    assert not open_volume(tmp_path / "a.zarr").complete


def test_ctrl_c_in_the_last_chunk_still_completes(clip, tmp_path, press_at):
    assert segment_video(clip, tmp_path / "a.zarr", progress=press_at(36)).complete


def test_ctrl_c_completes_the_volume_of_a_live_source(tmp_path, monkeypatch):
    reading, writing = os.pipe()
    data = write_clip(
        tmp_path / "a.y4m", moving_frames(12), codec="wrapped_avframe", pix_fmt="yuv444p"
    ).read_bytes()
    stdin = os.fdopen(reading, "rb")
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stdin, "isatty": lambda _: 0})())
    seen, drained = threading.Event(), threading.Event()
    read = Pipe.read

    def noted(pipe, size):
        given = read(pipe, size)
        taken.append(len(given))
        if sum(taken) == len(data):
            drained.set()
        return given

    def feed():
        os.write(writing, data)  # and then silence
        assert drained.wait(PATIENCE)
        assert seen.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    taken: list[int] = []
    monkeypatch.setattr(Pipe, "read", noted)
    thread = threading.Thread(target=feed)
    thread.start()
    with pytest.raises(Interrupted):
        segment_video("-", tmp_path / "a.zarr", progress=lambda at: at.frames >= 11 and seen.set())
    thread.join()
    os.close(writing)
    stdin.close()
    volume = open_volume(tmp_path / "a.zarr")
    assert volume.complete
    assert volume.ended == "interrupted"
    assert volume.frame_count >= 11
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SourceError, match="nothing is piped in"):
        segment_video("-", tmp_path / "a.zarr", resume=True)


def test_resume_does_nothing_to_what_is_complete(clip, tmp_path):
    segment_video(clip, tmp_path / "a.zarr")
    before = files(tmp_path / "a.zarr")
    told = []
    summary = segment_video(clip, tmp_path / "a.zarr", resume=True, progress=told.append)
    assert summary.complete
    assert summary.resumed_from == summary.frames == 37
    assert told == []
    assert files(tmp_path / "a.zarr") == before


def test_counts_are_told_without_the_tables_and_damage_is_not_gone_on_from(
    clip, tmp_path, monkeypatch
):
    monkeypatch.setattr("aaams_stream.store.create", partial(store.create, chunk_rows=8))
    before = segment_video(clip, tmp_path / "a.zarr")
    assert before.events == len(open_volume(tmp_path / "a.zarr").events)
    assert spoil_early_rows(tmp_path / "a.zarr") > 100
    volume = open_volume(tmp_path / "a.zarr")
    with pytest.raises(SinkError, match="is damaged"):
        len(volume.events)
    assert sum(volume.counts.events.values()) == before.events
    assert volume.counts.identities == before.identities > 100
    with pytest.raises(SinkError, match=r"is damaged.*--repair"):
        segment_video(clip, tmp_path / "a.zarr", resume=True)


@pytest.fixture
def film(tmp_path):
    """Two hundred frames with a keyframe every twenty."""
    how = {"codec": "libx264", "pix_fmt": "yuv420p", "options": {"g": "20", "bf": "2"}}
    return write_clip(tmp_path / "film.mp4", moving_frames(200), **how)


def test_resume_decodes_little_of_what_is_there_however_often(film, tmp_path, press_at, decoded):
    segment_video(film, tmp_path / "b.zarr")
    for moment in (120, 170):
        with pytest.raises(Interrupted):
            segment_video(film, tmp_path / "a.zarr", progress=press_at(moment), resume=True)
    decoded.clear()
    assert segment_video(film, tmp_path / "a.zarr", resume=True).resumed_from == 176
    assert len(decoded) < 100
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


def test_resume_of_a_volume_without_marks_decodes_it_all(film, tmp_path, press_at, decoded):
    segment_video(film, tmp_path / "b.zarr")
    with pytest.raises(Interrupted):
        segment_video(film, tmp_path / "a.zarr", progress=press_at(170))
    header = open_volume(tmp_path / "a.zarr").header
    writer, state = store.resume(tmp_path / "a.zarr", header, __version__)
    assert len(state.pop(MARKS)) > 3
    writer.commit(state)
    writer.release()
    decoded.clear()
    segment_video(film, tmp_path / "a.zarr", resume=True)
    assert len(decoded) == 200
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")


def test_resume_begins_where_nothing_is(clip, tmp_path):
    assert segment_video(clip, tmp_path / "a.zarr", resume=True).frames == 37


def test_resume_refuses_a_volume_begun_by_another_build(clip, tmp_path, monkeypatch, press_at):
    def refuse(arrays):
        raise ValueError(f"the state was saved by another version: it lacks {len(arrays)}")

    with pytest.raises(Interrupted):
        segment_video(clip, tmp_path / "a.zarr", progress=press_at(11))
    before = files(tmp_path / "a.zarr")
    monkeypatch.setattr(standin.SegmenterState, "from_arrays", refuse)
    with pytest.raises(SinkError, match=r"a\.zarr: the state was saved .*--overwrite begins anew"):
        segment_video(clip, tmp_path / "a.zarr", resume=True)
    assert files(tmp_path / "a.zarr") == before


def test_overwrite_is_needed_for_an_existing_volume(clip, tmp_path):
    segment_video(clip, tmp_path / "a.zarr", duration=1)
    with pytest.raises(SinkError, match="--overwrite"):
        segment_video(clip, tmp_path / "a.zarr")
    assert segment_video(clip, tmp_path / "a.zarr", overwrite=True).frames == 37


def test_overlay_is_written_on_the_fly_with_the_times_of_the_source(tmp_path):
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
    assert film_times(film) == [Fraction(tick, 30) for tick in ticks]
    with pytest.raises(SinkError, match="exists"):
        segment_video(source, tmp_path / "b.zarr", overlay=film)
    assert not (tmp_path / "b.zarr").exists()


def test_overlay_of_a_resumed_volume_has_its_beginning(clip, tmp_path, press_at):
    film = tmp_path / "o.mp4"
    with pytest.raises(Interrupted):
        segment_video(clip, tmp_path / "a.zarr", overlay=film, progress=press_at(11))
    assert len(film_times(film)) == 16
    segment_video(clip, tmp_path / "a.zarr", overlay=film, resume=True)
    assert len(film_times(film)) == 37


def test_overlay_never_takes_the_place_of_its_source_or_a_part_of_the_volume(tmp_path):
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


def test_overlay_that_cannot_be_begun_costs_no_volume(clip, tmp_path):
    segment_video(clip, tmp_path / "a.zarr")
    (tmp_path / "file").write_text("in the way")
    before = files(tmp_path)
    film = tmp_path / "file" / "film.mp4"
    with pytest.raises(SinkError, match="cannot be written"):
        segment_video(clip, tmp_path / "a.zarr", overwrite=True, overlay=film)
    assert files(tmp_path) == before


@pytest.mark.parametrize("with_video", [False, True])
def test_overlay_at_a_level_is_drawn_when_all_frames_are_there(
    clip, tmp_path, press_at, monkeypatch, with_video
):
    drawn = []

    def note(volume, path, **words):
        assert volume.complete
        drawn.append((volume.level, words["view"], words["source"]))
        return render_volume(volume, path, **words)

    monkeypatch.setattr("aaams_stream.run.segment_video.render_volume", note)
    film, path = tmp_path / "a.mp4", tmp_path / "a.zarr"
    words = {"overlay": film, "at": 3, "with_video": with_video}
    with pytest.raises(KeyboardInterrupt):
        segment_video(clip, path, progress=press_at(11), **words)
    assert not film.exists()
    segment_video(clip, path, resume=True, **words)
    level = open_volume(path).level_at(segments=3)
    assert drawn == [(level, "objects", None if with_video else clip)]
    assert len(film_times(film)) == 37


def test_overlay_at_a_level_needs_a_film_and_pictures_to_draw_it_from(clip, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="needs --overlay"):
        segment_video(clip, tmp_path / "a.zarr", at=3)
    with pytest.raises(ConfigError, match="must be >= 1"):
        segment_video(clip, tmp_path / "a.zarr", at=0, overlay=tmp_path / "a.mp4")

    def unrepeatable(source, wanted):
        opened = open_source(source, wanted)
        opened.fingerprint = None
        return opened

    monkeypatch.setattr("aaams_stream.run.segment_video.open_source", unrepeatable)
    with pytest.raises(ConfigError, match=r"cannot be read again .* add --with-video"):
        segment_video(clip, tmp_path / "a.zarr", at=3, overlay=tmp_path / "a.mp4")
    assert not (tmp_path / "a.zarr").exists()
    words = {"at": 3, "overlay": tmp_path / "a.mp4", "with_video": True}
    segment_video(clip, tmp_path / "a.zarr", **words)
    assert (tmp_path / "a.mp4").exists()


def test_a_run_from_a_frame_on_is_resumed_and_replayed(clip, tmp_path):
    where = {"start": Timecode(12), "duration": Timecode(20)}
    segment_video(clip, tmp_path / "a.zarr", **where)
    volume = open_volume(tmp_path / "a.zarr")
    assert volume.times.tolist() == [n / 10 for n in range(12, 32)]
    segment_video(clip, tmp_path / "a.zarr", **where, resume=True)
    assert [frame.time for frame in replay(volume)] == volume.times.tolist()

"""Following objects through a video or a volume, and the files that come of it."""

from __future__ import annotations

import csv
import os
import signal
import threading
from contextlib import closing
from itertools import islice

import numpy as np
import pytest
from support.clips import write_clip
from support.followed import truth_of
from support.threads import PATIENCE

import aaams_stream as aaams
from aaams_stream.errors import ConfigError, SinkError, SourceError
from aaams_stream.export.masks import indexed_png
from aaams_stream.files import encode_mask
from aaams_stream.metrics import region_similarity
from aaams_stream.run.follow import (
    COLUMNS,
    Start,
    follow_objects,
    follow_video,
    frames_of_source,
    frames_of_volume,
    read_masks,
)
from aaams_stream.run.interrupt import Stopped
from aaams_stream.source.demo import demo_frame
from aaams_stream.source.images import read_image

COUNT = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write some frames of the demo as a video, and volumes with and without pictures."""
    folder = tmp_path_factory.mktemp("follow")
    write_clip(folder / "clip.mkv", [demo_frame(t).rgb for t in range(COUNT)], rate=24)
    aaams.segment_video(folder / "clip.mkv", folder / "clip.zarr")
    aaams.segment_video(folder / "clip.mkv", folder / "full.zarr", with_video=True)
    labels = truth_of(0) * np.uint8(1) + truth_of(0, "ball") * np.uint8(2)
    (folder / "both.png").write_bytes(indexed_png(labels))
    return folder


def table(path):
    with (path / "objects.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_follow_video_writes_indexed_masks_a_film_and_a_table(folder, tmp_path):
    done = []
    report = follow_video(
        frames_of_volume(aaams.open_volume(folder / "clip.zarr"), 0),
        tmp_path / "out",
        Start(mask=folder / "both.png"),
        progress=done.append,
    )
    assert (report.frames, dict(report.seen)) == (COUNT, {1: COUNT, 2: COUNT})
    assert done == list(range(COUNT))
    rows = table(tmp_path / "out")
    assert list(rows[0]) == list(COLUMNS)
    assert [(row["frame"], row["object"]) for row in rows] == [
        (str(t), str(n)) for t in range(COUNT) for n in (1, 2)
    ]
    for t in range(COUNT):
        picture = read_image(tmp_path / "out" / "masks" / f"{t:05d}.png")
        red, green = (picture == (128, 0, 0)).all(axis=2), (picture == (0, 128, 0)).all(axis=2)
        assert region_similarity(red, truth_of(t)) > 0.85
        assert region_similarity(green, truth_of(t, "ball")) > 0.85
        y, x = np.nonzero(green)
        row = rows[2 * t + 1]
        assert int(row["area"]) == len(y)
        box = [int(row[side]) for side in ("x0", "y0", "x1", "y1")]
        assert box == [x.min(), y.min(), x.max() + 1, y.max() + 1]
        assert float(row["time"]) == pytest.approx(t / 24, abs=1e-3)
        assert row["state"] == "seen"
        assert 0 <= float(row["sure"]) <= 1
    film = list(aaams.stream(tmp_path / "out" / "overlay.mp4", segments=5))
    assert len(film) == COUNT
    inside, outside = truth_of(0), ~truth_of(0) & ~truth_of(0, "ball")
    drawn = film[0].rgb.astype(int) - demo_frame(0).rgb
    assert np.abs(drawn[inside]).mean() > 4 * np.abs(drawn[outside]).mean()


@pytest.mark.parametrize("name", ["clip.zarr", "full.zarr"])
def test_frames_of_a_volume_go_backwards_too(folder, name):
    volume = aaams.open_volume(folder / name)
    frames = list(frames_of_volume(volume, 5, backwards=True))
    assert [frame.index for frame in frames] == [5, 4, 3, 2, 1, 0]
    for frame in frames:
        np.testing.assert_array_equal(frame.rgb, demo_frame(frame.index).rgb)
        np.testing.assert_array_equal(frame.ids, volume.ids[frame.index])
    mask = truth_of(5)
    for frame, found in zip(frames, aaams.follow(frames, mask), strict=True):
        assert region_similarity(found, truth_of(frame.index)) > 0.85


def test_frames_of_a_volume_begin_anywhere(folder):
    volume = aaams.open_volume(folder / "clip.zarr")
    assert [frame.index for frame in frames_of_volume(volume, 6)] == [6, 7]
    for wrong in (-1, COUNT):
        with pytest.raises(ConfigError, match=f"--frame {wrong} is out of range: .*frames 0 to 7"):
            next(frames_of_volume(volume, wrong))


def test_frames_of_a_volume_say_when_its_pictures_are_gone(folder, tmp_path):
    write_clip(tmp_path / "short.mkv", [demo_frame(t).rgb for t in range(3)], rate=24)
    volume = aaams.open_volume(folder / "clip.zarr")
    with pytest.raises(SourceError, match="is not what the volume was made from"):
        next(frames_of_volume(volume, 5, backwards=True, source=tmp_path / "short.mkv"))


def test_frames_of_a_source_are_segmented_on_the_way(folder):
    frames = list(frames_of_source(folder / "clip.mkv", 5))
    assert [frame.index for frame in frames] == [5, 6, 7]
    with pytest.raises(ConfigError, match=r"--frame 8 is out of range: .* ended before it"):
        list(frames_of_source(folder / "clip.mkv", 8))
    with pytest.raises(ConfigError, match="--frame -1 is out of range"):
        list(frames_of_source(folder / "clip.mkv", -1))


def test_read_masks_takes_indices_grey_levels_and_plain_masks(folder, tmp_path):
    shape = truth_of(0).shape
    found = read_masks(folder / "both.png", shape)
    assert sorted(found) == [1, 2]
    np.testing.assert_array_equal(found[2], truth_of(0, "ball"))
    plain = tmp_path / "plain.png"
    plain.write_bytes(encode_mask(plain, truth_of(0)))  # 255 where it is
    np.testing.assert_array_equal(read_masks(plain, shape)[1], truth_of(0))


def test_start_adds_and_takes_away_segments_of_each_object(folder):
    frame = next(frames_of_volume(aaams.open_volume(folder / "clip.zarr"), 0))
    y, x = (int(n) for n in np.argwhere(truth_of(0)).mean(axis=0))
    start = Start(clicks=((1, x, y), (3, 0, 0)), without=((1, 0, 0),))
    masks = start.masks(frame)
    assert sorted(masks) == [1, 3]
    np.testing.assert_array_equal(masks[1], frame.ids == frame.ids[y, x])
    with pytest.raises(ConfigError, match="object 1 is empty: what --not takes away is all"):
        Start(clicks=((1, 0, 0),), without=((1, 0, 0),)).masks(frame)
    with pytest.raises(ConfigError, match="pixel 0,0 belongs to object 1 already, so not to 2"):
        next(follow_objects(iter([frame]), Start(clicks=((1, 0, 0), (2, 0, 0)))))


def test_start_takes_groups_of_a_stream_under_clicks(folder):
    with closing(frames_of_source(folder / "clip.mkv", 2)) as frames:
        frame = next(frames)
        lookup = frame.groups(segments=4)
        ids = frame.segments["id"]
        several = next(i for i in ids if np.count_nonzero(lookup[ids] == lookup[i]) > 1)
        y, x = (int(n) for n in np.argwhere(frame.ids == several)[0])
        masks = Start(clicks=((1, x, y),), groups=4).masks(frame)
    np.testing.assert_array_equal(masks[1], lookup[frame.ids] == lookup[several])
    assert np.count_nonzero(masks[1]) > np.count_nonzero(frame.ids == several)


def test_follow_video_leaves_nothing_behind_after_an_error(folder, tmp_path):
    def broken():
        yield from frames_of_volume(aaams.open_volume(folder / "clip.zarr"), 5)
        raise SourceError("the cable was pulled")

    with pytest.raises(SourceError, match="cable"):
        follow_video(broken(), tmp_path / "out", Start(mask=folder / "both.png"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="signals are a POSIX matter")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_follow_video_keeps_what_was_done_when_asked_to_end_in_a_silence(folder, tmp_path, number):
    """The signal comes while a frame is awaited that never comes."""

    def silent(count):
        yield from islice(frames_of_volume(aaams.open_volume(folder / "clip.zarr"), 0), count)
        os.kill(os.getpid(), number)
        threading.Event().wait(PATIENCE)
        raise SourceError("no answer")

    start = Start(mask=folder / "both.png")
    report = follow_video(silent(3), tmp_path / "out", start)
    assert (report.frames, report.stopped) == (3, number)
    assert len(table(tmp_path / "out")) == 6
    with pytest.raises(Stopped) as stopped:
        follow_video(silent(0), tmp_path / "none", start)
    assert stopped.value.code == 128 + number
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_follow_video_replaces_what_it_wrote_before_and_nothing_else(folder, tmp_path):
    def follow(output, mask=folder / "both.png"):
        frames = frames_of_volume(aaams.open_volume(folder / "full.zarr"), COUNT - 1)
        return follow_video(frames, output, Start(mask=mask), overwrite=True)

    out = tmp_path / "out"
    for _ in range(2):
        assert follow(out).frames == 1
    with pytest.raises(SinkError, match="out: holds the mask; choose another name"):
        follow(out, mask=out / "masks" / "00007.png")
    with pytest.raises(SinkError, match=r"full\.zarr: holds 0, which is not of an earlier run"):
        follow(folder / "full.zarr")
    (out / "notes.txt").touch()
    with pytest.raises(SinkError, match=r"out: holds notes\.txt, which is not of an earlier run"):
        follow(out)

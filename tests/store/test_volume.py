"""What readers ask of a volume: frames, rows, masks, tubes, neighbours, pooled features."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from support.clips import moving_frames
from support.volumes import HEADER, VERSION, files, fill

from aaams_stream import store
from aaams_stream.errors import SinkError
from aaams_stream.model import EVENT_DTYPE, SEGMENT_DTYPE
from aaams_stream.params import Params
from aaams_stream.store import open_volume


def test_volume_returns_what_was_written(whole):
    path, results = whole
    volume = open_volume(path)
    assert (volume.frame_count, volume.width, volume.height) == (29, 64, 48)
    assert volume.complete
    assert volume.ended == "complete"
    assert volume.source == "/somewhere/clip.mkv"
    assert volume.params == Params()
    np.testing.assert_array_equal(volume.times, np.arange(29) / 25)
    np.testing.assert_array_equal(volume.ids[:], np.stack([result.ids for result in results]))
    for t, (result, rgb) in enumerate(zip(results, moving_frames(29), strict=True)):
        np.testing.assert_array_equal(volume.ids[t], result.ids)
        np.testing.assert_array_equal(volume.segments(t), result.segments)
        np.testing.assert_array_equal(volume.adjacency(t), result.adjacency)
        np.testing.assert_array_equal(volume.events_at(t), result.events)
        np.testing.assert_array_equal(volume.video[t], rgb)
    assert volume.segments(0).dtype == SEGMENT_DTYPE
    assert volume.events_at(0).dtype == EVENT_DTYPE
    frames = np.repeat(np.arange(29), [len(result.events) for result in results])
    np.testing.assert_array_equal(volume.events["frame"], frames)


def test_volume_trusts_only_what_was_committed(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    assert open_volume(path).frame_count == 0
    assert len(open_volume(path).events) == 0
    results = fill(writer, 8)
    fill(writer, 21, commit=False)  # two chunks on disk, not counted
    volume = open_volume(path)
    assert volume.frame_count == len(volume.ids) == len(volume.times) == 8
    assert not volume.complete
    assert volume.ended == "interrupted"
    assert len(volume.events) == sum(len(result.events) for result in results)
    with pytest.raises(IndexError):
        volume.ids[8]


def test_volume_says_which_part_is_missing(tmp_path):
    path = tmp_path / "a.zarr"
    store.create(path, HEADER, VERSION)
    shutil.rmtree(path / "labels")
    with pytest.raises(SinkError, match=r"missing \(labels\)"):
        open_volume(path)


def test_table_carries_its_frames(volume):
    pairs = volume.table("adjacency")
    np.testing.assert_array_equal(
        pairs["second"][pairs["frame"] == 4], volume.adjacency(4)["second"]
    )
    with pytest.raises(ValueError, match="segments, adjacency, events"):
        volume.table("tracks of mud")


def test_mask_is_where_the_id_is(volume):
    track_id = int(volume.ids[5][60, 80])
    mask = volume.mask(track_id, 5)
    assert mask.dtype == np.bool_
    np.testing.assert_array_equal(mask, volume.ids[5] == track_id)
    gone = next(row for row in volume.tracks if row["last"] < 20)
    assert not volume.mask(int(gone["id"]), 23).any()
    with pytest.raises(IndexError, match="24 frames"):
        volume.mask(track_id, 24)


def test_crop_is_the_box_of_a_segment(volume):
    for row in volume.segments(7)[::5]:
        crop = volume.crop(int(row["id"]), 7)
        x0, y0, x1, y1 = crop.bbox
        assert crop.mask.sum() == row["area"]
        assert crop.mask.any(axis=0).all() or crop.mask.any(axis=0)[[0, -1]].all()
        np.testing.assert_array_equal(crop.rgb, volume.video[7][y0:y1, x0:x1])
    late = next(row for row in volume.tracks if row["first"] > 7)
    with pytest.raises(ValueError, match=f"id {late['id']} is not in frame 7"):
        volume.crop(int(late["id"]), 7)


def test_tube_holds_all_pixels_of_a_track(volume):
    track = volume.tracks[np.argmax(volume.tracks["path"])]
    tube = list(volume.tube(int(track["id"])))
    assert [crop.frame for crop in tube][:: len(tube) - 1] == [track["first"], track["last"]]
    assert len(tube) == track["frames"]
    assert sum(int(crop.mask.sum()) for crop in tube) == track["volume"]


def test_neighbours_are_those_across_its_sides(volume):
    ids = volume.ids[3]
    track_id = int(ids[60, 80])
    found = volume.neighbours(track_id, 3)
    inside = np.pad(ids == track_id, 1)
    framed = np.pad(ids, 1)
    around = np.concatenate(
        [framed[np.roll(inside, step, axis) & ~inside] for step in (1, -1) for axis in (0, 1)]
    )
    touching, lengths = np.unique(around[around > 0], return_counts=True)
    assert dict(zip(found["id"], found["length"], strict=True)) == dict(
        zip(touching, lengths, strict=True)
    )
    assert (found["contrast"] > 0).all()


def test_volume_pools_the_mean_of_each_segment(volume):
    features = np.random.default_rng(0).normal(size=(120, 160, 4))
    pooled = volume.pool(features, 2)
    for row, mean in zip(volume.segments(2), pooled, strict=True):
        np.testing.assert_allclose(mean, features[volume.ids[2] == row["id"]].mean(0), atol=1e-5)
    np.testing.assert_array_equal(volume.pool(features[..., 1], 2), pooled[:, 1])
    y, x = np.indices((120, 160))
    places = volume.pool(np.stack([x, y], axis=-1), 2)
    np.testing.assert_allclose(places, volume.segments(2)["centroid"], rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match=r"\(120, 160\)"):
        volume.pool(features[::2], 2)


def test_row_count_is_the_last_offset(whole):
    path, results = whole
    volume = open_volume(path)
    assert volume.row_count("segments") == sum(len(result.segments) for result in results)
    assert volume.row_count("adjacency") == len(volume.table("adjacency"))


def test_time_span_is_that_of_the_first_and_the_last_frame(whole, tmp_path):
    assert open_volume(whole[0]).time_span == (0.0, 28 / 25)
    store.create(tmp_path / "a.zarr", HEADER, VERSION)
    assert open_volume(tmp_path / "a.zarr").time_span is None


def test_size_on_disk_counts_every_file(whole):
    assert store.size_on_disk(whole[0]) == sum(len(data) for data in files(whole[0]).values())


def test_an_unknown_id_is_the_same_error_everywhere(volume):
    questions = {
        "segment": lambda name: volume.segment(name, 3),
        "mask": lambda name: volume.mask(name, 3),
        "crop": lambda name: volume.crop(name, 3),
        "tube": lambda name: next(volume.tube(name)),
        "neighbours": lambda name: volume.neighbours(name, 3),
        "lineage": lambda name: volume.lineage(name),
        "mask of a view": lambda name: volume.at(segments=5).mask(name, 3),
    }
    for name in (0, 999999):
        for question in questions.values():
            with pytest.raises(ValueError, match=f"the volume holds no id {name}; see tracks"):
                question(name)


def test_volume_has_a_length_a_shape_a_rate_and_says_what_it_is(whole, tmp_path):
    volume = open_volume(whole[0])
    assert len(volume) == 29
    assert volume.shape == volume.ids.shape == (29, 48, 64)
    assert volume.fps == 25
    assert repr(volume) == (
        f"<Volume {whole[0].name}: 29 frames, 64x48, 25 fps, complete, with video and levels>"
    )
    store.create(tmp_path / "a.zarr", HEADER, VERSION)
    empty = open_volume(tmp_path / "a.zarr")
    assert repr(empty) == "<Volume a.zarr: 0 frames, 64x48, 25 fps, incomplete>"
    assert len(empty) == 0
    assert empty  # a volume is one, also without frames


def test_video_is_read_as_pictures_with_their_colours_last(whole):
    video, pictures = open_volume(whole[0]).video, np.stack(moving_frames(29))
    assert (video.shape, video.dtype, video.ndim, len(video)) == ((29, 48, 64, 3), np.uint8, 4, 29)
    for key in (3, -1, slice(2, 9, 3), (4, slice(10, 20)), (slice(1, 3), slice(None), 5, 2)):
        np.testing.assert_array_equal(video[key], pictures[key], err_msg=str(key))
    np.testing.assert_array_equal(np.asarray(video), pictures)
    assert video[3].flags.c_contiguous

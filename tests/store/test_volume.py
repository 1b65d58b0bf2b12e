"""What consumers ask of a volume: masks, tubes, neighbours, histories, tracks, pooled features."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream import open_volume, segment_video
from aaams_stream.core.pool import pool
from aaams_stream.model import TRACK_DTYPE, EventKind
from aaams_stream.store import tracks as tracing
from aaams_stream.store.lineage import lineage
from aaams_stream.store.tracks import EVENT_ROW_DTYPE


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    target = tmp_path_factory.mktemp("volume") / "demo.zarr"
    segment_video("demo", target, duration=1, size=(160, 120), with_video=True)
    return target


@pytest.fixture
def volume(path):
    return open_volume(path)


def test_a_mask_is_where_the_id_is(volume):
    name = int(volume.ids[5][60, 80])
    mask = volume.mask(name, 5)
    assert mask.dtype == np.bool_
    np.testing.assert_array_equal(mask, volume.ids[5] == name)
    assert not volume.mask(10**6, 5).any()
    with pytest.raises(IndexError, match="24 frames"):
        volume.mask(name, 24)


def test_a_crop_is_the_box_of_a_segment(volume):
    for row in volume.segments(7)[::5]:
        crop = volume.crop(int(row["id"]), 7)
        x0, y0, x1, y1 = crop.bbox
        assert crop.mask.sum() == row["area"]
        assert crop.mask.any(axis=0).all() or crop.mask.any(axis=0)[[0, -1]].all()
        np.testing.assert_array_equal(crop.rgb, volume.video[7].transpose(1, 2, 0)[y0:y1, x0:x1])
    with pytest.raises(ValueError, match="id 999999 is not in frame 7"):
        volume.crop(999999, 7)


def test_a_tube_holds_all_pixels_of_a_track(volume):
    track = volume.tracks[np.argmax(volume.tracks["path"])]
    tube = list(volume.tube(int(track["id"])))
    assert [crop.frame for crop in tube][:: len(tube) - 1] == [track["first"], track["last"]]
    assert len(tube) == track["frames"]
    assert sum(int(crop.mask.sum()) for crop in tube) == track["volume"]
    with pytest.raises(ValueError, match="no id 999999"):
        next(volume.tube(999999))


def test_neighbours_are_those_across_its_sides(volume):
    ids = volume.ids[3]
    name = int(ids[60, 80])
    found = volume.neighbours(name, 3)
    inside = np.pad(ids == name, 1)
    framed = np.pad(ids, 1)
    around = np.concatenate(
        [framed[np.roll(inside, step, axis) & ~inside] for step in (1, -1) for axis in (0, 1)]
    )
    names, lengths = np.unique(around[around > 0], return_counts=True)
    assert dict(zip(found["id"], found["length"], strict=True)) == dict(
        zip(names, lengths, strict=True)
    )
    assert (found["contrast"] > 0).all()


def test_pooling_gives_the_mean_of_each_segment(volume):
    features = np.random.default_rng(0).normal(size=(120, 160, 4))
    pooled = volume.pool(features, 2)
    for row, mean in zip(volume.segments(2), pooled, strict=True):
        np.testing.assert_allclose(mean, features[volume.ids[2] == row["id"]].mean(0), atol=1e-5)
    np.testing.assert_array_equal(volume.pool(features[..., 1], 2), pooled[:, 1])
    y, x = np.indices((120, 160))
    places = pool(volume.ids[2], np.stack([x, y], axis=-1))
    np.testing.assert_allclose(places, volume.segments(2)["centroid"], rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match=r"\(120, 160\)"):
        volume.pool(features[::2], 2)


def naive_tracks(volume):
    """Return a dict of each track, found frame by frame."""
    found: dict[int, dict[str, float]] = {}
    for t in range(volume.frame_count):
        for row in volume.segments(t):
            track = found.setdefault(int(row["id"]), {"first": t, "frames": 0, "volume": 0})
            if "stop" in track:
                gap = np.linalg.norm(row["centroid"].astype(float) - track["stop"])
                track["path"] = track.get("path", 0.0) + gap
            track.update(last=t, stop=row["centroid"], parent=row["parent"])
            track["frames"] += 1
            track["volume"] += row["area"]
    return found


def test_tracks_sum_up_the_life_of_each_id(volume, monkeypatch):
    expected = naive_tracks(volume)
    tracks = volume.tracks
    assert tracks.dtype == TRACK_DTYPE
    assert tracks["id"].tolist() == sorted(expected)
    for row in tracks:
        track = expected[int(row["id"])]
        for name in ("first", "last", "frames", "volume", "parent"):
            assert row[name] == track[name], name
        assert row["path"] == pytest.approx(track.get("path", 0.0), abs=1e-3)
        assert row["stop"].tolist() == track["stop"].tolist()
    living = volume.segments(-1)["id"]
    np.testing.assert_array_equal(tracks["id"][tracks["end"] == 0], living)
    # read in stretches that cut through frames
    monkeypatch.setattr(tracing, "_AT_ONCE", 50)
    counts = (int(volume.offsets(name)[-1]) for name in ("segments", "events"))
    np.testing.assert_array_equal(tracing.trace(volume._root, *counts), tracks)


def test_an_unfinished_volume_has_the_tracks_of_what_was_committed(path, tmp_path, monkeypatch):
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.run import pipeline

    monkeypatch.setattr(pipeline, "COMMIT_SECONDS", 0.0)
    step, seen = Segmenter.step, []

    def stumble(self, rgb, time=None, glimpse=None):
        seen.append(time)
        if len(seen) == 20:
            raise RuntimeError("power cut")
        return step(self, rgb, time, glimpse)

    monkeypatch.setattr(Segmenter, "step", stumble)
    with pytest.raises(RuntimeError, match="power cut"):
        segment_video("demo", tmp_path / "a.zarr", duration=1, size=(160, 120), with_video=True)
    part = open_volume(tmp_path / "a.zarr")
    assert not part.complete
    expected = naive_tracks(part)
    assert {int(row["id"]): row["frames"] for row in part.tracks} == {
        name: track["frames"] for name, track in expected.items()
    }
    monkeypatch.setattr(Segmenter, "step", step)
    segment_video(
        "demo", tmp_path / "a.zarr", duration=1, size=(160, 120), with_video=True, resume=True
    )
    whole = open_volume(tmp_path / "a.zarr")
    np.testing.assert_array_equal(whole.tracks, open_volume(path).tracks)
    np.testing.assert_array_equal(whole.table("segments"), open_volume(path).table("segments"))


def test_a_volume_without_frames_has_no_tracks(tmp_path, path):
    from aaams_stream import store

    header = open_volume(path).header
    store.create(tmp_path / "a.zarr", header, "1")
    assert len(open_volume(tmp_path / "a.zarr").tracks) == 0


def test_tables_carry_their_frame(volume):
    pairs = volume.table("adjacency")
    np.testing.assert_array_equal(
        pairs["second"][pairs["frame"] == 4], volume.adjacency(4)["second"]
    )
    with pytest.raises(ValueError, match="segments, adjacency, events"):
        volume.table("tracks of mud")


def family(*rows):
    return np.array([(frame, kind, a, b) for frame, kind, a, b in rows], EVENT_ROW_DTYPE)


def test_a_lineage_follows_splits_and_merges_in_the_order_of_time():
    split, merge, death = EventKind.SPLIT, EventKind.MERGE, EventKind.DEATH
    events = family(
        (1, split, 5, 2),  # 5 leaves 2
        (2, merge, 3, 2),  # 3 joins 2: too late to be of 5's blood
        (3, split, 6, 5),
        (4, merge, 5, 9),
        (5, split, 7, 9),
        (5, death, 6, 0),
    )
    found = lineage(events, 5)
    assert found.ancestors == (2,)
    assert found.descendants == (6, 9, 7)
    assert found.events["frame"].tolist() == [1, 3, 4, 5]
    assert lineage(events, 2).ancestors == (3,)
    assert lineage(events, 2).descendants == (5, 6, 9, 7)
    assert lineage(events, 8).ancestors == lineage(events, 8).descendants == ()


def test_the_lineage_of_a_volume_agrees_with_its_parents(volume):
    for track in volume.tracks[volume.tracks["parent"] > 0]:
        found = volume.lineage(int(track["id"]))
        assert found.ancestors[0] == track["parent"]
        assert int(track["id"]) in volume.lineage(int(track["parent"])).descendants

"""A volume seen at a coarser level: all a volume can be asked, against what its ids say."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.hierarchies import drop_levels
from support.volumes import HEADER, VERSION, fill

from aaams_stream import open_volume, replay, store
from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.model import OBJECT_DTYPE, TRACK_DTYPE, EventKind
from aaams_stream.store import LevelView, ObjectView, Volume
from aaams_stream.store.view import GroupView

COUNTS = (30, 8)


@pytest.fixture(params=COUNTS)
def view(volume, request):
    return volume.at(segments=request.param)


def test_view_at_level_zero_is_the_volume(volume):
    view = volume.at(level=0)
    np.testing.assert_array_equal(view.ids[:], volume.ids[:])
    for name in ("segments", "adjacency"):
        np.testing.assert_array_equal(view.table(name), volume.table(name))
    assert sorted(view.events.tolist()) == sorted(volume.events.tolist())
    np.testing.assert_array_equal(view.tracks, volume.tracks)
    assert view.counts == volume.counts


def test_view_is_a_volume_and_says_what_it_shows(view):
    assert isinstance(view, Volume)
    assert isinstance(view, LevelView)
    assert f"{view.groups_per_frame:.1f} groups a frame" in repr(view)
    seen = np.mean([len(np.unique(ids)) for ids in view.ids[:]])
    assert view.groups_per_frame == pytest.approx(seen)
    for name in ("frame_count", "width", "height", "source", "header", "time_span", "complete"):
        assert getattr(view, name) == getattr(view.base, name)
    np.testing.assert_array_equal(view.video[3], view.base.video[3])


def test_view_ids_are_looked_up_as_they_are_read(volume, view):
    expected = volume.groups(level=view.level)[volume.ids[:]]
    assert view.ids.dtype == np.uint32
    for key in (3, -1, slice(2, 20, 3), (slice(4, 9), slice(10, 20), 5), [0, 7, 7]):
        np.testing.assert_array_equal(view.ids[key], expected[key], err_msg=str(key))
    np.testing.assert_array_equal(np.asarray(view.ids), expected)


def test_view_segments_are_measured_as_if_groups_were_segments(volume, view):
    for t in (0, 11, 23):
        ids, members = view.ids[t], volume.segments(t)
        rows = view.segments(t)
        assert rows["id"].tolist() == np.unique(ids).tolist()
        framed = np.pad(ids, 1)
        for row in rows:
            mask = ids == row["id"]
            y, x = np.nonzero(mask)
            assert row["area"] == mask.sum()
            assert row["bbox"].tolist() == [x.min(), y.min(), x.max() + 1, y.max() + 1]
            np.testing.assert_allclose(row["centroid"], [x.mean(), y.mean()], rtol=1e-5, atol=1e-3)
            inside = np.pad(mask, 1)
            sides = sum(
                np.count_nonzero(np.roll(framed, step, axis)[inside] != row["id"])
                for step in (1, -1)
                for axis in (0, 1)
            )
            assert row["perimeter"] == sides
            own = members[view.lookup[members["id"]] == row["id"]]
            largest = own[np.argmax(own["area"])]
            for name in ("mode", "bandwidth_colour", "bandwidth_space", "density"):
                np.testing.assert_array_equal(row[name], largest[name])
            weight = own["area"] / own["area"].sum()
            for name in ("colour", "motion"):
                np.testing.assert_allclose(row[name], weight @ own[name], rtol=1e-5, atol=1e-5)
            squares = weight @ (own["colour_spread"] ** 2 + own["colour"].astype(float) ** 2)
            spread = np.sqrt(np.maximum(squares - row["colour"].astype(float) ** 2, 0))
            np.testing.assert_allclose(row["colour_spread"], spread, atol=0.02)


def test_view_adjacency_adds_up_what_groups_share(volume, view):
    pairs = view.adjacency(9)
    assert (pairs["first"] < pairs["second"]).all()
    expected: dict[tuple[int, int], list[float]] = {}
    for first, second, length, contrast in volume.adjacency(9).tolist():
        ends = tuple(sorted(view.lookup[[first, second]].tolist()))
        if ends[0] != ends[1]:
            sums = expected.setdefault(ends, [0, 0.0])
            sums[0] += length
            sums[1] += length * contrast
    assert pairs[["first", "second"]].tolist() == sorted(expected)
    for first, second, length, contrast in pairs.tolist():
        sums = expected[first, second]
        assert length == sums[0]
        assert contrast == pytest.approx(sums[1] / sums[0], rel=1e-5)


def test_view_tables_are_those_of_the_frames(view):
    for name, at in (
        ("segments", view.segments),
        ("adjacency", view.adjacency),
        ("events", view.events_at),
    ):
        rows = view.table(name)
        assert view.row_count(name) == len(rows)
        offsets = view.offsets(name)
        for t in (0, 7, 23):
            part = rows[offsets[t] : offsets[t + 1]]
            assert (part["frame"] == t).all()
            np.testing.assert_array_equal(part[list(rows.dtype.names[1:])], at(t))
    with pytest.raises(ValueError, match="segments, adjacency, events"):
        view.table("tracks of mud")
    with pytest.raises(IndexError):
        view.segments(24)


def test_view_events_tell_when_groups_come_and_go(view):
    present = [set(np.unique(ids).tolist()) for ids in view.ids[:]]
    known: set[int] = set()
    before: set[int] = set()
    for t, now in enumerate(present):
        events = view.events_at(t)
        coming = np.isin(events["kind"], (EventKind.BIRTH, EventKind.SPLIT))
        assert set(events["id"][coming].tolist()) == now - known
        again = events["id"][events["kind"] == EventKind.RETURN]
        assert set(again.tolist()) == (now & known) - before
        going = np.isin(events["kind"], (EventKind.DEATH, EventKind.MERGE))
        assert set(events["id"][going].tolist()) == before - now
        other = events["other"][np.isin(events["kind"], (EventKind.SPLIT, EventKind.MERGE))]
        assert set(other.tolist()) <= known | now
        assert not (events["other"] == events["id"]).any()
        known |= now
        before = now
    assert view.counts.identities == len(known)
    assert sum(view.counts.events.values()) == len(view.events)


def test_view_tracks_sum_up_the_life_of_each_group(view):
    tracks = view.tracks
    assert tracks.dtype == TRACK_DTYPE
    rows = view.table("segments")
    assert tracks["id"].tolist() == np.unique(rows["id"]).tolist()
    for track in tracks:
        own = rows[rows["id"] == track["id"]]
        assert (track["first"], track["last"]) == (own["frame"][0], own["frame"][-1])
        assert (track["frames"], track["volume"]) == (len(own), own["area"].sum())
        assert (own["age"] == own["frame"] - track["first"]).all()
        assert (own["parent"] == track["parent"]).all()
        steps = np.hypot(*np.diff(own["centroid"].astype(float), axis=0).T)
        assert track["path"] == pytest.approx(steps.sum(), abs=1e-3)
    assert set(tracks["id"][tracks["end"] == 0]) == set(view.segments(-1)["id"])


def test_view_gives_masks_crops_tubes_neighbours_lineages_and_pools(view):
    track = view.tracks[np.argmax(view.tracks["path"])]
    group = int(track["id"])
    t = int(track["last"])
    np.testing.assert_array_equal(view.mask(group, t), view.ids[t] == group)
    crop = view.crop(group, t)
    assert crop.mask.sum() == view.segment(group, t)["area"]
    assert crop.rgb.shape == (*crop.mask.shape, 3)
    tube = list(view.tube(group))
    assert len(tube) == track["frames"]
    assert sum(int(part.mask.sum()) for part in tube) == track["volume"]
    found = view.neighbours(group, t)
    pairs = view.adjacency(t)
    assert len(found) == np.count_nonzero((pairs["first"] == group) | (pairs["second"] == group))
    assert view.lineage(group).id == group
    y, x = np.indices(view.ids[t].shape)
    places = view.pool(np.stack([x, y], axis=-1), t)
    np.testing.assert_allclose(places, view.segments(t)["centroid"], rtol=1e-5, atol=1e-3)


def test_view_is_replayed_like_a_volume(view):
    frames = list(replay(view))
    assert len(frames) == view.frame_count
    np.testing.assert_array_equal(frames[5].ids, view.ids[5])
    np.testing.assert_array_equal(frames[5].segments, view.segments(5))
    np.testing.assert_array_equal(frames[5].rgb, view.video[5])


def test_view_of_a_view_is_one_of_the_volume(volume):
    view = volume.at(segments=8)
    other, expected = view.at(segments=30), volume.at(segments=30)
    np.testing.assert_array_equal(other.ids[4], expected.ids[4])
    np.testing.assert_array_equal(other.segments(4), expected.segments(4))
    np.testing.assert_array_equal(view.groups(level=0), volume.groups(level=0))


def test_view_leaves_out_what_is_in_no_group(volume):
    """Of some groups only: the rest is 0, and in no table."""
    whole = volume.at(segments=8)
    chosen = whole.tracks["id"][::2]
    view = GroupView(volume, np.where(np.isin(whole.lookup, chosen), whole.lookup, 0))
    expected = np.where(np.isin(whole.ids[:], chosen), whole.ids[:], 0)
    np.testing.assert_array_equal(view.ids[:], expected)
    for name in ("segments", "events"):
        rows = whole.table(name)
        kept = rows[np.isin(rows["id"], chosen)]
        unrelated = [
            field for field in rows.dtype.names if field not in ("parent", "kind", "other")
        ]
        found = view.table(name)
        np.testing.assert_array_equal(found[unrelated], kept[unrelated])
        assert np.isin(found["other" if name == "events" else "parent"], [0, *chosen]).all()
        assert view.row_count(name) == len(found)
    pairs = whole.table("adjacency")
    kept = np.isin(pairs["first"], chosen) & np.isin(pairs["second"], chosen)
    np.testing.assert_array_equal(view.table("adjacency"), pairs[kept])
    assert view.tracks["id"].tolist() == chosen.tolist()
    assert view.counts.identities == len(chosen)
    y, x = np.indices(view.ids[5].shape)
    places = view.pool(np.stack([x, y], axis=-1), 5)
    np.testing.assert_allclose(places, view.segments(5)["centroid"], rtol=1e-5, atol=1e-3)


def test_objects_are_groups_of_their_levels_best_first(volume):
    objects = volume.objects(5)
    assert objects.dtype == OBJECT_DTYPE
    assert 0 < len(objects) <= 5
    assert (np.diff(objects["score"]) <= 0).all()
    for row in objects:
        view = volume.at(level=float(row["level"]))
        track = view.tracks[view.tracks["id"] == row["id"]][0]
        assert (track["first"], track["last"]) == (row["first"], row["last"])
    np.testing.assert_array_equal(volume.objects(1), objects[:1])
    with pytest.raises(ConfigError, match="must be >= 1, got 0"):
        volume.objects(0)


def test_view_of_objects_shows_nothing_else(volume):
    objects = volume.objects(2)
    view = volume.only(objects)
    assert isinstance(view, ObjectView)
    best = volume.at(level=float(objects["level"][0]))
    np.testing.assert_array_equal(
        view.ids[:] == view.shown["id"][0], best.ids[:] == objects["id"][0]
    )
    assert set(np.unique(view.ids[:])) == {0, *view.shown["id"].tolist()}
    assert view.tracks["id"].tolist() == sorted(view.shown["id"].tolist())


def test_view_of_one_object_takes_its_row_and_no_id(volume):
    objects = volume.objects(1)
    one = volume.only(objects[0])
    np.testing.assert_array_equal(one.ids[3], volume.only(objects).ids[3])
    with pytest.raises(ValueError, match=r"expected rows of objects\(\), with id and level"):
        volume.only([int(objects["id"][0])])


def test_view_of_objects_in_each_other_gives_pixels_to_the_first(volume):
    """The whole scene, a part of it, and the part once more, which is then hidden."""
    merges = volume.hierarchy.merges
    part = next(row for row in merges if row["survivor"] == merges["survivor"][-1])
    objects = np.zeros(3, OBJECT_DTYPE)
    objects["id"] = part["survivor"], merges["survivor"][-1], part["survivor"]
    objects["level"] = part["level"], np.inf, part["level"]
    view = volume.only(objects)
    inner = volume.groups(level=float(part["level"])) == part["survivor"]
    rest = np.flatnonzero(~inner)[1:]
    assert view.shown["id"].tolist() == [part["survivor"], rest[0]]
    assert (view.lookup[inner] == part["survivor"]).all()
    assert (view.lookup[rest] == rest[0]).all()
    assert objects["id"][1] == merges["survivor"][-1]  # what was given is left alone


def test_views_are_nested(volume):
    fine, coarse = (volume.at(segments=count) for count in COUNTS)
    np.testing.assert_array_equal(coarse.lookup[fine.ids[:]], coarse.ids[:])


def test_groups_need_a_level_or_a_count(volume):
    for wrong in ({}, {"level": 1.0, "segments": 5}):
        with pytest.raises(ConfigError, match="either a level or a number of groups"):
            volume.groups(**wrong)
        with pytest.raises(ConfigError, match="either a level or a number of groups"):
            volume.at(**wrong)
    with pytest.raises(ConfigError, match="number >= 0, got -1"):
        volume.at(level=-1)
    with pytest.raises(ConfigError, match="must be >= 1, got 0"):
        volume.groups(segments=0)


def test_levels_of_an_unfinished_or_older_volume_name_the_remedy(tmp_path):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 8)
    with pytest.raises(SinkError, match=r"not complete \(8 frames so far\).*segment --resume"):
        open_volume(path).at(segments=5)
    writer.finish("complete")
    drop_levels(path)
    volume = open_volume(path)
    assert (volume.complete, volume.has_levels, volume.merge_count) == (True, False, 0)
    assert len(volume.tracks) > 0
    with pytest.raises(SinkError, match=r"add them with aaams-stream levels .*a\.zarr"):
        volume.groups(level=0)
    with pytest.raises(SinkError, match=r"add them with aaams-stream levels .*a\.zarr"):
        volume.objects()


def test_view_of_a_film_with_scene_changes_ends_groups_there(tmp_path):
    """The ids of the tiny segmenter are fresh after every ten frames; here that is told."""
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    results = fill(store.create(tmp_path / "b.zarr", HEADER, VERSION), 20)
    for t, result in enumerate(results):
        events = result.events
        if t == 10:
            events = events[events["kind"] == EventKind.BIRTH]
            cut = np.zeros(1, events.dtype)
            cut["kind"] = EventKind.CUT
            events = np.concatenate([cut, events])
        writer.append(dataclasses.replace(result, events=events), t / 25)
    writer.finish("complete")
    view = open_volume(path).at(segments=1)
    assert view.events.tolist() == [
        (0, EventKind.BIRTH, view.ids[0].min(), 0),
        (10, EventKind.CUT, 0, 0),
        (10, EventKind.BIRTH, view.ids[10].min(), 0),
    ]
    assert view.tracks[["first", "last", "end"]].tolist() == [(0, 9, EventKind.CUT), (10, 19, 0)]

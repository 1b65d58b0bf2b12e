"""The tree of a running stream: groups of the frame at hand, and names that last."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.level_tables import SHAPE, random_tables, tables, things

from aaams_stream.core import live_levels
from aaams_stream.core.live_levels import LiveLevels
from aaams_stream.kernels import level_sums, levels
from aaams_stream.model import (
    ADJACENCY_DTYPE,
    EVENT_DTYPE,
    SEGMENT_DTYPE,
    FrameSegmentation,
)
from aaams_stream.params import Params


def frames_of(parts):
    """Yield the frames of tables, in their order."""
    for t in np.unique(parts[0]["frame"]).tolist():
        cut = []
        for part, kind in zip(parts, (SEGMENT_DTYPE, ADJACENCY_DTYPE, EVENT_DTYPE), strict=True):
            rows = part[part["frame"] == t]
            cut.append(np.empty(len(rows), kind))
            for name in kind.names:
                cut[-1][name] = rows[name]
        yield FrameSegmentation(t, None, np.zeros(SHAPE, np.uint32), *cut, {})


def groups_by_frame(parts, segments):
    """Return for each frame the groups by their names."""
    live = LiveLevels(SHAPE, Params())
    found = []
    for frame in frames_of(parts):
        live.update(frame)
        ids, names = live.groups(segments)
        assert ids.tolist() == frame.segments["id"].tolist()
        found.append({int(n): set(ids[names == n].tolist()) for n in np.unique(names)})
    return found


def moving_scene(frames):
    """Return a thing of two parts that moves over a still ground of four."""
    ground = [{"id": 1 + i, "area": 1000, "colour": (60 + i, -20, 20)} for i in range(4)]
    parts = [
        {"id": 5 + i, "area": 200, "colour": (52, -10 + 4 * i, 10), "motion": (6, 0)}
        for i in range(2)
    ]
    made = things(*({"frames": frames, **one} for one in (*ground, *parts)))
    return made, [(1, 2), (2, 3), (3, 4), (2, 5), (2, 6), (5, 6)]


def test_what_moves_together_is_a_group_of_one_name():
    found = groups_by_frame(tables(*moving_scene(range(30))), 2)
    assert {frozenset(group) for group in found[-1].values()} == {
        frozenset({1, 2, 3, 4}),
        frozenset({5, 6}),
    }
    assert found[-1] == found[8]


def test_a_group_keeps_its_name_while_most_of_it_stays():
    """The part that bore the name goes; a new one comes and joins."""
    made, pairs = moving_scene(range(40))
    made[4]["area"], made[4]["frames"] = 60, range(20)
    new = {**made[5], "id": 7, "area": 50, "frames": range(15, 40)}
    found = groups_by_frame(tables([*made, new], [*pairs, (6, 7), (2, 7)]), 2)
    name = next(name for name, group in found[10].items() if 6 in group)
    assert found[10][name] == {5, 6}
    assert found[-1][name] == {6, 7}


@given(st.integers(0, 40), st.integers(1, 14), st.integers(1, 3))
def test_there_are_as_many_groups_as_asked_for_at_most(seed, segments, scenes):
    parts = random_tables(seed, frames=25, scenes=scenes)
    for groups in groups_by_frame(parts, segments):
        everything = sorted(i for group in groups.values() for i in group)
        assert len(set(everything)) == len(everything)
        # what touches nothing cannot be joined between two trees
        assert len(groups) <= segments + 12


@given(st.integers(0, 20))
def test_as_many_segments_as_there_are_tracks_are_the_tracks(seed):
    for groups in groups_by_frame(random_tables(seed), 1000):
        assert all(len(group) == 1 for group in groups.values())


def test_a_scene_change_forgets_what_was_before():
    parts = random_tables(4, scenes=2)
    both = groups_by_frame(parts, 4)
    alone = groups_by_frame(tuple(p[p["frame"] >= 9] for p in parts), 4)
    assert [set(map(frozenset, g.values())) for g in both[9:]] == [
        set(map(frozenset, g.values())) for g in alone
    ]


def test_memory_does_not_grow_with_the_stream(monkeypatch):
    monkeypatch.setattr(live_levels, "MEMORY", 5)
    made = things({"id": 1, "frames": range(200)})
    made += things(*({"id": i, "frames": range(i, i + 3)} for i in range(2, 190)))
    live = LiveLevels(SHAPE, Params())
    for frame in frames_of(tables(made, [(1, i) for i in range(2, 190)])):
        live.update(frame)
        assert len(live.all_groups(3)[0]) < 30
    assert len(live._pairs) < 30


def test_a_number_below_one_is_refused():
    with pytest.raises(ValueError, match="segments must be >= 1, got 0"):
        LiveLevels(SHAPE, Params()).groups(0)


def test_before_the_first_frame_there_are_no_groups():
    ids, names = LiveLevels(SHAPE, Params()).groups(3)
    assert len(ids) == len(names) == 0


def test_names_are_remembered_for_a_few_numbers_only():
    live = LiveLevels(SHAPE, Params())
    for frame in frames_of(random_tables(1)):
        live.update(frame)
    for segments in range(1, 30):
        live.groups(segments)
    assert list(live._named) == list(range(30 - live_levels.KEPT, 30))


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.floats(0, 1))
def test_fading_contacts_is_the_union_of_both(old, new, fade):
    a, b = (np.array(sorted(keys), np.uint64) for keys in (old, new))
    room = len(a) + len(b)
    pairs, sums = np.empty(room, np.uint64), np.empty((room, 2))
    ones = (np.ones((len(a), 2)), np.full((len(b), 2), 2.0))
    count = level_sums.fade_contacts(a, ones[0], fade, b, ones[1], pairs, sums)
    assert pairs[:count].tolist() == sorted(old | new)
    expected = [fade * (key in old) + 2.0 * (key in new) for key in sorted(old | new)]
    np.testing.assert_allclose(sums[:count, 0], expected)
    np.testing.assert_allclose(sums[:count, 1], expected)


@given(st.lists(st.booleans(), min_size=2, max_size=12), st.integers(1, 6))
def test_a_cut_counts_the_groups_that_show(shown, segments):
    k = len(shown)
    survivor, absorbed = np.zeros(k - 1, np.int32), np.arange(1, k, dtype=np.int32)
    group = np.empty(k, np.int32)
    levels.cut_shown(survivor, absorbed, np.array(shown), segments, group)
    assert len(np.unique(group[np.array(shown)])) == min(segments, sum(shown))


@given(st.integers(0, 200), st.integers(1, 12))
def test_merges_of_a_frame_cut_elsewhere_give_the_groups_that_are_told(seed, segments):
    """Their names aside; as the page cuts them."""
    live = LiveLevels(SHAPE, Params())
    for frame in frames_of(random_tables(seed)):
        live.update(frame)
        ids, names = live.groups(segments)
        merges = live.merges()
        assert len(merges) <= len(ids) - 1
        told = {frozenset(ids[names == name].tolist()) for name in names.tolist()}
        stands = np.arange(len(ids))
        for survivor, absorbed in merges[: len(ids) - len(told)].tolist():
            assert stands[survivor] == survivor  # a merge is of groups that are there
            assert stands[absorbed] == absorbed
            stands[stands == absorbed] = survivor
        cut = {frozenset(ids[stands == row].tolist()) for row in stands.tolist()}
        assert cut == told
        assert len(told) == min(segments, len(ids))

"""The tree over identities: found from the tables, cut at a level or a count, always nested."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hierarchies import drawn_merges

from aaams_stream import open_volume, store
from aaams_stream.errors import ConfigError
from aaams_stream.model import HIERARCHY_DTYPE
from aaams_stream.store import layout
from aaams_stream.store.levels import Hierarchy, build_levels, joint_frames

trees = st.builds(
    lambda seed, scenes: drawn_merges(np.random.default_rng(seed), *scenes),
    st.integers(0, 1000),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
)
levels = st.floats(0, 8, width=32)


def tree_of(merges, identities, frames=()):
    """Return a hierarchy of a volume in memory, in whose frames these ids are seen."""
    import zarr

    root = zarr.create_group({})
    layout.create_final_table(root, "hierarchy", 16)
    layout.write_final_table(root, "hierarchy", merges)
    labels = root.create_group("labels/ids")  # how many frames there are
    labels.create_array("0", shape=(len(frames), 1, 1), dtype=np.uint32)
    segments = root.create_group("segments")
    offsets = np.cumsum([0, *map(len, frames)]).astype(np.uint64)
    segments.create_array("offsets", data=offsets)
    rows = np.concatenate([np.zeros(0, np.uint32), *map(np.asarray, frames)]).astype(np.uint32)
    segments.create_array("id", data=rows)
    frame = np.repeat(np.arange(len(frames)), np.diff(offsets.astype(int))).astype(np.uint32)
    segments.create_array("frame", data=frame)
    return Hierarchy(root, len(frames), identities)


def merged_one_by_one(merges, identities, level):
    """Return the group of each id, merge by merge."""
    groups = np.arange(identities + 1)
    for survivor, absorbed, at in merges.tolist():
        if at <= level:
            groups[groups == groups[absorbed]] = groups[survivor]
    return groups


@given(trees, levels)
def test_lookup_is_what_the_merges_up_to_a_level_make(merges, level):
    groups = tree_of(merges, 27).lookup(level)
    assert groups.dtype == np.uint32
    np.testing.assert_array_equal(groups, merged_one_by_one(merges, 27, level))
    for group in np.unique(groups):  # called by its smallest id
        assert np.flatnonzero(groups == group)[0] == group


@given(trees, levels, levels)
def test_lookup_of_a_coarser_cut_joins_whole_groups(merges, one, other):
    tree = tree_of(merges, 27)
    fine, coarse = tree.lookup(min(one, other)), tree.lookup(max(one, other))
    np.testing.assert_array_equal(coarse[fine], coarse)


def test_lookup_at_level_zero_is_the_identity():
    tree = tree_of(drawn_merges(np.random.default_rng(0), 5, 4), 9)
    np.testing.assert_array_equal(tree.lookup(0), np.arange(10))
    np.testing.assert_array_equal(tree.lookup(np.inf), [0, *[1] * 5, *[6] * 4])


@pytest.mark.parametrize("seed", range(20))
def test_count_at_a_level_is_that_of_the_groups_seen(seed):
    rng = np.random.default_rng(seed)
    merges = drawn_merges(rng, 12, 1, 7)
    scenes = [range(1, 13), range(13, 14), range(14, 21)]
    frames = [
        np.sort(rng.choice(scene, rng.integers(1, len(scene) + 1), replace=False))
        for scene in scenes
        for _ in range(6)
    ]
    tree = tree_of(merges, 20, frames)
    for level in (0.0, *merges["level"], 99.0):
        groups = tree.lookup(float(level))
        expected = np.mean([len(np.unique(groups[ids])) for ids in frames])
        assert tree.count_at(float(level)) == pytest.approx(expected)
    for wanted in (1, 2.5, 5, 40):
        counts = [tree.count_at(float(level)) for level in (0.0, *merges["level"])]
        found = tree.count_at(tree.level_of(wanted))
        assert abs(found - wanted) == pytest.approx(min(abs(np.array(counts) - wanted)))


def test_level_of_more_groups_than_there_are_is_zero():
    tree = tree_of(drawn_merges(np.random.default_rng(0), 5), 5, [[1, 2, 3, 4, 5]])
    assert tree.level_of(5) == tree.level_of(1000) == 0


def test_joint_frames_are_those_in_which_both_sides_are_seen():
    merges = np.array([(2, 3, 1), (1, 2, 2)], HIERARCHY_DTYPE)
    rows = np.zeros(7, layout.PRESENT_DTYPE)
    rows["frame"], rows["id"] = [0, 0, 0, 1, 1, 2, 2], [1, 2, 3, 1, 3, 2, 3]
    assert joint_frames(merges, 4, [rows[:5], rows[5:]]).tolist() == [2, 2]
    assert joint_frames(merges, 4, []).tolist() == [0, 0]


@pytest.mark.parametrize("level", [-0.5, float("nan")])
def test_lookup_refuses_what_is_no_level(level):
    with pytest.raises(ConfigError, match="must be a number >= 0"):
        tree_of(np.zeros(0, HIERARCHY_DTYPE), 3).lookup(level)


@pytest.mark.parametrize("count", [0, -3, float("nan"), "25"])
def test_level_of_refuses_what_is_no_count(count):
    with pytest.raises(ConfigError, match="must be >= 1"):
        tree_of(np.zeros(0, HIERARCHY_DTYPE), 3).level_of(count)


def test_hierarchy_is_the_same_however_the_tables_are_read(volume):
    for at_once in (1, 100, 10**6):
        again = build_levels(volume._root, volume.frame_count, at_once)
        np.testing.assert_array_equal(again["hierarchy"], volume.hierarchy.merges)
        np.testing.assert_array_equal(again["objects"], volume.objects(1000))


def test_hierarchy_brings_the_identities_of_a_scene_together(volume):
    merges = volume.hierarchy.merges
    assert merges.dtype == HIERARCHY_DTYPE
    assert (merges["survivor"] < merges["absorbed"]).all()
    assert (merges["level"] > 0).all()
    assert (np.diff(merges["level"]) >= 0).all()  # the demo is one scene
    assert len(np.unique(merges["absorbed"])) == len(merges) == len(volume.tracks) - 1


def test_hierarchy_of_a_volume_without_frames_is_empty(tmp_path, whole):
    header = open_volume(whole[0]).header
    store.create(tmp_path / "a.zarr", header, "1").finish("complete")
    volume = open_volume(tmp_path / "a.zarr")
    assert len(volume.hierarchy.merges) == 0
    assert volume.groups(segments=25).tolist() == [0]
    assert len(volume.at(segments=25).tracks) == 0

"""The tree over tracks: what belongs together joins first, whatever the blocks it comes in."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import level_reference
from support.level_tables import SHAPE, random_tables, tables, things

from aaams_stream.core.level_sums import SceneSums
from aaams_stream.core.levels import (
    ADJACENCY_NEEDED,
    DEFAULT,
    SEGMENTS_NEEDED,
    LevelBuilder,
    LevelTuning,
    nearness_of,
)
from aaams_stream.model import HIERARCHY_DTYPE
from aaams_stream.params import Params

EXACT = dataclasses.replace(DEFAULT, growth=1.0)


def tree_of(parts, tuning=DEFAULT, blocks=()):
    """Return the tree of tables that come in blocks which begin at some frames."""
    builder = LevelBuilder(SHAPE, Params(), tuning)
    for begin, end in zip((0, *blocks), (*blocks, 2**32 - 1), strict=True):
        builder.add(*(part[(part["frame"] >= begin) & (part["frame"] < end)] for part in parts))
    return builder.finish()


def merges_of(tree):
    return [(int(row["survivor"]), int(row["absorbed"])) for row in tree]


def test_parts_of_one_colour_and_motion_join_first():
    made = things(
        {"id": 1, "area": 3000, "colour": (60, -20, 20)},
        {"id": 2, "colour": (40, 30, 0), "motion": (4, 0)},
        {"id": 3, "colour": (41, 30, 1), "motion": (4, 0)},
        {"id": 4, "area": 900, "colour": (60, -21, 21)},
    )
    tree = tree_of(tables(made, [(1, 2), (1, 3), (2, 3), (1, 4), (3, 4)]))
    assert set(merges_of(tree)[:2]) == {(2, 3), (1, 4)}


def test_two_things_of_one_colour_that_move_differently_stay_apart_longest():
    made = things(
        {"id": 1, "area": 200, "colour": (50, 5, 0), "motion": (5, 0)},
        {"id": 2, "area": 200, "colour": (50, 5, 1), "motion": (-5, 0)},
        {"id": 3, "area": 200, "colour": (53, 5, 0), "motion": (5, 0)},
        {"id": 4, "area": 200, "colour": (53, 5, 1), "motion": (-5, 0)},
        {"id": 5, "area": 3000, "colour": (10, -40, 30)},
    )
    tree = tree_of(tables(made, [(1, 2), (1, 3), (2, 4), (3, 4), (1, 5), (4, 5)]))
    assert set(merges_of(tree)[:2]) == {(1, 3), (2, 4)}


def test_a_scene_change_separates_trees():
    parts = random_tables(3, scenes=3)
    tree = tree_of(parts)
    assert len(tree) == 3 * 11
    for scene in range(3):
        part = tree[11 * scene : 11 * (scene + 1)]
        ids = {int(i) for name in ("survivor", "absorbed") for i in part[name]}
        assert ids == set(range(12 * scene + 1, 12 * scene + 13))
        alone = tuple(
            p[(p["frame"] >= 9 * scene) & (p["frame"] < 9 * (scene + 1))] for p in parts[:2]
        )
        np.testing.assert_array_equal(part, tree_of((*alone, parts[2][:0])))


@given(st.integers(0, 40), st.lists(st.integers(0, 27), max_size=6), st.integers(1, 3))
def test_blocks_make_no_difference(seed, cuts, scenes):
    parts = random_tables(seed, scenes=scenes)
    few_moments = dataclasses.replace(DEFAULT, moments=4)
    for tuning in (DEFAULT, few_moments):
        whole = tree_of(parts, tuning)
        assert whole.tobytes() == tree_of(parts, tuning, sorted(cuts)).tobytes()


@given(st.integers(0, 60), st.integers(2, 20), st.integers(1, 3))
def test_every_id_but_the_first_of_its_scene_is_absorbed_once(seed, tracks, scenes):
    tree = tree_of(random_tables(seed, tracks, scenes=scenes))
    assert tree.dtype == HIERARCHY_DTYPE
    firsts = {scene * tracks + 1 for scene in range(scenes)}
    assert sorted(tree["absorbed"]) == [i for i in range(1, scenes * tracks + 1) if i not in firsts]
    assert (tree["survivor"] < tree["absorbed"]).all()
    gone: set[int] = set()
    for survivor, absorbed in merges_of(tree):
        assert survivor not in gone
        gone.add(absorbed)


@given(st.integers(0, 60), st.integers(2, 20), st.floats(1.0, 2.0))
def test_levels_lie_above_zero_and_never_fall(seed, tracks, growth):
    tree = tree_of(random_tables(seed, tracks), dataclasses.replace(DEFAULT, growth=growth))
    assert (tree["level"] > 0).all()
    assert (np.diff(tree["level"]) >= 0).all()
    assert np.isfinite(tree["level"]).all()


def test_nothing_has_no_tree():
    assert LevelBuilder(SHAPE, Params()).finish().size == 0
    assert tree_of(tables([], [])).size == 0


def test_one_track_has_no_merges():
    assert tree_of(tables(things({"id": 7}), [])).size == 0


def test_tracks_that_never_touch_join_last_at_one_level():
    made = things({"id": 3}, {"id": 4, "colour": (51, 0, 0)}, {"id": 6}, {"id": 9})
    tree = tree_of(tables(made, [(3, 4)]))
    assert merges_of(tree) == [(3, 4), (3, 6), (3, 9)]
    assert tree["level"][1] == tree["level"][2] > tree["level"][0]
    alone = tree_of(tables(things({"id": 3}, {"id": 4}), []))
    assert merges_of(alone) == [(3, 4)]


def test_equals_join_in_the_order_of_ids():
    made = things(*({"id": i} for i in range(5, 12)))
    pairs = [(i, i + 1) for i in range(5, 11)]
    tree = tree_of(tables(made, pairs))
    assert merges_of(tree)[0] == (5, 6)
    shuffled = list(reversed(pairs))
    assert tree.tobytes() == tree_of(tables(made, shuffled)).tobytes()


def test_ids_may_have_gaps():
    made = things({"id": 10}, {"id": 500}, {"id": 900, "colour": (70, 0, 0)})
    tree = tree_of(tables(made, [(10, 500), (10, 900), (500, 900)]))
    assert merges_of(tree) == [(10, 500), (10, 900)]


def test_an_id_may_be_back_from_before_the_first_frame_that_is_told_of():
    made = things(
        {"id": 10},
        {"id": 3, "frames": range(5, 8)},
        {"id": 12, "colour": (80, 0, 0), "frames": range(2, 8)},
    )
    parts = tables(made, [(3, 10), (10, 12), (3, 12)])
    assert merges_of(tree_of(parts)) == [(3, 10), (3, 12)]
    assert tree_of(parts).tobytes() == tree_of(parts, blocks=(3, 5, 6)).tobytes()


def test_only_the_columns_that_are_named_are_read():
    segments, adjacency, events = random_tables(1)
    few = segments[["frame", *SEGMENTS_NEEDED]], adjacency[["frame", *ADJACENCY_NEEDED]]
    assert tree_of((*few, events)).tobytes() == tree_of((segments, adjacency, events)).tobytes()


def test_a_long_scene_is_kept_in_few_moments():
    """Memory does not grow with frames: a scene of many has as many entries as one of few."""
    builder = LevelBuilder(SHAPE, Params(), dataclasses.replace(DEFAULT, moments=8))
    made = things({"id": 1, "frames": range(3000)}, {"id": 2, "frames": range(3000)})
    builder.add(*tables(made, [(1, 2)]))
    assert builder._scene.stride == 512
    assert builder._scene.state[1] == 12
    assert len(builder.finish()) == 1


@pytest.mark.parametrize("seed", range(6))
def test_the_tree_is_that_of_its_definition(seed):
    """The kernel keeps lists, a heap and a table of links; the definition scores all pairs anew."""
    scene = SceneSums(SHAPE, 5, DEFAULT.motion_unit)
    scene.add(*random_tables(seed, tracks=16, frames=12)[:2])
    pixels = SHAPE[0] * SHAPE[1]
    nearness = nearness_of(Params(), EXACT, pixels, 12, scene.stride)
    expected = level_reference.merges(*scene.graph()[1:], nearness)
    assert len(expected) > 8
    tree = tree_of(random_tables(seed, tracks=16, frames=12), dataclasses.replace(EXACT, moments=5))
    found = tree[: len(expected)]
    assert merges_of(found) == [(a + 1, b + 1) for a, b, _ in expected]
    np.testing.assert_allclose(found["level"], [level for *_, level in expected], rtol=1e-5)


def test_levels_with_more_growth_stay_close_to_the_exact_ones():
    for seed in range(5):
        exact, close = (tree_of(random_tables(seed, 20), t) for t in (EXACT, DEFAULT))
        np.testing.assert_allclose(exact["level"], close["level"], rtol=0.1)


OTHERS = {
    "colour_power": 1.0,
    "size_unit": 0.02,
    "size_power": 0.6,
    "edge_unit": 30.0,
    "edge_power": 0.9,
    "motion_unit": 0.1,
    "motion_sq": 9.0,
    "motion_power": 1.0,
    "motion_area": 0.1,
    "contact_power": 0.9,
    "contact_floor": 0.5,
    "texture_power": 2.0,
    "texture_floor": 40.0,
    "unrest_power": 1.0,
    "seen_power": 0.9,
    "moments": 2,
    "growth": 3.0,
}


@pytest.mark.parametrize("field", OTHERS)
def test_every_constant_is_heeded(field):
    parts = random_tables(7, tracks=20)
    parts[0]["colour_spread"] *= np.random.default_rng(0).uniform(0.5, 4, (len(parts[0]), 1))
    other = dataclasses.replace(DEFAULT, **{field: OTHERS[field]})
    assert tree_of(parts, other).tobytes() != tree_of(parts).tobytes()


def test_tunings_are_equal_by_value():
    assert LevelTuning() == DEFAULT
    assert dataclasses.replace(DEFAULT, growth=2.0) != DEFAULT
    assert {field.name for field in dataclasses.fields(LevelTuning)} == set(OTHERS)


DIGEST = """
import sys
sys.path.insert(0, {tests!r})
from support import level_reference
from support.level_tables import SHAPE, random_tables
from aaams_stream.core.levels import LevelBuilder
from aaams_stream.params import Params
builder = LevelBuilder(SHAPE, Params())
builder.add(*random_tables(5, tracks=15, scenes=2))
for row in builder.finish():
    print(row["survivor"], row["absorbed"], "%.5g" % row["level"])
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_without_compilation_the_tree_is_the_same():
    code = DIGEST.format(tests=os.path.dirname(os.path.dirname(__file__)))
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_DISABLE_JIT": plain},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for plain in ("0", "1")
    ]
    assert found[0] == found[1]
    assert len(found[0].splitlines()) == 28

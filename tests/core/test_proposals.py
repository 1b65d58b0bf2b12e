"""Objects without being told: what moves against the scene comes first, parts after the whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.level_tables import SHAPE, random_tables, tables, things

from aaams_stream.core.levels import LevelBuilder
from aaams_stream.core.proposals import Nodes, members_of, object_scores, rank_objects
from aaams_stream.model import OBJECT_DTYPE
from aaams_stream.params import Params

PIXELS = SHAPE[0] * SHAPE[1]


def built(parts, blocks=()):
    """Return a builder that took the tables, and its tree."""
    builder = LevelBuilder(SHAPE, Params())
    for begin, end in zip((0, *blocks), (*blocks, 2**32 - 1), strict=True):
        builder.add(*(part[(part["frame"] >= begin) & (part["frame"] < end)] for part in parts))
    return builder, builder.finish()


def moving_scene(begin=0, base=1):
    """Return a thing of two parts that moves over a still ground of four."""
    frames = range(begin, begin + 10)
    ground = [
        {"id": base + i, "area": 1000, "colour": (60 + i, -20, 20), "bbox": (20 * i, 0, 20, 60)}
        for i in range(4)
    ]
    parts = [
        {"id": base + 4 + i, "area": 200, "colour": (30, 30 + 4 * i, 0), "motion": (4, 0)}
        for i in range(2)
    ]
    made = things(*({**one, "frames": frames} for one in (*ground, *parts)))
    pairs = [(0, 1), (1, 2), (2, 3), (1, 4), (1, 5), (4, 5)]
    cuts = (begin,) if begin else ()
    return tables(made, [(base + a, base + b) for a, b in pairs], cuts=cuts)


def nodes_of(**columns):
    """Return nodes that are alike but for the columns given."""
    n = len(next(iter(columns.values())))
    usual = {
        "id": np.arange(1, n + 1, dtype=np.uint32),
        "parent": np.full(n, n),
        "formed": np.zeros(n, np.float32),
        "absorbed": np.ones(n, np.float32),
        "first": np.zeros(n, np.uint32),
        "last": np.full(n, 9, np.uint32),
        "frames": np.full(n, 10, np.uint32),
        "volume": np.full(n, 10 * 100.0),
        "motion": np.ones(n),
        "rim": np.zeros(n),
    }
    return Nodes(**{**usual, **{name: np.asarray(value) for name, value in columns.items()}})


def test_what_moves_against_the_scene_comes_first_as_a_whole():
    builder, tree = built(moving_scene())
    objects = builder.objects(3)
    assert objects.dtype == OBJECT_DTYPE
    assert members_of(tree, objects[:1])[0].tolist() == [5, 6]
    first = objects[0]
    assert (first["id"], first["first"], first["last"], first["frames"]) == (5, 0, 9, 10)


def test_a_candidate_scores_more_the_more_it_is_like_a_thing():
    for better in (
        {"motion": [2.0, 1.0]},
        {"frames": [10, 5], "volume": [1000.0, 500.0]},
        {"rim": [0.0, 0.1]},
        {"volume": [2000.0, 1000.0]},
        {"absorbed": [2.0, 1.0]},
    ):
        one, other = object_scores(nodes_of(**better), PIXELS)
        assert one > other > 0


def test_what_is_too_small_too_large_or_in_no_cut_is_no_candidate():
    nodes = nodes_of(
        volume=[10.0, 9.0 * PIXELS, 1000.0], absorbed=[1.0, 1.0, 0.0], formed=[0.0, 0.0, 0.0]
    )
    assert object_scores(nodes, PIXELS).tolist() == [0, 0, 0]
    assert len(rank_objects(nodes, PIXELS, 10)) == 0


def test_of_two_that_share_much_the_better_one_stays():
    """The second lies in the third, and is most of it; so does the first, of which it is little."""
    nodes = nodes_of(
        volume=[300.0, 800.0, 1100.0], parent=[2, 2, 3], motion=[1.0, 3.0, 2.0], formed=[0, 0, 0.5]
    )
    assert rank_objects(nodes, PIXELS, 10)["id"].tolist() == [2, 1]
    assert rank_objects(nodes, PIXELS, 1)["id"].tolist() == [2]


def test_objects_of_all_scenes_are_ranked_together():
    scenes = moving_scene(), moving_scene(begin=10, base=7)
    parts = tuple(np.concatenate(tables) for tables in zip(*scenes, strict=True))
    builder, tree = built(parts)
    members = [ids.tolist() for ids in members_of(tree, builder.objects(2))]
    assert members == [[5, 6], [11, 12]]
    assert len(builder.objects(1)) == 1


@given(st.integers(0, 40), st.lists(st.integers(0, 18), max_size=4))
def test_blocks_make_no_difference(seed, cuts):
    parts = random_tables(seed, scenes=2)
    whole, _ = built(parts)
    cut, _ = built(parts, sorted(cuts))
    assert whole.objects(50).tobytes() == cut.objects(50).tobytes()


@given(st.integers(0, 60), st.integers(1, 20))
def test_members_are_the_group_that_the_cut_at_its_level_shows(seed, tracks):
    builder, tree = built(random_tables(seed, tracks, scenes=2))
    objects = builder.objects(50)
    assert (np.diff(objects["score"]) <= 0).all()
    for one, ids in zip(objects, members_of(tree, objects), strict=True):
        group_of = np.arange(2 * tracks + 1)
        for row in tree[tree["level"] <= one["level"]]:
            group_of[group_of == row["absorbed"]] = row["survivor"]
        assert ids.tolist() == np.flatnonzero(group_of == one["id"]).tolist()
        assert ids.min() == one["id"]


def test_nothing_has_no_objects():
    builder = LevelBuilder(SHAPE, Params())
    builder.finish()
    assert builder.objects().dtype == OBJECT_DTYPE
    assert len(builder.objects()) == 0

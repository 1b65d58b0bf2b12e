"""History through splits and merges."""

from __future__ import annotations

import numpy as np

from aaams_stream.model import EventKind
from aaams_stream.store.lineage import lineage
from aaams_stream.store.tracks import EVENT_ROW_DTYPE


def family(*rows):
    return np.array([(frame, kind, a, b) for frame, kind, a, b in rows], EVENT_ROW_DTYPE)


def test_lineage_follows_splits_and_merges_in_the_order_of_time():
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


def test_lineage_lists_direct_relatives_first_with_the_way_to_them():
    split, merge = EventKind.SPLIT, EventKind.MERGE
    events = family(
        (1, split, 5, 2), (2, merge, 8, 5), (3, split, 6, 5), (4, split, 7, 6), (9, merge, 5, 4)
    )
    relatives = lineage(events, 5).relatives
    assert [tuple(row)[:4] for row in relatives.tolist()] == [
        (2, -1, 1, split),
        (8, -1, 2, merge),
        (6, 1, 3, split),
        (4, 1, 9, merge),
        (7, 2, 4, split),
    ]


def test_lineage_in_a_volume_tells_how_large_relatives_were(volume):
    tracks = volume.tracks
    found = volume.lineage(int(tracks["id"][tracks["parent"] > 0][0]))
    assert len(found.relatives) == len(found.ancestors) + len(found.descendants) > 0
    for row in found.relatives:
        life = tracks[tracks["id"] == row["id"]][0]
        seen = [t for t in range(row["frame"] + 1) if row["id"] in volume.segments(t)["id"]]
        assert life["first"] <= seen[-1] <= row["frame"]
        assert row["area"] == volume.segment(int(row["id"]), seen[-1])["area"] > 0


def test_lineage_in_a_volume_agrees_with_its_parents(volume):
    for track in volume.tracks[volume.tracks["parent"] > 0]:
        found = volume.lineage(int(track["id"]))
        assert found.ancestors[0] == track["parent"]
        assert int(track["id"]) in volume.lineage(int(track["parent"])).descendants

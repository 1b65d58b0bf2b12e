"""Regions to tracks on hand-made maps: who goes on, who is new, who is gone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.label_maps import drawn, label_maps
from support.tracks import NEXT, NOW, associated, events_of, lost_at, tracks_of

from aaams_stream.core.pairs import find_pairs
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels.associate import count_overlaps
from aaams_stream.kernels.common import REFRESH
from aaams_stream.model import EventKind
from aaams_stream.params import Params

BIRTH, DEATH, SPLIT, MERGE, RETURN = list(EventKind)[:5]


# count_overlaps.


@given(label_maps(0, 6), st.integers(0, 2**31))
def test_count_overlaps_goes_pair_by_pair_in_raster_order(regions, seed):
    rng = np.random.default_rng(seed)
    warped = rng.integers(-1, 5, regions.shape).astype(np.int32)
    labels = rng.integers(-3, 5, regions.shape).astype(np.int32)
    part_of_region = rng.integers(0, 4, 7).astype(np.int32)
    parts = part_of_region[regions]
    expected: dict[tuple[int, int], list[int]] = {}
    for a, b, kept in zip(parts.ravel(), warped.ravel(), labels.ravel(), strict=True):
        if max(b, kept) >= 0:
            counts = expected.setdefault((int(a), int(kept if kept >= 0 else b)), [0, 0, 0])
            counts[0] += 1
            counts[1] += int(kept >= 0)
            counts[2] += int(kept == REFRESH)
    maps = regions, part_of_region, warped, labels
    found = find_pairs(count_overlaps, *maps, expected=1024, sums=3)
    pairs = zip(found.first.tolist(), found.second.tolist(), strict=True)
    assert list(pairs) == list(expected)
    assert found.sums.tolist() == list(expected.values())


@pytest.mark.parametrize("expected", [0, 1, 64, 128, 5000])
def test_count_overlaps_gives_the_same_answer_however_few_pairs_were_expected(expected):
    """Forty pairs are more than the least table has room for, 1600 more than the next."""
    regions = np.arange(40, dtype=np.int32).reshape(5, 8)
    same = np.arange(40, dtype=np.int32)
    found = find_pairs(count_overlaps, regions, same, regions, regions, expected=expected, sums=3)
    assert found.first.tolist() == found.second.tolist() == list(range(40))
    assert found.sums.tolist() == [[1, 1, 0]] * 40
    y, x = np.indices((40, 40), dtype=np.int32)
    nothing = np.full_like(x, -1)
    found = find_pairs(count_overlaps, y, same, x, nothing, expected=expected, sums=3)
    assert (40 * found.first + found.second).tolist() == list(range(1600))
    assert found.sums.tolist() == [[1, 0, 0]] * 1600


# associate: going on.


def test_associate_has_nothing_to_tell_of_segments_that_stay():
    warped = drawn("0011", "0011")
    result = associated(warped, warped)
    assert result.ids.tolist() == [11, 12]
    assert result.ids.dtype == np.uint32
    assert result.first_frame.tolist() == [0, 1]
    assert result.track_of.tolist() == [0, 1]
    assert events_of(result) == []
    assert result.next_id == NEXT
    assert len(result.lost.ids) == 0


def test_associate_lets_one_kept_pixel_outweigh_all_that_was_predicted():
    labels = drawn("0000", "1111")
    warped = drawn("1111", "1111")
    result = associated(labels, warped, drawn("0...", "1111"), areas=[1, 8])
    assert result.ids.tolist() == [11, 12]


def test_associate_makes_a_region_the_track_most_of_its_kept_pixels_bear():
    result = associated(drawn("00000"), drawn("00111"))
    assert result.ids.tolist() == [12]
    assert result.track_of.tolist() == [1]
    assert events_of(result) == [(MERGE, 11, 12)]


def test_associate_lets_the_lower_of_two_equal_tracks_go_on():
    result = associated(drawn("0000"), drawn("1100"))
    assert result.ids.tolist() == [11]


def test_associate_counts_a_relabelled_pixel_for_the_track_it_bears():
    """The vote moved both to track 1; what had been predicted no longer matters."""
    result = associated(drawn("0011"), drawn("0000"), drawn("1100"), areas=[2, 2])
    assert result.ids.tolist() == [12, 11]
    assert events_of(result) == []


def test_associate_gives_regions_with_kept_pixels_of_one_track_the_same_id():
    """As behind a pole: one thing, two regions."""
    result = associated(drawn("00122"), drawn("00100"))
    assert result.ids.tolist() == [11, 12, 11]
    assert result.first_frame.tolist() == [0, 1, 0]
    assert events_of(result) == []


def test_associate_lets_an_orphan_live_on_in_the_region_that_covers_most_of_it():
    warped = drawn("00000", "00000")
    result = associated(drawn("00111", "00111"), warped, np.full_like(warped, -1))
    assert result.ids.tolist() == [NEXT, 11]
    assert result.track_of.tolist() == [-1, 0]
    assert result.first_frame.tolist() == [NOW, 0]
    assert events_of(result) == [(SPLIT, NEXT, 11)]


def test_associate_lets_an_orphan_die_that_only_grazes_a_region():
    """Two pixels are less than half of eight, but all of a small region."""
    warped = drawn("00......")
    unkept = np.full_like(warped, -1)
    result = associated(drawn("00000000"), warped, unkept, areas=[8])
    assert events_of(result) == [(BIRTH, NEXT, 0), (DEATH, 11, 0)]
    assert associated(drawn("00111111"), warped, unkept, areas=[8]).ids.tolist() == [11, NEXT]


def test_associate_gives_a_region_to_one_of_two_orphans_only():
    """The one with more of it goes on, the other went into it."""
    warped = drawn("0000111")
    result = associated(drawn("0000000"), warped, np.full_like(warped, -1))
    assert result.ids.tolist() == [11]
    assert events_of(result) == [(MERGE, 12, 11)]


def test_associate_gives_no_orphan_a_region_that_has_kept_pixels():
    result = associated(drawn("000000"), drawn("100000"), drawn("1....."), areas=[5, 4])
    assert result.ids.tolist() == [12]
    assert events_of(result) == [(MERGE, 11, 12)]


# associate: coming.


def test_associate_names_the_parent_of_a_region_split_off():
    result = associated(drawn("00001"), drawn("00000"), drawn("0000."))
    assert result.ids.tolist() == [11, NEXT]
    assert result.first_frame.tolist() == [0, NOW]
    assert events_of(result) == [(SPLIT, NEXT, 11)]
    assert result.next_id == NEXT + 1


def test_associate_calls_a_region_born_that_is_less_than_half_from_one_track():
    warped = drawn("0000.....")
    result = associated(drawn("000111111"), warped, drawn("000......"))
    assert result.ids.tolist() == [11, NEXT]
    assert events_of(result) == [(BIRTH, NEXT, 0)]


def test_associate_without_a_past_finds_births_only():
    labels = drawn("001", "221")
    warped = np.full_like(labels, -1)
    result = associated(labels, warped, areas=[])
    assert result.ids.tolist() == [NEXT, NEXT + 1, NEXT + 2]
    assert events_of(result) == [(BIRTH, NEXT + k, 0) for k in range(3)]


def test_associate_names_the_lower_of_two_equal_parents():
    result = associated(drawn("001122"), drawn("000111"), drawn("00..11"))
    assert events_of(result) == [(SPLIT, NEXT, 11)]


# associate: going.


def test_associate_merges_a_swallowed_track_into_its_heir_and_does_not_remember_it():
    result = associated(drawn("0000011"), drawn("0002211"), drawn("000..11"))
    assert events_of(result) == [(MERGE, 13, 11)]
    assert len(result.lost.ids) == 0


def test_associate_tells_of_two_equal_heirs_the_first_region():
    result = associated(drawn("000111"), drawn("002211"), drawn("00..11"))
    assert events_of(result) == [(MERGE, 13, 11)]


def test_associate_lets_a_vanished_track_die_and_remembers_it():
    warped = drawn("000..")
    result = associated(drawn("00000"), warped, areas=[3, 6])
    assert events_of(result) == [(DEATH, 12, 0)]
    assert result.lost.ids.tolist() == [12]
    assert result.lost.first_frame.tolist() == [1]
    assert result.lost.last_seen.tolist() == [NOW - 1]
    assert result.lost.area.tolist() == [6]
    before = tracks_of([3, 6])
    np.testing.assert_array_equal(result.lost.predicted_centre, before.predicted_centre[1:])


def test_associate_lets_a_track_die_of_which_little_is_left_inside_another():
    """One pixel of three predicted: that is no heir."""
    result = associated(drawn("0000"), drawn("0001"), drawn("000."), areas=[3, 3])
    assert events_of(result) == [(DEATH, 12, 0)]


def test_associate_does_not_merge_a_track_with_what_hides_it():
    """Of two that are covered by another, the one that shrank before went behind it."""
    labels, warped = drawn("0000", "0000"), drawn("0012", "0012")
    refined = np.where(warped == 0, 0, -1).astype(np.int32)
    tracks = dataclasses.replace(tracks_of([4, 2, 2]), max_area=np.array([4.0, 2.0, 5.0]))
    result = associated(labels, warped, refined, tracks=tracks, at=[(0, 0, 0, 0, 0)])
    assert events_of(result) == [(MERGE, 12, 11), (DEATH, 13, 0)]
    assert result.lost.ids.tolist() == [13]
    assert result.lost.area.tolist() == [5]


def test_associate_forgets_the_longest_lost_first_where_there_are_too_many():
    most = Tuning().max_lost
    rows = [(i, NOW - 1, 0, 0) for i in range(1000, 1000 + most)]
    warped = drawn("00..")
    result = associated(drawn("0000"), warped, areas=[2, 5, 5], lost=lost_at(*rows))
    assert len(result.lost.ids) == most
    assert result.lost.ids[0] == 1002
    assert result.lost.ids[-2:].tolist() == [12, 13]


# associate: always.


def test_associate_tells_what_comes_by_region_and_then_what_goes_by_track():
    warped = drawn("00000011..", "2.........")
    labels = drawn("0000000012", "0000000033")
    refined = drawn("000000....", "..........")
    result = associated(labels, warped, refined, areas=[6, 2, 4, 9])
    assert events_of(result) == [
        (BIRTH, NEXT, 0),
        (BIRTH, NEXT + 1, 0),
        (BIRTH, NEXT + 2, 0),
        (MERGE, 12, 11),
        (DEATH, 13, 0),
        (DEATH, 14, 0),
    ]


def test_associate_counts_many_more_pairs_than_there_are_tracks():
    """Forty rows over forty columns: 1600 pairs, more than there is room for at first."""
    y, x = np.indices((40, 40), dtype=np.int32)
    refined = np.where(y == x, x, -1).astype(np.int32)
    result = associated(y, x, refined)
    assert result.ids.tolist() == list(range(11, 51))
    assert events_of(result) == []


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 6))
def test_associate_accounts_for_every_identity(seed, new, old):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, new, (4, 8)).astype(np.int32)
    labels.flat[:new] = np.arange(new)
    warped = rng.integers(-1, old, (4, 8)).astype(np.int32)
    refined = np.where(rng.random((4, 8)) < rng.random(), warped, -1).astype(np.int32)
    areas = rng.integers(1, 12, old)
    lost = lost_at((7, NOW - 2, 50, 0), (8, NOW - 3, 52, 0), (9, NOW - 5, 50, 0))
    at = [(rng.uniform(40, 60), 0, 0, 0, 0) for _ in range(new)]
    first, second = (
        associated(labels, warped, refined, areas=areas, lost=lost, at=at) for _ in range(2)
    )
    assert first.events.tobytes() == second.events.tobytes()

    before, now = set(range(11, 11 + old)), set(first.ids.tolist())
    told = {kind: {e[1] for e in events_of(first) if e[0] == kind} for kind in EventKind}
    assert sum(map(len, told.values())) == len(first.events)
    assert now - before == told[BIRTH] | told[SPLIT] | told[RETURN]
    assert before - now == told[DEATH] | told[MERGE]
    fresh = told[BIRTH] | told[SPLIT]
    assert fresh == set(range(NEXT, first.next_id))
    assert told[RETURN] <= {7, 8}
    assert set(first.lost.ids.tolist()) == ({7, 8} - told[RETURN]) | told[DEATH]
    for kind, _, other in events_of(first):
        assert (other in now) if kind in (SPLIT, MERGE) else other == 0
    for a, b in zip(first.ids, first.track_of, strict=True):
        assert (b >= 0) or int(a) not in before
        assert (b < 0) or int(a) in before | told[RETURN]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (4, 4)])
@pytest.mark.parametrize("step", [0, 1])
def test_segmenter_keeps_the_id_of_the_smallest_pictures_while_their_colour_hardly_changes(
    shape, step
):
    """Over a full turn of being re-estimated, too."""
    segmenter = Segmenter(Params().updated({"stream": {"refresh": 8}}))
    for t in range(20):
        result = segmenter.step(np.full((*shape, 3), 100 + step * t, np.uint8))
        assert (result.ids == 1).all()
        assert len(result.events) == (t == 0)

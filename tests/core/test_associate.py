"""Identities on hand-made maps: who goes on, who is new, who is gone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aaams_stream.core.associate import _MOST_LOST, Lost, Table, settle
from aaams_stream.core.mean_shift import Modes, base_precision
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.model import EventKind
from aaams_stream.params import Params

BIRTH, DEATH, SPLIT, MERGE, RETURN = list(EventKind)[:5]
PARAMS = Params().updated({"time": {"epsilon2": 9.0}})  # three frames to come back
NOW, NEXT = 10, 100


def drawn(*rows):
    """Return the map whose rows are strings: digits are labels, . is -1."""
    return np.array([[-1 if c == "." else int(c) for c in row] for row in rows], np.int32)


def modes_at(locations):
    """Return modes L, a, b, x, y with the base bandwidth."""
    location = np.array(locations, np.float32).reshape(-1, 5)
    k = len(location)
    precision = np.tile(base_precision(PARAMS), (k, 1))
    return Modes(location, precision, np.zeros((k, 15), np.float32), np.ones(k, np.float32))


def colours_of(modes):
    """Return the colours of segments whose mean is their mode, with the base bandwidth."""
    return np.hstack([modes.location[:, :3], modes.precision[:, :6]])


def table_of(areas):
    """Return a table with label i of id 11 + i, born in frame i."""
    k = len(areas)
    modes = modes_at([(10 * i, 0, 0, 4 * i, 0) for i in range(k)])
    return Table(
        ids=np.arange(11, 11 + k, dtype=np.uint32),
        born=np.arange(k),
        area=np.array(areas, np.int64),
        location=modes.location,
        precision=modes.precision,
        moments=modes.moments,
        density=modes.density,
        colours=colours_of(modes),
        spread=np.zeros(k),
        checked=np.zeros(k, np.int64),
        peak=np.array(areas, np.float64),
        motion=np.zeros((k, 2)),
        anchor=modes.location[:, 3:].astype(np.float64),
    )


def lost_at(*rows, area=8, motion=(0, 0)):
    """Return a memory of rows (id, frame last seen, L, x)."""
    ids, seen, lightness, x = np.array(rows, np.float64).reshape(-1, 4).T
    zero = np.zeros(len(rows))
    modes = modes_at(np.stack([lightness, zero, zero, x, zero], axis=1))
    return Lost(
        ids=ids.astype(np.uint32),
        born=np.full(len(rows), 2),
        seen=seen.astype(np.int64),
        area=np.full(len(rows), area),
        anchor=modes.location[:, 3:].astype(np.float64),
        colours=colours_of(modes),
        motion=np.tile(np.array(motion, np.float64), (len(rows), 1)),
    )


def settled(pieces, prior, labels=None, *, areas=None, lost=None, at=None, index=NOW):
    """Settle maps; areas: of the table, by default those of `prior`; at: modes of the pieces."""
    labels = prior if labels is None else labels
    size = np.bincount(pieces.ravel())
    if areas is None:
        areas = np.bincount(prior[prior >= 0], minlength=int(prior.max()) + 1)
    modes = modes_at([(90, 90, 90, 0, 0)] * len(size) if at is None else at)
    memory = Lost.empty() if lost is None else lost
    return settle(
        pieces,
        prior,
        labels,
        modes.location[:, 3:].astype(np.float64),
        colours_of(modes),
        size,
        table_of(areas),
        memory,
        index,
        NEXT,
        PARAMS,
    )


def events_of(result):
    return [(EventKind(kind), id_, other) for kind, id_, other in result.events.tolist()]


# Going on.


def test_nothing_happens_to_segments_that_stay():
    prior = drawn("0011", "0011")
    result = settled(prior, prior)
    assert result.ids.tolist() == [11, 12]
    assert result.ids.dtype == np.uint32
    assert result.born.tolist() == [0, 1]
    assert result.old.tolist() == [0, 1]
    assert events_of(result) == []
    assert result.next_id == NEXT
    assert len(result.lost.ids) == 0


def test_one_kept_pixel_outweighs_all_that_was_predicted():
    pieces = drawn("0000", "1111")
    prior = drawn("1111", "1111")
    result = settled(pieces, prior, drawn("0...", "1111"), areas=[1, 8])
    assert result.ids.tolist() == [11, 12]


def test_a_piece_is_the_segment_most_of_its_kept_pixels_bear():
    labels = drawn("00111")
    result = settled(drawn("00000"), labels)
    assert result.ids.tolist() == [12]
    assert result.old.tolist() == [1]
    assert events_of(result) == [(MERGE, 11, 12)]


def test_of_equally_many_the_lower_label_goes_on():
    result = settled(drawn("0000"), drawn("1100"))
    assert result.ids.tolist() == [11]


def test_a_voted_pixel_counts_for_the_label_it_bears():
    """The vote moved both to label 1; what had been predicted no longer matters."""
    result = settled(drawn("0011"), drawn("0000"), drawn("1100"), areas=[2, 2])
    assert result.ids.tolist() == [12, 11]
    assert events_of(result) == []


def test_pieces_with_kept_pixels_of_one_segment_share_its_id():
    """As behind a pole: one thing, two pieces."""
    result = settled(drawn("00122"), drawn("00100"))
    assert result.ids.tolist() == [11, 12, 11]
    assert result.born.tolist() == [0, 1, 0]
    assert events_of(result) == []


def test_an_orphan_lives_on_in_the_piece_that_covers_most_of_it():
    prior = drawn("00000", "00000")
    result = settled(drawn("00111", "00111"), prior, np.full_like(prior, -1))
    assert result.ids.tolist() == [NEXT, 11]
    assert result.old.tolist() == [-1, 0]
    assert result.born.tolist() == [NOW, 0]
    assert events_of(result) == [(SPLIT, NEXT, 11)]


def test_an_orphan_that_only_grazes_a_piece_is_gone():
    """Two pixels are less than half of eight, but all of a small piece."""
    prior = drawn("00......")
    unkept = np.full_like(prior, -1)
    result = settled(drawn("00000000"), prior, unkept, areas=[8])
    assert events_of(result) == [(BIRTH, NEXT, 0), (DEATH, 11, 0)]
    assert settled(drawn("00111111"), prior, unkept, areas=[8]).ids.tolist() == [11, NEXT]


def test_two_orphans_do_not_share_a_piece():
    """The one with more of it goes on, the other went into it."""
    prior = drawn("0000111")
    result = settled(drawn("0000000"), prior, np.full_like(prior, -1))
    assert result.ids.tolist() == [11]
    assert events_of(result) == [(MERGE, 12, 11)]


def test_an_orphan_does_not_take_a_piece_that_has_kept_pixels():
    result = settled(drawn("000000"), drawn("100000"), drawn("1....."), areas=[5, 4])
    assert result.ids.tolist() == [12]
    assert events_of(result) == [(MERGE, 11, 12)]


# Coming.


def test_a_piece_split_off_names_its_parent():
    result = settled(drawn("00001"), drawn("00000"), drawn("0000."))
    assert result.ids.tolist() == [11, NEXT]
    assert result.born.tolist() == [0, NOW]
    assert events_of(result) == [(SPLIT, NEXT, 11)]
    assert result.next_id == NEXT + 1


def test_a_piece_less_than_half_from_one_segment_is_born():
    prior = drawn("0000.....")
    result = settled(drawn("000111111"), prior, drawn("000......"))
    assert result.ids.tolist() == [11, NEXT]
    assert events_of(result) == [(BIRTH, NEXT, 0)]


def test_a_picture_without_a_past_is_all_births():
    pieces = drawn("001", "221")
    prior = np.full_like(pieces, -1)
    result = settled(pieces, prior, areas=[])
    assert result.ids.tolist() == [NEXT, NEXT + 1, NEXT + 2]
    assert events_of(result) == [(BIRTH, NEXT + k, 0) for k in range(3)]


def test_of_two_equal_parents_it_names_the_one_with_the_lower_label():
    result = settled(drawn("001122"), drawn("000111"), drawn("00..11"))
    assert events_of(result) == [(SPLIT, NEXT, 11)]


# Going.


def test_a_swallowed_segment_merges_into_its_heir_and_is_not_remembered():
    result = settled(drawn("0000011"), drawn("0002211"), drawn("000..11"))
    assert events_of(result) == [(MERGE, 13, 11)]
    assert len(result.lost.ids) == 0


def test_of_two_equal_heirs_the_first_piece_is_told():
    result = settled(drawn("000111"), drawn("002211"), drawn("00..11"))
    assert events_of(result) == [(MERGE, 13, 11)]


def test_a_vanished_segment_dies_and_is_remembered():
    prior = drawn("000..")
    result = settled(drawn("00000"), prior, areas=[3, 6])
    assert events_of(result) == [(DEATH, 12, 0)]
    assert result.lost.ids.tolist() == [12]
    assert result.lost.born.tolist() == [1]
    assert result.lost.seen.tolist() == [NOW - 1]
    assert result.lost.area.tolist() == [6]
    np.testing.assert_array_equal(result.lost.anchor, table_of([3, 6]).anchor[1:])


def test_a_segment_of_which_little_is_left_inside_another_dies():
    """One pixel of three predicted: that is no heir."""
    result = settled(drawn("0000"), drawn("0001"), drawn("000."), areas=[3, 3])
    assert events_of(result) == [(DEATH, 12, 0)]


def test_memory_is_bounded_and_the_longest_lost_go_first():
    rows = [(i, NOW - 1, 0, 0) for i in range(1000, 1000 + _MOST_LOST)]
    prior = drawn("00..")
    result = settled(drawn("0000"), prior, areas=[2, 5, 5], lost=lost_at(*rows))
    assert len(result.lost.ids) == _MOST_LOST
    assert result.lost.ids[0] == 1002
    assert result.lost.ids[-2:].tolist() == [12, 13]


# Coming back.


def returned(*rows, at, area=8, motion=(0, 0), index=NOW):
    """Settle pieces of eight pixels, none of them known, with rows lost; at: (L, x) of each."""
    pieces = np.repeat(np.arange(len(at), dtype=np.int32), 8)[None]
    prior = np.full_like(pieces, -1)
    modes = [(lightness, 0, 0, x, 0) for lightness, x in at]
    lost = lost_at(*rows, area=area, motion=motion)
    return settled(pieces, prior, areas=[], lost=lost, at=modes, index=index)


def test_a_lost_segment_of_like_colour_and_place_comes_back():
    result = returned((7, NOW - 2, 50, 20), at=[(51, 22)])
    assert result.ids.tolist() == [7]
    assert result.born.tolist() == [2]
    assert result.old.tolist() == [-1]
    assert events_of(result) == [(RETURN, 7, 0)]
    assert result.next_id == NEXT
    assert len(result.lost.ids) == 0


@pytest.mark.parametrize(("seen", "back"), [(NOW - 3, True), (NOW - 4, False), (0, False)])
def test_it_comes_back_in_time_or_never(seen, back):
    result = returned((7, seen, 50, 20), at=[(50, 20)])
    assert result.ids.tolist() == [7 if back else NEXT]
    assert len(result.lost.ids) == 0


def test_it_is_forgotten_when_its_time_is_over():
    for seen, left in ((NOW - 3, 1), (NOW - 4, 0)):
        assert len(returned((7, seen, 50, 20), at=[(0, 0)]).lost.ids) == left


@pytest.mark.parametrize("area", [2, 25])
def test_one_of_another_size_does_not_come_back(area):
    result = returned((7, NOW - 2, 50, 20), at=[(50, 20)], area=area)
    assert events_of(result) == [(BIRTH, NEXT, 0)]
    assert result.lost.ids.tolist() == [7]


def test_sizes_may_differ_threefold():
    for area in (3, 24):
        assert returned((7, NOW - 2, 50, 20), at=[(50, 20)], area=area).ids.tolist() == [7]


def test_one_of_another_colour_does_not_come_back():
    sigma = PARAMS.colour.sigma2**0.5
    for off, expected in ((1.15, 7), (1.25, NEXT), (-1.15, 7), (-1.25, NEXT)):
        result = returned((7, NOW - 2, 50, 20), at=[(50 + off * sigma, 20)])
        assert result.ids.tolist() == [expected], off


def test_the_place_may_be_the_further_off_the_longer_it_was_away():
    """Two σ: a tenth of its area, and four pixels for each frame."""
    for frames in (2, 3):
        reach = 2 * (0.1 * 8 + (4 * frames) ** 2) ** 0.5
        for share, expected in ((0.99, 7), (1.01, NEXT)):
            result = returned((7, NOW - frames, 50, 20), at=[(50, 20 + share * reach)])
            assert result.ids.tolist() == [expected], (frames, share)


def test_it_is_sought_where_its_motion_would_have_brought_it():
    for x, expected in ((20 + 2 * 30, 7), (20, NEXT)):
        result = returned((7, NOW - 2, 50, 20), at=[(50, x)], motion=(30, 0))
        assert result.ids.tolist() == [expected], x


def test_a_segment_that_shrank_away_is_remembered_at_its_largest():
    before = table_of([100, 100])
    shrunk = dataclasses.replace(table_of([4, 4]), peak=np.array([4.0, 4.0]))
    table = shrunk.after(before, np.array([1, -1]), np.zeros((2, 2)), NOW)
    assert table.peak.tolist() == [90.0, 4.0]


def test_what_hides_a_segment_does_not_merge_with_it():
    """Of two that are covered by another, the one that shrank before went behind it."""
    pieces, prior = drawn("0000", "0000"), drawn("0012", "0012")
    kept = np.where(prior == 0, 0, -1).astype(np.int32)
    table = dataclasses.replace(table_of([4, 2, 2]), peak=np.array([4.0, 2.0, 5.0]))
    modes = modes_at([(0, 0, 0, 0, 0)])
    result = settle(
        *(pieces, prior, kept, modes.location[:, 3:].astype(np.float64), colours_of(modes)),
        *(np.array([8]), table, Lost.empty(), NOW, NEXT, PARAMS),
    )
    assert events_of(result) == [(MERGE, 12, 11), (DEATH, 13, 0)]
    assert result.lost.ids.tolist() == [13]
    assert result.lost.area.tolist() == [5]


def test_motion_is_a_mean_of_late_and_stays_what_it_was_while_partly_hidden():
    before = dataclasses.replace(
        table_of([100, 100, 100]),
        born=np.array([0, 0, NOW - 1]),
        motion=np.array([[6.0, 2.0], [6.0, 2.0], [0.0, 0.0]]),
    )
    now = table_of([95, 60, 60])
    table = now.after(before, np.arange(3), np.tile([2.0, 0.0], (3, 1)), NOW)
    assert table.motion.tolist() == [[4.0, 1.0], [6.0, 2.0], [2.0, 0.0]]


def test_the_nearest_piece_comes_back_and_only_that():
    result = returned((7, NOW - 2, 50, 20), at=[(53, 20), (51, 20), (52, 20)])
    assert result.ids.tolist() == [NEXT, 7, NEXT + 1]
    assert events_of(result) == [(BIRTH, NEXT, 0), (RETURN, 7, 0), (BIRTH, NEXT + 1, 0)]


def test_each_piece_gets_the_nearest_of_the_lost_that_are_left():
    """Piece 0 is nearest to both; the nearer takes it, the other has to take piece 1."""
    rows = [(7, NOW - 2, 51.5, 20), (8, NOW - 2, 50, 20)]
    assert returned(*rows, at=[(50, 20), (48.5, 20)]).ids.tolist() == [8, 7]


def test_a_piece_with_a_known_segment_never_comes_back_as_another():
    prior = drawn("00000000")
    lost = lost_at((7, NOW - 2, 0, 0))
    result = settled(prior, prior, lost=lost, at=[(0, 0, 0, 0, 0)])
    assert result.ids.tolist() == [11]
    assert result.lost.ids.tolist() == [7]


def test_a_segment_that_motion_mislaid_is_found_in_the_same_frame():
    result = settled(drawn("00000"), drawn("....."), areas=[5], at=[(0, 0, 0, 0, 0)])
    assert result.ids.tolist() == [11]
    assert result.old.tolist() == [0]
    assert events_of(result) == []
    assert len(result.lost.ids) == 0


def test_a_segment_that_vanishes_comes_back_later():
    result = settled(drawn("00000"), drawn("....."), areas=[5], at=[(90, 0, 0, 0, 0)])
    assert events_of(result) == [(BIRTH, NEXT, 0), (DEATH, 11, 0)]
    again = settled(
        drawn("00000"), drawn("....."), areas=[], lost=result.lost, at=[(0, 0, 0, 0, 0)], index=11
    )
    assert events_of(again) == [(RETURN, 11, 0)]


# Hidden in part, and young.


def behind(shown, peak=16, *, at, born=1, colour=0, area=4, index=NOW):
    """Settle segment 11, of which `shown` of `peak` pixels show, beside a piece 12 or a new one.

    at: place x of the other piece, `area` pixels large; born: its frame, NOW if it is new.
    """
    table = table_of([shown, area][: 1 + (born < index)])
    peaks = table.peak.copy()
    peaks[0] = peak
    births = np.array([0, born])[: len(peaks)]
    table = dataclasses.replace(table, peak=peaks, born=births)
    pieces = np.repeat(np.array([0, 1], np.int32), [shown, area])[None]
    labels = np.where((pieces == 1) & (born >= index), -1, pieces).astype(np.int32)
    modes = modes_at([(0, 0, 0, 0, 0), (colour, 0, 0, at, 0)])
    return settle(
        pieces,
        labels,
        labels,
        modes.location[:, 3:].astype(np.float64),
        colours_of(modes),
        np.array([shown, area]),
        table,
        Lost.empty(),
        index,
        NEXT,
        PARAMS,
    )


def test_what_comes_out_from_behind_something_is_the_segment_that_is_hidden():
    result = behind(8, at=5, born=NOW)
    assert result.ids.tolist() == [11, 11]
    assert result.born.tolist() == [0, 0]
    assert result.old.tolist() == [0, 0]
    assert events_of(result) == []


@pytest.mark.parametrize(
    "other",
    [
        {"shown": 15},  # hardly anything is hidden
        {"shown": 13},  # less is hidden than comes out
        {"at": 5.7},  # 2.5 radii of a disc of 16 pixels are 5.64
        {"colour": 1.05 * PARAMS.colour.sigma2**0.5},
    ],
)
def test_what_is_another_thing_is_new(other):
    result = behind(**({"shown": 8, "at": 5, "born": NOW} | other))
    assert result.ids.tolist() == [11, NEXT]


def test_a_young_segment_may_turn_out_to_be_part_of_an_older_one():
    for age, expected in ((5, [11, 11]), (6, [11, 12])):
        result = behind(8, at=5, born=NOW - age)
        assert result.ids.tolist() == expected
    result = behind(8, at=5, born=NOW - 5)
    assert result.old.tolist() == [0, 0]
    assert events_of(result) == [(MERGE, 12, 11)]


def test_of_two_parts_only_as_much_returns_as_is_hidden():
    pieces = drawn("000011112222")
    labels = drawn("0000........")
    table = dataclasses.replace(table_of([4]), peak=np.array([9.0]))
    modes = modes_at([(0, 0, 0, 0, 0), (0, 0, 0, 3, 0), (0, 0, 0, 2, 0)])
    places = modes.location[:, 3:].astype(np.float64)
    areas = np.array([4, 4, 4])
    result = settle(
        *(pieces, labels, labels, places, colours_of(modes), areas, table),
        *(Lost.empty(), NOW, NEXT, PARAMS),
    )
    assert result.ids.tolist() == [11, NEXT, 11]


def test_a_young_segment_may_turn_out_to_be_a_lost_one():
    prior = drawn("0000000011111111")
    at = [(90, 90, 90, 0, 0), (51, 0, 0, 22, 0)]
    lost = lost_at((7, NOW - 2, 50, 20))
    table = dataclasses.replace(table_of([8, 8]), born=np.array([0, NOW - 3]))
    modes = modes_at(at)
    places = modes.location[:, 3:].astype(np.float64)
    areas = np.array([8, 8])
    result = settle(
        *(prior, prior, prior, places, colours_of(modes), areas, table),
        *(lost, NOW, NEXT, PARAMS),
    )
    assert result.ids.tolist() == [11, 7]
    assert result.born.tolist() == [0, 2]
    assert result.old.tolist() == [0, 1]
    assert events_of(result) == [(RETURN, 7, 0), (MERGE, 12, 7)]
    assert len(result.lost.ids) == 0


def test_what_splits_off_a_segment_that_turns_out_to_be_another_is_told_of_that():
    prior = drawn("0000000011111111")
    labels = drawn("0000000011111...")
    pieces = drawn("0000000011111222")
    table = dataclasses.replace(table_of([8, 8]), born=np.array([0, NOW - 3]))
    modes = modes_at([(90, 90, 90, 0, 0), (50, 0, 0, 20, 0), (-90, 0, 0, 0, 0)])
    places = modes.location[:, 3:].astype(np.float64)
    result = settle(
        *(pieces, prior, labels, places, colours_of(modes), np.array([8, 5, 3]), table),
        *(lost_at((7, NOW - 2, 50, 20)), NOW, NEXT, PARAMS),
    )
    assert result.ids.tolist() == [11, 7, NEXT]
    assert events_of(result) == [(RETURN, 7, 0), (SPLIT, NEXT, 7), (MERGE, 12, 7)]


def test_a_hidden_segment_is_thought_of_where_the_whole_would_be():
    before = dataclasses.replace(table_of([100, 100]), motion=np.array([[3.0, 1.0]] * 2))
    now = table_of([60, 95])
    now = dataclasses.replace(now, peak=now.area.astype(np.float64), anchor=now.anchor + 50)
    table = now.after(before, np.array([0, 1]), np.zeros((2, 2)), NOW)
    np.testing.assert_allclose(table.anchor[0], before.anchor[0] + [3, 1])
    np.testing.assert_allclose(table.anchor[1], now.anchor[1])


def test_colours_are_remembered_so_that_a_segment_does_not_drift():
    before, now = table_of([10, 10]), table_of([10, 10])
    now = dataclasses.replace(now, colours=before.colours + np.float32(10))
    table = now.after(before, np.array([1, -1]), np.zeros((2, 2)), NOW)
    kept = 0.8 * before.colours[1] + 0.2 * now.colours[0]
    np.testing.assert_allclose(table.colours[0], kept, rtol=1e-5)
    np.testing.assert_array_equal(table.colours[1], now.colours[1])


# Always.


def test_what_comes_is_told_by_piece_and_then_what_goes_by_label():
    prior = drawn("00000011..", "2.........")
    pieces = drawn("0000000012", "0000000033")
    labels = drawn("000000....", "..........")
    result = settled(pieces, prior, labels, areas=[6, 2, 4, 9])
    assert events_of(result) == [
        (BIRTH, NEXT, 0),
        (BIRTH, NEXT + 1, 0),
        (BIRTH, NEXT + 2, 0),
        (MERGE, 12, 11),
        (DEATH, 13, 0),
        (DEATH, 14, 0),
    ]


def test_many_more_pairs_than_segments_are_all_counted():
    """Forty rows over forty columns: 1600 pairs, more than there is room for at first."""
    y, x = np.indices((40, 40), dtype=np.int32)
    labels = np.where(y == x, x, -1).astype(np.int32)
    result = settled(y, x, labels)
    assert result.ids.tolist() == list(range(11, 51))
    assert events_of(result) == []


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 6))
def test_every_identity_is_accounted_for(seed, new, old):
    rng = np.random.default_rng(seed)
    pieces = rng.integers(0, new, (4, 8)).astype(np.int32)
    pieces.flat[:new] = np.arange(new)
    prior = rng.integers(-1, old, (4, 8)).astype(np.int32)
    labels = np.where(rng.random((4, 8)) < rng.random(), prior, -1).astype(np.int32)
    areas = rng.integers(1, 12, old)
    lost = lost_at((7, NOW - 2, 50, 0), (8, NOW - 3, 52, 0), (9, NOW - 5, 50, 0))
    at = [(rng.uniform(40, 60), 0, 0, 0, 0) for _ in range(new)]
    first, second = (
        settled(pieces, prior, labels, areas=areas, lost=lost, at=at) for _ in range(2)
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
    for a, b in zip(first.ids, first.old, strict=True):
        assert (b >= 0) or int(a) not in before
        assert (b < 0) or int(a) in before | told[RETURN]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (4, 4)])
@pytest.mark.parametrize("step", [0, 1])
def test_the_smallest_pictures_keep_their_id_while_their_colour_hardly_changes(shape, step):
    """Over a full turn of being decided afresh, too."""
    segmenter = Segmenter(Params().updated({"stream": {"refresh": 8}}))
    for t in range(20):
        result = segmenter.step(np.full((*shape, 3), 100 + step * t, np.uint8))
        assert (result.ids == 1).all()
        assert len(result.events) == (t == 0)

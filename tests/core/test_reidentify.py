"""Regions that turn out to be tracks which were lost, or are partly hidden."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.label_maps import drawn
from support.tracks import NEXT, NOBODY, NOW, PARAMS, associated, events_of, lost_at, tracks_of

from aaams_stream.kernels.associate import find_near
from aaams_stream.model import EventKind

BIRTH, DEATH, SPLIT, MERGE, RETURN = list(EventKind)[:5]


# find_near.


@given(st.integers(0, 2**32 - 1), st.integers(0, 7), st.integers(0, 7))
def test_find_near_lists_the_pairs_that_outer_products_tell_to_be_near(seed, count, tracks):
    """None of either among them; on whole numbers, so that some lie just at the limit."""
    rng = np.random.default_rng(seed)
    places, expected = (rng.integers(-3, 4, (n, 2)).astype(np.float64) for n in (count, tracks))
    frames, first_frames = (rng.integers(0, 4, n) for n in (count, tracks))
    units = 2.0 ** rng.integers(-1, 4, tracks)
    across, down = (np.subtract.outer(places[:, k], expected[:, k]) for k in (0, 1))
    off = (across**2 + down**2) / units
    near = (off <= 2.0) & np.less.outer(first_frames, frames).T
    mine, theirs = np.full((2, count * tracks), -1)
    gap = np.full(count * tracks, -1.0)
    found = find_near(places, frames, expected, units, first_frames, 2.0, mine, theirs, gap)
    assert found == np.count_nonzero(near)
    np.testing.assert_array_equal([mine[:found], theirs[:found]], np.nonzero(near))
    np.testing.assert_array_equal(gap[:found], off[near])
    assert (gap[found:] == -1).all()


# reidentify: lost tracks that come back.


def reidentified(*rows, at, area=8, motion=(0, 0), index=NOW):
    """Associate regions of eight pixels, none of them known, with rows lost; at: (L, x) of each."""
    labels = np.repeat(np.arange(len(at), dtype=np.int32), 8)[None]
    warped = np.full_like(labels, -1)
    modes = [(lightness, 0, 0, x, 0) for lightness, x in at]
    lost = lost_at(*rows, area=area, motion=motion)
    return associated(labels, warped, areas=[], lost=lost, at=modes, index=index)


def test_reidentify_finds_a_lost_track_of_like_colour_and_place():
    result = reidentified((7, NOW - 2, 50, 20), at=[(51, 22)])
    assert result.ids.tolist() == [7]
    assert result.first_frame.tolist() == [2]
    assert result.track_of.tolist() == [-1]
    assert events_of(result) == [(RETURN, 7, 0)]
    assert result.next_id == NEXT
    assert len(result.lost.ids) == 0


@pytest.mark.parametrize(("last_seen", "back"), [(NOW - 3, True), (NOW - 4, False), (0, False)])
def test_reidentify_finds_a_track_in_time_or_never(last_seen, back):
    result = reidentified((7, last_seen, 50, 20), at=[(50, 20)])
    assert result.ids.tolist() == [7 if back else NEXT]
    assert len(result.lost.ids) == 0


def test_lost_tracks_are_forgotten_when_their_time_is_over():
    for last_seen, left in ((NOW - 3, 1), (NOW - 4, 0)):
        assert len(reidentified((7, last_seen, 50, 20), at=[(0, 0)]).lost.ids) == left


@pytest.mark.parametrize("area", [2, 25])
def test_reidentify_takes_no_region_of_another_size(area):
    result = reidentified((7, NOW - 2, 50, 20), at=[(50, 20)], area=area)
    assert events_of(result) == [(BIRTH, NEXT, 0)]
    assert result.lost.ids.tolist() == [7]


def test_reidentify_lets_sizes_differ_threefold():
    for area in (3, 24):
        assert reidentified((7, NOW - 2, 50, 20), at=[(50, 20)], area=area).ids.tolist() == [7]


def test_reidentify_takes_no_region_of_another_colour():
    sigma = PARAMS.colour.sigma2**0.5
    for off, expected in ((1.15, 7), (1.25, NEXT), (-1.15, 7), (-1.25, NEXT)):
        result = reidentified((7, NOW - 2, 50, 20), at=[(50 + off * sigma, 20)])
        assert result.ids.tolist() == [expected], off


def test_reidentify_lets_the_place_be_the_further_off_the_longer_a_track_was_away():
    """Two σ: a tenth of its area, and four pixels for each frame."""
    for frames in (2, 3):
        reach = 2 * (0.1 * 8 + (4 * frames) ** 2) ** 0.5
        for share, expected in ((0.99, 7), (1.01, NEXT)):
            result = reidentified((7, NOW - frames, 50, 20), at=[(50, 20 + share * reach)])
            assert result.ids.tolist() == [expected], (frames, share)


def test_reidentify_looks_where_its_motion_would_have_brought_a_track():
    for x, expected in ((20 + 2 * 30, 7), (20, NEXT)):
        result = reidentified((7, NOW - 2, 50, 20), at=[(50, x)], motion=(30, 0))
        assert result.ids.tolist() == [expected], x


def test_reidentify_takes_the_nearest_region_and_only_that():
    result = reidentified((7, NOW - 2, 50, 20), at=[(53, 20), (51, 20), (52, 20)])
    assert result.ids.tolist() == [NEXT, 7, NEXT + 1]
    assert events_of(result) == [(BIRTH, NEXT, 0), (RETURN, 7, 0), (BIRTH, NEXT + 1, 0)]


def test_reidentify_gives_each_region_the_nearest_of_the_lost_that_are_left():
    """Region 0 is nearest to both; the nearer takes it, the other has to take region 1."""
    rows = [(7, NOW - 2, 51.5, 20), (8, NOW - 2, 50, 20)]
    assert reidentified(*rows, at=[(50, 20), (48.5, 20)]).ids.tolist() == [8, 7]


def test_reidentify_never_takes_a_region_of_a_known_track():
    warped = drawn("00000000")
    lost = lost_at((7, NOW - 2, 0, 0))
    result = associated(warped, warped, lost=lost, at=[(0, 0, 0, 0, 0)])
    assert result.ids.tolist() == [11]
    assert result.lost.ids.tolist() == [7]


def test_reidentify_finds_a_track_that_the_flow_lost_in_the_same_frame():
    result = associated(drawn("00000"), drawn("....."), areas=[5], at=[(0, 0, 0, 0, 0)])
    assert result.ids.tolist() == [11]
    assert result.track_of.tolist() == [0]
    assert events_of(result) == []
    assert len(result.lost.ids) == 0


def test_reidentify_finds_a_track_later_that_had_vanished():
    result = associated(drawn("00000"), drawn("....."), areas=[5], at=[(90, 0, 0, 0, 0)])
    assert events_of(result) == [(BIRTH, NEXT, 0), (DEATH, 11, 0)]
    again = associated(
        drawn("00000"), drawn("....."), areas=[], lost=result.lost, at=[(0, 0, 0, 0, 0)], index=11
    )
    assert events_of(again) == [(RETURN, 11, 0)]


def test_reidentify_lets_a_young_track_turn_out_to_be_a_lost_one():
    warped = drawn("0000000011111111")
    at = [NOBODY, (51, 0, 0, 22, 0)]
    lost = lost_at((7, NOW - 2, 50, 20))
    tracks = dataclasses.replace(tracks_of([8, 8]), first_frame=np.array([0, NOW - 3]))
    result = associated(warped, warped, tracks=tracks, lost=lost, at=at)
    assert result.ids.tolist() == [11, 7]
    assert result.first_frame.tolist() == [0, 2]
    assert result.track_of.tolist() == [0, 1]
    assert events_of(result) == [(RETURN, 7, 0), (MERGE, 12, 7)]
    assert len(result.lost.ids) == 0


def test_what_splits_off_a_track_that_turns_out_to_be_another_is_told_of_that():
    warped = drawn("0000000011111111")
    refined = drawn("0000000011111...")
    labels = drawn("0000000011111222")
    tracks = dataclasses.replace(tracks_of([8, 8]), first_frame=np.array([0, NOW - 3]))
    at = [NOBODY, (50, 0, 0, 20, 0), (-90, 0, 0, 0, 0)]
    lost = lost_at((7, NOW - 2, 50, 20))
    result = associated(labels, warped, refined, tracks=tracks, lost=lost, at=at)
    assert result.ids.tolist() == [11, 7, NEXT]
    assert events_of(result) == [(RETURN, 7, 0), (SPLIT, NEXT, 7), (MERGE, 12, 7)]


# match_disoccluded: parts that come out from behind something.


def disoccluded(shown, max_area=16, *, at, first_frame=1, colour=0, area=4, index=NOW):
    """Associate track 11, of which `shown` of `max_area` pixels show, and another region.

    The other is track 12, or new. at: its place x; area: its pixels; first_frame: its own, NOW if
    it is new.
    """
    tracks = tracks_of([shown, area][: 1 + (first_frame < index)])
    max_areas = tracks.max_area.copy()
    max_areas[0] = max_area
    first_frames = np.array([0, first_frame])[: len(max_areas)]
    tracks = dataclasses.replace(tracks, max_area=max_areas, first_frame=first_frames)
    labels = np.repeat(np.array([0, 1], np.int32), [shown, area])[None]
    warped = np.where((labels == 1) & (first_frame >= index), -1, labels).astype(np.int32)
    modes = [(0, 0, 0, 0, 0), (colour, 0, 0, at, 0)]
    return associated(labels, warped, tracks=tracks, at=modes, index=index)


def test_match_disoccluded_gives_what_comes_out_to_the_track_that_is_hidden():
    result = disoccluded(8, at=5, first_frame=NOW)
    assert result.ids.tolist() == [11, 11]
    assert result.first_frame.tolist() == [0, 0]
    assert result.track_of.tolist() == [0, 0]
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
def test_match_disoccluded_takes_nothing_that_is_another_thing(other):
    result = disoccluded(**({"shown": 8, "at": 5, "first_frame": NOW} | other))
    assert result.ids.tolist() == [11, NEXT]


def test_match_disoccluded_lets_a_young_track_turn_out_to_be_part_of_an_older_one():
    for age, expected in ((5, [11, 11]), (6, [11, 12])):
        result = disoccluded(8, at=5, first_frame=NOW - age)
        assert result.ids.tolist() == expected
    result = disoccluded(8, at=5, first_frame=NOW - 5)
    assert result.track_of.tolist() == [0, 0]
    assert events_of(result) == [(MERGE, 12, 11)]


def test_match_disoccluded_takes_of_two_parts_only_as_much_as_is_hidden():
    labels = drawn("000011112222")
    warped = drawn("0000........")
    tracks = dataclasses.replace(tracks_of([4]), max_area=np.array([9.0]))
    at = [(0, 0, 0, 0, 0), (0, 0, 0, 3, 0), (0, 0, 0, 2, 0)]
    result = associated(labels, warped, tracks=tracks, at=at)
    assert result.ids.tolist() == [11, NEXT, 11]

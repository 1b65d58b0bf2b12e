"""Which part of a frame is re-estimated though it was explained."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tracks import propagated, state_of, tracks_of

from aaams_stream.core.propagate import REFRESH as DROPPED
from aaams_stream.core.propagate import RELABEL
from aaams_stream.core.refresh import schedule_refresh
from aaams_stream.core.tuning import Tuning
from aaams_stream.params import Params

REFRESH = 8
FIXED = Params().updated({"stream": {"refresh": REFRESH, "segments": 0}})  # no number is wanted
TUNING = dataclasses.replace(Tuning(), refresh_tile=8)


def blocks(h=40, w=48):
    """Return labels: twelve blocks of 8 by 8 pixels along the top, and the rest is one segment."""
    labels = np.full((h, w), 12, np.int32)
    for k in range(12):
        y, x = divmod(k, 6)
        labels[8 * y : 8 * y + 8, 8 * x : 8 * x + 8] = k
    return labels


def scheduled(labels, index, params=FIXED, tuning=TUNING, level=1.0, **columns):
    """Schedule frame `index`; columns: of the track table. Returns labels kept, and who is due."""
    tracks = dataclasses.replace(tracks_of(np.bincount(labels[labels >= 0])), **columns)
    seen = propagated(labels, tracks)
    state = state_of(labels, tracks, index=index, level=level)
    due = schedule_refresh(seen, state, params, tuning)
    return seen.pixels.kept, due


def wanted(segments):
    return FIXED.updated({"stream": {"segments": segments}})


@given(st.integers(0, 1000), st.integers(1, 12))
def test_schedule_refresh_drops_every_segment_once_in_so_many_frames(start, refresh):
    labels = blocks()
    params = FIXED.updated({"stream": {"refresh": refresh}})
    tuning = dataclasses.replace(TUNING, refresh_large=np.inf)  # none is too large
    turns = np.zeros(13, int)
    for index in range(start, start + refresh):
        kept, due = scheduled(labels, index, params, tuning)
        np.testing.assert_array_equal(kept, np.where(due[labels], DROPPED, labels))
        turns += due
    assert turns.tolist() == [1] * 13


@given(st.integers(0, 1000))
def test_schedule_refresh_drops_large_segments_tile_by_tile(start):
    """Every pixel once in so many frames, never the whole, and tiles of others stay."""
    labels = blocks()
    times = np.zeros(labels.shape, int)
    for index in range(start, start + REFRESH):
        kept, due = scheduled(labels, index)
        assert not due[12]
        dropped = kept != labels
        assert (kept[dropped] == DROPPED).all()
        np.testing.assert_array_equal(dropped[labels < 12], due[labels[labels < 12]])
        tiles = dropped.reshape(5, 8, 6, 8).transpose(0, 2, 1, 3).reshape(30, 64)
        assert (tiles.all(axis=1) | ~tiles.any(axis=1)).all()
        assert (dropped & (labels == 12)).sum() <= 0.3 * (labels == 12).sum()
        times += dropped
    assert (times == 1).all()


def test_schedule_refresh_reaches_the_rim_where_tiles_do_not_fit():
    labels = np.zeros((21, 30), np.int32)
    times = sum((scheduled(labels, index)[0] == DROPPED).astype(int) for index in range(REFRESH))
    assert (times == 1).all()


def test_schedule_refresh_leaves_what_has_no_label_as_it_is():
    labels = blocks()
    labels[20:30, 5:40] = -1
    labels[4:12, 4:20] = RELABEL
    for index in range(REFRESH):
        kept, _ = scheduled(labels, index)
        np.testing.assert_array_equal(kept[labels < 0], labels[labels < 0])


def coarse_due(sse, rested, areas, budget):
    """Return who is due as one that spreads most in colour: those who fit, the coarsest first."""
    due, used = set(), 0
    for k in sorted(rested, key=lambda k: (-sse[k], k)):
        used += areas[k]
        if used > budget:
            break
        due.add(k)
    return due


@given(st.lists(st.integers(1, 9), min_size=13, max_size=13), st.integers(0, REFRESH - 1))
def test_schedule_refresh_adds_the_coarsest_while_segments_are_wanted(sse, turn):
    """As many as fit into the share of the picture that is due: 240 pixels, three blocks."""
    labels, index = blocks(), 80 + turn
    refreshed = np.array([index - 10, index - 6, index - 5, index] * 4)[:13]
    columns = {"colour_sse": np.array(sse, np.float64), "refreshed": refreshed}
    _, by_turn = scheduled(labels, index, **columns)
    kept, due = scheduled(labels, index, wanted(14), **columns)
    rested = [k for k in range(12) if index - refreshed[k] >= TUNING.refresh_rest]
    budget = labels.size / REFRESH
    extra = coarse_due(sse, rested, [64] * 13, budget)
    assert len(extra) == 3
    assert set(np.flatnonzero(due)) == set(np.flatnonzero(by_turn)) | extra
    assert (kept[due[labels]] == DROPPED).all()


@pytest.mark.parametrize(
    ("segments", "level", "more"),
    [(0, 1.0, False), (13, 1.0, False), (14, 1.0, True), (14, TUNING.noise_level, False)],
)
def test_schedule_refresh_adds_none_where_enough_are_there_or_all_is_noise(segments, level, more):
    labels = blocks()
    columns = {"colour_sse": np.arange(13.0)}
    _, by_turn = scheduled(labels, 80, **columns)
    _, due = scheduled(labels, 80, wanted(segments), level=level, **columns)
    assert (due.sum() > by_turn.sum()) == more


@pytest.mark.parametrize(("times", "coarse"), [(1, 3), (2, 10), (4, 12)])
def test_schedule_refresh_adds_more_where_more_than_usual_are_wanted(times, coarse):
    """Their number to the power 3/2: of 240 pixels 679 and 1920, in blocks of 64; in noise, too."""
    labels, columns = blocks(), {"colour_sse": np.arange(13.0)}
    tuning = dataclasses.replace(TUNING, usual_segments=30)
    _, by_turn = scheduled(labels, 80, tuning=tuning, **columns)
    spread = np.isin(np.arange(13), range(12 - coarse, 12))
    for level in (1.0, tuning.noise_level):
        _, due = scheduled(labels, 80, wanted(30 * times), tuning, level, **columns)
        few = times == 1 and level == tuning.noise_level
        np.testing.assert_array_equal(due, by_turn if few else by_turn | spread)


def test_schedule_refresh_lets_the_coarse_rest():
    """Told when each was last dropped, it goes round among them."""
    labels = blocks()
    refreshed = np.zeros(13, np.int64)
    extra = []
    for index in range(80, 80 + TUNING.refresh_rest):
        columns = {"colour_sse": np.arange(13.0), "refreshed": refreshed}
        _, due = scheduled(labels, index, wanted(14), **columns)
        refreshed = np.where(due, index, refreshed)
        extra.append(due)
    assert np.sum(extra[:2], axis=0).max() == 1
    assert np.any(extra, axis=0)[:12].all()


def test_schedule_refresh_writes_only_into_the_labels_kept():
    labels = blocks()
    tracks = dataclasses.replace(tracks_of(np.bincount(labels.ravel())), colour_sse=np.arange(13.0))
    seen, state = propagated(labels, tracks), state_of(labels, tracks)
    copies = {name: array.copy() for name, array in seen.pixels._asdict().items()}
    arrays = {name: array.copy() for name, array in state.to_arrays().items()}
    due = schedule_refresh(seen, state, wanted(99), TUNING)
    assert due.any()
    assert (seen.pixels.kept != copies.pop("kept")).any()
    for name, array in copies.items():
        np.testing.assert_array_equal(getattr(seen.pixels, name), array, err_msg=name)
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)
    # what the flow brought is told as before: the rest of the frame is explained all the same
    assert seen.explained == labels.size
    assert seen.area.tolist() == np.bincount(labels.ravel()).tolist()

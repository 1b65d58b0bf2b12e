"""Segments that the flow lost, against plain loops and on drawn scenes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tracks import propagated, state_of, tracks_of

from aaams_stream.core import features
from aaams_stream.core.recover import recover_lost_segments
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import recover
from aaams_stream.kernels.records import Before, Prediction
from aaams_stream.params import Params


def sampled(before, wanted, size, most):
    """Run sample_segments; return the pixels of each segment."""
    wanted = np.array(wanted, np.int32)
    found = np.empty(len(size), np.int64)
    samples = np.full((len(size), most), -1, np.int32)
    recover.sample_segments(before, wanted, np.array(size, np.int64), samples, found)
    return [row[:n].tolist() for row, n in zip(samples, found, strict=True)]


@given(st.integers(0, 2**31), st.integers(1, 12))
def test_sample_segments_spreads_samples_over_the_segment(seed, most):
    before = np.random.default_rng(seed).integers(0, 3, (6, 9)).astype(np.int32)
    places = [np.flatnonzero(before == k) for k in (2, 0)]
    size = [max(p.size, 1) for p in places]
    got = sampled(before, [1, -1, 0], size, most)
    for place, picked in zip(places, got, strict=True):
        n = min(most, place.size)
        assert picked == [place[-(-(i + 1) * place.size // n) - 1] for i in range(n)]


def test_sample_segments_bears_a_size_that_is_only_about_right():
    before = np.zeros((4, 8), np.int32)
    assert len(sampled(before, [0], [5], 4)[0]) == 4
    assert len(sampled(before, [0], [64], 4)[0]) == 2
    assert sampled(before, [-1], [], 4) == []


def scene(rng, h, w):
    """Return a frame, the next one with a square moved by (9, -7), and what is known of it."""
    planes = rng.uniform(0, 5, (3, h, w)).astype(np.float32)
    moved = planes + rng.normal(0, 0.01, planes.shape).astype(np.float32)
    before = np.zeros((h, w), np.int32)
    before[12:20, 8:16] = 1
    planes[:, before == 1] = 50
    moved[:, 12:20, 8:16] = 20
    moved[:, 5:13, 17:25] = 50
    kept = np.where(np.abs(moved - planes).max(axis=0) < 1, before, -1).astype(np.int32)
    return planes, moved, before, kept


def searched(planes, moved, kept, samples, guess=(0, 0), reach=8, pace=4):
    """Run search_segments for one segment; return its shift and how many samples that explains."""
    samples = np.array([samples], np.int32)
    found = np.array([samples.shape[1]], np.int64)
    shift, matches = np.empty((1, 2), np.int64), np.empty(1, np.int64)
    where = np.array([guess], np.int64)
    search = recover.Search(samples, found, where, reach, pace, np.float32(9))
    recover.search_segments(search, planes, moved, kept, shift, matches)
    return shift[0].tolist(), int(matches[0])


def test_search_segments_finds_a_segment_that_moved():
    planes, moved, before, kept = scene(np.random.default_rng(0), 30, 40)
    pixels = np.flatnonzero(before == 1)[::2]
    assert searched(planes, moved, kept, pixels, reach=12) == ([9, -7], 32)
    # the same from a guess beyond whose reach nothing is
    assert searched(planes, moved, kept, pixels, guess=(10, -9), reach=4) == ([9, -7], 32)
    assert searched(planes, moved, kept, pixels, guess=(-9, 0), reach=4) == ([0, 0], 0)


def test_search_segments_finds_the_best_shift_of_a_plain_search():
    rng = np.random.default_rng(4)
    planes, moved = rng.uniform(0, 6, (2, 3, 20, 24)).astype(np.float32)
    kept = np.where(rng.random((20, 24)) < 0.2, 0, -1).astype(np.int32)
    for size in (1, 2, 5):
        pixels = rng.choice(20 * 24, size, replace=False).astype(np.int32)
        y, x = np.divmod(pixels, 24)

        def plain(dx, dy, y=y, x=x):
            v, u = y + dy, x + dx
            ok = (v >= 0) & (u >= 0) & (v < 20) & (u < 24)
            v, u = np.where(ok, v, 0), np.where(ok, u, 0)
            d = moved[:, v, u] - planes[:, y, x]
            return int((ok & (kept[v, u] < 0) & ((d * d).sum(axis=0) <= 9)).sum())

        (dx, dy), matches = searched(planes, moved, kept, pixels, reach=6, pace=1)
        tries = {(i, j): plain(i, j) for i in range(-6, 7) for j in range(-6, 7)}
        most = max(tries.values())
        if 2 * most < size:
            assert matches == 0
            continue
        assert matches == most == tries[dx, dy]
        near = min(i * i + j * j for (i, j), n in tries.items() if n == most)
        assert dx * dx + dy * dy == near


def test_move_segments_gives_only_pixels_without_a_label_to_what_moved():
    planes, moved, before, kept = scene(np.random.default_rng(0), 30, 40)
    kept[5, 17:21] = 0  # four of its pixels are explained otherwise
    earlier = kept.copy()
    had = np.arange(1200, dtype=np.float32).reshape(30, 40)
    out = Prediction(
        np.zeros((30, 40, 2), np.float32), before.copy(), kept, np.zeros((30, 40), np.float32)
    )
    wanted = np.array([-1, 0], np.int32)
    shift = np.array([[9, -7]])
    past = Before(before, planes, had)
    recover.move_segments(past, wanted, shift, moved, np.float32(9), out)
    taken = kept != earlier
    assert taken.sum() == 64 - 4
    assert (earlier[taken] == -1).all()
    assert (kept[taken] == 1).all()
    assert (out.warped[taken] == 1).all()
    assert (out.flow[taken] == [-9, 7]).all()
    assert (out.flow[~taken] == 0).all()
    y, x = np.nonzero(taken)
    np.testing.assert_array_equal(out.density[taken], had[y + 7, x - 9])


def leap():
    """Return a square that leapt: the picture, the state before and what was propagated of it."""
    planes, moved, before, kept = scene(np.random.default_rng(0), 30, 40)
    areas = np.bincount(before.ravel())
    tracks = tracks_of(areas)
    picture = dataclasses.replace(features.picture(np.zeros((30, 40, 3), np.uint8)), smooth=moved)
    return picture, state_of(before, tracks, smooth=planes), propagated(kept, tracks)


def test_recover_lost_segments_moves_what_is_missing_and_leaves_the_state():
    picture, state, seen = leap()
    arrays = {name: array.copy() for name, array in state.to_arrays().items()}
    before = seen.pixels.kept.copy()
    explained = seen.explained
    everything = dataclasses.replace(Tuning(), recover_samples=64)  # half would fit a pixel beside
    recover_lost_segments(seen, picture, state, Params(), everything)
    kept = seen.pixels.kept
    assert (before != 1).all()
    assert (kept[5:13, 17:25] == 1).all()
    assert (kept == 1).sum() == 64
    np.testing.assert_array_equal(kept[before >= 0], before[before >= 0])
    assert seen.explained == explained + 64
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)


@pytest.mark.parametrize(
    "other",
    [{"recover_lost": False}, {"recover_min_area": 65}, {"recover_reach": 4}, {"missing": 1.0}],
    ids=lambda other: next(iter(other)),
)
def test_recover_lost_segments_leaves_what_it_need_not_or_cannot_find(other):
    picture, state, seen = leap()
    copies, explained = [array.copy() for array in seen.pixels], seen.explained
    recover_lost_segments(seen, picture, state, Params(), dataclasses.replace(Tuning(), **other))
    assert seen.explained == explained
    for array, copy in zip(seen.pixels, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# Things this small are drawn for the pixels in which they are searched for.
SHARP = Params().updated({"stream": {"segments": 20, "scale": 1.0}})


@pytest.mark.parametrize("jump", [(28, 0), (-22, 17)])
def test_segmenter_keeps_the_id_of_a_small_thing_that_leaps(jump):
    """Too far and too small for motion that is found from coarse to fine."""
    rng = np.random.default_rng(2)
    ground = rng.integers(90, 110, (120, 160, 1)).astype(np.uint8).repeat(3, axis=2)
    segmenter = Segmenter(SHARP)
    ids = set()
    place = np.array([60, 30])
    for _ in range(3):
        frame = ground.copy()
        x, y = place
        frame[y : y + 20, x : x + 20] = (200, 40, 40)
        ids.add(int(segmenter.step(frame).ids[y + 10, x + 10]))
        place = place + jump
    assert len(ids) == 1


def passing(t, speed, pole, length):
    """Draw a red bar that passes behind a pole, and return the frame with the bar's left end."""
    frame = np.full((80, 360, 3), (70, 90, 110), np.uint8)
    left = 20 + speed * t
    frame[30:50, left : left + length] = (200, 60, 50)
    frame[:, 140 : 140 + pole] = (230, 230, 225)
    return frame, left


@pytest.mark.parametrize(("speed", "pole", "length"), [(4, 8, 40), (8, 16, 60), (12, 16, 80)])
def test_segmenter_knows_what_comes_out_behind_a_pole_for_what_went_behind_it(speed, pole, length):
    segmenter = Segmenter(segments=20)
    for t in range(200 // speed):
        frame, left = passing(t, speed, pole, length)
        ids = segmenter.step(frame).ids
        if t == 0:
            first = int(ids[40, 40])
        assert first in ids[40, left : left + length]
        if left > 140 + pole:
            assert (ids[36:44, left + 4 : left + length - 4] == first).all()

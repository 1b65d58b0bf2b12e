"""Segments that the motion mislaid, against plain loops and on drawn scenes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aaams_stream.core.segmenter import Segmenter
from aaams_stream.kernels import recover
from aaams_stream.params import Params


@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(1, 40))
def test_carried_pixels_are_counted(seed, h, w):
    labels = np.random.default_rng(seed).integers(-2, 4, (h, w)).astype(np.int32)
    area = np.full(4, 7, np.int64)
    recover.count_carried(labels, area)
    assert area.tolist() == [int((labels == k).sum()) for k in range(4)]


def sampled(before, wanted, size, most):
    wanted = np.array(wanted, np.int32)
    found = np.empty(len(size), np.int64)
    samples = np.full((len(size), most), -1, np.int32)
    recover.sample_segments(before, wanted, np.array(size, np.int64), samples, found)
    return [row[:n].tolist() for row, n in zip(samples, found, strict=True)]


@given(st.integers(0, 2**31), st.integers(1, 12))
def test_samples_are_spread_over_the_segment(seed, most):
    before = np.random.default_rng(seed).integers(0, 3, (6, 9)).astype(np.int32)
    places = [np.flatnonzero(before == k) for k in (2, 0)]
    size = [max(p.size, 1) for p in places]
    got = sampled(before, [1, -1, 0], size, most)
    for place, picked in zip(places, got, strict=True):
        n = min(most, place.size)
        assert picked == [place[-(-(i + 1) * place.size // n) - 1] for i in range(n)]


def test_a_size_that_is_only_about_right_does_no_harm():
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
    labels = np.where(np.abs(moved - planes).max(axis=0) < 1, before, -1).astype(np.int32)
    return planes, moved, before, labels


def sought(planes, moved, labels, samples, guess=(0, 0), reach=8, pace=4):
    samples = np.array([samples], np.int32)
    found = np.array([samples.shape[1]], np.int64)
    shift, matches = np.empty((1, 2), np.int64), np.empty(1, np.int64)
    where = np.array([guess], np.int64)
    recover.seek_segments(
        *(samples, found, planes, moved, labels, np.float32(9), where, reach, pace, shift, matches)
    )
    return shift[0].tolist(), int(matches[0])


def test_a_moved_segment_is_found():
    planes, moved, before, labels = scene(np.random.default_rng(0), 30, 40)
    pixels = np.flatnonzero(before == 1)[::2]
    assert sought(planes, moved, labels, pixels, reach=12) == ([9, -7], 32)
    # the same from a guess beyond whose reach nothing is
    assert sought(planes, moved, labels, pixels, guess=(10, -9), reach=4) == ([9, -7], 32)
    assert sought(planes, moved, labels, pixels, guess=(-9, 0), reach=4) == ([0, 0], 0)


def test_the_best_shift_is_that_of_a_plain_search():
    rng = np.random.default_rng(4)
    planes, moved = rng.uniform(0, 6, (2, 3, 20, 24)).astype(np.float32)
    labels = np.where(rng.random((20, 24)) < 0.2, 0, -1).astype(np.int32)
    for size in (1, 2, 5):
        pixels = rng.choice(20 * 24, size, replace=False).astype(np.int32)
        y, x = np.divmod(pixels, 24)

        def plain(dx, dy, y=y, x=x):
            v, u = y + dy, x + dx
            ok = (v >= 0) & (u >= 0) & (v < 20) & (u < 24)
            v, u = np.where(ok, v, 0), np.where(ok, u, 0)
            d = moved[:, v, u] - planes[:, y, x]
            return int((ok & (labels[v, u] < 0) & ((d * d).sum(axis=0) <= 9)).sum())

        (dx, dy), matches = sought(planes, moved, labels, pixels, reach=6, pace=1)
        tries = {(i, j): plain(i, j) for i in range(-6, 7) for j in range(-6, 7)}
        most = max(tries.values())
        if 2 * most < size:
            assert matches == 0
            continue
        assert matches == most == tries[dx, dy]
        near = min(i * i + j * j for (i, j), n in tries.items() if n == most)
        assert dx * dx + dy * dy == near


def test_only_pixels_without_a_label_are_given_to_what_moved():
    planes, moved, before, labels = scene(np.random.default_rng(0), 30, 40)
    labels[5, 17:21] = 0  # four of its pixels are explained otherwise
    kept = labels.copy()
    flow = np.zeros((30, 40, 2), np.float32)
    prior, density = before.copy(), np.zeros((30, 40), np.float32)
    had = np.arange(1200, dtype=np.float32).reshape(30, 40)
    wanted = np.array([-1, 0], np.int32)
    shift = np.array([[9, -7]])
    recover.move_segments(
        *(before, wanted, shift, planes, had, moved, np.float32(9), flow, prior, labels, density)
    )
    taken = labels != kept
    assert taken.sum() == 64 - 4
    assert (kept[taken] == -1).all()
    assert (labels[taken] == 1).all()
    assert (prior[taken] == 1).all()
    assert (flow[taken] == [-9, 7]).all()
    assert (flow[~taken] == 0).all()
    y, x = np.nonzero(taken)
    np.testing.assert_array_equal(density[taken], had[y + 7, x - 9])


# Things this small are drawn for the pixels in which they are sought.
SHARP = Params().updated({"stream": {"segments": 20, "scale": 1.0}})


@pytest.mark.parametrize("jump", [(28, 0), (-22, 17)])
def test_a_small_thing_that_leaps_keeps_its_id(jump):
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
def test_what_comes_out_behind_a_pole_is_what_went_behind_it(speed, pole, length):
    segmenter = Segmenter(segments=20)
    for t in range(200 // speed):
        frame, left = passing(t, speed, pole, length)
        ids = segmenter.step(frame).ids
        if t == 0:
            first = int(ids[40, 40])
        assert first in ids[40, left : left + length]
        if left > 140 + pole:
            assert (ids[36:44, left + 4 : left + length - 4] == first).all()

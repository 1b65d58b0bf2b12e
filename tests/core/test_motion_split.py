"""Segments that move two ways, against plain loops and on a drawn scene."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tracks import propagated, state_of, tracks_of

from aaams_stream.core.motion_split import split_by_motion
from aaams_stream.core.propagate import RELABEL
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import motion_split

WHOLE = dataclasses.replace(Tuning(), split_motions=False)


def random_labels(seed, h, w, count=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-2, count, (h, w)).astype(np.int32)
    return labels, rng.normal(0, 3, (h, w, 2)).astype(np.float32)


@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(1, 40), st.integers(1, 3))
def test_measure_flow_sums_over_the_pixels_seen(seed, h, w, stride):
    labels, flow = random_labels(seed, h, w)
    sums = np.empty((4, 6))
    motion_split.measure_flow(labels, flow, stride, sums)
    half = stride // 2
    seen, back = labels[half::stride, half::stride], flow[half::stride, half::stride]
    for k in range(4):
        x, y = back[seen == k].astype(np.float64).T
        wanted = [x.size, x.sum(), y.sum(), (x * x).sum(), (x * y).sum(), (y * y).sum()]
        np.testing.assert_allclose(sums[k], wanted, atol=1e-9)


@given(st.integers(0, 2**31), st.integers(1, 4))
def test_part_flow_finds_two_flows_as_two_means_are(seed, rounds):
    labels, flow = random_labels(seed, 8, 30)
    chosen = np.array([-1, 1, -1, 0], np.int32)
    begin = np.random.default_rng(seed).normal(0, 3, (2, 4))
    pairs, shares = begin.copy(), np.empty((2, 2))
    rows = np.empty(np.isin(labels, (1, 3)).sum(), np.int32)
    back = np.empty((rows.size, 2), np.float32)
    motion_split.gather_flow(labels, flow, 1, chosen, rows, back)
    motion_split.part_flow(rows, back, rounds, pairs, shares)
    for row, label in ((0, 3), (1, 1)):
        centres = begin[row].reshape(2, 2)
        back = flow[labels == label].astype(np.float64)
        for _ in range(rounds):
            off = ((back[:, None] - centres) ** 2).sum(axis=2)
            side = (off[:, 1] < off[:, 0]).astype(int)
            centres = np.stack(
                [back[side == s].mean(axis=0) if (side == s).any() else centres[s] for s in (0, 1)]
            )
        np.testing.assert_allclose(pairs[row].reshape(2, 2), centres, atol=1e-9)
        assert shares[row].tolist() == [(side == 0).sum(), (side == 1).sum()]


def split(labels, flow, motion=(0, 0), first_frame=0, tuning=None):
    """Split one track in frame 9, which moved so of late; return the labels kept."""
    tracks = dataclasses.replace(
        tracks_of([labels.size]),
        motion=np.array([motion], np.float64),
        first_frame=np.array([first_frame]),
    )
    seen = propagated(labels, tracks, flow=flow)
    state = state_of(labels.copy(), tracks, index=9)
    split_by_motion(seen, state, Tuning() if tuning is None else tuning)
    np.testing.assert_array_equal(state.labels, labels)  # only what is kept is written
    np.testing.assert_array_equal(seen.pixels.warped, labels)
    np.testing.assert_array_equal(seen.pixels.flow, flow)
    return seen.pixels.kept


def two_ways(share, gap):
    """Return one segment, and a flow back in time: its left part stands still, the rest moves."""
    labels = np.zeros((24, 40), np.int32)
    flow = np.zeros((24, 40, 2), np.float32)
    flow[:, round(share * 40) :, 0] = -gap
    return labels, flow


@pytest.mark.parametrize(("motion", "dropped"), [((0, 0), "right"), ((5, 0), "left")])
def test_split_by_motion_drops_what_moves_unlike_the_segment_did(motion, dropped):
    kept = split(*two_ways(0.5, 5.0), motion)
    left, right = kept[:, :20], kept[:, 20:]
    assert (left == (RELABEL if dropped == "left" else 0)).all()
    assert (right == (RELABEL if dropped == "right" else 0)).all()


def test_split_by_motion_keeps_the_larger_part_of_a_newborn():
    kept = split(*two_ways(0.3, 5.0), first_frame=8)
    assert (kept[:, :12] == RELABEL).all()
    assert (kept[:, 12:] == 0).all()


@pytest.mark.parametrize(("share", "gap"), [(0.5, 2.0), (0.95, 9.0)])
def test_split_by_motion_bears_a_small_difference_and_a_small_part(share, gap):
    assert (split(*two_ways(share, gap)) == 0).all()


def test_split_by_motion_bears_one_motion_that_varies_over_a_segment():
    labels = np.zeros((40, 40), np.int32)
    y, x = np.mgrid[:40, :40] - 20
    flow = np.stack([0.3 * y, -0.3 * x], axis=2).astype(np.float32)  # it turns
    assert (split(labels, flow) == 0).all()


def test_split_by_motion_bears_a_segment_too_small_to_tell():
    labels, flow = two_ways(0.5, 5.0)
    labels[4:] = -1
    labels[:, :10] = labels[:, 30:] = -1
    assert (split(labels, flow) >= -1).all()


def test_split_by_motion_can_be_left_out():
    assert (split(*two_ways(0.5, 5.0), tuning=WHOLE) == 0).all()


def left_behind(speed, noise, tuning):
    """Return what share of the strip that a block of nearly its colour drove off bears its id."""
    rng = np.random.default_rng(1)
    ground = np.full((96, 200, 3), (60, 120, 60)) + rng.normal(0, noise, (96, 200, 1))
    ground[40:72] = 158 + rng.normal(0, noise, (32, 200, 1))
    block = 150 + rng.normal(0, noise, (32, 40, 1))
    segmenter = Segmenter(segments=4, tuning=tuning)
    for x in range(30, 30 + 12 * speed, speed):
        frame = ground.copy()
        frame[40:72, x : x + 40] = block
        ids = segmenter.step(frame.clip(0, 255).astype(np.uint8)).ids
    here = ids[44:68, x + 8 : x + 32]
    mine = np.bincount(here.ravel()).argmax()
    assert (here == mine).mean() > 0.9
    return (ids[44:68, : x - 10] == mine).mean()


@pytest.mark.parametrize(("speed", "noise"), [(5, 5), (6, 4), (6, 5)])
def test_segmenter_leaves_the_identity_of_a_thing_not_on_what_it_uncovers(speed, noise):
    assert left_behind(speed, noise, Tuning()) < 0.1


# Faster and in more noise a thing comes apart without the split, and has no one identity to leave.
@pytest.mark.parametrize(("speed", "noise"), [(5, 5), (6, 4)])
def test_segmenter_that_does_not_split_leaves_it_there(speed, noise):
    assert left_behind(speed, noise, WHOLE) > 0.9

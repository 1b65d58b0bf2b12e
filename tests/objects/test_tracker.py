"""The tracker on supervoxels: an object is followed from its first mask."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.followed import FRAMES, truth_of

import aaams_stream as aaams
from aaams_stream.errors import ConfigError
from aaams_stream.kernels import tracker as kernels
from aaams_stream.metrics import region_similarity


@pytest.mark.parametrize("surface", ["balloon", "ball", "roof"])
def test_follow_keeps_to_an_object_from_its_first_mask(clip, surface):
    masks = list(aaams.follow(clip, truth_of(0, surface)))
    scores = [region_similarity(mask, truth_of(t, surface)) for t, mask in enumerate(masks)]
    assert scores[0] == 1.0
    assert len(scores) == FRAMES
    assert min(scores) > 0.9


def renamed(frame, by):
    """Return the frame under ids never seen before, as if every identity had been lost."""
    segments, adjacency = frame.segments.copy(), frame.adjacency.copy()
    segments["id"] += np.uint32(by)
    adjacency["first"] += np.uint32(by)
    adjacency["second"] += np.uint32(by)
    return dataclasses.replace(
        frame, ids=frame.ids + np.uint32(by), segments=segments, adjacency=adjacency
    )


def test_follow_survives_a_change_of_every_id(clip):
    strange = [renamed(frame, 10000 * t) for t, frame in enumerate(clip)]
    for t, mask in enumerate(aaams.follow(strange[:10], truth_of(0))):
        assert region_similarity(mask, truth_of(t)) > 0.9


def test_keep_following_is_a_pure_step(clip):
    known = aaams.begin_following(clip[0], truth_of(0))
    once = aaams.keep_following(known, clip[1])
    again = aaams.keep_following(known, clip[1])
    np.testing.assert_array_equal(once.belief, again.belief)
    assert (known.mask == truth_of(0)).all()


def test_keep_following_knows_an_identity_that_comes_back_for_what_it_was(clip):
    known = aaams.begin_following(clip[0], truth_of(0))
    name = clip[0].ids[truth_of(0)][0]
    away = aaams.keep_following(known, renamed(clip[1], 10000))  # every id is hidden
    np.testing.assert_array_equal(away.ids, np.sort(away.ids))
    assert away.share[away.ids == name] == known.share[known.ids == name] > 0.9
    assert set(renamed(clip[1], 10000).segments["id"]) < set(away.ids)


def test_keep_following_leaves_an_empty_mask_where_the_object_vanishes(clip):
    """The balloon is gone from one frame to the next, and everything else with it."""
    empty = np.broadcast_to(np.array([40, 90, 60], np.uint8), clip[0].rgb.shape).copy()
    known = aaams.begin_following(clip[0], truth_of(0))
    segmenter = aaams.Segmenter()
    for _ in range(4):
        frame = dataclasses.replace(segmenter.step(empty), rgb=empty)
        known = aaams.keep_following(known, frame)
    assert not known.mask.any()


def test_mask_at_takes_the_segment_under_a_click(clip):
    y, x = np.argwhere(truth_of(0)).mean(axis=0).astype(int)
    mask = aaams.mask_at(clip[0], [(x, y)])
    np.testing.assert_array_equal(mask, clip[0].ids == clip[0].ids[y, x])
    both = aaams.mask_at(clip[0], [(x, y), (0, 0)])
    np.testing.assert_array_equal(both, mask | (clip[0].ids == clip[0].ids[0, 0]))
    with pytest.raises(ConfigError, match="click at 320,7 lies outside the picture of 320x240"):
        aaams.mask_at(clip[0], [(320, 7)])
    with pytest.raises(ConfigError, match=r"pairs of x and y, as in \[\(30, 3\)\]; got 30"):
        aaams.mask_at(clip[0], (30, 3))


def test_begin_following_refuses_masks_that_make_no_sense(clip):
    with pytest.raises(ConfigError, match="mask is empty"):
        aaams.begin_following(clip[0], np.zeros((240, 320), bool))
    with pytest.raises(ConfigError, match="mask is 160x240, expected 320x240"):
        aaams.begin_following(clip[0], truth_of(0)[:, ::2])
    blind = dataclasses.replace(clip[0], rgb=None)
    with pytest.raises(ValueError, match="bring its picture"):
        aaams.begin_following(blind, truth_of(0))


# Kernels.


@settings(deadline=None)
@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
        elements=st.floats(0, 1, width=32),
    ),
    st.integers(1, 4),
)
def test_blur_takes_the_mean_of_a_square(values, reach):
    padded = np.pad(values.astype(np.float64), reach, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2 * reach + 1,) * 2)
    blurred = values.copy()
    kernels.blur(blurred, reach, np.empty_like(values))
    np.testing.assert_allclose(blurred, windows.mean(axis=(2, 3)), atol=1e-5)


def test_find_shift_finds_a_thing_however_far_it_went():
    rng = np.random.default_rng(0)
    before = rng.uniform(0, 100, (3, 40, 60)).astype(np.float32)
    weight = np.zeros((40, 60), np.float32)
    weight[10:18, 20:30] = 1
    now = rng.uniform(0, 100, (3, 40, 60)).astype(np.float32)
    now[:, 17:25, 9:19] = before[:, 10:18, 20:30]
    box, guess = np.array([20, 10, 30, 18]), np.array([-5, 3])
    assert kernels.find_shift(before, weight, now, box, guess, 8, 12.0, 0.0) == (-11, 7)
    assert kernels.find_shift(before, weight, now, box, guess, 3, 12.0, 100.0) == (-5, 3)


def test_warp_belief_goes_by_segments_and_by_the_whole():
    belief = np.zeros((4, 6), np.float32)
    belief[1, 2] = 1
    labels = np.zeros((4, 6), np.int32)
    out = np.empty_like(belief)
    motion = np.array([[2, 1]], np.float32)
    kernels.warp_belief(belief, labels, motion, np.array([0.0, -1.0]), 0.2, out)
    assert out[2, 4] == 0.5
    assert out[0, 2] == pytest.approx(0.6)  # by the whole, and from outside by the segment
    assert out[3, 0] == pytest.approx(0.2)  # from outside, both ways
    assert out[1, 3] == 0


def test_kernels_of_the_consumers_are_each_compiled_for_one_signature(clip):
    from aaams_stream.jit import kernels_of

    for _ in aaams.follow(clip[:2], truth_of(0)):
        pass
    for file in ("tracker", "rle", "measure"):
        for kernel in kernels_of(file):  # without the helpers that several files share
            assert len(kernel.signatures) <= 1, kernel.py_func.__name__

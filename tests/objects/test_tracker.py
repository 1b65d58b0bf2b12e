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
from aaams_stream.objects.motion import affine
from aaams_stream.objects.tuning import TrackerTuning
from aaams_stream.objects.witnesses import Near, parted


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


def test_keep_following_finds_an_object_that_comes_back(clip):
    """All is covered for some frames; then the clip goes on as if nothing had been."""
    known = aaams.begin_following(clip[0], truth_of(0))
    segmenter = aaams.Segmenter()
    grey = np.full_like(clip[0].rgb, 128)
    states = []
    for t in range(12):
        rgb = grey if 4 <= t < 7 else clip[t].rgb
        known = aaams.keep_following(known, dataclasses.replace(segmenter.step(rgb), rgb=rgb))
        states.append(known.state)
        assert known.mask.any() == (known.state != "lost")
        assert (known.sure > 0) == (known.state != "lost")
    assert states == 4 * ["seen"] + 3 * ["lost"] + ["back"] + 4 * ["seen"]
    assert region_similarity(known.mask, truth_of(11)) > 0.9


def test_keep_following_refuses_look_alikes_elsewhere():
    """Two discs of one colour: the one that was not marked never joins, like as it is."""
    clip = [two_discs(t) for t in range(8)]
    truth = [rgb[..., 0] > 150 for rgb in clip]
    truth[0] &= np.arange(160) < 80
    segmenter = aaams.Segmenter()
    frames = [dataclasses.replace(segmenter.step(rgb), rgb=rgb) for rgb in clip]
    for t, mask in enumerate(aaams.follow(frames, truth[0])):
        assert not mask[:, 100:].any()
        assert region_similarity(mask, truth[t] & (np.arange(160) < 80)) > 0.8


def two_discs(t):
    """Return a frame in which a disc on the left moves, and one on the right stands still."""
    y, x = np.mgrid[:120, :160]
    rgb = np.full((120, 160, 3), (60, 110, 70), np.uint8)
    rgb[(x // 8 + y // 8) % 2 == 0] = (70, 120, 80)
    for cx, cy in ((30 + 2 * t, 60), (130, 40)):
        rgb[(x - cx) ** 2 + (y - cy) ** 2 < 144] = (200, 60, 50)
    return rgb


def near(along, area):
    """Return segments of the object by their ids, of which `along` is known."""
    count = len(along)
    zeros = np.zeros((count, 2))
    return Near(
        rows=np.arange(count), area=np.array(area, float), colour=zeros, place=zeros,
        change=zeros[:, 0], motion=zeros, known=np.ones(count, bool), share=np.ones(count),
        along=np.array(along, float),
    )  # fmt: skip


def test_parted_speaks_against_what_went_with_the_ground_for_some_frames():
    tuning = TrackerTuning()
    most = tuning.along_limit
    against = parted(near([most, -most, -0.5 * tuning.along_slack], [50, 50, 5]), 0.0, tuning)
    assert against[1] == -0.5 * (most - tuning.along_slack)
    assert against[0] == against[2] == 0  # what went with the object is not the surer for it


def test_parted_forgives_a_limb_and_what_the_object_was_made_of():
    tuning = TrackerTuning()
    most = tuning.along_limit
    part = parted(near([most, -most], [50, 50]), np.zeros(2), tuning)
    limb = parted(near([most, -most], [95, 5]), np.zeros(2), tuning)
    alike = parted(near([most, -most], [50, 50]), np.full(2, 2.0), tuning)
    assert part[1] < limb[1] < 0
    assert part[1] < alike[1] < 0


def test_keep_following_notes_what_goes_along_and_what_with_the_ground():
    segmenter = aaams.Segmenter()
    frames = [dataclasses.replace(segmenter.step(rgb), rgb=rgb) for rgb in map(chequered, range(8))]
    known = aaams.begin_following(frames[0], aaams.mask_at(frames[0], [(60, 80)]))
    for frame in frames[1:]:
        known = aaams.keep_following(known, frame)
    of_disc = known.along[known.ids == frames[-1].ids[80, 88]]
    of_ground = known.along[known.ids == frames[-1].ids[80, 130]]
    assert of_disc > 1
    assert of_ground < 0


def chequered(t):
    """Return a frame in which a chequered disc moves over speckled ground."""
    y, x = np.mgrid[:160, :240]
    speckles = np.random.default_rng(3).integers(-25, 25, (40, 60)).repeat(4, 0).repeat(4, 1)
    rgb = np.clip(np.array([80, 120, 80]) + speckles[..., None], 0, 255).astype(np.uint8)
    disc = (x - 60 - 4 * t) ** 2 + (y - 80) ** 2 < 20**2
    dark = ((x - 4 * t) // 5 + y // 5) % 2 == 0
    rgb[disc], rgb[disc & dark] = (160, 40, 40), (200, 60, 50)
    return rgb


def test_follow_goes_backwards_as_well(clip):
    masks = list(aaams.follow(clip[::-1], truth_of(FRAMES - 1)))
    for mask, t in zip(masks, range(FRAMES - 1, -1, -1), strict=True):
        assert region_similarity(mask, truth_of(t)) > 0.85


def test_mask_at_takes_the_segment_under_a_click(clip):
    y, x = np.argwhere(truth_of(0)).mean(axis=0).astype(int)
    mask = aaams.mask_at(clip[0], [(x, y)])
    np.testing.assert_array_equal(mask, clip[0].ids == clip[0].ids[y, x])
    both = aaams.mask_at(clip[0], [(x, y), (0, 0)])
    np.testing.assert_array_equal(both, mask | (clip[0].ids == clip[0].ids[0, 0]))
    less = aaams.mask_at(clip[0], [(x, y), (0, 0)], without=[(0, 0)])
    np.testing.assert_array_equal(less, mask)
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
    assert kernels.find_shift(before, weight, now, box, guess, 8, 1, 12.0, 0.0) == (-11, 7)
    assert kernels.find_shift(before, weight, now, box, guess, 8, 2, 12.0, 0.0) == (-11, 7)
    assert kernels.find_shift(before, weight, now, box, guess, 3, 1, 12.0, 100.0) == (-5, 3)


def test_warp_belief_goes_along_the_flow_and_by_the_whole():
    belief = np.zeros((4, 6), np.float32)
    belief[1, 2] = belief[0, 0] = 1
    then, planes = np.zeros((3, 4, 6), np.float32), np.full((3, 4, 6), 2, np.float32)
    flow = np.full((4, 6, 2), (-2, -1), np.float32)  # from each pixel to where it was
    out = np.empty((3, 4, 6), np.float32)
    box, shift = np.array([0, 0, 6, 4]), np.array([0.0, -1.0])
    kernels.warp_belief(belief, planes, then, flow, box, shift, 0.5, out)
    assert out[0, 2, 4] == 1 == out[0, 1, 2]
    assert out[0, 0, 1] == 0.5  # from outside, where the object touches the rim
    assert out[0, 0, 5] == out[0, 3, 1] == 0
    assert out[1, 0, 2] == 1
    assert out[2, 2, 4] == 6  # changed by two units in each of three channels
    part = np.empty((3, 2, 3), np.float32)
    box = np.array([3, 1, 6, 3])
    kernels.warp_belief(belief, planes, then, flow[1:3, 3:].copy(), box, shift, 0.5, part)
    np.testing.assert_array_equal(part, out[:, 1:3, 3:])


def layers_of(then, planes, belief, models):
    """Return what `compare_layers` says of every pixel of a picture that is one segment."""
    h, w = belief.shape
    out, sums = np.empty((h, w), np.float32), np.empty((1, 2))
    flow = np.zeros((h, w, 2), np.float32)
    kernels.compare_layers(
        belief, planes, then, np.zeros((h, w), np.int32), np.array([0, 0, w, h]), np.array(models),
        flow, np.abs(planes - then).sum(axis=0), 6.0, out, sums,
    )  # fmt: skip
    return out, sums


def test_compare_layers_tells_what_came_along_and_says_nothing_of_flat_ground():
    """A textured square moves by 4 pixels over flat ground that stands still."""
    rng = np.random.default_rng(1)
    then = np.full((3, 20, 40), 50, np.float32)
    planes = then.copy()
    square = rng.uniform(0, 100, (3, 8, 8)).astype(np.float32)
    then[:, 6:14, 10:18] = square
    planes[:, 6:14, 14:22] = square
    belief = np.zeros((20, 40), np.float32)
    belief[6:14, 10:18] = 1
    stay, move = [0.0, 1, 0, 0, 0, 1], [-4.0, 1, 0, 0, 0, 1]
    out, sums = layers_of(then, planes, belief, [move, stay])
    assert out[7:13, 15:21].min() > 1
    assert out[6:14, 10:13].max() < 0  # uncovered: it was of the object, and did not come along
    assert out[:5].max() < 0
    _, by_colour = layers_of(then, planes, belief, [stay, stay])
    assert by_colour[0, 0] == pytest.approx(0)  # where both move alike, colour says nothing
    assert sums[0, 1] == pytest.approx(out.sum(), rel=1e-4)


def test_compare_parts_knows_a_part_by_its_colour_and_its_place():
    parts = np.array([[0, 0, 50, 0, 0, 100, 1.0], [40, 0, 50, 0, 0, 100, 0.0]])
    found = np.empty((3, 2))
    centre = np.array([[0.0, 0], [40, 0], [0, 0]])
    colour = np.array([[50.0, 0, 0], [50, 0, 0], [90, 0, 0]])
    kernels.compare_parts(centre, colour, parts, 0.5 / 10**2, 0.5 / 6**2, found)
    np.testing.assert_allclose(found[0], [100, 100 * np.exp(-8)], atol=0.05)
    assert found[1, 0] < 0.05 < 99 < found[1, 1]
    assert found[2].max() == 0


@settings(deadline=None)
@given(
    hnp.arrays(
        np.float64,
        (kernels.BINS_L, kernels.BINS_AB, kernels.BINS_AB),
        elements=st.floats(0, 1),
        fill=st.just(0.0),
    )
)
def test_smooth_bins_keeps_the_sum_and_spreads_to_those_beside(values):
    mix = np.array([0.6, 0.15, 0.05])
    smooth = values.copy()
    kernels.smooth_bins(smooth, mix, np.empty_like(smooth))
    padded = np.pad(values, 2, mode="edge")
    for axis in range(3):
        parts = [np.take(padded, range(r, r + padded.shape[axis] - 4), axis) for r in range(5)]
        padded = sum(
            weight * part for weight, part in zip((0.05, 0.15, 0.6, 0.15, 0.05), parts, strict=True)
        )
    np.testing.assert_allclose(smooth, padded, atol=1e-9)


def test_enlarge_belief_keeps_to_the_boundaries_of_segments():
    """Half a picture of a cell each: the full one follows its own ids where both sides differ."""
    belief = np.array([[1, 0, 0]], np.float32)
    labels = np.array([[0, 1, 1]], np.int32)
    names = np.array([7, 9], np.uint32)
    ids = np.array([[7, 7, 7, 9, 9, 9], [7, 9, 9, 9, 9, 9]], np.uint32)
    mask = np.empty((2, 6), np.bool_)
    kernels.enlarge_belief(belief, labels, ids, names, np.array([0, 0, 3, 1]), mask)
    np.testing.assert_array_equal(mask, [[True, True, True] + 3 * [False], [True] + 5 * [False]])


def test_affine_finds_turning_and_growing_and_heeds_no_strangers():
    rng = np.random.default_rng(2)
    centre = rng.uniform(0, 100, (40, 2))
    turn = np.array([[2.0, -1.0], [0.02, 0.05], [-0.05, 0.02]])
    motion = np.column_stack([np.ones(40), centre]) @ turn
    motion[::8] += 20  # strangers
    model = affine(centre, motion, np.ones(40), 1.5)
    fitted = np.column_stack([np.ones(40), centre]) @ model
    strange = np.arange(40) % 8 == 0
    assert np.abs(fitted - motion)[~strange].max() < 0.8


def test_kernels_of_the_consumers_are_each_compiled_for_one_signature(clip):
    from aaams_stream.jit import kernels_of

    for _ in aaams.follow(clip[:2], truth_of(0)):
        pass
    for file in ("tracker", "rle", "measure"):
        for kernel in kernels_of(file):  # without the helpers that several files share
            assert len(kernel.signatures) <= 1, kernel.py_func.__name__

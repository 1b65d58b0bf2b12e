"""What is found of a frame ahead of its labels is what the segmenter would have found itself."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from aaams_stream.core.flow import backward_flow, trace_pixels
from aaams_stream.core.prepare import Preparer, prepare
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.tuning import DEFAULT, Tuning
from aaams_stream.params import Params
from aaams_stream.source.demo import demo_frame

PARAMS = Params().updated({"stream": {"segments": 40, "scale": 1.0}})


def clip(count):
    return [demo_frame(3 * index).rgb[::2, ::2].copy() for index in range(count)]


def ahead(pictures, params=PARAMS, tuning=DEFAULT):
    """Return pictures prepared in turn."""
    preparer = Preparer(params, tuning)
    return [preparer.prepare(rgb) for rgb in pictures]


def labels_of(segmenter, prepared):
    return [segmenter.label(frame).state.labels for frame in prepared]


def labels_without(segmenter, pictures):
    """Return the labels of pictures of which nothing was found ahead."""
    found = []
    for rgb in pictures:
        segmenter.step(rgb)
        found.append(segmenter.state.labels)
    return found


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_preparer_finds_motion_that_leads_to_the_same_labels(scale):
    params = PARAMS.updated({"stream": {"scale": scale}})
    expected = labels_without(Segmenter(params), clip(6))
    np.testing.assert_array_equal(labels_of(Segmenter(params), ahead(clip(6), params)), expected)


def since(prepared, before):
    return prepared.motion_since(before.picture.half_luma, before.picture.smooth)


def test_prepared_hands_out_the_motion_that_was_sought_ahead_and_nobody_seeks_it_again():
    """It is the very arrays, for the caller to change: a frame is labelled once."""
    first, second = ahead(clip(2))
    assert first.motion is None
    assert second.motion is not None
    assert since(second, first) is second.motion
    expected = backward_flow(
        second.picture.half_luma, first.picture.half_luma, second.picture.shape
    )
    np.testing.assert_array_equal(second.motion.flow, expected)
    traced = trace_pixels(expected, first.picture.smooth, second.picture.smooth)
    for found, wanted in zip(second.motion, traced, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_prepared_compares_anew_with_colours_that_are_not_those_it_was_compared_with():
    """As after a state was scaled: the flow is known, the colours of the state are others."""
    first, second = ahead(clip(2))
    others = first.picture.smooth + np.float32(1.0)
    found = second.motion_since(first.picture.half_luma, others)
    assert found.flow is second.motion.flow
    np.testing.assert_array_equal(
        found.gap, trace_pixels(found.flow, others, second.picture.smooth).gap
    )
    assert (found.gap != second.motion.gap).any()


def test_segmenter_believes_the_motion_that_was_sought_ahead():
    """A flow that is wrong on purpose is what the table of segments tells of their motion."""
    tuning = dataclasses.replace(Tuning(), recover_lost=False)  # which may find another motion
    first, *others = ahead(clip(4), tuning=tuning)
    segmenter = Segmenter(PARAMS, tuning=tuning)
    segmenter.label(first)
    for frame in others:
        wrong = np.empty_like(frame.motion.flow)
        wrong[...] = -1.0, 2.0
        motion = trace_pixels(wrong, frame.before.smooth, frame.picture.smooth)
        labelled = segmenter.label(dataclasses.replace(frame, motion=motion))
        assert (labelled.flow == (-1.0, 2.0)).all()


def test_preparer_does_no_harm_where_a_frame_was_dropped_in_between():
    pictures, kept = clip(6), (0, 1, 4, 5)
    expected = labels_without(Segmenter(PARAMS), [pictures[index] for index in kept])
    prepared = ahead(pictures)
    found = labels_of(Segmenter(PARAMS), [prepared[index] for index in kept])
    np.testing.assert_array_equal(found, expected)


def test_preparer_does_no_harm_after_a_state_was_restored():
    first = Segmenter(PARAMS)
    labels_of(first, ahead(clip(6))[:3])
    again = SegmenterState.from_arrays(first.state.to_arrays())
    expected = labels_without(first, clip(6)[3:])
    # one that begins with the state, and one that has seen what came before it
    for rest in (ahead(clip(6)[3:]), ahead(clip(6))[3:]):
        found = labels_of(Segmenter(PARAMS, state=again), rest)
        np.testing.assert_array_equal(found, expected)


def test_preparer_takes_other_settings_from_the_next_frame_on():
    pictures = clip(2)
    preparer = Preparer(PARAMS)
    first = preparer.prepare(pictures[0])
    preparer.params = PARAMS.updated({"stream": {"flow": "fast"}})
    second = preparer.prepare(pictures[1])
    lumas = second.picture.half_luma, first.picture.half_luma
    expected = backward_flow(*lumas, second.picture.shape, preparer.params.stream.flow)
    np.testing.assert_array_equal(second.motion.flow, expected)
    assert (ahead(pictures)[1].motion.flow != second.motion.flow).any()


def test_preparer_leaves_motion_to_the_labels_where_the_scale_changes():
    """What a frame is compared with then is what the state makes of the one before."""
    preparer = Preparer(PARAMS)
    preparer.prepare(clip(1)[0])
    preparer.params = PARAMS.updated({"stream": {"scale": 0.5}})
    second, third = (preparer.prepare(rgb) for rgb in clip(3)[1:])
    assert second.motion is None
    assert third.motion is not None


def test_preparer_finds_no_motion_where_a_clip_changes_its_size():
    small, large = ahead([clip(1)[0], demo_frame(0).rgb])
    assert small.motion is None
    assert large.motion is None


def test_prepared_seeks_the_motion_since_another_frame_and_leaves_its_own():
    first, _, third = ahead(clip(3))
    own = third.motion.flow.copy()
    found = since(third, first)
    lumas = third.picture.half_luma, first.picture.half_luma
    np.testing.assert_array_equal(found.flow, backward_flow(*lumas, third.picture.shape))
    assert (found.flow != own).any()
    np.testing.assert_array_equal(third.motion.flow, own)


def test_prepare_keeps_the_frame_and_settings_for_the_size_at_which_it_is_segmented():
    rgb = demo_frame(0).rgb
    prepared = prepare(rgb, 2.5, PARAMS.updated({"stream": {"scale": 0.5}}), DEFAULT)
    assert prepared.frame is rgb
    assert prepared.time == 2.5
    assert prepared.small.shape == (rgb.shape[0] // 2, rgb.shape[1] // 2, 3)
    assert prepared.picture.shape == prepared.small.shape[:2]
    assert prepared.params != PARAMS
    whole = prepare(rgb, None, PARAMS, DEFAULT)
    assert whole.small is rgb
    assert whole.params == PARAMS


def test_prepare_takes_any_layout_and_refuses_what_is_no_frame():
    rgb = clip(1)[0]
    turned = prepare(rgb[::-1].copy()[::-1], None, PARAMS, DEFAULT)
    np.testing.assert_array_equal(turned.frame, rgb)
    assert turned.frame.flags.c_contiguous
    with pytest.raises(ValueError, match="a frame must be uint8, got uint16"):
        prepare(rgb.astype(np.uint16), None, PARAMS, DEFAULT)


def test_preparer_tells_how_long_its_stages_took():
    def watch(seconds):
        def clock(stage):
            seconds[stage] = seconds.get(stage, 0.0) + 1.0

        return clock

    preparer = Preparer(PARAMS.updated({"stream": {"scale": 0.5}}), watch=watch)
    first, second = (preparer.prepare(rgb) for rgb in clip(2))
    assert first.seconds == {"scale": 1.0, "features": 1.0}
    assert second.seconds == {"scale": 1.0, "features": 1.0, "flow": 1.0}

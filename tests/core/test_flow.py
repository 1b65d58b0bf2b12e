"""Flow that was sought ahead is what the segmenter would have found itself."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from aaams_stream.core.flow import FlowHint, backward_flow, with_flow
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.tuning import Tuning
from aaams_stream.model import Frame
from aaams_stream.params import Params
from aaams_stream.source.demo import demo_frame

PARAMS = Params().updated({"stream": {"segments": 40}})


def clip(count):
    pictures = (demo_frame(3 * index).rgb[::2, ::2].copy() for index in range(count))
    return [Frame(index, Fraction(index, 25), rgb) for index, rgb in enumerate(pictures)]


def ids_of(segmenter, hinted):
    return [segmenter.step(frame.rgb, None, hint).ids for frame, hint in hinted]


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_with_flow_gives_hints_that_lead_to_the_same_ids(scale):
    params = PARAMS.updated({"stream": {"scale": scale}})
    plain, ahead = Segmenter(params), Segmenter(params)
    expected = [plain.step(frame.rgb).ids for frame in clip(6)]
    for mine, theirs in zip(ids_of(ahead, with_flow(clip(6), params)), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_flow_hint_gives_what_was_sought_ahead_and_nobody_seeks_it_again():
    """A flow that no search would find comes back, as a copy for the caller to change."""
    (_, first), (_, second) = with_flow(clip(2), PARAMS)
    shape = second.flow.shape[:2]
    wrong = np.random.default_rng(0).normal(size=(*shape, 2)).astype(np.float32)
    hint = dataclasses.replace(second, flow=wrong.copy())
    found = hint.backward_flow(first.half_luma, shape, PARAMS.stream.flow, Tuning())
    np.testing.assert_array_equal(found, wrong)
    found[:] = 0
    np.testing.assert_array_equal(hint.flow, wrong)


def test_segmenter_believes_a_hint_and_leaves_it_as_it_was():
    """A flow that is wrong on purpose is what the table of segments tells of their motion."""
    params = PARAMS.updated({"stream": {"scale": 1.0}})
    tuning = dataclasses.replace(Tuning(), recover_lost=False)  # which may find another motion
    frames, hints = zip(*with_flow(clip(4), params, tuning), strict=True)
    wrong = np.empty_like(hints[1].flow)
    wrong[...] = -1.0, 2.0
    for flows in ([hint.flow for hint in hints], [None, wrong, wrong.copy(), wrong.copy()]):
        given = [dataclasses.replace(h, flow=f) for h, f in zip(hints, flows, strict=True)]
        copies = [flow.copy() for flow in flows[1:]]
        segmenter = Segmenter(params, tuning=tuning)
        results = [segmenter.step(f.rgb, None, h) for f, h in zip(frames, given, strict=True)]
        for result in results[1:]:
            told = (result.segments["motion"] == [1.0, -2.0]).all()
            assert told == (flows[1] is wrong)
        for flow, copy in zip(flows[1:], copies, strict=True):
            np.testing.assert_array_equal(flow, copy)
        assert given[1].flow is flows[1]


def test_flow_hint_does_no_harm_where_a_frame_was_dropped_in_between():
    frames = clip(6)
    few = [frames[index] for index in (0, 1, 4, 5)]
    hinted = [pair for pair in with_flow(frames, PARAMS) if pair[0].index in (0, 1, 4, 5)]
    plain = Segmenter(PARAMS)
    expected = [plain.step(frame.rgb).ids for frame in few]
    np.testing.assert_array_equal(ids_of(Segmenter(PARAMS), hinted), expected)


def test_flow_hint_does_no_harm_after_a_state_was_restored():
    hinted = list(with_flow(clip(6), PARAMS))
    first = Segmenter(PARAMS)
    ids_of(first, hinted[:3])
    again = SegmenterState.from_arrays(first.state.to_arrays())
    expected = ids_of(first, hinted[3:])
    got = ids_of(Segmenter(PARAMS, state=again), list(with_flow(clip(6)[3:], PARAMS)))
    np.testing.assert_array_equal(got, expected)


def test_flow_hint_seeks_another_quality_size_or_tuning_anew():
    (_, first), (_, second) = with_flow(clip(2), PARAMS)
    shape = second.flow.shape[:2]
    finer = dataclasses.replace(Tuning(), flow_stride=3)
    for wanted in ((shape, "fast", Tuning()), ((50, 70), "fine", Tuning()), (shape, "fine", finer)):
        expected = backward_flow(second.half_luma, first.half_luma, *wanted)
        found = second.backward_flow(first.half_luma, *wanted)
        np.testing.assert_array_equal(found, expected)
        assert found.shape != second.flow.shape or (found != second.flow).any()


def test_with_flow_finds_none_where_a_clip_changes_its_size():
    small = clip(1)[0]
    large = Frame(1, Fraction(1, 25), demo_frame(0).rgb)
    (_, first), (_, second) = with_flow([small, large], PARAMS)
    assert first.flow is None
    assert second.flow is None
    assert isinstance(second, FlowHint)

"""Motion that was sought ahead is what the segmenter would have found itself."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from aaams_stream.core import features
from aaams_stream.core.flow import Glimpse, with_glimpses
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.state import SegmenterState
from aaams_stream.model import Frame
from aaams_stream.params import Params
from aaams_stream.source.demo import demo_frame

PARAMS = Params().updated({"stream": {"segments": 40}})


def clip(count):
    pictures = (demo_frame(3 * index).rgb[::2, ::2].copy() for index in range(count))
    return [Frame(index, Fraction(index, 25), rgb) for index, rgb in enumerate(pictures)]


def ids_of(segmenter, seen):
    return [segmenter.step(frame.rgb, None, glimpse).ids for frame, glimpse in seen]


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_frames_seen_ahead_give_the_same_ids(scale):
    params = PARAMS.updated({"stream": {"scale": scale}})
    plain, ahead = Segmenter(params), Segmenter(params)
    expected = [plain.step(frame.rgb).ids for frame in clip(6)]
    for mine, theirs in zip(ids_of(ahead, with_glimpses(clip(6), params)), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_what_was_sought_ahead_is_used_and_left_as_it_was(monkeypatch):
    seen = list(with_glimpses(clip(4), PARAMS))
    flows = [glimpse.flow.copy() for _, glimpse in seen[1:]]
    monkeypatch.setattr(features, "flow_back", None)  # nobody seeks it again
    ids_of(Segmenter(PARAMS), seen)
    for (_, glimpse), flow in zip(seen[1:], flows, strict=True):
        np.testing.assert_array_equal(glimpse.flow, flow)


def test_a_frame_dropped_in_between_does_no_harm():
    frames = clip(6)
    few = [frames[index] for index in (0, 1, 4, 5)]
    seen = [pair for pair in with_glimpses(frames, PARAMS) if pair[0].index in (0, 1, 4, 5)]
    plain = Segmenter(PARAMS)
    expected = [plain.step(frame.rgb).ids for frame in few]
    np.testing.assert_array_equal(ids_of(Segmenter(PARAMS), seen), expected)


def test_a_restored_state_goes_on_the_same():
    seen = list(with_glimpses(clip(6), PARAMS))
    first = Segmenter(PARAMS)
    ids_of(first, seen[:3])
    again = SegmenterState.from_arrays(first.state.to_arrays())
    expected = ids_of(first, seen[3:])
    got = ids_of(Segmenter(PARAMS, state=again), list(with_glimpses(clip(6)[3:], PARAMS)))
    np.testing.assert_array_equal(got, expected)


def test_another_quality_or_size_is_sought_anew():
    (_, first), (_, second) = with_glimpses(clip(2), PARAMS)
    shape = second.flow.shape[:2]
    for wanted in ((shape, "fast"), ((50, 70), "fine")):
        expected = features.flow_back(second.grey, first.grey, *wanted)
        np.testing.assert_array_equal(second.flow_back(first.grey, *wanted), expected)


def test_a_clip_that_changes_its_size_has_no_motion_there():
    small = clip(1)[0]
    large = Frame(1, Fraction(1, 25), demo_frame(0).rgb)
    (_, first), (_, second) = with_glimpses([small, large], PARAMS)
    assert first.flow is None
    assert second.flow is None
    assert isinstance(second, Glimpse)

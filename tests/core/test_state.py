"""The segmenter's memory at another size: identities live on, and everything is scaled alike."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from aaams_stream.core import features, packed
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.model import EventKind
from aaams_stream.params import Params
from aaams_stream.source.demo import SURFACES, demo_frame

FEW = Params().updated({"stream": {"segments": 40, "scale": 1.0}})


@pytest.fixture(scope="module")
def state():
    segmenter = Segmenter(FEW)
    for index in range(3):
        segmenter.step(demo_frame(index).rgb)
    return segmenter.state


def test_resized_state_of_the_same_size_is_the_same(state):
    again = state.resized(state.labels.shape).to_arrays()
    for name, array in state.to_arrays().items():
        np.testing.assert_allclose(again[name], array, rtol=1e-6, err_msg=name)


def test_resized_labels_cover_the_same_share_at_any_size(state):
    for shape in ((120, 160), (180, 240), (480, 640)):
        small = state.resized(shape)
        assert small.labels.shape == small.smooth.shape[1:] == small.density.shape == shape
        share = np.bincount(small.labels.reshape(-1), minlength=len(state.tracks.ids))
        share = share / small.labels.size
        np.testing.assert_allclose(share, state.tracks.area / state.labels.size, atol=6e-3)
        np.testing.assert_allclose(small.tracks.area / small.labels.size, share, atol=6e-3)


def test_resized_tracks_have_places_and_bandwidths_scaled_alike(state):
    """Squashed by different factors, distances in units of the bandwidth stay what they were."""
    small = state.resized((120, 240))
    scale = np.array([0.75, 0.5])
    moved = small.tracks.mode[:, packed.PLACE] + 0.5
    np.testing.assert_allclose(moved, (state.tracks.mode[:, packed.PLACE] + 0.5) * scale, rtol=1e-4)
    for before, after in zip(state.tracks.precision, small.tracks.precision, strict=True):
        step = np.array([3.0, -2.0])
        assert _squared(after, step * scale) == pytest.approx(_squared(before, step), rel=1e-4)
        # 1/√det grows as the pixels of a bandwidth grow fewer
        assert after[packed.ROOT_DET] == pytest.approx(
            before[packed.ROOT_DET] / scale.prod(), rel=1e-4
        )
    scatter = state.tracks.trajectory[:, packed.SPACE_SCATTER] * [0.75**2, 0.75 * 0.5, 0.5**2]
    np.testing.assert_allclose(
        small.tracks.trajectory[:, packed.SPACE_SCATTER], scatter, rtol=1e-4, atol=1e-6
    )
    np.testing.assert_array_equal(small.tracks.trajectory[:, :4], state.tracks.trajectory[:, :4])


def _squared(precision, step):
    xx, xy, yy = precision[packed.SPACE_PRECISION]
    x, y = step
    return xx * x * x + 2 * xy * x * y + yy * y * y


def test_resized_does_not_change_the_state_itself(state):
    before = {name: array.copy() for name, array in state.to_arrays().items()}
    state.resized((97, 131))
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_segmenter_keeps_identities_through_a_smaller_size_and_back():
    """The things of a moving scene keep their ids while the resolution changes twice."""
    segmenter = Segmenter(FEW)
    shapes = [(240, 320)] * 6 + [(120, 160)] * 6 + [(180, 240)] * 6 + [(240, 320)] * 6
    found = []
    for index, shape in enumerate(shapes):
        frame = demo_frame(index)
        if segmenter.state is not None:
            segmenter.state = segmenter.state.resized(shape)
        result = segmenter.step(features.resized(frame.rgb, shape))
        assert EventKind.CUT not in result.events["kind"]
        truth = frame.truth[:: 240 // shape[0], :: 320 // shape[1]] if shape != (180, 240) else None
        if truth is not None:
            found.append((result, truth))
    (first, before), (last, after) = found[0], found[-1]
    kept = [
        np.isin(
            last.ids[after == SURFACES.index(name)], first.ids[before == SURFACES.index(name)]
        ).mean()
        for name in ("sky", "sun", "water", "house", "roof", "balloon")
    ]
    assert sorted(kept)[1] > 0.6


def test_segmenter_bears_and_loses_few_segments_when_the_size_changes():
    segmenter = Segmenter(FEW)
    for index in range(6):
        before = segmenter.step(demo_frame(index).rgb)
    segmenter.state = segmenter.state.resized((120, 160))
    after = segmenter.step(features.resized(demo_frame(6).rgb, (120, 160)))
    both = set(before.segments["id"].tolist()) & set(after.segments["id"].tolist())
    assert len(both) >= 0.85 * len(before.segments)
    assert after.stats["warm"] > 0.8


def test_resized_lost_tracks_are_scaled_too(state):
    lost = dataclasses.replace(
        state.lost,
        ids=np.array([7], np.uint32),
        first_frame=np.array([0]),
        last_seen=np.array([1]),
        area=np.array([400]),
        predicted_centre=state.tracks.predicted_centre[:1],
        colours=state.tracks.colours[:1],
        motion=np.array([[4.0, -2.0]]),
    )
    small = dataclasses.replace(state, lost=lost).resized((120, 160))
    assert small.lost.area.tolist() == [100]
    np.testing.assert_array_equal(small.lost.predicted_centre, small.tracks.predicted_centre[:1])
    np.testing.assert_allclose(
        small.lost.predicted_centre + 0.5, (state.tracks.predicted_centre[:1] + 0.5) / 2
    )
    np.testing.assert_array_equal(small.lost.motion, [[2.0, -1.0]])

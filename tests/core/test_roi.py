"""A region of interest: the rest of each frame has id 0, and costs nothing where that is easy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.clips import moving_frames

from aaams_stream.core.roi import Roi, as_roi
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.state import SegmenterState
from aaams_stream.errors import ConfigError
from aaams_stream.model import EventKind
from aaams_stream.params import Params
from aaams_stream.source.demo import demo_frame

SHAPE = (120, 160)
Y, X = np.mgrid[: SHAPE[0], : SHAPE[1]]
DISC = np.hypot(Y - 60, X - 80) < 50
REGIONS = {
    "disc": DISC,
    "islands": (np.hypot(Y - 30, X - 30) < 25) | (np.hypot(Y - 80, X - 120) < 30),
    "all but a pixel": ~((Y == 50) & (X == 50)),
    "a pixel": (Y == 50) & (X == 50),
    "a line": Y == 60,
    "grains": np.random.default_rng(0).random(SHAPE) < 0.5,
}


def frames(count):
    return [demo_frame(t).rgb[::2, ::2] for t in range(count)]


def settings(scale):
    return Params().updated({"stream": {"scale": scale, "segments": 40}})


def same(one, other):
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.segments, other.segments)
    np.testing.assert_array_equal(one.events, other.events)
    np.testing.assert_array_equal(one.adjacency, other.adjacency)


@pytest.mark.parametrize("scale", [0.5, 1.0])
@pytest.mark.parametrize("name", REGIONS)
def test_segments_fill_the_region_and_nothing_else(name, scale):
    segmenter = Segmenter(settings(scale), roi=REGIONS[name])
    for rgb in frames(12):
        found = segmenter.step(rgb)
        np.testing.assert_array_equal(found.ids > 0, REGIONS[name])
        ids, areas = np.unique(found.ids[found.ids > 0], return_counts=True)
        np.testing.assert_array_equal(found.segments["id"], ids)
        np.testing.assert_array_equal(found.segments["area"], areas)
        assert np.isin(found.adjacency["first"], ids).all()
        kinds = found.events["kind"]
        assert (found.events["id"][kinds != EventKind.CUT] > 0).all()


def test_a_rectangle_gives_what_the_crop_gives():
    mask = np.zeros(SHAPE, np.uint8)
    mask[21:100, 32:131] = 7
    inside, cropped = Segmenter(roi=mask), Segmenter()
    for rgb in frames(8):
        found, plain = inside.step(rgb), cropped.step(rgb[21:100, 32:131])
        np.testing.assert_array_equal(found.ids[21:100, 32:131], plain.ids)
        np.testing.assert_array_equal(found.segments["area"], plain.segments["area"])
        np.testing.assert_array_equal(
            found.segments["bbox"], plain.segments["bbox"] + np.array([32, 21, 32, 21])
        )
        np.testing.assert_allclose(
            found.segments["centroid"], plain.segments["centroid"] + (32, 21), atol=1e-3
        )
        np.testing.assert_allclose(
            found.segments["mode"], plain.segments["mode"] + (0, 0, 0, 32, 21), atol=1e-3
        )


def test_noise_outside_is_no_scene_change_and_costs_no_identity():
    segmenter, rng, rgb = Segmenter(settings(1.0), roi=DISC), np.random.default_rng(3), frames(1)[0]
    seen = []
    for _ in range(6):
        noise = rng.integers(0, 256, rgb.shape, np.uint8)
        found = segmenter.step(np.where(DISC[..., None], rgb, noise))
        seen.append(set(found.segments["id"].tolist()))
        assert EventKind.CUT not in found.events["kind"]
    assert found.stats["warm"] > 0.8
    assert len(seen[0] & seen[-1]) > 0.8 * len(seen[0])


def test_everything_inside_is_as_without_a_mask():
    masked, plain = Segmenter(roi=np.ones(SHAPE)), Segmenter()
    for rgb in frames(4):
        same(masked.step(rgb), plain.step(rgb))


def test_a_scene_change_is_noticed_inside_alone():
    first, second = frames(1)[0], moving_frames(1, *SHAPE)[0]
    for changed, cuts in ((DISC, 1), (~DISC, 0)):
        segmenter = Segmenter(roi=DISC)
        for _ in range(3):
            before = segmenter.step(first)
        after = segmenter.step(np.where(changed[..., None], 255 - second, first))
        assert np.count_nonzero(after.events["kind"] == EventKind.CUT) == cuts
        known = np.isin(after.segments["id"], before.segments["id"])
        assert known.mean() > 0.7 if not cuts else not known.any()


def test_another_scale_on_the_way_keeps_region_and_identities():
    for mask in (DISC, REGIONS["all but a pixel"]):
        segmenter = Segmenter(settings(1.0), roi=mask)
        seen = []
        for t, rgb in enumerate(frames(9)):
            segmenter.params = settings(1.0 if t // 3 != 1 else 0.5)
            found = segmenter.step(rgb)
            np.testing.assert_array_equal(found.ids > 0, mask)
            seen.append(set(found.segments["id"].tolist()))
        assert len(seen[0] & seen[-1]) > 0.6 * len(seen[0])


def test_a_state_is_gone_on_with_bit_for_bit():
    segmenter = Segmenter(roi=DISC)
    for rgb in frames(4):
        segmenter.step(rgb)
    state = SegmenterState.from_arrays(segmenter.state.to_arrays())
    other = Segmenter(roi=DISC, state=state)
    for rgb in frames(8)[4:]:
        same(segmenter.step(rgb), other.step(rgb))


def test_a_state_of_another_region_is_refused():
    segmenter = Segmenter(roi=DISC)
    segmenter.step(frames(1)[0])
    for other in (
        Segmenter(state=dataclasses.replace(segmenter.state, frame_shape=None)),
        Segmenter(roi=REGIONS["islands"], state=segmenter.state),
    ):
        with pytest.raises(ValueError, match=r"region of interest|keep their size"):
            other.step(frames(1)[0])


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (np.zeros(SHAPE), "the mask is empty"),
        (np.zeros((0, 0)), "the mask is empty"),
        (np.ones((3, 4, 5)), r"expected an array \(h, w\)"),
        (np.array([["a"]]), r"expected an array \(h, w\)"),
    ],
)
def test_what_is_no_region_is_refused(mask, said):
    with pytest.raises(ConfigError, match=said):
        Segmenter(roi=mask)


def test_a_region_of_another_size_is_refused():
    with pytest.raises(ConfigError, match="the mask is 160x120, expected 80x60 as the frames are"):
        Segmenter(roi=DISC).step(frames(1)[0][::2, ::2])


@pytest.mark.parametrize("name", REGIONS)
def test_text_of_a_region_is_read_back_equal(name):
    roi = Roi(REGIONS[name])
    np.testing.assert_array_equal(Roi.of_text(roi.to_text(), SHAPE).mask, roi.mask)
    assert len(roi.to_text()) < SHAPE[0] * SHAPE[1] / 5


@pytest.mark.parametrize("text", ["", "?", "AAAA", Roi(DISC[:, :-8]).to_text()])
def test_text_of_no_such_region_is_refused(text):
    with pytest.raises(ValueError, match="mask"):
        Roi.of_text(text, SHAPE)


def test_a_region_of_everything_leaves_no_trace():
    assert as_roi(np.ones((3, 4), np.uint8)).to_text() is None
    assert as_roi(None) is None

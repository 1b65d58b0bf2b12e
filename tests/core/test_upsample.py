"""Frames segmented at a share of their size: labels and tables in the pixels of the frame."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.clips import write_clip

from aaams_stream import Params, Segmenter
from aaams_stream.core import features
from aaams_stream.core.measure import describe
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.upsample import enlarged, working_params, working_shape
from aaams_stream.kernels import upsample
from aaams_stream.model import ADJACENCY_DTYPE, SEGMENT_DTYPE
from aaams_stream.run.segment_video import segment_video
from aaams_stream.source.demo import demo_frame
from aaams_stream.store import open_volume

FLAT = np.ones(1024, np.float32)  # votes that see no colour


def params(scale, **stream):
    return Params().updated({"stream": {"segments": 60, "scale": scale, **stream}})


def parts(labels, label):
    """Count the 4-connected pieces of a label."""
    return cv2.connectedComponents((labels == label).astype(np.uint8), connectivity=4)[0] - 1


def labels_in(rgb, labels, small):
    """Return the labels (h, w) of a small picture in a larger one."""
    segments = np.zeros(labels.max() + 1, SEGMENT_DTYPE)
    segments["id"] = 1 + np.arange(len(segments))
    return enlarged(labels, segments, np.empty(0, ADJACENCY_DTYPE), small, rgb)[0]


@st.composite
def pictures(draw):
    """Draw labels (h, w), their picture, and a larger picture."""
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=8))
    labels = draw(hnp.arrays(np.int32, shape, elements=st.integers(0, 3)))
    labels = np.unique(labels, return_inverse=True)[1].reshape(shape).astype(np.int32)
    larger = tuple(side + draw(st.integers(0, 2 * side)) for side in shape)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return labels, *(rng.integers(0, 60, (*size, 3), np.uint8) for size in (shape, larger))


@given(pictures())
def test_no_segment_is_lost_or_falls_apart(picture):
    """Even where colours are noise and everyone wants to be someone else."""
    labels, small, rgb = picture
    found = labels_in(rgb, labels, small)
    for label in range(labels.max() + 1):
        assert 1 <= parts(found, label) <= parts(labels, label)


@given(pictures())
def test_only_pixels_between_segments_are_decided(picture):
    labels, small, rgb = picture
    found = labels_in(rgb, labels, small)
    (h, w), (high, wide) = labels.shape, rgb.shape[:2]
    place = [
        ((np.arange(large) + 0.5) * little / large - 0.5).clip(0, little - 1)
        for little, large in ((h, high), (w, wide))
    ]
    for y, v in enumerate(place[0]):
        for x, u in enumerate(place[1]):
            around = labels[int(v) : int(v) + 2, int(u) : int(u) + 2]
            assert found[y, x] in around


def test_the_label_a_pixel_looks_like_wins_over_the_nearest():
    """A slanted edge: the staircase of the small labels becomes the edge of the frame."""
    y, x = np.indices((120, 160))
    truth = (3 * x + y > 260).astype(np.int32)
    rgb = np.where(truth[..., None], [200, 40, 40], [60, 80, 160]).astype(np.uint8)
    small = cv2.resize(rgb, (80, 60), interpolation=cv2.INTER_AREA)
    labels = (small[..., 0] > 130).astype(np.int32)
    found = labels_in(rgb, labels, small)
    nearest = cv2.resize(labels, (160, 120), interpolation=cv2.INTER_NEAREST)
    assert (nearest != truth).sum() >= 60
    assert (found != truth).sum() <= 2


@given(pictures())
def test_a_table_too_small_for_the_contacts_says_so(picture):
    labels = picture[0]
    k = int(labels.max()) + 1
    outputs = np.empty(k, np.int64), np.empty((k, 4), np.int32), np.empty((k, 2)), np.empty(k, int)
    first, second, length = upsample.measure_shapes(labels, 64, *outputs)
    assert (first < second).all()
    few = upsample.measure_shapes(labels, 2, *outputs)[0]
    assert few.size == (len(first) if len(first) <= 1 else 0)
    sides = np.count_nonzero(np.diff(labels, axis=0)) + np.count_nonzero(np.diff(labels, axis=1))
    assert length.sum() == sides


def test_where_colours_tell_nothing_the_nearest_label_stays():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 5, (9, 12)).astype(np.int32)
    small, rgb = np.zeros((9, 12, 3), np.uint8), np.zeros((27, 36, 3), np.uint8)
    nearest, places, wanted = np.empty((3, 27, 36), np.int32)
    wishes = np.empty(27, np.int32)
    upsample.choose_labels(labels, small, rgb, FLAT, nearest, places, wanted, wishes)
    np.testing.assert_array_equal(nearest, labels.repeat(3, 0).repeat(3, 1))
    for y, count in enumerate(wishes):
        assert not ((places[y, :count] % 3 == 1) & (y % 3 == 1)).any()


SIZES = [(0.5, (96, 128)), (0.55, (111, 150)), (0.8, (97, 61))]


@pytest.mark.parametrize(("scale", "shape"), SIZES)
def test_tables_tell_what_the_ids_show(scale, shape):
    segmenter = Segmenter(params(scale, segments=20))
    for index in range(3):
        rgb = cv2.resize(demo_frame(4 * index).rgb, shape[::-1])
        result = segmenter.step(rgb)
        ids = result.ids
        assert ids.shape == shape
        assert segmenter.state.labels.shape == working_shape(shape, scale) < shape
        framed = np.pad(ids, 1)
        lengths: dict[tuple[int, int], int] = {}
        for a, b in ((framed[:, :-1], framed[:, 1:]), (framed[:-1], framed[1:])):
            for pair in zip(a[a != b].tolist(), b[a != b].tolist(), strict=True):
                key = (min(pair), max(pair))
                lengths[key] = lengths.get(key, 0) + 1
        np.testing.assert_array_equal(result.segments["id"], np.unique(ids))
        for row in result.segments:
            y, x = np.nonzero(ids == row["id"])
            assert row["area"] == len(x)
            assert row["bbox"].tolist() == [x.min(), y.min(), x.max() + 1, y.max() + 1]
            np.testing.assert_allclose(row["centroid"], (x.mean(), y.mean()), rtol=1e-5)
            assert row["perimeter"] == sum(n for pair, n in lengths.items() if row["id"] in pair)
        told = {(row["first"], row["second"]): row["length"] for row in result.adjacency}
        assert told == {pair: n for pair, n in lengths.items() if pair[0]}
        assert (result.adjacency["contrast"] > 0).all()


def test_modes_bandwidths_and_motion_are_in_pixels_of_the_frame():
    segmenter = Segmenter(params(0.5))
    for index in range(4):
        rgb = np.roll(demo_frame(0).rgb, 4 * index, axis=1)
        result = segmenter.step(rgb)
    large = result.segments[result.segments["area"] > 1000]
    np.testing.assert_allclose(np.median(large["motion"], axis=0), (4.0, 0.0), atol=0.3)
    small = features.scaled(rgb, (120, 160))
    given, _ = describe(segmenter.state, features.lab_planes(small), None)
    found = result.segments
    np.testing.assert_array_equal(found["id"], given["id"])
    np.testing.assert_allclose(found["mode"][:, :3], given["mode"][:, :3])
    np.testing.assert_allclose(found["mode"][:, 3:] + 0.5, 2 * (given["mode"][:, 3:] + 0.5))
    np.testing.assert_allclose(found["bandwidth_space"], 4 * given["bandwidth_space"])
    np.testing.assert_allclose(found["bandwidth_colour"], given["bandwidth_colour"])


def test_lengths_and_sizes_shrink_with_the_picture():
    wanted = Params().updated({"post": {"min_size": 20}})
    half = working_params(wanted, 0.36)
    assert half.space.sigma2 == pytest.approx(0.36 * wanted.space.sigma2)
    assert half.space.epsilon2 == pytest.approx(0.36 * wanted.space.epsilon2)
    assert half.post.min_size == 7
    assert (half.colour, half.core) == (wanted.colour, wanted.core)
    assert working_params(wanted, 1.0) == wanted
    assert working_params(wanted, 0.01) == working_params(wanted, 0.25)
    tight = wanted.updated({"space": {"sigma2": 1.0, "epsilon2": 0.0}})
    assert working_params(tight, 0.25).space == tight.space


def test_small_pictures_are_not_made_smaller_still():
    assert working_shape((480, 640, 3), 0.5) == (240, 320)
    assert working_shape((60, 400), 0.25) == (48, 320)
    assert working_shape((20, 30), 0.25) == (20, 30)
    assert working_shape((1, 1), 0.05) == (1, 1)


def test_a_saved_state_goes_on_bit_for_bit_at_a_smaller_size():
    frames = [demo_frame(2 * i).rgb for i in range(5)]
    whole = Segmenter(params(0.6))
    expected = [whole.step(rgb) for rgb in frames]
    begun = Segmenter(params(0.6))
    for rgb in frames[:3]:
        begun.step(rgb)
    saved = begun.state.to_arrays()
    resumed = Segmenter(params(0.6), state=SegmenterState.from_arrays(saved))
    for rgb, result in zip(frames[3:], expected[3:], strict=True):
        again = resumed.step(rgb)
        np.testing.assert_array_equal(again.ids, result.ids)
        assert again.segments.tobytes() == result.segments.tobytes()
        assert again.adjacency.tobytes() == result.adjacency.tobytes()


def test_a_volume_has_the_size_of_the_frames(tmp_path):
    clip = write_clip(tmp_path / "clip.mkv", [demo_frame(i).rgb for i in range(5)], rate=10)
    segment_video(clip, tmp_path / "a.zarr", params(0.55))
    volume = open_volume(tmp_path / "a.zarr")
    assert volume.ids.shape == (5, 240, 320)
    assert volume.params.stream.scale == 0.55
    segmenter = Segmenter(params(0.55))
    for t in range(5):
        result = segmenter.step(demo_frame(t).rgb)
        np.testing.assert_array_equal(volume.ids[t], result.ids)
        np.testing.assert_array_equal(volume.segments(t), result.segments)


def test_another_size_is_refused_with_a_remedy():
    segmenter = Segmenter(params(0.5))
    segmenter.step(np.zeros((100, 120, 3), np.uint8))
    with pytest.raises(ValueError, match=r"keep their size.*begin a new Segmenter"):
        segmenter.step(np.zeros((100, 130, 3), np.uint8))

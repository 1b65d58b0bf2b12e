"""Labels of a smaller picture in the pixels of the frame itself."""

from __future__ import annotations

import cv2
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aaams_stream.core.tuning import DEFAULT
from aaams_stream.core.upsample import upsample
from aaams_stream.kernels import upsample as kernels

FLAT = np.ones(1024, np.float32)  # votes that see no colour


def parts(labels, label):
    """Count the 4-connected parts of a label."""
    return cv2.connectedComponents((labels == label).astype(np.uint8), connectivity=4)[0] - 1


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
def test_upsample_loses_no_segment_and_tears_none(picture):
    """Even where colours are noise and everyone wants to be someone else."""
    labels, small, rgb = picture
    found = upsample(labels, small, rgb, DEFAULT)
    for label in range(labels.max() + 1):
        assert 1 <= parts(found, label) <= parts(labels, label)


@given(pictures())
def test_upsample_decides_only_pixels_between_segments(picture):
    labels, small, rgb = picture
    found = upsample(labels, small, rgb, DEFAULT)
    (h, w), (high, wide) = labels.shape, rgb.shape[:2]
    place = [
        ((np.arange(large) + 0.5) * little / large - 0.5).clip(0, little - 1)
        for little, large in ((h, high), (w, wide))
    ]
    for y, v in enumerate(place[0]):
        for x, u in enumerate(place[1]):
            around = labels[int(v) : int(v) + 2, int(u) : int(u) + 2]
            assert found[y, x] in around


def test_upsample_prefers_the_label_a_pixel_looks_like_to_the_nearest():
    """A slanted edge: the staircase of the small labels becomes the edge of the frame."""
    y, x = np.indices((120, 160))
    truth = (3 * x + y > 260).astype(np.int32)
    rgb = np.where(truth[..., None], [200, 40, 40], [60, 80, 160]).astype(np.uint8)
    small = cv2.resize(rgb, (80, 60), interpolation=cv2.INTER_AREA)
    labels = (small[..., 0] > 130).astype(np.int32)
    found = upsample(labels, small, rgb, DEFAULT)
    nearest = cv2.resize(labels, (160, 120), interpolation=cv2.INTER_NEAREST)
    assert (nearest != truth).sum() >= 60
    assert (found != truth).sum() <= 2


def test_choose_labels_keeps_the_nearest_where_colours_tell_nothing():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 5, (9, 12)).astype(np.int32)
    small, rgb = np.zeros((9, 12, 3), np.uint8), np.zeros((27, 36, 3), np.uint8)
    nearest, places, wanted = np.empty((3, 27, 36), np.int32)
    wishes = np.empty(27, np.int32)
    kernels.choose_labels(labels, small, rgb, FLAT, nearest, places, wanted, wishes)
    np.testing.assert_array_equal(nearest, labels.repeat(3, 0).repeat(3, 1))
    for y, count in enumerate(wishes):
        assert not ((places[y, :count] % 3 == 1) & (y % 3 == 1)).any()


def votes_one_by_one(labels, small, rgb, weights):
    """Return the nearest label (h, w) of every pixel, and the one it wants."""
    one, half = np.float32(1), np.float32(0.5)
    (h, w), (high, wide) = labels.shape, rgb.shape[:2]
    nearest, wanted = np.empty((2, high, wide), np.int32)
    for y, x in np.ndindex(high, wide):
        row, column = (2 * y + 1) * h // (2 * high), (2 * x + 1) * w // (2 * wide)
        place = [
            np.float32((at + 0.5) * little / large - 0.5)
            for at, little, large in ((y, h, high), (x, w, wide))
        ]
        top, left = (max(int(np.floor(at)), 0) for at in place)
        votes = {int(labels[row, column]): np.float32(0)}
        for v in range(top, min(top + 2, h)):
            for u in range(left, min(left + 2, w)):
                down, across = (abs(place[0] - np.float32(top)), abs(place[1] - np.float32(left)))
                near = (half + down if v > top else one + half - down) * (
                    half + across if u > left else one + half - across
                )
                gap = int(((small[v, u].astype(int) - rgb[y, x]) ** 2).sum())
                vote = near * weights[min(gap // 16, len(weights) - 1)]
                name = int(labels[v, u])
                votes[name] = votes.get(name, np.float32(0)) + vote
        nearest[y, x] = labels[row, column]
        wanted[y, x] = max(votes, key=lambda name: votes[name])
    return nearest, wanted


@given(pictures(), st.sampled_from([10.0, 60.0, 600.0]))
def test_choose_labels_lets_the_four_around_vote_by_how_near_and_how_alike_they_are(
    picture, alike2
):
    """Ties go to the nearest, then to the first."""
    labels, small, rgb = picture
    high, wide = rgb.shape[:2]
    weights = np.exp(-16 * np.arange(1024) / alike2).astype(np.float32)
    nearest, places, wanted = np.full((3, high, wide), -9, np.int32)
    wishes = np.empty(high, np.int32)
    kernels.choose_labels(labels, small, rgb, weights, nearest, places, wanted, wishes)
    expected, expected_wish = votes_one_by_one(labels, small, rgb, weights)
    np.testing.assert_array_equal(nearest, expected)
    for y, count in enumerate(wishes):
        asking = np.flatnonzero(expected_wish[y] != expected[y])
        assert places[y, :count].tolist() == asking.tolist()
        assert wanted[y, :count].tolist() == expected_wish[y, asking].tolist()


def test_choose_labels_in_plain_python_has_a_row_of_any_length():
    """As with NUMBA_DISABLE_JIT=1, for a debugger: more than 255 pixels of it lie on boundaries."""
    plain = getattr(kernels.choose_labels, "py_func", kernels.choose_labels)
    labels = np.arange(300, dtype=np.int32).reshape(1, 300) % 2
    rgb = np.zeros((1, 600, 3), np.uint8)
    nearest, places, wanted = np.empty((3, 1, 600), np.int32)
    plain(labels, rgb[:, ::2], rgb, FLAT, nearest, places, wanted, np.empty(1, np.int32))
    np.testing.assert_array_equal(nearest[0], labels[0].repeat(2))


def test_upsample_gives_the_labels_themselves_at_the_same_size():
    labels = np.random.default_rng(0).integers(0, 4, (5, 7)).astype(np.int32)
    rgb = np.zeros((5, 7, 3), np.uint8)
    assert upsample(labels, rgb, rgb, DEFAULT) is labels

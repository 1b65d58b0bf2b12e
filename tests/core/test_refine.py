"""Votes on the boundary of segments, and the fringe that joins them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.label_maps import drawn, grey_planes, label_maps
from support.tracks import propagated, tracks_of

from aaams_stream.core import features
from aaams_stream.core.refine import refine_boundaries
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels.refine import REACH, Poll, grow_labels, relabel_boundary
from aaams_stream.params import Params

SCALE = np.float32(1 / (64 * 16.0))  # of votes: σ² = 16
STAY = np.float32(1.0)


def relabelled(labels, planes, warped=None, stay=STAY):
    """Run relabel_boundary; warped: the labels themselves unless given."""
    out = np.empty_like(labels)
    fringe = np.empty(labels.size, np.int32)
    poll = Poll(labels if warped is None else warped, planes, SCALE, stay)
    listed = []
    half = len(labels) // 2  # rows are asked in any order, and in parts
    for first, last in ((half, len(labels)), (0, half)):
        count = relabel_boundary(first, last, labels, poll, -1, out, fringe)
        listed = [*fringe[:count], *listed]
    np.testing.assert_array_equal(listed, np.flatnonzero(labels == -1))
    return out


def grown(labels, planes, enough, warped=None, rounds=1):
    """Run grow_labels on the pixels that bear -1; return what they bear then."""
    pixels = np.flatnonzero(labels == -1).astype(np.int32)
    out = labels.copy()
    warped = np.full_like(labels, -1) if warped is None else warped
    poll = Poll(warped, planes, SCALE, STAY)
    grow_labels(pixels, out, poll, np.float32(enough), rounds)
    return out.ravel()[pixels].tolist()


def oracle_poll(labels, warped, planes, y, x):
    """Return label → weight, for the labels of a pixel and the four beside it."""
    h, w = labels.shape
    beside = [(y, x), (y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
    names = {int(labels[v, u]) for v, u in beside if 0 <= v < h and 0 <= u < w}
    sums = {name: float(STAY) * (name == warped[y, x]) for name in names if name >= 0}
    for v in range(max(y - REACH, 0), min(y + REACH + 1, h)):
        for u in range(max(x - REACH, 0), min(x + REACH + 1, w)):
            if (v, u) != (y, x) and labels[v, u] in sums:
                gap = planes[:, v, u].astype(np.float64) - planes[:, y, x]
                s = min(float(SCALE) * (gap**2).sum(), 1.0)
                sums[labels[v, u]] += (1 - s + s * s / 2) ** 32
    return sums


@st.composite
def two_tones(draw):
    """Draw labels in blocks, some of them mistaken, what was predicted, and planes of two colours.

    Colours are alike or as far apart as can be: a vote is 1 or next to none.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    h, w = draw(st.integers(1, 14)), draw(st.integers(1, 24))
    side, names = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    blocks = rng.integers(0, names, (-(-h // side), -(-w // side)))
    labels = blocks.repeat(side, 0).repeat(side, 1)[:h, :w].astype(np.int32)
    warped = np.where(rng.random((h, w)) < 0.7, labels, rng.integers(-1, names, (h, w)))
    mistaken = rng.random((h, w)) < draw(st.sampled_from([0.0, 0.05, 0.3]))
    labels[mistaken] = rng.integers(-2, names, int(mistaken.sum()))
    planes = np.full((3, h, -(-w // features.LANES) * features.LANES), features.FAR)
    planes[:, :, :w] = 50.0 + 60.0 * (rng.random((h, w)) < draw(st.sampled_from([0.0, 0.4])))
    return labels, warped.astype(np.int32), planes


def exact_poll(labels, warped, planes, y, x):
    """Return (label, votes) of a pixel and the four beside it: its own, below, above, right, left.

    As `oracle_poll`, but rounded as float32 sums are, so that ties are ties.
    """
    h, w = labels.shape
    own = int(labels[y, x])
    beside = [(y, x), (y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
    names = [int(labels[v, u]) for v, u in beside if 0 <= v < h and 0 <= u < w]
    sums = {name: 0.0 for name in names if name >= 0}
    for v in range(max(y - REACH, 0), min(y + REACH + 1, h)):
        for u in range(max(x - REACH, 0), min(x + REACH + 1, w)):
            if labels[v, u] in sums:
                alike = planes[0, v, u] == planes[0, y, x]
                sums[int(labels[v, u])] += 1.0 if alike else 2.0**-32
    votes = []
    for name, total in sums.items():
        rounded = np.float32(total) - np.float32(name == own)  # it has no vote itself
        votes.append((name, rounded + np.float32(name == warped[y, x])))
    return votes


# relabel_boundary.


def test_relabel_boundary_gives_a_mislabelled_pixel_to_the_segment_of_its_colour():
    labels = drawn("000111", "000011", "000111", "001111")
    truth = drawn("000111", "000111", "000111", "000111")
    np.testing.assert_array_equal(relabelled(labels, grey_planes(60.0 * truth)), truth)


def test_relabel_boundary_leaves_interiors():
    """Its colour calls a pixel over, but no pixel beside it bears the label it would go to."""
    labels = drawn("00000111", "00000111", "00000111")
    lightness = 60.0 * labels
    lightness[1, 2] = 60.0
    np.testing.assert_array_equal(relabelled(labels, grey_planes(lightness)), labels)


def test_relabel_boundary_leaves_pixels_without_a_label_which_have_no_vote():
    labels = drawn("00.11", "00!11", "0..11")
    out = relabelled(labels, grey_planes(np.zeros(labels.shape)))
    np.testing.assert_array_equal(out, labels)


def test_relabel_boundary_decides_all_pixels_at_once():
    """Each of two columns prefers the other's label; one after another, one would win."""
    labels = drawn("01", "01", "01", "01")
    warped = 1 - labels
    out = relabelled(labels, grey_planes(np.zeros(labels.shape)), warped)
    np.testing.assert_array_equal(out, warped)


def test_relabel_boundary_gives_the_predicted_label_a_head_start():
    """Two neighbours of the same colour on either side: the earlier self decides, else the own."""
    labels = drawn("000111")
    planes = grey_planes(np.zeros(labels.shape))
    np.testing.assert_array_equal(relabelled(labels, planes, stay=np.float32(0)), labels)
    out = relabelled(labels, planes, drawn("001111"))
    np.testing.assert_array_equal(out, drawn("001111"))


@given(label_maps(-2, 4), st.integers(0, 2**31))
def test_relabel_boundary_counts_kernel_weights_around(labels, seed):
    rng = np.random.default_rng(seed)
    warped = rng.integers(-1, 5, labels.shape).astype(np.int32)
    planes = rng.normal(50, 5, (3, *labels.shape)).astype(np.float32)
    out = relabelled(labels, planes, warped)
    for y, x in np.ndindex(labels.shape):
        sums = oracle_poll(labels, warped, planes, y, x)
        if labels[y, x] < 0:
            assert out[y, x] == labels[y, x]
        else:
            assert sums[out[y, x]] >= max(sums.values()) - 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_votes_weigh_the_same_inside_and_near_the_border(seed):
    """Inside, rows are read in whole lanes; there are up to five labels beside a pixel."""
    rng = np.random.default_rng(seed)
    shape = 12, 30 - seed
    labels = rng.integers(-1, 3 + seed, shape).astype(np.int32)
    warped = rng.integers(-1, 3 + seed, shape).astype(np.int32)
    planes = np.full((3, 12, 32), features.FAR)
    planes[:, :, : shape[1]] = rng.normal(50, 5, (3, *shape))
    out = relabelled(labels, planes, warped)
    found = labels.copy()
    found.ravel()[labels.ravel() == -1] = grown(labels, planes, 2.0, warped)
    for y, x in np.ndindex(shape):
        sums = oracle_poll(labels, warped, planes, y, x)
        if labels[y, x] >= 0:
            assert sums[out[y, x]] >= max(sums.values()) - 1e-3
        elif found[y, x] >= 0:
            assert sums[found[y, x]] >= max(max(sums.values()), 2.0) - 1e-3
        else:
            assert max(sums.values(), default=0.0) <= 2.0 + 1e-3
    assert (out != labels).any()
    assert (found != labels).any()


@settings(max_examples=300)
@given(two_tones())
def test_relabel_boundary_gives_pixels_to_the_label_with_most_votes_and_ties_to_its_own(tones):
    """Whether one other label is beside a pixel, as mostly, or several are."""
    labels, warped, planes = tones
    out = relabelled(labels, planes, warped)
    for y, x in np.ndindex(labels.shape):
        expected = labels[y, x]
        if expected >= 0:
            expected, _ = max(exact_poll(labels, warped, planes, y, x), key=lambda vote: vote[1])
        assert out[y, x] == expected, (y, x)


# grow_labels.


@settings(max_examples=300)
@given(two_tones(), st.sampled_from([1.0, 2.0, 4.0, 9.0, 16.0]))
def test_grow_labels_joins_pixels_to_the_label_with_most_votes_if_they_are_enough(tones, enough):
    labels, warped, planes = tones
    expected = []
    for y, x in np.argwhere(labels == -1):
        votes = exact_poll(labels, warped, planes, y, x)
        name, most = max(votes, key=lambda vote: vote[1], default=(-1, 0.0))
        expected.append(name if most >= enough else -1)
    assert grown(labels, planes, enough, warped) == expected


def test_grow_labels_joins_a_pixel_where_enough_neighbours_have_its_colour():
    labels = drawn("000", "0.1", "111")
    lightness = np.where(labels == 1, 60.0, 0.0)
    planes = grey_planes(lightness)
    assert grown(labels, planes, 4.0) == [0]
    assert grown(labels, planes, 4.01) == [-1]
    lightness[1, 1] = 60.0
    assert grown(labels, grey_planes(lightness), 4.0) == [1]
    assert grown(labels, grey_planes(lightness), 4.0, warped=drawn("000", "011", "111")) == [1]


def test_grow_labels_counts_the_predicted_label_as_one_neighbour_more():
    labels = drawn("0.")
    planes = grey_planes(np.zeros(labels.shape))
    assert grown(labels, planes, 2.0) == [-1]
    assert grown(labels, planes, 2.0, warped=drawn("00")) == [0]


def test_grow_labels_joins_only_segments_that_touch_the_pixel():
    """Label 1 has all the weight, yet only across a corner or further away."""
    flat = grey_planes(np.zeros((3, 3)))
    assert grown(drawn("111", "1!!", "1!."), flat, 1.0) == [-1]
    assert grown(drawn("111", "111", "11."), flat, 1.0) == [1]
    labels = drawn("111", "110", "10.")
    assert grown(labels, grey_planes(30.0 * (labels == 0)), 1.0) == [-1]


def test_grow_labels_takes_the_first_found_of_equal_weights():
    assert grown(drawn("1", ".", "0"), grey_planes(np.zeros((3, 1))), 1.0) == [0]


@pytest.mark.parametrize("seed", range(10))
def test_grow_labels_in_rounds_at_once_is_rounds_one_by_one(seed):
    """Pixels that nothing has joined near are not asked again, and need not be."""
    random = np.random.default_rng(seed)
    labels = np.where(random.random((24, 30)) < 0.8, -1, random.integers(0, 3, (24, 30)))
    planes = grey_planes(random.choice([0.0, 3.0, 9.0], (24, 30)))
    one_by_one = labels.astype(np.int32)
    steps = []
    for _ in range(5):
        one_by_one[one_by_one == -1] = grown(one_by_one, planes, 2.0)
        steps.append(np.count_nonzero(one_by_one >= 0))
    assert steps[0] < steps[2]  # there is something to ask again
    at_once = grown(labels.astype(np.int32), planes, 2.0, rounds=5)
    assert at_once == one_by_one[labels == -1].tolist()


# refine_boundaries.


def striped(labels):
    """Return the picture of a frame whose labels are told by its greys, and what was seen of it."""
    grey = np.where(labels == 1, 200, 40).astype(np.uint8)
    picture = features.picture(np.repeat(grey[:, :, None], 3, axis=2))
    return picture, propagated(labels, tracks_of([1, 1]))


def test_refine_boundaries_takes_in_the_fringe_but_not_what_is_to_be_re_estimated():
    labels = drawn(*["0000..1111"] * 4, *["0000!!1111"] * 4)
    picture, seen = striped(labels)
    before = labels.copy()
    refined = refine_boundaries(seen, picture, Params(), Tuning())
    np.testing.assert_array_equal(refined, drawn(*["0000001111"] * 4, *["0000!!1111"] * 4))
    np.testing.assert_array_equal(seen.pixels.kept, before)


def test_refine_boundaries_grows_a_pixel_deeper_with_every_round():
    labels = drawn(*["000......."] * 8)
    picture, seen = striped(labels)
    for rounds in range(4):
        tuning = dataclasses.replace(Tuning(), vote_rounds=rounds)
        refined = refine_boundaries(seen, picture, Params(), tuning)
        assert (refined[4] >= 0).sum() == 3 + rounds

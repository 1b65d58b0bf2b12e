"""The image measures: hand cases, scikit-learn and scikit-image, and what must not matter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.ndimage import distance_transform_edt
from skimage.metrics import variation_of_information
from sklearn.metrics import rand_score

from aaams_stream import metrics
from aaams_stream.kernels.metrics import squared_distances

MEASURES = (metrics.pri, metrics.gce, metrics.voi, metrics.bde)
REGION_MEASURES = (metrics.pri, metrics.gce, metrics.voi)

# Six points: {0,1,2 | 3,4,5} against {0,1 | 2,3 | 4,5}.
HALVES = np.array([0, 0, 0, 1, 1, 1])
THIRDS = np.array([5, 5, 7, 7, 9, 9])


def images(count: int) -> st.SearchStrategy[list[np.ndarray]]:
    """Return a strategy for `count` label images of one small shape."""
    shapes = st.tuples(st.integers(1, 9), st.integers(1, 9))
    return shapes.flatmap(
        lambda shape: st.tuples(
            *[hnp.arrays(np.int32, shape, elements=st.integers(0, 4))] * count
        ).map(list)
    )


def split_at(column: int, shape: tuple[int, int] = (8, 20)) -> np.ndarray:
    return np.broadcast_to(np.arange(shape[1]) >= column, shape).astype(np.int32)


def test_pri_of_a_hand_case():
    # Of 15 pairs, agreement: together in both {01, 45} = 2; apart in both = 15 - 6 - 3 + 2 = 8.
    assert metrics.pri(HALVES, THIRDS) == pytest.approx(10 / 15)


def test_gce_of_a_hand_case():
    # Overlaps: (0,5) 2, (0,7) 1, (1,7) 1, (1,9) 2. From halves: 2(1/3) + 1(2/3), twice = 8/3;
    # from thirds: 0 + 1(1/2) + 1(1/2) + 0 = 1. The smaller, over six points.
    assert metrics.gce(HALVES, THIRDS) == pytest.approx(1 / 6)


def test_voi_of_a_hand_case():
    # H(thirds | halves): 2/3 log(3/2) + 1/3 log(3); H(halves | thirds): 1/3 of the points, 1 bit.
    expected = (2 / 3) * math.log2(3 / 2) + (1 / 3) * math.log2(3) + 1 / 3
    assert metrics.voi(HALVES, THIRDS) == pytest.approx(expected)


@pytest.mark.parametrize("shift", [2, 3, 5])
def test_bde_of_a_shifted_edge_is_the_shift(shift):
    # A boundary is two pixels wide: the near one of each has a pixel less to go.
    assert metrics.bde(split_at(7), split_at(7 + shift)) == pytest.approx(shift - 0.5)


def test_bde_of_a_hand_case_takes_the_mean_of_both_directions():
    # One boundary (columns 3, 4) against two (3, 4 and 13, 14): 0 there, (0+0+9+10)/4 back.
    one, two = split_at(4), split_at(4) + split_at(14)
    assert metrics.bde(one, two) == pytest.approx((0 + 19 / 4) / 2)


def test_boundaries_of_a_single_segment_are_the_rim():
    rim = metrics.boundaries(np.zeros((4, 5), dtype=int))
    assert rim.sum() == 14
    assert not rim[1:-1, 1:-1].any()
    assert metrics.bde(np.zeros((4, 5), dtype=int), np.ones((4, 5), dtype=int)) == 0


def test_boundaries_lie_on_both_sides_of_an_edge():
    np.testing.assert_array_equal(np.flatnonzero(metrics.boundaries(split_at(7))[3]), [6, 7])


def test_gce_of_a_refinement_of_the_truth_is_zero():
    truth = split_at(10)
    finer = truth * 20 + np.arange(20) // 3 + 100 * (np.arange(8) // 2)[:, None]
    assert metrics.gce(finer, truth) == pytest.approx(0, abs=1e-12)
    assert metrics.gce(truth, finer) == pytest.approx(0, abs=1e-12)


def test_measures_average_over_several_annotators():
    labels, truths = split_at(7), [split_at(7), split_at(9), split_at(12)]
    for measure in MEASURES:
        expected = np.mean([measure(labels, truth) for truth in truths])
        assert measure(labels, truths) == pytest.approx(expected)
        assert measure(labels, np.stack(truths)) == pytest.approx(expected)
        assert measure(labels, tuple(truths)) == pytest.approx(expected)


def test_score_image_equals_the_single_measures():
    labels, truths = split_at(7) + split_at(3), [split_at(7), split_at(12)]
    scores = metrics.score_image(labels, truths)
    for measure in MEASURES:
        assert getattr(scores, measure.__name__) == pytest.approx(measure(labels, truths))


def test_measures_take_a_list_of_numbers_for_one_truth():
    assert metrics.pri([0, 0, 1, 1], [3, 3, 4, 4]) == 1
    assert metrics.voi([[0, 0], [1, 1]], [[3, 3], [4, 4]]) == 0


def test_score_image_of_one_point_is_perfect():
    assert metrics.score_image([[3]], [[8]]) == metrics.ImageScores(1.0, 0.0, 0.0, 0.0)


@given(images(2))
@settings(deadline=None, max_examples=60)
def test_region_measures_agree_with_scikit_learn_and_scikit_image(pair):
    labels, truth = pair
    assert metrics.pri(labels, truth) == pytest.approx(rand_score(truth.ravel(), labels.ravel()))
    both_ways = variation_of_information(truth, labels)  # entropies in bits
    assert metrics.voi(labels, truth) == pytest.approx(both_ways.sum(), abs=1e-9)


@given(images(2))
@settings(deadline=None, max_examples=60)
def test_measures_are_symmetric_and_zero_on_themselves(pair):
    labels, truth = pair
    for measure in MEASURES:
        assert measure(labels, truth) == pytest.approx(measure(truth, labels), abs=1e-12)
    assert metrics.pri(labels, labels) == pytest.approx(1)
    for measure in MEASURES[1:]:
        assert measure(labels, labels) == pytest.approx(0, abs=1e-12)


@given(images(2), st.permutations(range(5)))
@settings(deadline=None, max_examples=60)
def test_measures_do_not_depend_on_names_of_labels(pair, order):
    labels, truth = pair
    renamed = np.array(order)[labels]
    far_apart = labels.astype(np.int64) * 10**15 - 7
    for measure in MEASURES:
        expected = measure(labels, truth)
        assert measure(renamed, truth) == pytest.approx(expected, abs=1e-12)
        assert measure(far_apart, truth) == pytest.approx(expected, abs=1e-12)


@given(images(1))
@settings(deadline=None, max_examples=60)
def test_region_measures_ignore_the_shape_and_bounds_hold(single):
    labels = single[0]
    truth = np.indices(labels.shape).sum(axis=0) // 3
    for measure in REGION_MEASURES:
        assert measure(labels.ravel(), truth.ravel()) == pytest.approx(measure(labels, truth))
        assert measure(labels[None], truth[None]) == pytest.approx(measure(labels, truth))
    assert -1e-12 <= metrics.pri(labels, truth) <= 1
    assert 0 <= metrics.gce(labels, truth) <= 1
    assert -1e-12 <= metrics.voi(labels, truth) <= 2 * math.log2(max(labels.size, 2))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int64, np.uint64, bool])
def test_measures_take_any_integer_type(dtype):
    labels = split_at(7).astype(dtype)
    assert metrics.pri(labels, split_at(7)) == pytest.approx(1)
    assert metrics.voi(split_at(7), labels) == pytest.approx(0)
    assert metrics.bde(labels, split_at(7)) == 0


def test_pri_does_not_overflow_at_the_end_of_a_type():
    top = np.array([2**64 - 1, 2**64 - 1, 2**64 - 2, 0], dtype=np.uint64)
    assert metrics.pri(top, [0, 0, 1, 2]) == pytest.approx(1)
    near = np.array([2**64 - 1, 2**64 - 1, 2**64 - 2, 2**64 - 3], dtype=np.uint64)
    assert metrics.pri(near, [0, 0, 1, 2]) == pytest.approx(1)
    assert metrics.pri(np.array([-128, 127], dtype=np.int8), [0, 1]) == pytest.approx(1)


def test_region_measures_take_as_many_labels_as_points():
    every = np.arange(300 * 300).reshape(300, 300)
    assert metrics.pri(every, every) == 1
    assert metrics.gce(every, every.T) == 0
    assert metrics.voi(every, np.zeros_like(every)) == pytest.approx(math.log2(every.size))


@given(hnp.arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12))))
@settings(deadline=None, max_examples=100)
def test_squared_distances_are_exact(marked):
    marked[marked.shape[0] // 2, marked.shape[1] // 3] = True
    squared = np.empty(marked.shape, dtype=np.int64)
    squared_distances(marked.view(np.uint8), squared)
    np.testing.assert_allclose(np.sqrt(squared), distance_transform_edt(~marked), atol=1e-9)


def test_squared_distances_compile_once():
    for shape in ((5, 7), (7, 5), (1, 9), (9, 1)):
        metrics.bde(np.zeros(shape, dtype=np.uint32), np.ones(shape, dtype=np.int64).T.T)
    assert len(getattr(squared_distances, "signatures", [None])) == 1


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("labels", "truths", "text"),
    [
        (np.zeros((4, 5), int), np.zeros((5, 4), int), r"shape of labels \(4, 5\), got \(5, 4\)"),
        (np.zeros((4, 5), int), np.zeros(20, int), r"shape of labels \(4, 5\)"),
        (np.zeros((4, 5), int), [], "truths is empty"),
        (np.zeros((0, 5), int), np.zeros((0, 5), int), "labels is empty"),
        (np.zeros((4, 5)), np.zeros((4, 5), int), "labels must hold integers, got float64"),
        (np.zeros((4, 5), int), np.zeros((4, 5)), "truth 0 must hold integers, got float64"),
        (np.zeros((4, 5), int), [np.zeros((4, 5), int), np.zeros((4, 6), int)], "truth 1"),
        (np.zeros((4, 5), int), 3, "array or a sequence of arrays"),
        (np.int64(3), np.int64(3), "single number"),
    ],
)
def test_measures_say_what_was_expected_of_bad_input(measure, labels, truths, text):
    with pytest.raises(ValueError, match=text):
        measure(labels, truths)


def test_boundaries_need_an_image():
    for call in (metrics.bde, metrics.score_image):
        with pytest.raises(ValueError, match=r"shape \(h, w\), got \(6,\)"):
            call(HALVES, THIRDS)

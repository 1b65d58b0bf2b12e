"""Segments beside each other: what hangs together, and what went away."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.followed import truth_of

import aaams_stream as aaams
from aaams_stream.metrics import region_similarity
from aaams_stream.objects.contacts import Contacts, gaps
from aaams_stream.objects.tuning import TrackerTuning


def row_of(count):
    """Return the contacts of segments in a row, each touching the next."""
    first = np.arange(count - 1)
    return Contacts(first, first + 1, np.ones(count - 1), np.full(count, 10.0))


def test_components_are_named_by_their_lowest_row():
    chosen = np.array([False, True, True, True, False, True, False, True, True])
    name = row_of(9).components(chosen)
    np.testing.assert_array_equal(name, [-1, 1, 1, 1, -1, 5, -1, 7, 7])
    np.testing.assert_array_equal(row_of(2).components(np.zeros(2, bool)), [-1, -1])


def test_strays_are_refused_unless_they_hang_together_with_where_the_object_should_be():
    belief = np.array([0.9, 0.9, 0.1, 0.9, 0.9])
    place = np.array([0.8, 0.0, 0.5, 0.0, 0.1])
    kept = row_of(5).without_strays(belief, place, TrackerTuning())
    np.testing.assert_array_equal(kept > 0.5, [True, True, False, False, False])


@pytest.mark.parametrize(
    ("reach", "stays"), [(9.0, False), (11.0, True), (np.array([11, 11, 11, 9.0]), False)]
)
def test_runaways_are_refused_beyond_reach_of_the_main_part(reach, stays):
    belief = np.array([0.9, 0.9, 0.1, 0.9])
    boxes = np.array([[0, 0, 10, 10], [10, 0, 20, 10], [20, 0, 30, 10], [30, 0, 40, 10.0]])
    votes = np.array([50.0, 50, 0, 60])
    kept = row_of(4).without_runaways(belief, votes, boxes, reach)
    np.testing.assert_array_equal(kept > 0.5, [True, True, False, stays])


def test_gaps_are_those_between_boxes_of_parts():
    boxes = np.array([[0, 0, 10, 10], [13, 14, 20, 20], [50, 0, 60, 10.0]])
    found = gaps(np.array([0, 1, -1]), np.array([9.0, 1, 1]), boxes)
    np.testing.assert_array_equal(found, [0, 5, 0])


def test_follow_keeps_parts_that_lay_apart_in_the_first_frame(clip):
    """Balloon and ball as one object: both stay, far as they are from each other."""
    both = [truth_of(t) | truth_of(t, "ball") for t in range(6)]
    for t, mask in enumerate(aaams.follow(clip[:6], both[0])):
        assert region_similarity(mask, both[t]) > 0.85


def test_follow_lets_go_of_what_the_object_touched():
    """A disc passes another of its colour that stands still: in the end it is one again."""
    segmenter = aaams.Segmenter()
    y, x = np.mgrid[:120, :200]
    known = None
    for t in range(34):
        rgb = np.full((120, 200, 3), (60, 110, 70), np.uint8)
        rgb[(x // 8 + y // 8) % 2 == 0] = (75, 125, 85)
        moving = (x - 25 - 4 * t) ** 2 + (y - 60) ** 2 < 144
        rgb[moving | ((x - 90) ** 2 + (y - 85) ** 2 < 144)] = (200, 60, 50)
        frame = dataclasses.replace(segmenter.step(rgb), rgb=rgb)
        if known is None:
            known = aaams.begin_following(frame, moving)
        else:
            known = aaams.keep_following(known, frame)
    assert region_similarity(known.mask, moving) > 0.7

"""Drawn scenes with known truth: contact, crossing, passing behind, ghosts, refresh."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream import Params, Segmenter
from aaams_stream.model import EventKind

HEIGHT, WIDTH = 120, 160
COLOURS = np.array(
    [(150, 160, 170), (90, 110, 80), (214, 66, 58), (44, 92, 148), (240, 200, 60)], np.float32
)
WALL, FLOOR, RED, BLUE, YELLOW = range(5)


def room():
    """Return a wall above a floor, as truth labels."""
    truth = np.full((HEIGHT, WIDTH), WALL)
    truth[84:] = FLOOR
    return truth


def disc(truth, name, x, y, radius):
    """Paint a disc over what is there."""
    v, u = np.indices(truth.shape)
    truth[(u - x) ** 2 + (v - y) ** 2 <= radius**2] = name


def box(truth, name, left, top, right, bottom):
    """Paint a box over what is there."""
    truth[top:bottom, left:right] = name


def drawn(truth, index, sigma=2.0):
    """Return the picture of a truth, with its own noise."""
    noise = np.random.default_rng(index).normal(0.0, sigma, (*truth.shape, 3))
    return np.clip(np.rint(COLOURS[truth] + noise), 0, 255).astype(np.uint8)


def segmented(truths, **stream):
    """Return the ids of each frame, and all events."""
    segmenter = Segmenter(Params().updated({"stream": {"segments": 60, **stream}}))
    results = [segmenter.step(drawn(truth, t)) for t, truth in enumerate(truths)]
    return [r.ids for r in results], [r.events for r in results]


def names_of(ids, truths, thing):
    """Return the id that most pixels of a thing bear, in each frame in which it is seen."""
    return [
        int(np.bincount(found[truth == thing]).argmax())
        for found, truth in zip(ids, truths, strict=True)
        if (truth == thing).sum() >= 60
    ]


def test_a_ball_that_bounces_off_a_box_leaves_it_its_id_and_keeps_its_own():
    truths = []
    for t in range(24):
        truth = room()
        box(truth, BLUE, 60, 70, 100, 100)
        disc(truth, RED, 80, 59 - 3 * abs(12 - t), 11)
        truths.append(truth)
    ids, _ = segmented(truths)
    balls, boxes = names_of(ids, truths, RED), names_of(ids, truths, BLUE)
    assert len(set(balls)) == len(set(boxes)) == 1
    assert set(balls) != set(boxes)


def test_things_that_cross_keep_their_ids():
    truths = []
    for t in range(30):
        truth = room()
        disc(truth, BLUE, 125 - 3 * t, 55, 13)
        disc(truth, RED, 30 + 3 * t, 60, 13)
        truths.append(truth)
    ids, _ = segmented(truths)
    front, back = names_of(ids, truths, RED), names_of(ids, truths, BLUE)
    assert len(set(front)) == 1
    assert back[0] == back[-1] != front[0]


def test_a_thing_that_passes_behind_a_post_comes_out_under_its_id():
    truths = []
    for t in range(36):
        truth = room()
        disc(truth, RED, 25 + 3 * t, 50, 10)
        box(truth, YELLOW, 70, 20, 94, 110)
        truths.append(truth)
    ids, _ = segmented(truths)
    assert min((truth == RED).sum() for truth in truths) == 0  # it was hidden wholly
    found, posts = names_of(ids, truths, RED), names_of(ids, truths, YELLOW)
    assert found[0] == found[-1]
    assert len(set(posts)) == 1


def test_a_thing_leaves_no_ghost_on_the_wall_it_has_passed():
    truths = []
    for t in range(30):
        truth = room()
        disc(truth, RED, 20 + 4 * t, 45, 12)
        truths.append(truth)
    ids, _ = segmented(truths)
    wall = names_of(ids, truths, WALL)[0]
    passed = ids[-1][33:57, 8:100]
    assert (passed == wall).mean() > 0.97
    for found, truth in zip(ids, truths, strict=True):
        mine = found == np.bincount(found[truth == RED]).argmax()
        assert (truth[mine] == RED).mean() > 0.95


@pytest.mark.parametrize("refresh", [3, 5])
def test_still_things_keep_their_ids_however_often_they_are_re_estimated(refresh):
    truth = room()
    disc(truth, RED, 40, 40, 16)
    disc(truth, BLUE, 100, 50, 9)
    box(truth, YELLOW, 96, 59, 140, 90)
    truths = [truth] * 16
    ids, _ = segmented(truths, refresh=refresh)
    for thing in range(5):
        assert len(set(names_of(ids, truths, thing))) == 1


def test_the_larger_of_two_that_merge_keeps_its_id():
    truths = []
    for t in range(40):
        truth = room()
        disc(truth, RED, 20 + 3 * t, 45 + (t % 7), 12)
        box(truth, BLUE, 60, 70, 100, 100)
        disc(truth, YELLOW, 130, 60, 6)
        truths.append(truth)
    ids, events = segmented(truths, refresh=6)
    merges = worse = 0
    for before, happened in zip(ids[:-1], events[1:], strict=True):
        area = np.bincount(before.ravel(), minlength=int(happened["id"].max(initial=0)) + 1)
        for event in happened[happened["kind"] == EventKind.MERGE]:
            into = area[event["other"]] if event["other"] < area.size else 0
            merges += 1
            worse += int(0 < 2 * into < area[event["id"]])
    assert merges > 0
    assert worse == 0

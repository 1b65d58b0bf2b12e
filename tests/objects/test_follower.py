"""The follower: several objects at once, begun, corrected and ended while frames come in."""

from __future__ import annotations

import numpy as np
import pytest
from support.followed import FRAMES, truth_of

import aaams_stream as aaams
from aaams_stream.errors import ConfigError
from aaams_stream.metrics import region_similarity

THINGS = ("balloon", "ball", "roof")


@pytest.fixture
def begun(clip):
    """Return a follower of all things in the first frame."""
    follower = aaams.Follower()
    follower.step(clip[0])
    for thing in THINGS:
        follower.begin(truth_of(0, thing))
    return follower


def middle_of(t, thing):
    """Return x, y in the middle of a thing."""
    y, x = np.argwhere(truth_of(t, thing)).mean(axis=0).astype(int)
    return int(x), int(y)


def test_follower_follows_several_objects_in_one_pass(clip, begun):
    assert begun.numbers == (1, 2, 3)
    for t in range(1, FRAMES):
        scene = begun.step(clip[t])
        assert (scene.index, scene.time) == (t, clip[t].time)
        assert scene.labels.dtype == np.uint8
        for number, thing in enumerate(THINGS, start=1):
            assert region_similarity(scene.mask(number), truth_of(t, thing)) > 0.85
            sighting = scene.sighting(number)
            assert sighting.state == "seen"
            assert 0.5 < sighting.sure <= 1
            assert sighting.area == np.count_nonzero(scene.mask(number))
            y, x = np.nonzero(scene.mask(number))
            assert sighting.box == (x.min(), y.min(), x.max() + 1, y.max() + 1)


def test_follower_gives_each_object_what_it_would_have_alone(clip, begun):
    """Objects apart from each other do not disturb each other."""
    alone = list(aaams.follow(clip[:6], truth_of(0, "ball")))
    for t in range(1, 6):
        scene = begun.step(clip[t])
        np.testing.assert_array_equal(scene.mask(2), alone[t])


def test_follower_gives_a_pixel_to_one_object_only(clip):
    """Both halves of the balloon are followed: what they claim does not overlap, and is all."""
    whole = truth_of(0)
    middle = middle_of(0, "balloon")[0]
    left = whole & (np.arange(whole.shape[1]) < middle)
    follower = aaams.Follower()
    follower.step(clip[0])
    follower.begin(left)
    follower.begin(whole & ~left)
    for t in range(1, 8):
        scene = follower.step(clip[t])
        sizes = [one.area for one in scene.sightings]
        assert sum(sizes) == np.count_nonzero(scene.labels)
        assert region_similarity(scene.labels > 0, truth_of(t)) > 0.8


def test_follower_begins_ends_and_numbers_objects_at_any_frame(clip):
    follower = aaams.Follower()
    assert follower.step(clip[0]).sightings == ()
    follower.step(clip[1])
    assert follower.begin(truth_of(1, "ball")) == 1
    follower.step(clip[2])
    assert follower.begin(truth_of(2), number=7) == 7
    follower.end(1)
    assert follower.step(clip[3]).sighting(7).state == "seen"
    assert follower.begin(truth_of(3, "ball")) == 8  # numbers are not used again
    assert follower.numbers == (7, 8)
    with pytest.raises(ConfigError, match="number 3 is taken; the next one is 9"):
        follower.begin(truth_of(3, "roof"), number=3)
    with pytest.raises(ConfigError, match="cannot have the number 256"):
        follower.begin(truth_of(3, "roof"), number=256)
    with pytest.raises(ConfigError, match=r"no object has the number 1; there are \[7, 8\]"):
        follower.end(1)
    with pytest.raises(ValueError, match="no object has the number 1"):
        follower.scene.state(1)


def test_follower_begins_at_clicks_without_others(clip):
    follower = aaams.Follower()
    follower.step(clip[0])
    x, y = middle_of(0, "ball")
    number = follower.begin_at([(x, y), (0, 0)], without=[(0, 0)])
    np.testing.assert_array_equal(follower.scene.mask(number), clip[0].ids == clip[0].ids[y, x])


def test_follower_takes_clicks_on_the_way(clip, begun):
    """The balloon is given away to the roof and taken back, and followed as if nothing had been."""
    begun.step(clip[1])
    scene = begun.step(clip[2])
    x, y = middle_of(2, "balloon")
    part = clip[2].ids == clip[2].ids[y, x]
    begun.click(3, x, y)
    assert (begun.scene.labels[part] == 3).all()
    assert begun.scene.sighting(1).area < scene.sighting(1).area
    begun.click(3, x, y, inside=False)
    assert not (begun.scene.labels[part] == 3).any()
    begun.click(1, x, y)
    assert (begun.scene.labels[part] == 1).all()
    for t in range(3, 10):
        scene = begun.step(clip[t])
    assert region_similarity(scene.mask(1), truth_of(9)) > 0.85
    assert region_similarity(scene.mask(3), truth_of(9, "roof")) > 0.85


def test_follower_loses_what_is_clicked_away_and_seeks_it(clip, begun):
    begun.step(clip[1])
    for _ in range(20):
        left = np.argwhere(begun.scene.mask(2))
        if not len(left):
            break
        begun.click(2, int(left[0][1]), int(left[0][0]), inside=False)
    sighting = begun.scene.sighting(2)
    assert (sighting.state, sighting.area, sighting.box, sighting.sure) == ("lost", 0, None, 0.0)


def test_follower_refuses_what_makes_no_sense(clip, begun):
    with pytest.raises(ConfigError, match=r"belongs to object 1 already, so not to 4"):
        begun.begin(truth_of(0))
    with pytest.raises(ConfigError, match="mask is empty"):
        begun.begin(np.zeros((240, 320), bool))
    with pytest.raises(ConfigError, match="outside the picture"):
        begun.click(1, 320, 0)
    with pytest.raises(ConfigError, match="no object has the number 9"):
        begun.click(9, 0, 0)
    with pytest.raises(ValueError, match="step comes first"):
        aaams.Follower().begin(truth_of(0))

"""The constants of the tracker: each of them reaches the frame."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.followed import truth_of

import aaams_stream as aaams
from aaams_stream.objects.tuning import TrackerTuning

# The balloon is one piece throughout; test_contacts.py tells what happens where things go apart.
FIELDS = [
    f.name for f in dataclasses.fields(TrackerTuning) if f.name not in ("runaway_gap", "parted_gap")
]
# The balloon hardly changes its size: only a tracker that allows for no growth at all balances it.
# No verdict is cut off where it is nearly certain, or much would not be felt; and the least that
# goes with the ground is doubted.
STRICT = TrackerTuning(growth=0.0, verdict_margin=1e-6, along_slack=0.0, along_share=1e-6)
OTHER = {  # twice the default would not be felt in this clip, or is no share
    "along_limit": 0.01,
    "along_slack": 2.0,
    "along_share": 1e3,
    "contact_rounds": 0,
    "stray_place": 1.5,
    "layer_blur": 0.2,
    "identity_inertia": 0.2,
    "identity_memory": 20,
    "parts_colour": 0.05,
    "parts_reach": 0.001,
    "parts_rare": 1e3,
    "match_limit": 1.0,
    "match_reach": 1,
    "match_pull": 1.0,
    "match_cells": 10**6,
    "match_samples": 20.0,
    "growth_yield": 0.0,
    "least_size": 5.0,
    "lost_share": 2.0,
    "back_least": 5.0,
    "back_most": 0.0,
}


def followed(clip, tuning, thing="balloon", last=15):
    """Return what is known of a thing after frames that lie far apart."""
    known = aaams.begin_following(clip[0], truth_of(0, thing), tuning)
    for frame in clip[5 : last + 1 : 5]:
        known = aaams.keep_following(known, frame, tuning)
    return known


def values(record):
    """Yield the values of a record and of the records in it."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        yield from values(value) if dataclasses.is_dataclass(value) else [value]


def same(first, second):
    pairs = zip(values(first), values(second), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", FIELDS)
def test_tuning_reaches_the_frame_with_every_field(clip, name):
    value = OTHER.get(name, 2 * getattr(TrackerTuning(), name))
    usual, last = STRICT, 15
    if name.startswith("back_"):  # lost in the first frame, and sought in the second
        usual, last = dataclasses.replace(STRICT, lost_share=2.0), 10
    thing = "sky" if name == "outside_belief" else "balloon"  # one that touches the rim
    other = dataclasses.replace(usual, **{name: value})
    assert not same(followed(clip, other, thing, last), followed(clip, usual, thing, last))


def test_tuning_is_the_default_of_every_step(clip):
    known = aaams.begin_following(clip[0], truth_of(0))
    for frame in clip[5::5]:
        known = aaams.keep_following(known, frame)
    assert same(known, followed(clip, TrackerTuning()))
    *_, last = aaams.follow(clip[::5], truth_of(0))
    np.testing.assert_array_equal(last, known.mask)


def test_tuning_is_passed_on_by_follow(clip):
    reluctant = TrackerTuning(bias=-30.0)
    *_, last = aaams.follow(clip[::5], truth_of(0), reluctant)
    np.testing.assert_array_equal(last, followed(clip, reluctant).mask)
    assert not last.any()

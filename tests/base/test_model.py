"""Records that rooms hand each other: what they refuse, and what never changes."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest

from aaams_stream.model import (
    ADJACENCY_DTYPE,
    EVENT_DTYPE,
    SEGMENT_DTYPE,
    TRACK_DTYPE,
    Clip,
    EventKind,
    Frame,
    FrameSegmentation,
)

ONE_SEGMENT = FrameSegmentation(
    index=0,
    time=None,
    ids=np.ones((4, 6), np.uint32),
    segments=np.zeros(1, SEGMENT_DTYPE),
    adjacency=np.zeros(0, ADJACENCY_DTYPE),
    events=np.zeros(0, EVENT_DTYPE),
    stats={},
)


def test_event_kinds_keep_the_numbers_that_volumes_hold():
    numbers = {"BIRTH": 1, "DEATH": 2, "SPLIT": 3, "MERGE": 4, "RETURN": 5, "CUT": 6}
    assert {kind.name: kind.value for kind in EventKind} == numbers


@pytest.mark.parametrize("number", [0, 7])
def test_event_kinds_know_no_other_number(number):
    with pytest.raises(ValueError, match=f"{number} is not a valid EventKind"):
        EventKind(number)


@pytest.mark.parametrize("field", [EVENT_DTYPE["kind"], TRACK_DTYPE["end"]], ids=["kind", "end"])
def test_event_kinds_fit_the_columns_that_hold_them(field):
    kinds = np.array(list(EventKind))
    assert [EventKind(number) for number in kinds.astype(field)] == list(EventKind)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((4, 6), np.uint8),
        ((4, 6, 4), np.uint8),
        ((1, 4, 6, 3), np.uint8),
        ((4, 6, 3), np.uint16),
        ((4, 6, 3), np.float32),
    ],
)
def test_frame_refuses_what_is_no_picture(shape, dtype):
    with pytest.raises(ValueError, match=r"rgb must be \(h, w, 3\) uint8, got \("):
        Frame(0, Fraction(0), np.zeros(shape, dtype))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((4, 6), np.int32), ((4, 6), np.uint64), ((24,), np.uint32)]
)
def test_frame_segmentation_refuses_ids_of_another_shape_or_dtype(shape, dtype):
    with pytest.raises(ValueError, match=r"ids must be \(h, w\) uint32, got \("):
        dataclasses.replace(ONE_SEGMENT, ids=np.ones(shape, dtype))


@pytest.mark.parametrize("table", ["segments", "adjacency", "events"])
def test_frame_segmentation_refuses_tables_of_another_dtype(table):
    with pytest.raises(ValueError, match="must have the dtypes of this module"):
        dataclasses.replace(ONE_SEGMENT, **{table: np.zeros(1, TRACK_DTYPE)})


def test_clip_by_default_is_all_of_an_input():
    assert Clip().to_record() == {"start": None, "duration": None, "every": 1, "size": None}


def test_clip_becomes_a_record_that_json_holds():
    record = Clip(Fraction(3, 2), Fraction(1, 4), every=2, size=(64, 48)).to_record()
    assert record == {"start": 1.5, "duration": 0.25, "every": 2, "size": [64, 48]}
    assert json.loads(json.dumps(record)) == record


def test_clip_tells_a_start_at_zero_from_none():
    assert Clip(start=0).to_record()["start"] == 0.0

"""What the page on events says one can count on holds for the demo."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream import open_volume, segment_video
from aaams_stream.model import EventKind

HERE = (EventKind.BIRTH, EventKind.SPLIT, EventKind.RETURN)
GONE = (EventKind.DEATH, EventKind.MERGE)


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """Segment the demo, small: the boat passes behind the house, the ball before all."""
    path = tmp_path_factory.mktemp("events") / "demo.zarr"
    segment_video("demo", path, size=(160, 120))
    return open_volume(path)


def test_ids_of_births_splits_and_returns_have_pixels_and_those_of_deaths_and_merges_none(volume):
    for t in range(volume.frame_count):
        events, ids = volume.events_at(t), volume.segments(t)["id"]
        here = events["id"][np.isin(events["kind"], HERE)]
        gone = events["id"][np.isin(events["kind"], GONE)]
        assert np.isin(here, ids).all(), t
        assert not np.isin(gone, ids).any(), t
    assert set(np.unique(volume.events["kind"])) >= {*HERE, *GONE}


def test_the_first_frame_is_all_births(volume):
    events = volume.events_at(0)
    assert (events["kind"] == EventKind.BIRTH).all()
    assert (events["id"] == volume.segments(0)["id"]).all()


def test_tracks_tell_how_they_ended(volume):
    merged = volume.tracks[volume.tracks["end"] == EventKind.MERGE]
    assert len(merged)
    assert (merged["heir"] > 0).all()
    split = volume.events[volume.events["kind"] == EventKind.SPLIT]
    parents = dict(zip(volume.tracks["id"], volume.tracks["parent"], strict=True))
    assert all(parents[row["id"]] == row["other"] for row in split)

"""What a track table remembers of the frame before."""

from __future__ import annotations

import dataclasses

import numpy as np
from support.tracks import NOW, tracks_of

from aaams_stream.core.tuning import Tuning


def test_track_table_remembers_a_track_that_shrank_away_at_its_largest():
    before = tracks_of([100, 100])
    shrunk = dataclasses.replace(tracks_of([4, 4]), max_area=np.array([4.0, 4.0]))
    tracks = shrunk.after(before, np.array([1, -1]), np.zeros((2, 2)), NOW, Tuning())
    assert tracks.max_area.tolist() == [90.0, 4.0]


def test_track_table_takes_the_mean_motion_of_late_and_keeps_it_while_partly_hidden():
    before = dataclasses.replace(
        tracks_of([100, 100, 100]),
        first_frame=np.array([0, 0, NOW - 1]),
        motion=np.array([[6.0, 2.0], [6.0, 2.0], [0.0, 0.0]]),
    )
    now = tracks_of([95, 60, 60])
    tracks = now.after(before, np.arange(3), np.tile([2.0, 0.0], (3, 1)), NOW, Tuning())
    assert tracks.motion.tolist() == [[4.0, 1.0], [6.0, 2.0], [2.0, 0.0]]


def test_track_table_thinks_of_a_hidden_track_where_the_whole_would_be():
    before = dataclasses.replace(tracks_of([100, 100]), motion=np.array([[3.0, 1.0]] * 2))
    now = tracks_of([60, 95])
    now = dataclasses.replace(
        now,
        max_area=now.area.astype(np.float64),
        predicted_centre=now.predicted_centre + 50,
    )
    tracks = now.after(before, np.array([0, 1]), np.zeros((2, 2)), NOW, Tuning())
    np.testing.assert_allclose(tracks.predicted_centre[0], before.predicted_centre[0] + [3, 1])
    np.testing.assert_allclose(tracks.predicted_centre[1], now.predicted_centre[1])


def test_track_table_remembers_colours_so_that_a_track_does_not_drift():
    before, now = tracks_of([10, 10]), tracks_of([10, 10])
    now = dataclasses.replace(now, colours=before.colours + np.float32(10))
    tracks = now.after(before, np.array([1, -1]), np.zeros((2, 2)), NOW, Tuning())
    kept = 0.8 * before.colours[1] + 0.2 * now.colours[0]
    np.testing.assert_allclose(tracks.colours[0], kept, rtol=1e-5)
    np.testing.assert_array_equal(tracks.colours[1], now.colours[1])


def test_track_table_writes_into_neither_of_the_two():
    before, now = tracks_of([100, 100]), tracks_of([60, 95])
    copies = [
        {field.name: getattr(table, field.name).copy() for field in dataclasses.fields(table)}
        for table in (before, now)
    ]
    now.after(before, np.array([1, 0]), np.ones((2, 2)), NOW, Tuning())
    for table, copy in zip((before, now), copies, strict=True):
        for name, array in copy.items():
            np.testing.assert_array_equal(getattr(table, name), array, err_msg=name)

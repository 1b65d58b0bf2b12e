"""Sums over the tables of a scene: motion against the scene, and motion by time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.level_tables import SHAPE, random_tables

from aaams_stream.core.level_sums import SceneSums
from aaams_stream.kernels import level_sums as kernels
from aaams_stream.kernels.level_sums import Rows


def rows_of(place, motion, area=None):
    """Return the columns of one frame."""
    n = len(place)
    zeros = np.zeros((n, 3), np.float32)
    return Rows(
        frame=np.zeros(n, np.int64),
        track=np.arange(n),
        area=np.full(n, 50, np.uint32) if area is None else np.asarray(area, np.uint32),
        centroid=np.asarray(place, np.float32),
        colour=zeros,
        spread=zeros,
        perimeter=np.full(n, 30, np.uint32),
        motion=np.asarray(motion, np.float32),
    )


def left_over(rows, unit_sq=1e-4):
    moved = np.empty((len(rows.frame), 2))
    kernels.fit_scene(rows, 0, len(rows.frame), 40.0, unit_sq, moved)
    return moved


def test_an_affine_scene_leaves_nothing_and_what_moves_against_it_stands_out():
    rng = np.random.default_rng(0)
    place = rng.uniform(0, 80, (200, 2))
    motion = place @ np.array([[0.02, -0.01], [0.01, 0.02]]) + (3, -1)
    motion[:10] += (0, 4)
    moved = left_over(rows_of(place, motion), unit_sq=1.0)
    np.testing.assert_allclose(moved[10:], 0, atol=0.05)
    np.testing.assert_allclose(moved[:10], [(0, 4)] * 10, atol=0.1)


def test_motion_is_measured_by_what_the_scene_leaves():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 2, (300, 2))
    moved = left_over(rows_of(rng.uniform(0, 80, (300, 2)), noise))
    assert np.median(np.hypot(*moved.T)) == pytest.approx(1, rel=0.05)


def test_few_segments_are_not_explained_one_by_one():
    place = [(10, 10), (70, 10), (40, 50)]
    moved = left_over(rows_of(place, [(0, 0), (0, 0), (6, 0)], [500, 500, 50]), unit_sq=1.0)
    assert np.hypot(*moved[2]) > 3 * np.hypot(*moved[:2].T).max()


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 50)), min_size=1, max_size=30))
def test_weighted_median_has_half_of_the_weight_below(rows):
    values, weights = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    found = kernels.weighted_median(values, weights, len(values))
    order = np.argsort(values, kind="stable")
    at = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    assert found == pytest.approx(values[order][at], abs=1e-4)


@given(st.integers(0, 30), st.sampled_from([1, 2, 3, 5, 8]))
def test_series_keep_their_sums_when_time_gets_coarser(seed, moments):
    segments, adjacency, _ = random_tables(seed, frames=11)
    fine, coarse = SceneSums(SHAPE, 100, 0.01), SceneSums(SHAPE, moments, 0.01)
    for scene in (fine, coarse):
        scene.add(segments, adjacency)
    for r in range(fine.tracks):
        expected: dict[int, np.ndarray] = {}
        for time, sums in entries(fine, r):
            at = time // coarse.stride
            expected[at] = expected.get(at, 0) + sums
        found = dict(entries(coarse, r))
        assert list(found) == list(expected)
        for at, sums in found.items():
            np.testing.assert_allclose(sums, expected[at], atol=1e-9)
    assert 11 // coarse.stride <= moments


def entries(scene, r):
    """Yield time and sums of the entries of a track."""
    e = scene.series.head[r]
    while e >= 0:
        yield int(scene.series.time[e]), scene.series.sums[e].copy()
        e = scene.series.following[e]


def test_many_rows_at_once_are_the_same_as_few(monkeypatch):
    parts = random_tables(2, tracks=40, frames=12)
    scenes = []
    for at_once in (1 << 16, 7):
        monkeypatch.setattr("aaams_stream.core.level_sums._AT_ONCE", at_once)
        scene = SceneSums(SHAPE, 4, 0.01)
        scene.add(*parts[:2])
        scenes.append(scene)
    one, other = (scene.graph() for scene in scenes)
    for a, b in zip((*one[1], *one[2]), (*other[1], *other[2]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_outlines_are_shared_between_rim_and_contact():
    scene = SceneSums(SHAPE, 4, 0.01)
    scene.add(*random_tables(3)[:2])
    _, groups, links, _ = scene.graph()
    assert groups.sums[:, 3].sum() == pytest.approx(2 * links.length.sum())
    assert (groups.sums[:, 2] >= 0).all()

"""The first part of a warm step against a slow reference written from the texts."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support import warm_step

from aaams_stream.core.propagate import propagate
from aaams_stream.core.refine import refine_boundaries
from aaams_stream.core.refresh import schedule_refresh
from aaams_stream.core.transport import ABOVE_ANY, advance
from aaams_stream.core.tuning import DEFAULT
from aaams_stream.params import Params


@st.composite
def scenes(draw):
    """Draw a small frame with a state before it, and settings."""
    params = Params().updated(
        {
            # no pixel lies on the rim of the window of 7: 28 is no sum of two squares
            "space": {"sigma2": 7.0},
            "time": {"sigma2": draw(st.sampled_from([0.5, 4.0, 16.0]))},
            "stream": {
                "tolerance2": draw(st.sampled_from([1.0, 4.0, 9.0])),
                "refresh": draw(st.integers(1, 12)),
                "segments": draw(st.sampled_from([0, 4, 20])),
            },
        }
    )
    tuning = dataclasses.replace(
        DEFAULT,
        warm_thin=draw(st.integers(1, 3)),
        watch=draw(st.integers(1, 3)),
        outlier=draw(st.sampled_from([1.5, 2.25])),
        inlier=draw(st.sampled_from([0.5, 1.25])),
        strange=draw(st.sampled_from([3.0, 8.0])),
        scene_change_share=draw(st.sampled_from([0.3, 0.7])),
        refresh_tile=draw(st.integers(4, 10)),
        refresh_rest=draw(st.integers(0, 9)),
        refresh_large=draw(st.sampled_from([0.5, 1.0, 3.0])),
        vote_stay=draw(st.sampled_from([0.0, 1.0])),
        vote_join=draw(st.sampled_from([0.5, 2.0])),
        vote_rounds=draw(st.integers(0, 4)),
    )
    return warm_step.draw_scene(
        draw(st.integers(0, 2**32 - 1)),
        (draw(st.integers(16, 24)), draw(st.integers(16, 24))),
        draw(st.integers(1, 7)),
        draw(st.sampled_from([0.0, 0.1, 0.4, 1.0])),
        params,
        tuning,
    )


def run_propagate(scene):
    return propagate(scene.prepared, scene.state)


def run_refine(scene):
    """Return what was propagated and refreshed, and the labels with boundaries refined."""
    seen = run_propagate(scene)
    schedule_refresh(seen, scene.state, scene.params, scene.tuning)
    return seen, refine_boundaries(seen, scene.picture, scene.params, scene.tuning)


@settings(max_examples=100)
@given(scenes())
def test_propagate_agrees_with_the_oracle(scene):
    seen, expected = run_propagate(scene), warm_step.warp(scene)
    np.testing.assert_array_equal(seen.pixels.flow, scene.flow)
    np.testing.assert_array_equal(seen.pixels.warped, expected.warped)
    np.testing.assert_allclose(seen.pixels.density, expected.density, rtol=1e-7)
    sure = ~expected.unsure
    assert np.mean(sure) > 0.98
    np.testing.assert_array_equal(seen.pixels.kept[sure], expected.kept[sure])
    for row, area in enumerate(seen.area):
        assert area == np.count_nonzero(seen.pixels.kept == row)
    assert seen.explained == np.count_nonzero(seen.pixels.kept >= 0)
    assume(sure.all())
    assert seen.scene_change == expected.scene_change


@settings(max_examples=100)
@given(scenes())
def test_schedule_refresh_agrees_with_the_oracle(scene):
    seen = run_propagate(scene)
    kept, due = warm_step.refresh(seen.pixels.kept.copy(), scene)
    refreshed = schedule_refresh(seen, scene.state, scene.params, scene.tuning)
    np.testing.assert_array_equal(seen.pixels.kept, kept)
    assert np.flatnonzero(refreshed).tolist() == due


@settings(max_examples=100)
@given(scenes())
def test_refine_boundaries_agrees_with_the_oracle(scene):
    seen, labels = run_refine(scene)
    expected, unsure = warm_step.refine(seen.pixels.kept, seen.pixels.warped, scene)
    np.testing.assert_array_equal(labels[~unsure], expected[~unsure])


@settings(max_examples=80)
@given(scenes())
def test_advance_agrees_with_the_oracle_before_newcomers_merge(scene):
    seen, labels = run_refine(scene)
    # nobody is in anybody's vicinity, and nobody moves again
    alone = scene.params.updated({"colour": {"epsilon2": 0.0}, "core": {"max_iterations": 1}})
    expected = warm_step.advance(labels, seen.pixels.density.copy(), scene)
    found = advance(labels, seen, scene.picture, scene.state, alone, scene.tuning)
    here, count = expected.sure, len(scene.state.tracks.ids)
    clusters, pixels = found.grid.clusters, found.grid.pixels
    assert found.transported.tolist() == expected.transported
    assert np.isfinite(clusters.position[found.transported]).all()
    np.testing.assert_allclose(found.motion, expected.motion, atol=1e-6)
    np.testing.assert_allclose(clusters.position[here], expected.position[here], atol=5e-3)
    np.testing.assert_allclose(clusters.rho[here] - ABOVE_ANY, expected.rho[here], atol=1e-6)
    np.testing.assert_allclose(
        clusters.trajectory[here], expected.trajectory[here], rtol=5e-3, atol=0.05
    )
    np.testing.assert_allclose(
        clusters.precision[here], expected.precision[here], rtol=0.01, atol=1e-3
    )
    assert clusters.rho.size == count + len(expected.newcomers)
    for i, (y, x) in enumerate(expected.newcomers):
        assert pixels.start[y, x] == count + i
    np.testing.assert_allclose(clusters.bearing[count:], expected.bearing, atol=5e-3)
    rows, columns = np.array(expected.newcomers, int).reshape(-1, 2).T
    np.testing.assert_allclose(pixels.density[rows, columns], expected.density, rtol=2e-3)
    np.testing.assert_array_equal(pixels.start[labels >= 0], labels[labels >= 0])


@settings(max_examples=80)
@given(scenes())
def test_advance_moves_transported_clusters_alike_whoever_joins_them(scene):
    seen, labels = run_refine(scene)
    alone = scene.params.updated({"colour": {"epsilon2": 0.0}, "core": {"max_iterations": 1}})
    apart, usual = (
        advance(
            labels,
            dataclasses.replace(
                seen, pixels=seen.pixels._replace(density=seen.pixels.density.copy())
            ),
            scene.picture,
            scene.state,
            params,
            scene.tuning,
        )
        for params in (alone, scene.params)
    )
    here, clusters = usual.transported, usual.grid.clusters
    np.testing.assert_array_equal(clusters.position[here], apart.grid.clusters.position[here])
    np.testing.assert_array_equal(clusters.bearing, apart.grid.clusters.bearing)
    np.testing.assert_array_equal(clusters.parent[here], here)  # nobody absorbs them
    owner = usual.grid.pixels.owner
    np.testing.assert_array_equal(owner[labels >= 0], labels[labels >= 0])
    assert np.isin(owner, usual.alive).all()
    joined = np.bincount(owner[labels < 0], minlength=clusters.members.size)[here]
    before = np.maximum(scene.state.tracks.area[here], scene.tuning.adaptive_members)
    np.testing.assert_array_equal(clusters.members[here], before + joined)

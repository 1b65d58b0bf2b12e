"""Clusters of the frame before among the pixels of the next."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from support.label_maps import even_flow, label_maps
from support.tracks import precisions, propagated, state_of, tracks_of

from aaams_stream.core import features
from aaams_stream.core.transport import ABOVE_ANY, advance
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels.transport import number_clusters
from aaams_stream.params import Params


def numbered(labels, flow, count):
    """Run number_clusters; return unlabelled, owner, adaptive, area, motion."""
    owner, adaptive = np.empty_like(labels), np.empty(labels.shape, np.uint8)
    area, motion = np.empty(count, np.int64), np.empty((count, 2))
    unlabelled = number_clusters(labels, flow, owner, adaptive, area, motion)
    return unlabelled, owner, adaptive, area, motion


@given(label_maps(-2, 5))
def test_number_clusters_counts_the_transported_first_and_then_newcomers(labels):
    unlabelled, owner, adaptive, area, _ = numbered(labels, even_flow(labels), 7)
    known = labels >= 0
    np.testing.assert_array_equal(owner[known], labels[known])
    np.testing.assert_array_equal(adaptive, known)
    np.testing.assert_array_equal(unlabelled, np.flatnonzero(~known))
    np.testing.assert_array_equal(owner.ravel()[unlabelled], 7 + np.arange(len(unlabelled)))
    np.testing.assert_array_equal(area, np.bincount(labels[known], minlength=7))


@given(label_maps(-2, 3))
def test_number_clusters_gives_segments_the_mean_motion_of_their_pixels(labels):
    flow = np.random.default_rng(0).normal(size=(*labels.shape, 2)).astype(np.float32)
    *_, motion = numbered(labels, flow, 5)
    for label in range(5):
        here = labels == label
        expected = -flow[here].mean(axis=0) if here.any() else (0, 0)
        np.testing.assert_allclose(motion[label], expected, atol=1e-5)


# advance.


def two_halves(h=24, w=40):
    """Return labels, the picture whose greys tell them, and tracks that stand in the middle."""
    labels = np.zeros((h, w), np.int32)
    labels[:, w // 2 :] = 1
    grey = np.where(labels == 1, 180, 60).astype(np.uint8)
    picture = features.picture(np.repeat(grey[:, :, None], 3, axis=2))
    tracks = tracks_of([labels.size // 2] * 2)
    mode = np.array([[*picture.planes[:, h // 2, x], x, h // 2] for x in (w // 4, 3 * w // 4)])
    trajectory = np.zeros((2, 15), np.float32)
    trajectory[:, 0] = 8.0
    trajectory[:, 1:6] = mode
    trajectory[:, [6, 9, 11, 12, 14]] = 40.0
    tracks = dataclasses.replace(
        tracks, mode=mode.astype(np.float32), trajectory=trajectory, precision=precisions(2)
    )
    return labels, picture, tracks


def test_advance_lets_clusters_go_along_with_the_motion_and_their_trajectories_fade():
    labels, picture, tracks = two_halves()
    flow = even_flow(labels, -2.0, 1.0)
    seen = propagated(labels, tracks, flow=flow)
    params = Params().updated({"time": {"sigma2": 4.0}})
    advanced = advance(labels, seen, picture, state_of(labels, tracks), params, Tuning())
    assert advanced.alive.tolist() == advanced.transported.tolist() == [0, 1]
    np.testing.assert_allclose(advanced.motion, [[2.0, -1.0]] * 2)
    np.testing.assert_array_equal(advanced.grid.pixels.owner, labels)
    clusters = advanced.grid.clusters
    # colours are the same all over a segment and the window lies inside: the shift goes nowhere
    np.testing.assert_allclose(clusters.position[:, 3:], tracks.mode[:, 3:] + [2, -1], atol=0.3)
    np.testing.assert_allclose(clusters.position[:, :3], tracks.mode[:, :3], atol=0.01)
    fade = np.exp(-0.5 / 4.0)
    weight = clusters.trajectory[:, 0] - (clusters.rho - ABOVE_ANY)
    np.testing.assert_allclose(weight, fade * 8.0, rtol=1e-5)
    # the scatter fades alike; the place it stands on now hardly adds any
    np.testing.assert_allclose(clusters.trajectory[:, 6], fade * 40.0, rtol=0.01)


def test_advance_gives_pixels_without_a_label_to_the_cluster_of_their_colour():
    labels, picture, tracks = two_halves()
    holes = labels.copy()
    holes[10:12, 4:9] = holes[10:12, 30:35] = -1
    seen = propagated(holes, tracks)
    advanced = advance(holes, seen, picture, state_of(labels, tracks), Params(), Tuning())
    np.testing.assert_array_equal(advanced.grid.pixels.owner, labels)
    assert advanced.alive.tolist() == [0, 1]


def test_advance_founds_clusters_where_the_colour_is_new_and_transports_only_who_has_a_pixel():
    labels, picture, tracks = two_halves()
    gone = np.where(labels == 1, -1, labels).astype(np.int32)
    before = {name: array.copy() for name, array in state_of(labels, tracks).to_arrays().items()}
    state = state_of(labels, tracks)
    advanced = advance(gone, propagated(gone, tracks), picture, state, Params(), Tuning())
    assert advanced.transported.tolist() == [0]
    assert advanced.alive[0] == 0
    assert (advanced.alive[1:] >= 2).all()
    owner = advanced.grid.pixels.owner
    assert (owner[labels == 0] == 0).all()
    assert (owner[labels == 1] >= 2).all()
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)

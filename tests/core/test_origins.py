"""Which track a region bears, and which was predicted for it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.label_maps import label_maps

from aaams_stream.kernels.common import REFRESH
from aaams_stream.kernels.region_graph import find_origins


def origins_of(regions, labels, warped):
    """Return the tracks that three regions bear, those predicted, and the pixels presumed."""
    track_of, prior_track = np.empty((2, 3), np.int32)
    claim, whole = np.empty(3, np.int64), np.empty(3, np.int64)
    find_origins(regions, labels, warped, whole, track_of, prior_track, claim)
    return track_of, prior_track, claim


def test_find_origins_presumes_a_track_that_is_re_estimated_where_most_of_it_is():
    """Region 0 has five of its pixels and two of a neighbour, region 1 the other three."""
    regions = np.array([[0] * 7, [1] * 3 + [2] * 4], np.int32)
    warped = np.array([[0] * 5 + [1] * 2, [0] * 3 + [1] * 4], np.int32)
    labels = np.where(warped == 0, REFRESH, warped).astype(np.int32)
    track_of, prior_track, claim = origins_of(regions, labels, warped)
    assert track_of.tolist() == [0, -1, 1]
    assert prior_track.tolist() == [0, 0, 1]
    assert claim.tolist() == [5, 3, 0]
    labels[1, :3] = 0  # half of it is known to be elsewhere: here it is not presumed
    labels[0, 3:5] = -1
    assert origins_of(regions, labels, warped)[0].tolist() == [1, 0, 1]


@given(label_maps(0, 2), st.integers(0, 2**31))
def test_find_origins_names_the_majority_that_regions_came_from(regions, seed):
    rng = np.random.default_rng(seed)
    warped = rng.choice([-1, 0, 0, 0, 1], regions.shape).astype(np.int32)
    labels = np.where(rng.random(regions.shape) < 0.5, warped, -2).astype(np.int32)
    track_of, prior_track, _ = origins_of(regions, labels, warped)
    for region in range(3):
        kept = labels[(regions == region) & (labels >= 0)]
        came = warped[regions == region]
        assert (track_of[region] in kept) if kept.size else (track_of[region] == -1)
        assert (prior_track[region] in came) if came.size else (prior_track[region] == -1)
        for values, found in ((kept, track_of[region]), (came, prior_track[region])):
            for value in np.unique(values):
                assert 2 * (values == value).sum() <= values.size or found == value


@given(label_maps(0, 2), st.integers(0, 2**31))
def test_find_origins_counts_votes_cast_in_runs_as_if_cast_one_by_one(regions, seed):
    rng = np.random.default_rng(seed)
    warped = np.sort(rng.integers(-1, 3, regions.shape), axis=1).astype(np.int32)
    labels = np.where(rng.random(regions.shape) < 0.7, warped, -2).astype(np.int32)
    expected = []
    for votes in (labels, warped):
        leader, lead = [-1] * 3, [0] * 3
        for region, vote in zip(regions.ravel().tolist(), votes.ravel().tolist(), strict=True):
            if votes is labels and vote < 0:
                continue
            if lead[region] == 0:
                leader[region] = vote
            lead[region] += 1 if leader[region] == vote else -1
        expected.append(leader)
    track_of, prior_track, _ = origins_of(regions, labels, warped)
    assert [track_of.tolist(), prior_track.tolist()] == expected

"""Features of segments from features of pixels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aaams_stream import Segmenter
from aaams_stream.core.pool import pool, rows_of
from aaams_stream.source.demo import demo_frame

drawn_ids = hnp.arrays(
    np.uint32,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.sampled_from([1, 2, 3, 1026, 2**32 - 1]),  # some share a place in the cache
)


def test_pool_of_places_gives_the_centroids_of_segments():
    frame = Segmenter().step(demo_frame(0).rgb[::2, ::2].copy())
    y, x = np.indices(frame.ids.shape)
    places = pool(frame.ids, np.stack([x, y], axis=-1))
    np.testing.assert_allclose(places, frame.segments["centroid"], rtol=1e-5, atol=1e-4)


@given(drawn_ids, st.sampled_from([np.uint8, np.int64, np.float16, np.float64]))
def test_pool_gives_means_of_any_type_of_number_in_order_of_id(ids, dtype):
    features = np.random.default_rng(0).uniform(0, 100, (*ids.shape, 3)).astype(dtype)
    names = np.unique(ids)
    means = pool(ids, features)
    assert means.dtype == np.float32
    expected = [features[ids == name].astype(np.float64).mean(axis=0) for name in names]
    np.testing.assert_allclose(means, expected, rtol=1e-5)
    np.testing.assert_array_equal(pool(ids, features[..., 1]), means[:, 1])
    np.testing.assert_array_equal(pool(ids, features, names), means)


@pytest.mark.parametrize("shape", [(2, 3), (4, 6, 1, 1), (24,), (6, 4, 2)])
def test_pool_refuses_features_that_do_not_lie_on_the_frame(shape):
    ids = np.ones((4, 6), np.uint32)
    with pytest.raises(ValueError, match=r"must have shape \(4, 6\) or .* scale them"):
        pool(ids, np.zeros(shape))


@given(drawn_ids)
def test_rows_of_pixels_lead_back_to_their_ids(ids):
    names = np.unique(ids)
    rows = rows_of(ids, names)
    assert rows.shape == ids.shape
    np.testing.assert_array_equal(names[rows], ids)
    np.testing.assert_array_equal(rows_of(ids.T, names), rows.T)  # in whatever order they lie

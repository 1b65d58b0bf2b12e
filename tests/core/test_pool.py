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


@given(drawn_ids, st.integers(1, 3))
def test_pool_takes_channels_first(ids, channels):
    features = np.random.default_rng(1).uniform(0, 100, (*ids.shape, channels))
    first = np.moveaxis(features, -1, 0)
    np.testing.assert_array_equal(pool(ids, first, layout="chw"), pool(ids, features, layout="hwc"))
    if first.shape[:2] != ids.shape:
        np.testing.assert_array_equal(pool(ids, first), pool(ids, features))


@given(drawn_ids, st.integers(1, 30), st.integers(1, 30))
def test_pool_of_a_map_of_another_size_counts_cells_by_the_pixels_they_cover(ids, high, wide):
    features = np.random.default_rng(2).uniform(0, 100, (high, wide, 2))
    grid_y, grid_x = max(high, ids.shape[0]), max(wide, ids.shape[1])
    sums, counts = {}, {}
    for y in range(grid_y):
        for x in range(grid_x):
            at = [
                (int((y + 0.5) / grid_y * h), int((x + 0.5) / grid_x * w))
                for h, w in (ids.shape, (high, wide))
            ]
            name = ids[at[0]]
            sums[name] = sums.get(name, 0) + features[at[1]]
            counts[name] = counts.get(name, 0) + 1
    expected = [sums[name] / counts[name] for name in np.unique(ids)]
    np.testing.assert_allclose(pool(ids, features, layout="hwc"), expected, rtol=1e-5)
    np.testing.assert_array_equal(
        pool(ids, np.moveaxis(features, -1, 0), layout="chw"), pool(ids, features, layout="hwc")
    )


@pytest.mark.parametrize("shape", [(12, 16, 5), (5, 12, 17), (12, 16), (7, 48, 66), (3, 13, 18)])
def test_pool_finds_height_and_width_by_their_proportion(shape):
    ids = np.ones((24, 33), np.uint32)
    features = np.ones(shape)
    channels = min(shape) if len(shape) == 3 else None
    assert pool(ids, features).shape == ((1,) if channels is None else (1, channels))


def test_pool_of_a_finer_map_equals_that_of_the_frame_where_cells_repeat():
    ids = np.random.default_rng(3).integers(1, 4, (6, 8)).astype(np.uint32)
    features = np.random.default_rng(4).uniform(size=(6, 8, 3))
    finer = features.repeat(4, axis=0).repeat(4, axis=1)
    np.testing.assert_allclose(pool(ids, finer), pool(ids, features), rtol=1e-6)


@pytest.mark.parametrize("shape", [(4, 6, 1, 1), (24,), (6, 4, 2), (2, 2, 2), (0, 4, 6)])
def test_pool_refuses_features_that_do_not_lie_on_the_frame(shape):
    ids = np.ones((4, 12), np.uint32)
    with pytest.raises(ValueError, match=r"must have shape \(4, 12\), .* say layout='hwc'"):
        pool(ids, np.zeros(shape))
    with pytest.raises(ValueError, match="got 'cwh'"):
        pool(ids, np.zeros((4, 12, 3)), layout="cwh")


@given(drawn_ids)
def test_rows_of_pixels_lead_back_to_their_ids(ids):
    names = np.unique(ids)
    rows = rows_of(ids, names)
    assert rows.shape == ids.shape
    np.testing.assert_array_equal(names[rows], ids)
    np.testing.assert_array_equal(rows_of(ids.T, names), rows.T)  # in whatever order they lie

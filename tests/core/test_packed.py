"""The algebra of packed arrays, against NumPy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support import grids

from aaams_stream.core import packed

seeds = st.integers(0, 2**32 - 1)


def random_matrices(rng, count, size):
    """Return symmetric positive definite matrices (count, size, size)."""
    root = rng.normal(size=(count, size, size))
    return root @ root.transpose(0, 2, 1) + 0.1 * np.eye(size)


def upper(matrices):
    row, column = np.triu_indices(matrices.shape[-1])
    return matrices[:, row, column]


@given(seeds, st.integers(1, 30))
def test_inverted_matrices_are_those_of_numpy(seed, count):
    matrices = random_matrices(np.random.default_rng(seed), count, 3)
    found = packed.inverted(upper(matrices))
    np.testing.assert_allclose(found, upper(np.linalg.inv(matrices)), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(packed.inverted(found), upper(matrices), rtol=1e-6, atol=1e-6)


@given(seeds)
def test_full_places_an_upper_triangle_on_both_sides_of_the_diagonal(seed):
    matrices = random_matrices(np.random.default_rng(seed), 4, 3)
    np.testing.assert_array_equal(upper(matrices)[:, packed.FULL], matrices)
    np.testing.assert_array_equal(matrices[:, packed.ROW, packed.COLUMN], upper(matrices))
    np.testing.assert_array_equal(packed.DIAGONAL, upper(np.eye(3)[None])[0])


def test_bandwidths_are_the_inverses_of_precisions():
    rng = np.random.default_rng(0)
    precision = np.zeros((20, 5, 5))
    for block in (slice(3), slice(3, 5)):
        root = rng.normal(size=(20, 5, 5))[:, block, block]
        precision[:, block, block] = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(5)[block, block]
    rows = np.zeros((20, 10), np.float32)
    rows[:, packed.COLOUR_PRECISION] = upper(precision[:, :3, :3])
    rows[:, packed.SPACE_PRECISION] = upper(precision[:, 3:, 3:])
    found = packed.bandwidths(rows)
    np.testing.assert_allclose(found, np.linalg.inv(precision), rtol=1e-4, atol=1e-4)


@given(seeds)
def test_bandwidths_come_back_from_the_rows_that_kernels_keep(seed):
    bandwidth = grids.random_bandwidth(np.random.default_rng(seed))
    found = packed.bandwidths(grids.precision_row(bandwidth)[None])[0]
    np.testing.assert_allclose(found, bandwidth, rtol=1e-3, atol=1e-2)
    assert (found[:3, 3:] == 0).all()
    assert (found[3:, :3] == 0).all()


@given(seeds)
def test_colour_gap_is_the_mahalanobis_distance_to_the_other_colour(seed):
    rng = np.random.default_rng(seed)
    inverse = random_matrices(rng, 6, 3)
    theirs = np.hstack([rng.uniform(0, 100, (6, 3)), upper(inverse)]).astype(np.float32)
    mine = rng.uniform(0, 100, (6, 9)).astype(np.float32)
    apart = (mine[:, :3] - theirs[:, :3]).astype(np.float64)
    full = theirs[:, packed.INVERSE_VARIANCE][:, packed.FULL].astype(np.float64)
    expected = np.einsum("na,nab,nb->n", apart, full, apart)
    np.testing.assert_allclose(packed.colour_gap_sq(mine, theirs), expected, rtol=1e-5)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_scaled_places_keep_the_rim_of_the_picture_on_the_rim(h, w, height, width):
    """A pixel's place is its centre, so the picture reaches from -.5 to its size less .5."""
    scale = np.array([width / w, height / h])
    rim = np.array([[-0.5, -0.5], [w - 0.5, h - 0.5], [(w - 1) / 2, (h - 1) / 2]])
    expected = [[-0.5, -0.5], [width - 0.5, height - 0.5], [(width - 1) / 2, (height - 1) / 2]]
    np.testing.assert_allclose(packed.scaled_places(rim, scale), expected, atol=1e-9)


@given(seeds)
def test_scaled_places_and_products_are_those_of_the_diagonal_matrix(seed):
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.1, 4, 2)
    places = rng.uniform(0, 100, (7, 2))
    turned = np.linalg.solve(np.diag(1 / scale), (places + 0.5).T).T
    np.testing.assert_allclose(packed.scaled_places(places, scale) + 0.5, turned)
    matrices = random_matrices(rng, 7, 2)
    stretched = np.diag(scale) @ matrices @ np.diag(scale)
    found = upper(matrices) * packed.scale_products(scale)
    np.testing.assert_allclose(found, upper(stretched))

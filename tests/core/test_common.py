"""What kernels share: the table of pairs against a dict, and union-find against a walk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from aaams_stream.kernels import common

numbers = st.integers(-2, 12) | st.integers(0, 2**31 - 1)
rows = st.lists(st.tuples(numbers, numbers, st.integers(-99, 99)), max_size=300)


@njit(error_model="numpy")
def count_pairs(a, b, values, expected):
    """Count pairs and sum values over them, as kernels do; return also how many there is room for.

    a, b (n,) int32; values (n,) float64.
    """
    slots, first, second, sums = common.new_pairs(expected)
    n = np.int64(0)
    for i in range(a.size):
        if n == first.size:
            slots, first, second, sums = common.larger_pairs(first, second, sums)
        row = common.pair_row(a[i], b[i], slots, first, second, n)
        n = max(n, row + 1)
        sums[row, 0] += 1.0
        sums[row, 1] += values[i]
    return first[:n].copy(), second[:n].copy(), sums[:n].copy(), first.size


@njit(error_model="numpy")
def find_all_roots(parent):
    """Return the root of every node, found one after the other in the forest that is changed."""
    roots = np.empty_like(parent)
    for c in range(parent.size):
        roots[c] = common.find_root(parent, np.int32(c))
    return roots


def counted(pairs, expected):
    """Run count_pairs on rows (a, b, value); return pairs, sums and room."""
    a, b, values = np.array(pairs, np.float64).reshape(-1, 3).T
    first, second, sums, room = count_pairs(
        a.astype(np.int32), b.astype(np.int32), values.copy(), expected
    )
    return list(zip(first.tolist(), second.tolist(), strict=True)), sums.tolist(), room


@given(rows, st.integers(0, 400))
def test_pair_table_counts_as_a_dict_does_whatever_was_expected(pairs, expected):
    sums: dict[tuple[int, int], list[float]] = {}
    for a, b, value in pairs:
        row = sums.setdefault((a, b), [0.0, 0.0])
        row[0] += 1
        row[1] += value
    found, totals, room = counted(pairs, expected)
    assert found == list(sums)  # in the order in which they were met
    assert totals == list(sums.values())
    assert room >= max(len(sums), expected)


@pytest.mark.parametrize(
    ("count", "size"), [(31, 32), (32, 128), (127, 128), (128, 512), (513, 2048), (5000, 8192)]
)
def test_pair_table_grows_when_it_is_full_and_another_pair_is_looked_up(count, size):
    """The least has room for 32; pairs met again after it grew are still the same rows."""
    pairs = [(k % 71, k // 71, k) for k in range(count)]
    found, totals, room = counted(pairs + pairs, 0)
    assert found == [(a, b) for a, b, _ in pairs]
    assert totals == [[2.0, 2.0 * k] for k in range(count)]
    assert room == size


def test_pair_table_does_not_grow_where_enough_was_expected():
    pairs = [(k, k, 1) for k in range(200)]
    assert counted(pairs, 200)[2] == 256


def test_pair_table_tells_pairs_apart_that_want_the_same_slot():
    """Multiples of the number of slots fall onto one another, and so do rows from the end on."""
    pairs = [(64 * k, 64 * k, k) for k in range(20)] + [(64 * k + 63, 0, k) for k in range(12)]
    found, totals, room = counted(pairs, 0)
    assert room == 32
    assert found == [(a, b) for a, b, _ in pairs]
    assert [total for _, total in totals] == [value for *_, value in pairs]


def test_pair_table_keeps_the_order_within_a_pair():
    found, totals, _ = counted([(1, 2, 5), (2, 1, 7), (1, 2, 5)], 1)
    assert found == [(1, 2), (2, 1)]
    assert totals == [[2.0, 10.0], [1.0, 7.0]]


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=60))
def test_find_root_ends_where_walking_up_does_and_shortens_the_way(steps):
    """A node's parent is itself or an earlier one, so that every walk ends."""
    parent = np.array([step % (c + 1) for c, step in enumerate(steps)], np.int32)

    def walk(forest, c):
        length = 0
        while forest[c] != c:
            c, length = int(forest[c]), length + 1
        return c, length

    before = [walk(parent, c) for c in range(len(parent))]
    roots = find_all_roots(parent)
    after = [walk(parent, c) for c in range(len(parent))]
    assert roots.tolist() == [root for root, _ in before] == [root for root, _ in after]
    assert all(new <= old for (_, new), (_, old) in zip(after, before, strict=True))

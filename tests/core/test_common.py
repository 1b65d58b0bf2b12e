"""What kernels share: the table of pairs against a dict, and union-find against a walk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from aaams_stream.core.pairs import find_pairs
from aaams_stream.kernels import common
from aaams_stream.kernels.records import Pairs

numbers = st.integers(-2, 12) | st.integers(0, 2**31 - 1)
drawn_rows = st.lists(st.tuples(numbers, numbers, st.integers(-99, 99)), max_size=300)


@njit(error_model="numpy")
def count_pairs(a, b, values, pairs):
    """Count pairs and sum values over them, as kernels do; return how many there are, or -1.

    a, b (n,) int32; values (n,) float64.
    """
    n = np.int64(0)
    for i in range(a.size):
        slot = common.find_slot(a[i], b[i], pairs)
        if pairs.slots[slot] < 0:
            n = common.add_pair(a[i], b[i], slot, pairs, n)
            if n < 0:
                return n
        row = pairs.slots[slot]
        pairs.sums[row, 0] += 1.0
        pairs.sums[row, 1] += values[i]
    return n


@njit(error_model="numpy")
def find_all_roots(parent):
    """Return the root of every node, found one after the other in the forest that is changed."""
    roots = np.empty_like(parent)
    for c in range(parent.size):
        roots[c] = common.find_root(parent, np.int32(c))
    return roots


def counted(rows, expected):
    """Find the pairs of rows (a, b, value); return them, their sums, and the room of each try."""
    tries = []

    def scan(a, b, values, pairs):
        tries.append(len(pairs.first))
        return count_pairs(a, b, values, pairs)

    a, b, values = np.array(rows, np.float64).reshape(-1, 3).T
    columns = a.astype(np.int32), b.astype(np.int32), values.copy()
    found = find_pairs(scan, *columns, expected=expected)
    pairs = zip(found.first.tolist(), found.second.tolist(), strict=True)
    return list(pairs), found.sums.tolist(), tries


@given(drawn_rows, st.integers(0, 400))
def test_find_pairs_counts_as_a_dict_does_whatever_was_expected(rows, expected):
    sums: dict[tuple[int, int], list[float]] = {}
    for a, b, value in rows:
        row = sums.setdefault((a, b), [0.0, 0.0])
        row[0] += 1
        row[1] += value
    found, totals, tries = counted(rows, expected)
    assert found == list(sums)  # in the order in which they were met
    assert totals == list(sums.values())
    assert tries[0] >= expected
    assert tries[-1] >= len(sums)


@pytest.mark.parametrize(
    ("count", "tries"),
    [
        (0, [32]),
        (32, [32]),
        (33, [32, 256]),
        (256, [32, 256]),
        (257, [32, 256, 2048]),
        (5000, [32, 256, 2048, 16384]),
    ],
)
def test_find_pairs_tries_again_with_more_room_only_when_it_is_needed(count, tries):
    """The least has room for 32; pairs that are met again take none."""
    rows = [(k % 71, k // 71, k) for k in range(count)]
    found, totals, tried = counted(rows + rows, 0)
    assert found == [(a, b) for a, b, _ in rows]
    assert totals == [[2.0, 2.0 * k] for k in range(count)]
    assert tried == tries


def test_find_pairs_does_not_try_again_where_enough_was_expected():
    assert counted([(k, k, 1) for k in range(200)], 200)[2] == [256]


def test_find_pairs_takes_ids_of_the_upper_half_too_and_as_many_sums_as_wanted():
    ids = np.array([2**32 - 1, 5, 2**32 - 1, 2**31], np.uint32)
    values = np.array([1.0, 2.0, 3.0, 4.0])
    found = find_pairs(count_pairs, ids, ids[::-1].copy(), values, expected=0, kind=np.uint32)
    assert found.first.tolist() == ids.tolist()
    assert found.second.tolist() == ids[::-1].tolist()
    assert found.sums.tolist() == [[1, 1], [1, 2], [1, 3], [1, 4]]
    wide = find_pairs(count_pairs, ids, ids, values, expected=0, kind=np.uint32, sums=3)
    assert wide.sums.tolist() == [[2, 4, 0], [1, 2, 0], [1, 4, 0]]


def test_too_little_room_for_the_pairs_is_told_by_a_negative_number():
    columns = np.arange(40, dtype=np.int32), np.arange(40, dtype=np.int32), np.ones(40)
    for room, count in ((32, -1), (64, 40)):
        pairs = Pairs(
            np.full(2 * room, -1, np.int32),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.zeros((room, 2)),
        )
        assert count_pairs(*columns, pairs) == count


def test_pairs_are_told_apart_that_want_the_same_slot():
    """Multiples of the number of slots fall onto one another, and so do rows from the end on."""
    rows = [(64 * k, 64 * k, k) for k in range(20)] + [(64 * k + 63, 0, k) for k in range(12)]
    found, totals, tries = counted(rows, 0)
    assert tries == [32]
    assert found == [(a, b) for a, b, _ in rows]
    assert [total for _, total in totals] == [value for *_, value in rows]


def test_pairs_are_ordered():
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

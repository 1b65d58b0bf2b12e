"""Tables of pairs, against a dict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pairs import count_pairs, counted

from aaams_stream.core.pairs import find_pairs

numbers = st.integers(-2, 12) | st.integers(0, 2**31 - 1)
drawn_rows = st.lists(st.tuples(numbers, numbers, st.integers(-99, 99)), max_size=300)


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

"""What kernels share: slots in a table of pairs, union-find against a walk, ends of runs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit
from support.pairs import count_pairs, counted

from aaams_stream.kernels import common
from aaams_stream.kernels.records import Pairs


@njit(error_model="numpy")
def find_all_roots(parent):
    """Return the root of every node, found one after the other in the forest that is changed."""
    roots = np.empty_like(parent)
    for c in range(parent.size):
        roots[c] = common.find_root(parent, np.int32(c))
    return roots


def test_add_pair_tells_of_too_little_room_by_a_negative_number():
    columns = np.arange(40, dtype=np.int32), np.arange(40, dtype=np.int32), np.ones(40)
    for room, count in ((32, -1), (64, 40)):
        pairs = Pairs(
            np.full(2 * room, -1, np.int32),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.zeros((room, 2)),
        )
        assert count_pairs(*columns, pairs) == count


def test_find_slot_tells_pairs_apart_that_want_the_same_slot():
    """Multiples of the number of slots fall onto one another, and so do rows from the end on."""
    rows = [(64 * k, 64 * k, k) for k in range(20)] + [(64 * k + 63, 0, k) for k in range(12)]
    found, totals, tries = counted(rows, 0)
    assert tries == [32]
    assert found == [(a, b) for a, b, _ in rows]
    assert [total for _, total in totals] == [value for *_, value in rows]


def test_find_slot_tells_a_pair_from_the_same_the_other_way_round():
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


# Ends of runs.

rows = st.integers(1, 40).flatmap(
    lambda width: arrays(np.int32, (2, width), elements=st.integers(-2, 1))
)


@njit(error_model="numpy")
def list_both_ends(first, second, marks, ends):
    """List where a run of either row ends, as kernels do that go by several maps at once."""
    common.mark_ends(first, marks)
    return common.list_ends(second, marks, ends)


@njit(error_model="numpy")
def list_changes(row, marks, places):
    """List the pixels whose neighbour to the right differs."""
    common.mark_ends(row, marks)
    return common.list_marked(marks, places)


@njit(error_model="numpy")
def marked_of(marks, places):
    """List the marked places."""
    return common.list_marked(marks, places)


@njit(error_model="numpy")
def marks_for(width):
    """Return room for marks."""
    return common.empty_marks(width)


def listed(scan, width, *arguments, marks=None):
    """Run a kernel that lists places; it leaves all marks clear and writes to its room only."""
    marks = marks_for(width) if marks is None else marks
    room = np.full(width + 2, 99, np.int32)
    count = scan(*arguments, marks, room[:-1])
    assert not marks.any()
    assert room[-1] == 99
    return room[:count].tolist()


@given(st.integers(1, 40))
def test_empty_marks_are_clear_and_fill_whole_words(width):
    marks = marks_for(width)
    assert marks.dtype == np.uint8
    assert marks.size % 8 == 0
    assert width <= marks.size < width + 8
    assert not marks.any()


@given(rows)
def test_list_ends_lists_the_last_pixel_of_every_run_of_either_row(pair):
    first, second = pair
    width = second.size
    expected = [
        x
        for x in range(width)
        if x == width - 1 or first[x] != first[x + 1] or second[x] != second[x + 1]
    ]
    assert listed(list_both_ends, width, first, second) == expected


@given(rows)
def test_mark_ends_marks_changes_and_not_the_end_of_the_row(pair):
    row = pair[0]
    assert listed(list_changes, row.size, row) == np.flatnonzero(np.diff(row)).tolist()


def test_list_marked_counts_in_plain_python_beyond_what_a_mark_can_hold():
    """As with NUMBA_DISABLE_JIT=1, for a debugger."""
    plain = getattr(common.list_marked, "py_func", common.list_marked)
    room = np.empty(601, np.int32)
    assert plain(np.ones(600, np.uint8), room) == 600
    assert room[:600].tolist() == list(range(600))


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_list_marked_lists_places_in_order_and_clears_them(chosen):
    marks = marks_for(len(chosen))
    marks[: len(chosen)] = chosen
    assert listed(marked_of, len(chosen), marks=marks) == np.flatnonzero(chosen).tolist()


@njit(error_model="numpy")
def summed_flow(flow, start, stop):
    """Sum a run of vectors."""
    return common.sum_flow(flow, start, stop)


@given(st.integers(1, 40), st.integers(0, 39), st.integers(0, 40))
def test_sum_flow_adds_up_the_vectors_of_a_run(width, start, length):
    start = min(start, width - 1)
    stop = min(start + length, width)
    flow = np.random.default_rng(width).integers(-99, 99, (width, 2)).astype(np.float32)
    found = summed_flow(flow.reshape(2 * width), start, stop)
    assert found == tuple(flow[start:stop].sum(axis=0, dtype=np.float64))

"""Frames are indexed as NumPy indexes an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import example, given, settings
from hypothesis import strategies as st
from zarr.storage import MemoryStore

from aaams_stream.store import Frames, open_volume

STORED, COMMITTED, HEIGHT, WIDTH = 21, 19, 5, 4  # three chunks, the last of them partial
PIXELS = np.arange(STORED * HEIGHT * WIDTH, dtype=np.uint32).reshape(STORED, HEIGHT, WIDTH)
COMMITTED_PIXELS = PIXELS[:COMMITTED]


def stored_frames():
    array = zarr.create_array(
        MemoryStore(), shape=PIXELS.shape, chunks=(8, HEIGHT, WIDTH), dtype=PIXELS.dtype
    )
    array[:] = PIXELS
    return Frames(array, COMMITTED)


FRAMES = stored_frames()


def numbers(size):
    """Yield numbers, a few of which lie outside an axis of this length."""
    inside = st.integers(-size, size - 1)
    return st.one_of(inside, inside, inside, st.integers(-size - 2, size + 1))


def spans(size):
    bounds = st.none() | st.integers(-size - 3, size + 3)
    steps = st.none() | st.integers(-size - 1, size + 1).filter(bool)
    return st.builds(slice, bounds, bounds, steps)


def lists(size):
    return st.lists(numbers(size), max_size=4)


def grids(size):
    """Yield arrays of numbers with two axes."""
    shapes = st.tuples(st.integers(0, 2), st.integers(1, 3))
    return shapes.flatmap(
        lambda shape: st.lists(
            numbers(size), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]
        ).map(lambda values: np.array(values, np.intp).reshape(shape))
    )


def masks(*shape):
    """Yield masks, of another length now and then."""
    count = int(np.prod(shape))
    right = st.lists(st.booleans(), min_size=count, max_size=count).map(
        lambda values: np.array(values).reshape(shape)
    )
    return st.one_of(right, right, right, right.map(lambda mask: mask[1:]))


def indices(size):
    return st.one_of(numbers(size), spans(size), spans(size), lists(size), masks(size), grids(size))


def keys():
    """Yield what may stand between brackets: time first, then any part of the rest."""
    rest = st.one_of(
        st.tuples(),
        st.tuples(indices(HEIGHT)),
        st.tuples(indices(HEIGHT), indices(WIDTH)),
        st.tuples(spans(HEIGHT), spans(WIDTH)),
        st.tuples(st.just(...), indices(WIDTH)),
        st.tuples(st.none(), indices(HEIGHT)),
        st.tuples(masks(HEIGHT, WIDTH)),
        st.tuples(numbers(HEIGHT), numbers(WIDTH), numbers(1)),  # one too many
    )
    over_time = st.tuples(indices(COMMITTED), rest).map(lambda key: (key[0], *key[1]))
    over_both = masks(COMMITTED, HEIGHT).flatmap(
        lambda mask: st.one_of(st.just((mask,)), indices(WIDTH).map(lambda x: (mask, x)))
    )
    return st.one_of(over_time, over_time, over_both, masks(*COMMITTED_PIXELS.shape).map(tuple_of))


def tuple_of(index):
    return (index,)


def taken(array: Any, key: Any) -> Any:
    """Return what an array has under a key, or None if it refuses it."""
    try:
        return np.asarray(array[key])
    except IndexError:
        return None


@given(keys())
@example(([0, 1], [2, 3]))
@example(([0, 1], slice(None), [2, 3]))
@example((5, slice(None), [1, 2]))
@example((slice(None, None, -5), slice(None, None, -2), slice(3, 0, -1)))
@example(([], [1, 2]))
@example(([[0, 18], [2, 2]], 3))
@settings(max_examples=300)
def test_frames_give_what_numpy_gives(key):
    for asked in (key, key[0]) if len(key) == 1 else (key,):
        expected, found = taken(COMMITTED_PIXELS, asked), taken(FRAMES, asked)
        if expected is None:
            assert found is None, f"{asked} is refused by NumPy alone"
        else:
            assert found is not None, f"{asked} is refused"
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected, err_msg=str(asked), strict=True)


@pytest.mark.parametrize("key", [0, -1, slice(2, 4), [3, 3], (5, slice(1, 3))])
def test_frames_may_be_written_over_by_their_reader(key):
    """What is handed out is the reader's own: the next one reads what is stored."""
    FRAMES[key][...] = 0
    np.testing.assert_array_equal(FRAMES[key], COMMITTED_PIXELS[key])


def test_frames_are_indexed_like_an_array(whole):
    path, results = whole
    ids = open_volume(path).ids
    expected = np.stack([result.ids for result in results])
    assert ids.shape == expected.shape
    assert ids.dtype == np.uint32
    assert len(ids) == 29
    for key in (
        -1,
        slice(3, 20, 4),
        slice(None, None, -3),
        slice(50, 60),
        (5, slice(2, 9), 7),
        (slice(8, 12), slice(None), slice(0, 64, 2)),
        [3, 1, 28],
    ):
        np.testing.assert_array_equal(ids[key], expected[key], err_msg=str(key))
    np.testing.assert_array_equal(np.asarray(ids), expected)
    for wrong in (29, -30):
        with pytest.raises(IndexError, match="29 frames"):
            ids[wrong]
    with pytest.raises(IndexError, match="29"):
        open_volume(path).segments(29)


def test_frames_are_chosen_by_a_mask_over_time(whole):
    volume = open_volume(whole[0])
    late = volume.times > 0.5
    np.testing.assert_array_equal(volume.ids[late], volume.ids[:][late])
    np.testing.assert_array_equal(volume.ids[[5, 2], 3:9], volume.ids[:][[5, 2], 3:9])
    assert volume.ids[[]].shape == (0, 48, 64)
    with pytest.raises(IndexError, match="a mask over time needs 29 entries"):
        volume.ids[late[:-1]]
    with pytest.raises(TypeError):
        volume.ids[1.7]

"""The tables of a frame: what each segment is like, and which of them touch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aaams_stream import Segmenter
from aaams_stream.kernels import measure
from aaams_stream.model import EventKind
from aaams_stream.source.demo import demo_frame

LABELS = 5


@given(
    hnp.arrays(
        np.uint32,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
        elements=st.sampled_from([1, 2, 3, 1026, 2**32 - 1]),  # some share a place in the cache
    )
)
def test_runs_give_the_ids_back(ids):
    rows, lengths = np.empty(ids.size, np.uint32), np.empty(ids.size, np.uint16)
    names = np.unique(ids)
    n = measure.find_runs(ids, names, rows, lengths)
    np.testing.assert_array_equal(names[np.repeat(rows[:n], lengths[:n])], ids.ravel())
    assert n == np.count_nonzero(np.diff(ids, axis=1)) + len(ids)  # no run could be longer


@st.composite
def pictures(draw):
    """Draw labels (h, w), planes (3, h, w) and flow (h, w, 2)."""
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=9))
    labels = draw(hnp.arrays(np.int32, shape, elements=st.integers(0, LABELS - 1)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    planes = rng.uniform(-50, 100, (3, *shape)).astype(np.float32)
    return labels, planes, rng.normal(size=(*shape, 2)).astype(np.float32)


def measured(labels, planes, flow):
    area, perimeter = np.empty((2, LABELS), np.int64)
    bbox, sums = np.empty((LABELS, 4), np.int32), np.empty((LABELS, 10))
    measure.measure_segments(labels, planes, flow, area, bbox, sums, perimeter)
    return area, perimeter, bbox, sums


@given(pictures())
def test_segments_are_measured_as_their_pixels_say(picture):
    labels, planes, flow = picture
    area, perimeter, bbox, sums = measured(*picture)
    framed = np.pad(labels, 1, constant_values=-1)
    for label in range(LABELS):
        y, x = np.nonzero(labels == label)
        assert area[label] == y.size
        if not y.size:
            continue
        assert bbox[label].tolist() == [x.min(), y.min(), x.max() + 1, y.max() + 1]
        sides = [framed[y + 1 + dy, x + 1 + dx] for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))]
        assert perimeter[label] == np.count_nonzero(np.array(sides) != label)
        colours = planes[:, y, x].astype(np.float64)
        expected = [x.sum(), y.sum(), *colours.sum(1), *(colours**2).sum(1), *-flow[y, x].sum(0)]
        np.testing.assert_allclose(sums[label], expected, rtol=1e-5, atol=1e-4)


def contacts(labels, planes):
    """Return {(first, second): (length, contrast)}, found the obvious way."""
    found: dict[tuple[int, int], list[float]] = {}
    h, w = labels.shape
    for y in range(h):
        for x in range(w):
            for v, u in ((y, x + 1), (y + 1, x)):
                if v < h and u < w and labels[y, x] != labels[v, u]:
                    pair = tuple(sorted((int(labels[y, x]), int(labels[v, u]))))
                    gap = np.linalg.norm(planes[:, y, x].astype(float) - planes[:, v, u])
                    found.setdefault(pair, []).append(gap)
    return {pair: (len(gaps), sum(gaps)) for pair, gaps in found.items()}


@given(pictures())
def test_contacts_are_the_sides_two_segments_share(picture):
    labels, planes, _ = picture
    first, second, length, contrast = measure.find_contacts(labels, planes, 64)
    expected = contacts(labels, planes)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    assert sorted(pairs) == sorted(expected)
    for pair, n, total in zip(pairs, length, contrast, strict=True):
        assert (n, pytest.approx(total, rel=1e-5)) == expected[pair]


def test_too_small_a_table_of_contacts_finds_none():
    labels = np.arange(64, dtype=np.int32).reshape(8, 8)
    assert measure.find_contacts(labels, np.zeros((3, 8, 8), np.float32), 64)[0].size == 0
    assert measure.find_contacts(labels, np.zeros((3, 8, 8), np.float32), 256)[0].size == 112


@pytest.fixture(scope="module")
def clip():
    segmenter = Segmenter()
    return [segmenter.step(demo_frame(index).rgb[::2, ::2].copy()) for index in range(12)]


def test_the_tables_of_a_frame_agree_with_its_ids(clip):
    for frame in clip:
        rows, pairs = frame.segments, frame.adjacency
        names, areas = np.unique(frame.ids, return_counts=True)
        assert rows["id"].tolist() == names.tolist()
        assert rows["area"].tolist() == areas.tolist()
        for row in rows:
            y, x = np.nonzero(frame.ids == row["id"])
            np.testing.assert_allclose(row["centroid"], [x.mean(), y.mean()], rtol=1e-5)
        assert (pairs["first"] < pairs["second"]).all()
        assert np.isin(pairs["first"], names).all()
        assert np.isin(pairs["second"], names).all()
        keys = list(zip(pairs["first"].tolist(), pairs["second"].tolist(), strict=True))
        assert keys == sorted(set(keys))
        sides = (frame.ids[:, 1:] != frame.ids[:, :-1]).sum()
        sides += (frame.ids[1:] != frame.ids[:-1]).sum()
        assert pairs["length"].sum() == sides
        rim = 2 * sum(frame.ids.shape)
        assert rows["perimeter"].sum() == 2 * sides + rim


def test_ages_count_frames_and_parents_are_those_of_the_splits(clip):
    born, parents = {}, {}
    for t, frame in enumerate(clip):
        for event in frame.events:
            if event["kind"] in (EventKind.BIRTH, EventKind.SPLIT):
                born[int(event["id"])] = t
                parents[int(event["id"])] = int(event["other"])
        for row in frame.segments:
            assert row["age"] == t - born[int(row["id"])]
            assert row["parent"] == parents[int(row["id"])]


def test_things_that_move_say_how(clip):
    """The balloon rises; what stands still stands still."""
    motion = clip[-1].segments["motion"]
    assert np.isfinite(motion).all()
    assert not clip[0].segments["motion"].any()
    assert np.median(np.abs(motion)) < 0.2
    assert np.abs(motion).max() > 0.5

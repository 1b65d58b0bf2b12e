"""The tables of a frame: what each segment is like, and which of them touch."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aaams_stream import Params, Segmenter
from aaams_stream.core import features
from aaams_stream.core.measure import measure
from aaams_stream.core.pairs import find_pairs
from aaams_stream.core.scale import processing_shape
from aaams_stream.kernels import measure as kernels
from aaams_stream.kernels.records import Shapes
from aaams_stream.model import EventKind
from aaams_stream.source.demo import demo_frame

LABELS = 5


def params(scale, **stream):
    return Params().updated({"stream": {"segments": 60, "scale": scale, **stream}})


@given(
    hnp.arrays(
        np.uint32,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
        elements=st.sampled_from([1, 2, 3, 1026, 2**32 - 1]),  # some share a place in the cache
    )
)
def test_find_runs_gives_runs_that_give_the_ids_back(ids):
    rows, lengths = np.empty(ids.size, np.uint32), np.empty(ids.size, np.uint16)
    names = np.unique(ids)
    n = kernels.find_runs(ids, names, rows, lengths)
    np.testing.assert_array_equal(names[np.repeat(rows[:n], lengths[:n])], ids.ravel())
    assert n == np.count_nonzero(np.diff(ids, axis=1)) + len(ids)  # no run could be longer


@st.composite
def pictures(draw):
    """Draw labels (h, w), a frame (h, w, 3) and flow (h, w, 2)."""
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=9))
    labels = draw(hnp.arrays(np.int32, shape, elements=st.integers(0, LABELS - 1)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    frame = rng.integers(0, 256, (*shape, 3), np.uint8)
    return labels, frame, rng.normal(size=(*shape, 2)).astype(np.float32)


@given(pictures())
def test_measure_motion_adds_up_motion_as_pixels_say(picture):
    labels, _, flow = picture
    area, sums = np.empty(LABELS, np.int64), np.empty((LABELS, 2))
    kernels.measure_motion(labels, flow, area, sums)
    for label in range(LABELS):
        assert area[label] == np.count_nonzero(labels == label)
        expected = -flow[labels == label].sum(0)
        np.testing.assert_allclose(sums[label], expected, rtol=1e-5, atol=1e-4)


def measure_segments(labels, frame, expected, count=LABELS):
    names = np.arange(7, 7 + count, dtype=np.uint32)
    ids = np.empty(labels.shape, np.uint32)
    shapes = Shapes(
        *np.empty((2, count), np.int64),
        np.empty((count, 4), np.int32),
        np.empty((count, 2)),
        np.empty((count, 6)),
    )
    pixels = labels, frame, features.RESPONSE, names, ids
    pairs = find_pairs(kernels.measure_segments, *pixels, shapes, expected=expected)
    np.testing.assert_array_equal(ids, names[labels])
    return shapes, pairs


def colours_of(frame):
    return features.lab_planes(frame)[:, :, : frame.shape[1]].astype(np.float64)


@given(pictures())
def test_measure_segments_gives_what_the_pixels_say(picture):
    labels, frame, _ = picture
    shapes, _ = measure_segments(labels, frame, 20)
    framed = np.pad(labels, 1, constant_values=-1)
    for label in range(LABELS):
        y, x = np.nonzero(labels == label)
        assert shapes.area[label] == y.size
        if not y.size:
            continue
        box = [x.min(), y.min(), x.max() + 1, y.max() + 1]
        assert shapes.bbox[label].tolist() == box
        sides = [framed[y + 1 + dy, x + 1 + dx] for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))]
        assert shapes.perimeter[label] == np.count_nonzero(np.array(sides) != label)
        np.testing.assert_allclose(shapes.places[label], [x.sum(), y.sum()], rtol=1e-5, atol=1e-4)
        colours = colours_of(frame)[:, y, x]
        expected = [*colours.sum(1), *(colours**2).sum(1)]
        np.testing.assert_allclose(shapes.colours[label], expected, rtol=1e-5, atol=1e-4)


def contacts(labels, frame):
    """Return {(first, second): (length, contrast)}, found the obvious way."""
    colours = colours_of(frame)
    found: dict[tuple[int, int], list[float]] = {}
    h, w = labels.shape
    for y in range(h):
        for x in range(w):
            for v, u in ((y, x + 1), (y + 1, x)):
                if v < h and u < w and labels[y, x] != labels[v, u]:
                    pair = tuple(sorted((int(labels[y, x]), int(labels[v, u]))))
                    gap = np.linalg.norm(colours[:, y, x] - colours[:, v, u])
                    found.setdefault(pair, []).append(gap)
    return {pair: (len(gaps), sum(gaps)) for pair, gaps in found.items()}


@given(pictures())
def test_measure_segments_finds_the_sides_two_segments_share(picture):
    labels, frame, _ = picture
    first, second, sums = measure_segments(labels, frame, 20)[-1]
    length, contrast = sums.T
    expected = contacts(labels, frame)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    assert sorted(pairs) == sorted(expected)
    for pair, n, total in zip(pairs, length, contrast, strict=True):
        assert (n, pytest.approx(total, rel=1e-5)) == expected[pair]


@given(
    hnp.arrays(
        np.int32,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
        elements=st.integers(0, 39),
    ),
    st.integers(0, 40),
)
def test_measure_segments_finds_all_pairs_however_many_were_expected(labels, expected):
    frame = np.random.default_rng(0).integers(0, 256, (*labels.shape, 3), np.uint8)
    few, many = (measure_segments(labels, frame, n, 40) for n in (expected, 1000))
    for mine, theirs in zip((*few[0], *few[1]), (*many[0], *many[1]), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture(scope="module")
def clip():
    segmenter = Segmenter()
    return [segmenter.step(demo_frame(index).rgb[::2, ::2].copy()) for index in range(12)]


def test_tables_of_a_frame_agree_with_its_ids(clip):
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


def test_segments_have_ages_in_frames_and_parents_by_the_splits(clip):
    first_frame, parents = {}, {}
    for t, frame in enumerate(clip):
        for event in frame.events:
            if event["kind"] in (EventKind.BIRTH, EventKind.SPLIT):
                first_frame[int(event["id"])] = t
                parents[int(event["id"])] = int(event["other"])
        for row in frame.segments:
            assert row["age"] == t - first_frame[int(row["id"])]
            assert row["parent"] == parents[int(row["id"])]


def test_segments_say_how_they_move(clip):
    """The balloon rises; what stands still stands still."""
    motion = clip[-1].segments["motion"]
    assert np.isfinite(motion).all()
    assert not clip[0].segments["motion"].any()
    assert np.median(np.abs(motion)) < 0.2
    assert np.abs(motion).max() > 0.5


SIZES = [(0.5, (96, 128)), (0.55, (111, 150)), (0.8, (97, 61))]


@pytest.mark.parametrize(("scale", "shape"), SIZES)
def test_tables_tell_what_the_ids_show_at_any_scale(scale, shape):
    segmenter = Segmenter(params(scale, segments=20))
    for index in range(3):
        rgb = cv2.resize(demo_frame(4 * index).rgb, shape[::-1])
        result = segmenter.step(rgb)
        ids = result.ids
        assert ids.shape == shape
        assert segmenter.state.labels.shape == processing_shape(shape, scale) < shape
        framed = np.pad(ids, 1)
        lengths: dict[tuple[int, int], int] = {}
        for a, b in ((framed[:, :-1], framed[:, 1:]), (framed[:-1], framed[1:])):
            for pair in zip(a[a != b].tolist(), b[a != b].tolist(), strict=True):
                key = (min(pair), max(pair))
                lengths[key] = lengths.get(key, 0) + 1
        np.testing.assert_array_equal(result.segments["id"], np.unique(ids))
        for row in result.segments:
            y, x = np.nonzero(ids == row["id"])
            assert row["area"] == len(x)
            assert row["bbox"].tolist() == [x.min(), y.min(), x.max() + 1, y.max() + 1]
            np.testing.assert_allclose(row["centroid"], (x.mean(), y.mean()), rtol=1e-5)
            assert row["perimeter"] == sum(n for pair, n in lengths.items() if row["id"] in pair)
        told = {(row["first"], row["second"]): row["length"] for row in result.adjacency}
        assert told == {pair: n for pair, n in lengths.items() if pair[0]}
        assert (result.adjacency["contrast"] > 0).all()


@pytest.mark.parametrize(("scale", "shape"), [*SIZES, (1.0, (96, 128))])
def test_tables_tell_the_colours_of_the_frame_itself_at_any_scale(scale, shape):
    segmenter = Segmenter(params(scale, segments=20))
    for index in range(3):
        rgb = cv2.resize(demo_frame(4 * index).rgb, shape[::-1])
        result = segmenter.step(rgb)
        planes = colours_of(rgb)
        for row in result.segments:
            colours = planes[:, result.ids == row["id"]]
            np.testing.assert_allclose(row["colour"], colours.mean(axis=1), atol=1e-3)
            np.testing.assert_allclose(row["colour_spread"], colours.std(axis=1), atol=1e-2)
        expected = contacts(result.ids, rgb)
        for row in result.adjacency:
            length, gaps = expected[int(row["first"]), int(row["second"])]
            assert row["contrast"] == pytest.approx(gaps / length, rel=1e-4)


def test_measure_gives_modes_bandwidths_and_motion_in_pixels_of_the_frame():
    segmenter = Segmenter(params(0.5))
    for index in range(4):
        rgb = np.roll(demo_frame(0).rgb, 4 * index, axis=1)
        result = segmenter.step(rgb)
    large = result.segments[result.segments["area"] > 1000]
    np.testing.assert_allclose(np.median(large["motion"], axis=0), (4.0, 0.0), atol=0.3)
    scaled = features.resized(rgb, (120, 160))
    _, (small, _) = measure(segmenter.state, segmenter.state.labels, scaled, None)
    found = result.segments
    np.testing.assert_array_equal(found["id"], small["id"])
    np.testing.assert_allclose(found["mode"][:, :3], small["mode"][:, :3])
    np.testing.assert_allclose(found["mode"][:, 3:] + 0.5, 2 * (small["mode"][:, 3:] + 0.5))
    np.testing.assert_allclose(found["bandwidth_space"], 4 * small["bandwidth_space"])
    np.testing.assert_allclose(found["bandwidth_colour"], small["bandwidth_colour"])

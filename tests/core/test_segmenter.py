"""The segmenter on drawn clips: identities, events, state, threads."""

from __future__ import annotations

import numpy as np
import pytest
from support.synthetic import checkerboard, landscape, quarters

from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.tuning import DEFAULT
from aaams_stream.model import EventKind
from aaams_stream.params import Params
from aaams_stream.source.demo import SURFACES, demo_frame

SMALL = Params().updated({"stream": {"segments": 12}})


def moving_square(count, *, size=12, step=3, height=48, width=96, seed=None):
    """Draw a red square that crosses a blue ground; with a seed, both are noisy."""
    frames = []
    for t in range(count):
        rgb = np.full((height, width, 3), (60, 90, 160), np.float64)
        x = 6 + t * step
        rgb[18 : 18 + size, x : x + size] = (200, 60, 50)
        if seed is not None:
            rgb += np.random.default_rng((seed, t)).normal(0, 2, rgb.shape)
        frames.append(np.clip(np.rint(rgb), 0, 255).astype(np.uint8))
    return frames


def run(frames, params=SMALL, **options):
    segmenter = Segmenter(params, **options)
    return [segmenter.step(frame) for frame in frames]


@pytest.fixture(scope="module")
def demo():
    frames = [demo_frame(i) for i in range(30)]
    results = run([frame.rgb for frame in frames], Params().updated({"stream": {"segments": 60}}))
    return frames, results


def components_of(mask):
    from skimage.measure import label

    return label(mask, connectivity=1)


def test_segmenter_keeps_every_id_of_a_still_picture_and_nothing_happens():
    scene = quarters()
    first, *others = run([scene.rgb] * 40)
    assert set(first.events["kind"]) == {EventKind.BIRTH}
    for frame in others:
        np.testing.assert_array_equal(frame.ids, first.ids)
        assert len(frame.events) == 0
        assert frame.stats["warm"] > 0.8  # corners, smoothed, look like outliers


def test_segmenter_gives_a_moving_square_one_id_and_its_outline():
    frames = moving_square(20, seed=1)
    results = run(frames)
    square = results[0].ids[24, 12]
    for t, result in enumerate(results):
        truth = np.zeros(result.ids.shape, np.bool_)
        truth[18:30, 6 + 3 * t : 18 + 3 * t] = True
        mask = result.ids == square
        assert (mask & truth).sum() / (mask | truth).sum() > 0.9, t


def test_segments_tell_what_the_ids_show(demo):
    for result in demo[1]:
        ids, areas = np.unique(result.ids, return_counts=True)
        np.testing.assert_array_equal(result.segments["id"], ids)
        np.testing.assert_array_equal(result.segments["area"], areas)
        for row in result.segments[:: max(len(ids) // 5, 1)]:
            y, x = np.nonzero(result.ids == row["id"])
            assert row["bbox"].tolist() == [x.min(), y.min(), x.max() + 1, y.max() + 1]
            assert 0 <= row["density"] <= 1
            xx, xy, yy = row["bandwidth_space"]
            assert xx > 0
            assert xx * yy > xy * xy


def test_events_account_for_every_id_that_comes_and_goes(demo):
    before: set[int] = set()
    ever: set[int] = set()
    for result in demo[1]:
        now = set(result.segments["id"].tolist())
        came = {EventKind.BIRTH, EventKind.SPLIT, EventKind.RETURN}
        went = {EventKind.DEATH, EventKind.MERGE}
        appeared = {e["id"] for e in result.events if e["kind"] in came}
        gone = {e["id"] for e in result.events if e["kind"] in went}
        reidentified = {e["id"] for e in result.events if e["kind"] == EventKind.RETURN}
        assert now - before == appeared
        assert before - now == gone
        assert not (appeared - reidentified) & ever
        assert reidentified <= ever
        before = now
        ever |= now


def test_segmenter_keeps_the_ids_of_the_things_of_the_demo(demo):
    frames, results = demo
    kept = [
        np.isin(
            results[-1].ids[frames[-1].truth == SURFACES.index(name)],
            results[0].ids[frames[0].truth == SURFACES.index(name)],
        ).mean()
        for name in ("sky", "sun", "water", "house", "roof", "balloon")
    ]
    assert min(kept) > 0.3
    assert sorted(kept)[1] > 0.6


def test_segments_hug_the_things_of_the_demo(demo):
    frames, results = demo
    for frame, result in zip(frames[::6], results[::6], strict=True):
        painted = np.zeros(frame.truth.shape, frame.truth.dtype)
        for i in np.unique(result.ids):
            mask = result.ids == i
            painted[mask] = np.bincount(frame.truth[mask]).argmax()
        assert (painted == frame.truth).mean() > 0.97


def test_ids_are_connected_or_hang_together_through_the_frame_before(demo):
    before = None
    whole: dict[int, float] = {}  # the largest area of late
    for result in demo[1]:
        for i in np.unique(result.ids):
            parts = components_of(result.ids == i)
            if parts.max() > 1:
                assert before is not None, "a first frame has connected segments"
                near = np.zeros_like(parts, dtype=np.bool_)
                y, x = np.nonzero(before == i)
                if y.size < DEFAULT.least_birth:
                    continue  # a strip one pixel wide, of which the frame's own pixels show specks
                for dy in range(-20, 21, 2):
                    for dx in range(-20, 21, 2):
                        near[
                            np.clip(y + dy, 0, near.shape[0] - 1),
                            np.clip(x + dx, 0, near.shape[1] - 1),
                        ] = True
                # what comes out from behind something lies apart, within 2.5 radii of the whole
                radius = np.sqrt(whole[i] / np.pi)
                for part in range(1, parts.max() + 1):
                    v, u = np.nonzero(parts == part)
                    off = np.hypot(v.mean() - y.mean(), u.mean() - x.mean())
                    assert near[v, u].any() or off <= 2.5 * radius
        before = result.ids
        names, areas = np.unique(before, return_counts=True)
        for i, area in zip(names, areas, strict=True):
            whole[i] = max(area, DEFAULT.area_fade * whole.get(i, 0.0))


def test_scene_change_starts_cold_with_new_ids():
    first, second = landscape(60, 96).rgb, checkerboard(8, 8, 12).rgb[:60, :96]
    results = run([first] * 3 + [second] * 3)
    kinds = [set(result.events["kind"].tolist()) for result in results]
    assert EventKind.CUT in kinds[3]
    assert all(EventKind.CUT not in kinds[t] for t in (0, 1, 2, 4, 5))
    early = set(np.unique([result.ids for result in results[:3]]).tolist())
    late = set(np.unique([result.ids for result in results[3:]]).tolist())
    assert not early & late


def test_segmenter_does_not_depend_on_the_number_of_threads(monkeypatch):
    frames = [demo_frame(i).rgb for i in range(4)]
    monkeypatch.setenv("AAAMS_THREADS", "1")
    one = run(frames)
    monkeypatch.setenv("AAAMS_THREADS", "2")
    two = run(frames)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.ids, b.ids)
        assert a.segments.tobytes() == b.segments.tobytes()


def test_state_of_another_version_is_refused():
    segmenter = Segmenter(SMALL)
    segmenter.step(demo_frame(0).rgb)
    arrays = segmenter.state.to_arrays()
    del arrays["lost.predicted_centre"]
    with pytest.raises(ValueError, match=r"another version: it lacks lost\.predicted_centre"):
        SegmenterState.from_arrays(arrays)


def test_segmenter_goes_on_from_a_restored_state_bit_for_bit(tmp_path):
    frames = [demo_frame(i).rgb for i in range(8)]
    whole = run(frames)
    segmenter = Segmenter(SMALL)
    for frame in frames[:4]:
        segmenter.step(frame)
    np.savez(tmp_path / "state.npz", **segmenter.state.to_arrays())
    with np.load(tmp_path / "state.npz") as arrays:
        state = SegmenterState.from_arrays(dict(arrays))
    rest = run(frames[4:], state=state)
    for a, b in zip(whole[4:], rest, strict=True):
        assert a.index == b.index
        np.testing.assert_array_equal(a.ids, b.ids)
        assert a.segments.tobytes() == b.segments.tobytes()
        assert a.events.tobytes() == b.events.tobytes()


def test_step_does_not_write_into_the_state_it_was_given():
    frames = [demo_frame(i).rgb for i in range(3)]
    segmenter = Segmenter(SMALL)
    segmenter.step(frames[0])
    state = segmenter.state
    copy = {name: array.copy() for name, array in state.to_arrays().items()}
    segmenter.step(frames[1])
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(array, copy[name], err_msg=name)


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (17, 33)])
def test_segmenter_takes_odd_sizes(shape):
    rgb = np.random.default_rng(0).integers(0, 255, (*shape, 3), np.uint8)
    for result in run([rgb, rgb, 255 - rgb]):
        assert result.ids.shape == shape
        assert (result.ids > 0).all()


def test_segmenter_takes_grey_frames():
    grey = quarters().rgb[:, :, 0]
    assert run([grey, grey])[1].ids.shape == grey.shape


def test_segmenter_refuses_frames_of_another_size_with_a_remedy():
    segmenter = Segmenter()
    segmenter.step(np.zeros((20, 30, 3), np.uint8))
    with pytest.raises(ValueError, match=r"keep their size.*begin a new Segmenter"):
        segmenter.step(np.zeros((20, 31, 3), np.uint8))


def test_segmenter_refuses_frames_of_sixteen_bits():
    with pytest.raises(ValueError, match="uint8"):
        Segmenter().step(np.zeros((20, 30, 3), np.uint16))


def test_segmenter_passes_the_time_on():
    assert Segmenter().step(np.zeros((8, 8, 3), np.uint8), time=1.25).time == 1.25


def test_segmenter_scales_its_own_state_when_its_scale_changes():
    segmenter = Segmenter(Params().updated({"stream": {"scale": 1.0, "segments": 12}}))
    rgb = landscape(96, 128).rgb
    before = segmenter.step(rgb)
    segmenter.params = segmenter.params.updated({"stream": {"scale": 0.5}})
    after = segmenter.step(rgb)
    assert segmenter.state.labels.shape == (48, 64)
    assert after.ids.shape == before.ids.shape
    assert np.mean(after.ids == before.ids) > 0.9
    with pytest.raises(ValueError, match="must keep their size"):
        segmenter.step(rgb[:90])


def test_segmenter_scales_a_state_that_was_restored():
    settings = Params().updated({"stream": {"scale": 1.0, "segments": 12}})
    segmenter = Segmenter(settings)
    rgb = landscape(96, 128).rgb
    before = segmenter.step(rgb)
    state = SegmenterState.from_arrays(segmenter.state.to_arrays())
    after = Segmenter(settings.updated({"stream": {"scale": 0.5}}), state=state).step(rgb)
    assert np.mean(after.ids == before.ids) > 0.9


@pytest.mark.parametrize("shape", [(97, 128), (96, 129), (95, 127)])
def test_segmenter_refuses_frames_of_another_size_that_are_segmented_at_the_same(shape):
    segmenter = Segmenter(Params().updated({"stream": {"scale": 0.5}}))
    segmenter.step(landscape(96, 128).rgb)
    with pytest.raises(ValueError, match="must keep their size"):
        segmenter.step(landscape(*shape).rgb)

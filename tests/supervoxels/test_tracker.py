"""The tracker on supervoxels: an object is followed from its first mask."""

from __future__ import annotations

import dataclasses
import importlib.util

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support import ROOT
from support.clips import write_clip, write_images

import aaams_stream as aaams
from aaams_stream.errors import ConfigError
from aaams_stream.files import encode_mask, read_image
from aaams_stream.kernels import tracker as kernels
from aaams_stream.metrics import contour_accuracy, region_similarity
from aaams_stream.source.demo import SURFACES, demo_frame

FRAMES = 16


def truth(t, surface="balloon"):
    return demo_frame(t).truth == SURFACES.index(surface)


@pytest.fixture(scope="module")
def clip():
    """Return the demo clip, segmented."""
    segmenter = aaams.Segmenter()
    frames = []
    for t in range(FRAMES):
        rgb = demo_frame(t).rgb
        frames.append(dataclasses.replace(segmenter.step(rgb, t / 24), rgb=rgb))
    return frames


@pytest.mark.parametrize("surface", ["balloon", "ball", "roof"])
def test_an_object_is_followed_from_its_first_mask(clip, surface):
    masks = list(aaams.follow(clip, truth(0, surface)))
    scores = [region_similarity(mask, truth(t, surface)) for t, mask in enumerate(masks)]
    assert scores[0] == 1.0
    assert len(scores) == FRAMES
    assert min(scores) > 0.9


def renamed(frame, by):
    """Return the frame under ids never seen before, as if every identity had been lost."""
    segments, adjacency = frame.segments.copy(), frame.adjacency.copy()
    segments["id"] += np.uint32(by)
    adjacency["first"] += np.uint32(by)
    adjacency["second"] += np.uint32(by)
    return dataclasses.replace(
        frame, ids=frame.ids + np.uint32(by), segments=segments, adjacency=adjacency
    )


def test_it_is_followed_through_a_change_of_every_id(clip):
    strange = [renamed(frame, 10000 * t) for t, frame in enumerate(clip)]
    for t, mask in enumerate(aaams.follow(strange[:10], truth(0))):
        assert region_similarity(mask, truth(t)) > 0.9


def test_following_is_a_pure_step(clip):
    known = aaams.begin_following(clip[0], truth(0))
    once = aaams.keep_following(known, clip[1])
    again = aaams.keep_following(known, clip[1])
    np.testing.assert_array_equal(once.belief, again.belief)
    assert (known.mask == truth(0)).all()


def test_an_identity_that_comes_back_is_known_for_what_it_was(clip):
    known = aaams.begin_following(clip[0], truth(0))
    name = clip[0].ids[truth(0)][0]
    away = aaams.keep_following(known, renamed(clip[1], 10000))  # every id is hidden
    np.testing.assert_array_equal(away.ids, np.sort(away.ids))
    assert away.share[away.ids == name] == known.share[known.ids == name] > 0.9
    assert set(renamed(clip[1], 10000).segments["id"]) < set(away.ids)


def test_an_object_that_vanishes_leaves_an_empty_mask(clip):
    """The balloon is gone from one frame to the next, and everything else with it."""
    empty = np.broadcast_to(np.array([40, 90, 60], np.uint8), clip[0].rgb.shape).copy()
    known = aaams.begin_following(clip[0], truth(0))
    segmenter = aaams.Segmenter()
    for _ in range(4):
        frame = dataclasses.replace(segmenter.step(empty), rgb=empty)
        known = aaams.keep_following(known, frame)
    assert not known.mask.any()


def test_a_click_takes_the_segment_under_it(clip):
    y, x = np.argwhere(truth(0)).mean(axis=0).astype(int)
    mask = aaams.mask_at(clip[0], [(x, y)])
    np.testing.assert_array_equal(mask, clip[0].ids == clip[0].ids[y, x])
    both = aaams.mask_at(clip[0], [(x, y), (0, 0)])
    np.testing.assert_array_equal(both, mask | (clip[0].ids == clip[0].ids[0, 0]))
    with pytest.raises(ConfigError, match="click at 320,7 lies outside the picture of 320x240"):
        aaams.mask_at(clip[0], [(320, 7)])


def test_masks_that_make_no_sense_are_refused(clip):
    with pytest.raises(ConfigError, match="mask is empty"):
        aaams.begin_following(clip[0], np.zeros((240, 320), bool))
    with pytest.raises(ConfigError, match="mask is 160x240, expected 320x240"):
        aaams.begin_following(clip[0], truth(0)[:, ::2])
    blind = dataclasses.replace(clip[0], rgb=None)
    with pytest.raises(ValueError, match="bring its picture"):
        aaams.begin_following(blind, truth(0))


# Kernels.


@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
        elements=st.floats(0, 1, width=32),
    ),
    st.integers(1, 4),
)
def test_blurring_takes_the_mean_of_a_square(values, reach):
    padded = np.pad(values.astype(np.float64), reach, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2 * reach + 1,) * 2)
    blurred = values.copy()
    kernels.blur(blurred, reach, np.empty_like(values))
    np.testing.assert_allclose(blurred, windows.mean(axis=(2, 3)), atol=1e-5)


def test_the_shift_of_a_thing_is_found_however_far_it_went():
    rng = np.random.default_rng(0)
    before = rng.uniform(0, 100, (3, 40, 60)).astype(np.float32)
    weight = np.zeros((40, 60), np.float32)
    weight[10:18, 20:30] = 1
    now = rng.uniform(0, 100, (3, 40, 60)).astype(np.float32)
    now[:, 17:25, 9:19] = before[:, 10:18, 20:30]
    box, guess = np.array([20, 10, 30, 18]), np.array([-5, 3])
    assert kernels.find_shift(before, weight, now, box, guess, 8, 12.0, 0.0) == (-11, 7)
    assert kernels.find_shift(before, weight, now, box, guess, 3, 12.0, 100.0) == (-5, 3)


def test_belief_is_carried_by_segments_and_by_the_whole():
    belief = np.zeros((4, 6), np.float32)
    belief[1, 2] = 1
    labels = np.zeros((4, 6), np.int32)
    out = np.empty_like(belief)
    motion = np.array([[2, 1]], np.float32)
    kernels.carry_belief(belief, labels, motion, np.array([0.0, -1.0]), 0.2, out)
    assert out[2, 4] == 0.5
    assert out[0, 2] == pytest.approx(0.6)  # by the whole, and from outside by the segment
    assert out[3, 0] == pytest.approx(0.2)  # from outside, both ways
    assert out[1, 3] == 0


def test_each_kernel_of_the_consumers_is_compiled_for_one_signature_only(clip):
    from aaams_stream.kernels import measure, rle, tracker

    for _ in aaams.follow(clip[:2], truth(0)):
        pass
    for module in (tracker, rle, measure):
        for name, kernel in vars(module).items():
            assert len(getattr(kernel, "signatures", ())) <= 1, name


# Measures.


def test_j_and_f_are_those_of_known_masks():
    mask, moved = np.zeros((2, 100, 100), bool)
    mask[20:60, 20:60] = True
    moved[20:60, 30:70] = True
    assert region_similarity(mask, moved) == 1200 / 2000
    assert region_similarity(mask, mask) == contour_accuracy(mask, mask) == 1
    assert region_similarity(mask & False, mask & False) == 1
    assert contour_accuracy(mask & False, mask) == region_similarity(mask & False, mask) == 0
    near = np.roll(mask, 2, axis=1)  # within the reach of 2 pixels
    assert contour_accuracy(mask, near) == 1
    assert 0.3 < contour_accuracy(mask, moved) < 0.7
    with pytest.raises(ValueError, match="alike"):
        region_similarity(mask, mask[1:])


# The script.


@pytest.fixture
def script():
    path = ROOT / "pipelines" / "supervoxels.py"
    spec = importlib.util.spec_from_file_location("supervoxels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write the demo as a video, a volume without pictures, and its truth; return the folder."""
    folder = tmp_path_factory.mktemp("files")
    write_clip(folder / "clip.mkv", [demo_frame(t).rgb for t in range(10)], rate=24)
    aaams.segment_video(folder / "clip.mkv", folder / "clip.zarr")
    masks = [np.repeat(truth(t)[..., None], 3, axis=2).astype(np.uint8) for t in range(10)]
    write_images(folder / "truth", masks, "{:05d}.png")
    path = folder / "first.png"
    path.write_bytes(encode_mask(path, truth(0)))
    return folder


@pytest.mark.parametrize("name", ["clip.mkv", "clip.zarr"])
def test_the_script_writes_masks_and_an_overlay(script, files, tmp_path, capsys, name):
    out = tmp_path / "out"
    words = [files / name, "-o", out, "--mask", files / "first.png", "--truth", files / "truth"]
    assert script.main([str(word) for word in words]) == 0
    said = capsys.readouterr().out
    assert said.startswith("10 frames, J ")
    assert float(said.split("J ")[1][:5]) > 0.9
    assert float(said.split("F ")[1][:5]) > 0.9
    masks = sorted((out / "masks").iterdir())
    assert [mask.name for mask in masks] == [f"{t:05d}.png" for t in range(10)]
    last = read_image(masks[-1])
    assert set(np.unique(last)) == {0, 255}
    assert region_similarity(last > 0, truth(9)) > 0.75
    assert sum(1 for _ in aaams.stream(out / "overlay.mp4", segments=5)) == 10


def test_the_script_begins_with_a_click_in_a_later_frame(script, files, tmp_path):
    y, x = np.argwhere(truth(4)).mean(axis=0).astype(int)
    words = [files / "clip.zarr", "-o", tmp_path / "out", "--click", f"{x},{y}", "--frame", 4]
    assert script.main([str(word) for word in words]) == 0
    names = sorted(path.name for path in (tmp_path / "out" / "masks").iterdir())
    assert names == [f"{t:05d}.png" for t in range(4, 10)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.mp4", "--click", "1,1"), "nowhere.mp4"),
        (("clip.zarr", "--click", "900,1"), "outside the picture of 320x240"),
        (("clip.zarr", "--click", "1,1", "--frame", "10"), "--frame 10 is out of range"),
        (("clip.zarr", "--mask", "nothing.png"), "nothing.png"),
        (("clip.zarr", "--mask", "black.png"), "the mask is empty"),
        (("clip.zarr", "--mask", "small.png"), "the mask is 8x4, expected 320x240"),
        (("begun.zarr", "--click", "1,1"), "not complete"),
        (("clip.zarr", "--click", "1,1", "--truth", "masks"), "no truth images"),
    ],
)
def test_the_script_says_what_is_wrong(
    script, files, tmp_path, capsys, monkeypatch, words, message
):
    from aaams_stream import store

    monkeypatch.chdir(files)
    for name, mask in (("black", np.zeros((240, 320), bool)), ("small", np.ones((4, 8), bool))):
        path = files / f"{name}.png"
        path.write_bytes(encode_mask(path, mask))
    if not (files / "begun.zarr").exists():
        store.create(files / "begun.zarr", aaams.open_volume("clip.zarr").header, "1")
    assert script.main([*words, "-o", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1

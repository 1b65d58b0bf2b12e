"""The size at which a frame is segmented, and what a stream at a smaller size gives."""

from __future__ import annotations

import numpy as np
import pytest
from support.clips import write_clip

from aaams_stream import Params, Segmenter
from aaams_stream.cluster.door import segment_video
from aaams_stream.core.scale import processing_params, processing_shape
from aaams_stream.core.state import SegmenterState
from aaams_stream.source.demo import demo_frame
from aaams_stream.store import open_volume


def params(scale, **stream):
    return Params().updated({"stream": {"segments": 60, "scale": scale, **stream}})


def test_processing_params_shrink_lengths_and_sizes_with_the_picture():
    wanted = Params().updated({"post": {"min_size": 20}})
    half = processing_params(wanted, 0.36)
    assert half.space.sigma2 == pytest.approx(0.36 * wanted.space.sigma2)
    assert half.space.epsilon2 == pytest.approx(0.36 * wanted.space.epsilon2)
    assert half.post.min_size == 7
    assert (half.colour, half.core) == (wanted.colour, wanted.core)
    assert processing_params(wanted, 1.0) == wanted
    assert processing_params(wanted, 0.01) == processing_params(wanted, 0.25)
    tight = wanted.updated({"space": {"sigma2": 1.0, "epsilon2": 0.0}})
    assert processing_params(tight, 0.25).space == tight.space


def test_processing_shape_of_small_pictures_is_not_smaller_still():
    assert processing_shape((480, 640, 3), 0.5) == (240, 320)
    assert processing_shape((60, 400), 0.25) == (48, 320)
    assert processing_shape((20, 30), 0.25) == (20, 30)
    assert processing_shape((1, 1), 0.05) == (1, 1)


def test_segmenter_goes_on_from_a_saved_state_bit_for_bit_at_a_smaller_size():
    frames = [demo_frame(2 * i).rgb for i in range(5)]
    whole = Segmenter(params(0.6))
    expected = [whole.step(rgb) for rgb in frames]
    begun = Segmenter(params(0.6))
    for rgb in frames[:3]:
        begun.step(rgb)
    saved = begun.state.to_arrays()
    resumed = Segmenter(params(0.6), state=SegmenterState.from_arrays(saved))
    for rgb, result in zip(frames[3:], expected[3:], strict=True):
        again = resumed.step(rgb)
        np.testing.assert_array_equal(again.ids, result.ids)
        assert again.segments.tobytes() == result.segments.tobytes()
        assert again.adjacency.tobytes() == result.adjacency.tobytes()


def test_volume_has_the_size_of_the_frames(tmp_path):
    clip = write_clip(tmp_path / "clip.mkv", [demo_frame(i).rgb for i in range(5)], rate=10)
    segment_video(clip, tmp_path / "a.zarr", params(0.55))
    volume = open_volume(tmp_path / "a.zarr")
    assert volume.ids.shape == (5, 240, 320)
    assert volume.params.stream.scale == 0.55
    segmenter = Segmenter(params(0.55))
    for t in range(5):
        result = segmenter.step(demo_frame(t).rgb)
        np.testing.assert_array_equal(volume.ids[t], result.ids)
        np.testing.assert_array_equal(volume.segments(t), result.segments)


def test_segmenter_at_a_smaller_size_refuses_other_frames_with_a_remedy():
    segmenter = Segmenter(params(0.5))
    segmenter.step(np.zeros((100, 120, 3), np.uint8))
    with pytest.raises(ValueError, match=r"keep their size.*begin a new Segmenter"):
        segmenter.step(np.zeros((100, 130, 3), np.uint8))

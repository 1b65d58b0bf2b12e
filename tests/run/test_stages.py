"""Stages beside each other, with the real segmenter: the same bits as one step after the other."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from support.clips import write_clip
from support.volumes import files

from aaams_stream.cluster.door import segment_video
from aaams_stream.core import threads
from aaams_stream.core.prepare import Preparer
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.state import SegmenterState
from aaams_stream.model import EventKind, Frame
from aaams_stream.params import Params
from aaams_stream.run.stages import describe_frames, label_frames, prepare_frames
from aaams_stream.run.stream import stream
from aaams_stream.run.threads import prefetch
from aaams_stream.source.demo import demo_frame

pytestmark = pytest.mark.usefixtures("compiled")
PARAMS = Params().updated({"stream": {"segments": 40}})
CUT = 4


@pytest.fixture(autouse=True)
def _tiny_segmenter():
    """Leave the real one where it is."""


def drawn_frames(count=8):
    """Return a drawn clip with a cut: things move, and then everything has another colour."""
    frames = []
    for index in range(count):
        rgb = demo_frame(3 * index).rgb[::2, ::2].copy()
        frames.append(Frame(index, Fraction(index, 25), rgb if index < CUT else 255 - rgb))
    return frames


def scaled(scale):
    return PARAMS.updated({"stream": {"scale": scale}})


def in_steps(segmenter, frames, params=()):
    """Return what one step after the other makes of each frame, and the state after it."""
    made = []
    for index, frame in enumerate(frames):
        if params:
            segmenter.params = params[index]
        made.append((segmenter.step(frame.rgb, float(frame.time)), segmenter.state))
    return made


def in_stages(segmenter, prepared, depth):
    """Return the same from stages, each up to `depth` frames ahead of the next."""
    states = []

    def noted(labelled):
        with closing(labelled):
            for frame, found in labelled:
                states.append(found.state)
                yield frame, found

    labelled = noted(label_frames(prefetch(prepared, depth), segmenter))
    described = prefetch(describe_frames(prefetch(labelled, depth)), depth)
    with closing(described):
        return [(result, states[result.index - states[0].index + 1]) for _, result in described]


def assert_same(made, expected):
    """Hold frames and states against others, to the last bit."""
    assert len(made) == len(expected)
    for (result, state), (other, state_before) in zip(made, expected, strict=True):
        assert (result.index, result.time) == (other.index, other.time)
        assert result.stats["warm"] == other.stats["warm"]
        assert result.stats["segments"] == other.stats["segments"]
        for name in ("ids", "segments", "adjacency", "events"):
            mine, theirs = getattr(result, name), getattr(other, name)
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            assert mine.tobytes() == theirs.tobytes(), name
        arrays, arrays_before = state.to_arrays(), state_before.to_arrays()
        assert arrays.keys() == arrays_before.keys()
        for name, array in arrays.items():
            assert np.asarray(array).tobytes() == np.asarray(arrays_before[name]).tobytes(), name


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("scale", [1.0, 0.75, 0.5])
def test_stages_give_what_steps_give_also_over_a_cut(scale, depth):
    params, frames = scaled(scale), drawn_frames()
    expected = in_steps(Segmenter(params), frames)
    made = in_stages(Segmenter(params), prepare_frames(frames, params), depth)
    assert_same(made, expected)
    cuts = [result.index for result, _ in made if (result.events["kind"] == EventKind.CUT).any()]
    assert cuts == [CUT]


@pytest.mark.parametrize("depth", [0, 2])
def test_stages_take_other_settings_between_frames_as_steps_do(depth):
    frames = drawn_frames()
    few = {"segments": 15, "refresh": 20, "flow": "fast"}
    rungs = [PARAMS, scaled(0.5), scaled(0.75), PARAMS.updated({"stream": few})]
    params = [rungs[index // 2] for index in range(len(frames))]

    def prepared():
        preparer = Preparer(params[0])
        for frame, wanted in zip(frames, params, strict=True):
            preparer.params = wanted
            yield frame, preparer.prepare(frame.rgb, float(frame.time))

    expected = in_steps(Segmenter(params[0]), frames, params)
    assert_same(in_stages(Segmenter(params[0]), prepared(), depth), expected)


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_stages_go_on_from_a_restored_state_as_steps_do(scale, depth):
    params, frames = scaled(scale), drawn_frames()
    first = Segmenter(params)
    in_steps(first, frames[:3])
    saved = SegmenterState.from_arrays(first.state.to_arrays())
    expected = in_steps(first, frames[3:])
    segmenter = Segmenter(params, state=saved)
    assert_same(in_stages(segmenter, prepare_frames(frames[3:], params), depth), expected)


@pytest.fixture(scope="module")
def drawn_clip(tmp_path_factory):
    pictures = [frame.rgb for frame in drawn_frames(12)]
    return write_clip(tmp_path_factory.mktemp("drawn") / "clip.mkv", pictures)


@pytest.fixture
def with_threads(monkeypatch):
    """Return a function that says how many threads compute; any work is worth one of them."""
    monkeypatch.setattr(threads, "_SHARE", 1)

    def say(count):
        if count is None:
            monkeypatch.delenv("AAAMS_THREADS", raising=False)
        else:
            monkeypatch.setenv("AAAMS_THREADS", count)

    return say


def test_segment_video_writes_the_same_bytes_for_any_number_of_threads(
    with_threads, drawn_clip, tmp_path
):
    volumes = []
    for count in (None, "1", "2", "5"):
        with_threads(count)
        segment_video(drawn_clip, tmp_path / f"{count}.zarr", PARAMS, with_video=True)
        volumes.append(files(tmp_path / f"{count}.zarr"))
    assert len(volumes[0]) > 20
    assert all(volume == volumes[0] for volume in volumes)


def test_stream_yields_the_same_bytes_for_any_number_of_threads(with_threads, drawn_clip):
    runs = []
    for count in (None, "1", "2"):
        with_threads(count)
        runs.append(list(stream(drawn_clip, PARAMS)))
    assert len(runs[0]) == 12
    for frames in zip(*runs, strict=True):
        for name in ("ids", "segments", "adjacency", "events", "rgb"):
            assert len({getattr(frame, name).tobytes() for frame in frames}) == 1, name


def test_streams_side_by_side_do_not_disturb_each_other(with_threads, drawn_clip):
    with_threads("2")
    alone = [frame.ids for frame in stream(drawn_clip, PARAMS)]
    with closing(stream(drawn_clip, PARAMS)) as one, closing(stream(drawn_clip, PARAMS)) as other:
        for ids, mine, theirs in zip(alone, one, other, strict=True):
            np.testing.assert_array_equal(mine.ids, ids)
            np.testing.assert_array_equal(theirs.ids, ids)

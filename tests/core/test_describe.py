"""A labelled frame as users get it."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream.core.describe import describe
from aaams_stream.core.prepare import Preparer
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.params import Params
from aaams_stream.source.demo import demo_frame


def labelled_frames(scale, count=4):
    params = Params().updated({"stream": {"segments": 40, "scale": scale}})
    preparer, segmenter = Preparer(params), Segmenter(params)
    for index in range(count):
        rgb = demo_frame(3 * index).rgb[::2, ::2].copy()
        yield rgb, segmenter.label(preparer.prepare(rgb, index / 25))


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_labelled_tells_how_many_segments_describe_will_find(scale):
    for rgb, labelled in labelled_frames(scale):
        result = describe(labelled)
        assert labelled.count == len(result.segments) == result.stats["segments"]
        assert result.stats["warm"] == labelled.explained
        assert result.ids.shape == rgb.shape[:2]
        np.testing.assert_array_equal(np.unique(result.ids), labelled.state.tracks.ids)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_describe_only_reads_and_may_come_late(scale):
    """Frames described when all labels are decided are those described one by one."""
    at_once = [describe(labelled) for _, labelled in labelled_frames(scale)]
    waiting = [labelled for _, labelled in labelled_frames(scale)]
    states = [labelled.state.to_arrays() for labelled in waiting]
    copies = [{name: np.array(array) for name, array in state.items()} for state in states]
    late = [describe(labelled) for labelled in waiting]
    for mine, theirs in zip(late, at_once, strict=True):
        assert (mine.index, mine.time) == (theirs.index, theirs.time)
        for name in ("ids", "segments", "adjacency", "events"):
            assert getattr(mine, name).tobytes() == getattr(theirs, name).tobytes()
    for labelled, copy in zip(waiting, copies, strict=True):
        for name, array in labelled.state.to_arrays().items():
            np.testing.assert_array_equal(array, copy[name], err_msg=name)


def test_describe_tells_the_seconds_of_every_stage():
    def watch(seconds):
        def clock(stage):
            seconds[stage] = seconds.get(stage, 0.0) + 1.0

        return clock

    params = Params().updated({"stream": {"segments": 40, "scale": 0.5}})
    preparer, segmenter = Preparer(params, watch=watch), Segmenter(params, watch=watch)
    for index in range(2):
        rgb = demo_frame(3 * index).rgb[::2, ::2].copy()
        labelled = segmenter.label(preparer.prepare(rgb))
    stats = describe(labelled, watch).stats
    assert {"features", "flow", "motion", "boundaries", "regions", "table"} <= stats.keys()
    assert stats["scale"] == 2.0  # there and back
    assert "table" not in labelled.prepared.seconds  # a frame described twice counts once

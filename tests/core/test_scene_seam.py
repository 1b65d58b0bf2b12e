"""A scene change is an exact seam: what lies before it does not matter to what comes after.

So a film can be segmented scene by scene, in any order, and put together to the bytes of one pass.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from support.scenes import drawn_film

from aaams_stream.core.segmenter import Segmenter
from aaams_stream.core.state import SegmenterState
from aaams_stream.model import EventKind
from aaams_stream.params import Params

# every segment is re-estimated several times in a scene
SETTINGS = Params().updated({"stream": {"segments": 20, "refresh": 7}})


@pytest.fixture(scope="module")
def film():
    return drawn_film(96, 144)


def run(frames, params):
    """Return what becomes of frames, and the state after the last."""
    segmenter = Segmenter(params)
    return [segmenter.step(frame) for frame in frames], segmenter.state


def cuts_of(results):
    return [r.index for r in results if EventKind.CUT in r.events["kind"]]


def shifted(ids, by):
    return np.where(ids > 0, ids + np.uint32(by), ids).astype(np.uint32)


@pytest.mark.parametrize("scale", [1.0, 0.75, 0.5])
def test_a_segmenter_begun_at_a_scene_change_goes_on_like_the_one_that_came_there(film, scale):
    params = SETTINGS.updated({"stream": {"scale": scale}})
    whole, last = run(film, params)
    cuts = cuts_of(whole)
    assert len(cuts) >= 5  # three hard ones at least, and both sides of the flash
    for begin, end in pairwise([*cuts, len(film)]):
        part, state = run(film[begin:end], params)
        offset = int(whole[begin].ids.min()) - 1
        for one, other in zip(whole[begin:end], part, strict=True):
            np.testing.assert_array_equal(one.ids, shifted(other.ids, offset))
            segments, adjacency, events = (
                table.copy() for table in (other.segments, other.adjacency, other.events)
            )
            for table, columns in (
                (segments, ("id", "parent")),
                (adjacency, ("first", "second")),
                (events, ("id", "other")),
            ):
                for column in columns:
                    table[column] = shifted(table[column], offset)
            assert one.segments.tobytes() == segments.tobytes()
            assert one.adjacency.tobytes() == adjacency.tobytes()
            if one.index == begin:  # which the beginning of a film is not
                assert one.events[0].item() == (EventKind.CUT, 0, 0)
            assert one.events[one.index == begin :].tobytes() == events.tobytes()
        if end == len(film):
            assert state.next_id + offset == last.next_id


def test_the_tests_film_would_show_turns_that_are_counted_from_the_beginning(film, monkeypatch):
    """The test above must be able to fail: with turns counted absolutely, nearly all differs."""
    whole, _ = run(film, SETTINGS)
    begin = cuts_of(whole)[-1]
    monkeypatch.setattr(SegmenterState, "scene_frame", property(lambda state: state.index))
    monkeypatch.setattr(SegmenterState, "scene_ids", property(lambda state: state.tracks.ids))
    whole, _ = run(film, SETTINGS)
    part, _ = run(film[begin:], SETTINGS)
    pairs = list(zip(whole[begin:], part, strict=True))
    same = [np.array_equal(a.ids - a.ids.min(), b.ids - b.ids.min()) for a, b in pairs]
    assert not all(same)


def test_scenes_are_counted_from_their_first_frame_and_id(film):
    results, state = run(film, SETTINGS)
    begin = cuts_of(results)[-1]
    assert state.first_index == begin
    assert state.first_id == results[begin].ids.min()
    assert state.scene_frame == len(film) - begin
    np.testing.assert_array_equal(state.scene_ids, state.tracks.ids - state.first_id + 1)


def test_state_without_the_beginning_of_its_scene_is_of_another_version(film):
    arrays = run(film[:2], SETTINGS)[1].to_arrays()
    restored = SegmenterState.from_arrays(arrays)
    assert (restored.first_index, restored.first_id) == (0, 1)
    del arrays["first_id"]
    with pytest.raises(ValueError, match="another version: it lacks first_id"):
        SegmenterState.from_arrays(arrays)

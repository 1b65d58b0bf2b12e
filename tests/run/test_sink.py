"""A volume and a film as one place for segmented frames."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support import standin
from support.clips import film_times, moving_frames
from support.volumes import HEADER, VERSION

from aaams_stream import store
from aaams_stream.model import Frame
from aaams_stream.run.sink import MARKS, VolumeSink, open_film
from aaams_stream.store import CHUNK_FRAMES, open_volume


def pour(sink, segmenter, pictures, commit_at=()):
    """Append pictures; commit after those at the given indices."""
    for index, rgb in enumerate(pictures):
        frame = Frame(index, Fraction(index, 25), rgb)
        result = segmenter.step(rgb, float(frame.time))
        sink.append(frame, result, segmenter.state if index in commit_at else None)


def test_sink_commits_where_it_is_given_a_state(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    sink, segmenter = VolumeSink(writer), standin.Segmenter()
    pour(sink, segmenter, moving_frames(CHUNK_FRAMES + 3), commit_at=[CHUNK_FRAMES - 1])
    assert sink.frames == CHUNK_FRAMES + 3
    volume = open_volume(tmp_path / "a.zarr")
    assert (volume.frame_count, volume.complete) == (CHUNK_FRAMES, False)
    writer.release()
    writer, state = store.resume(tmp_path / "a.zarr", HEADER, VERSION)
    assert VolumeSink(writer).frames == CHUNK_FRAMES
    assert standin.SegmenterState.from_arrays(state).index == CHUNK_FRAMES


def test_sink_keeps_the_marks_of_the_frames_that_count(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    sink = VolumeSink(writer, marks=np.arange)
    pour(sink, standin.Segmenter(), moving_frames(20), commit_at=[7, 15])
    writer.release()
    _, state = store.resume(tmp_path / "a.zarr", HEADER, VERSION)
    np.testing.assert_array_equal(state[MARKS], np.arange(16))


def test_sink_takes_a_state_only_where_a_chunk_ends(tmp_path):
    sink = VolumeSink(store.create(tmp_path / "a.zarr", HEADER, VERSION))
    with pytest.raises(ValueError, match="whole chunks"):
        pour(sink, standin.Segmenter(), moving_frames(1), commit_at=[0])


def test_sink_finishes_the_volume_with_how_the_source_ended(tmp_path):
    sink = VolumeSink(store.create(tmp_path / "a.zarr", HEADER, VERSION))
    pour(sink, standin.Segmenter(), moving_frames(3))
    sink.finish("damaged: a little")
    volume = open_volume(tmp_path / "a.zarr")
    assert (volume.frame_count, volume.complete, volume.ended) == (3, True, "damaged: a little")
    np.testing.assert_array_equal(volume.times, [0, 1 / 25, 2 / 25])


def test_sink_draws_every_frame_on_the_film(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    with open_film(tmp_path / "a.mp4", HEADER, overwrite=False) as film:
        sink = VolumeSink(writer, film)
        pour(sink, standin.Segmenter(), moving_frames(3))
        sink.finish("complete")
    assert film_times(tmp_path / "a.mp4") == [Fraction(tick, 25) for tick in range(3)]

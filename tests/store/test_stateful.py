"""Any order of appends, commits, crashes, resumes and overwrites, against a model in plain Python.

After every step a reader must see what the model says; a finished volume must be, byte for byte,
the one that an uninterrupted run writes.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support import standin
from support.clips import moving_frames
from support.hierarchies import drop_levels
from support.volumes import HEADER, VERSION, files

from aaams_stream import store
from aaams_stream.errors import SinkError
from aaams_stream.store import CHUNK_FRAMES, open_volume

HEIGHT, WIDTH = 6, 8
MOST_COMMITTED = 3 * CHUNK_FRAMES
MOST = MOST_COMMITTED + 5  # frames there are
CHUNK_ROWS = 128  # few, so that tables fill more than one chunk


class Take:
    """A short film and what the segmenter makes of it; another seed is another source."""

    def __init__(self, seed, with_video):
        self.header = dataclasses.replace(
            HEADER, width=WIDTH, height=HEIGHT, fingerprint=f"take {seed}", with_video=with_video
        )
        self.pictures = moving_frames(MOST, HEIGHT, WIDTH, seed)
        segmenter = standin.Segmenter()
        self.results, self.states = [], []
        for index, rgb in enumerate(self.pictures):
            self.results.append(segmenter.step(rgb, index / 25))
            self.states.append(segmenter.state.to_arrays())

    def append_to(self, writer, count):
        for index in range(writer.frames, writer.frames + count):
            writer.append(self.results[index], index / 25, self.pictures[index])


TAKES = [Take(0, with_video=False), Take(1, with_video=True)]


@cache
def uninterrupted(take, count):
    """Return the files of a volume that was written in one go."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.zarr")
        writer = store.create(path, TAKES[take].header, VERSION, chunk_rows=CHUNK_ROWS)
        TAKES[take].append_to(writer, count)
        writer.finish("complete")
        return files(path)


@dataclass
class Model:
    """What a reader must see."""

    take: int
    committed: int = 0
    complete: bool = False


class Volumes(RuleBasedStateMachine):
    """One path, at most one writer to it, and a reader who looks after every step."""

    def __init__(self):
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name, "a.zarr")
        self.writer = None  # the one that holds the lock
        self.model = None  # None: nothing is there

    def teardown(self):
        """Crash once more, and go on to the end: that must be possible whatever came before."""
        try:
            if self.model is not None:
                self.writer = None
                self.append(MOST)
                self.finish()
        finally:
            self._folder.cleanup()

    def create(self, take, overwrite=False):
        header = TAKES[take].header
        return store.create(self.path, header, VERSION, overwrite=overwrite, chunk_rows=CHUNK_ROWS)

    @initialize(take=st.sampled_from(range(len(TAKES))))
    def begin(self, take):
        with pytest.raises(SinkError, match="no such volume"):
            open_volume(self.path)
        with pytest.raises(SinkError, match="no such volume"):
            store.resume(self.path, TAKES[take].header, VERSION)
        self.writer, self.model = self.create(take), Model(take)

    @rule(count=st.integers(1, CHUNK_FRAMES - 1))
    def append(self, count):
        self.resume()
        TAKES[self.model.take].append_to(self.writer, min(count, MOST - self.writer.frames))

    @rule()
    def commit(self):
        self.resume()
        if self.writer.frames < MOST_COMMITTED:
            take = TAKES[self.model.take]
            take.append_to(self.writer, -self.writer.frames % CHUNK_FRAMES or CHUNK_FRAMES)
            self.writer.commit(take.states[self.writer.frames - 1])
            self.model.committed = self.writer.frames

    @precondition(lambda self: self.model.committed)  # or little would ever come of a volume
    @rule()
    def finish(self):
        self.resume()
        frames = self.writer.frames
        self.writer.finish("complete")
        self.writer = None
        self.model = Model(self.model.take, frames, complete=True)
        assert files(self.path) == uninterrupted(self.model.take, frames)

    @precondition(lambda self: self.writer is not None)
    @rule(torn=st.sampled_from(["", "labels/ids/0/c/0/0/0", "segments/id/c/0", "zarr"]))
    def crash(self, torn):
        self.writer = None
        if torn:  # zarr writes under such a name first
            place = (self.path / torn).with_suffix(".0.partial")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(b"half a chun")

    @precondition(lambda self: self.writer is None)
    @rule(take=st.sampled_from(range(len(TAKES))), crashed=st.sampled_from(["", "new", "old"]))
    def overwrite(self, take, crashed):
        if crashed:  # an earlier try, in the middle of its renames
            place = self.path.with_name(f".a.zarr.{crashed}")
            place.mkdir()
            (place / "zarr.json").write_text("{")
        self.writer, self.model = self.create(take, overwrite=True), Model(take)
        assert [entry.name for entry in self.path.parent.iterdir()] == ["a.zarr"]

    @precondition(lambda self: self.model.complete)
    @rule(crashed=st.booleans())
    def add_levels(self, crashed):
        """Forget the levels, as if an earlier build had written the volume, and add them."""
        whole = files(self.path)
        drop_levels(self.path)
        if crashed:  # an earlier try, before it counted
            shutil.copytree(self.path / "tracks", self.path / "hierarchy")
        assert store.add_levels(self.path)
        assert files(self.path) == whole

    @rule()
    def refusals_change_nothing(self):
        ours, other = self.model.take, 1 - self.model.take
        before = files(self.path)
        state = "complete" if self.model.complete else "incomplete"
        with pytest.raises(SinkError, match=rf"exists \({state}, {self.model.committed} frames\)"):
            self.create(ours)
        with pytest.raises(SinkError, match="another source"):
            store.resume(self.path, TAKES[other].header, VERSION)
        if self.writer is not None:
            with pytest.raises(SinkError, match="is being written"):
                store.resume(self.path, TAKES[ours].header, VERSION)
            with pytest.raises(SinkError, match="is being written"):
                self.create(other, overwrite=True)
            if self.writer.frames % CHUNK_FRAMES:
                with pytest.raises(ValueError, match="whole chunks"):
                    self.writer.commit({})
        assert files(self.path) == before

    def resume(self):
        """Have a writer, as after a crash; one that finds the volume complete begins it anew."""
        if self.writer is not None:
            return
        take, committed = TAKES[self.model.take], self.model.committed
        writer, state = store.resume(self.path, take.header, VERSION)
        assert (writer.frames, writer.complete) == (committed, self.model.complete)
        assert not list(self.path.rglob("*.partial"))
        if self.model.complete or not committed:
            assert state is None
        else:
            np.testing.assert_equal(state, take.states[committed - 1])
        if self.model.complete:
            writer.release()
            self.overwrite(self.model.take, "")
        else:
            self.writer = writer

    @invariant()
    def readers_see_what_was_committed(self):
        if self.model is None:
            return
        volume, take, count = open_volume(self.path), TAKES[self.model.take], self.model.committed
        assert (volume.frame_count, volume.complete) == (count, self.model.complete)
        assert volume.ended == ("complete" if self.model.complete else "interrupted")
        assert volume.header == take.header
        assert volume.has_levels == volume.complete
        np.testing.assert_array_equal(volume.times, np.arange(count) / 25)
        results = take.results[:count]
        expected = np.array([result.ids for result in results]).reshape(count, HEIGHT, WIDTH)
        np.testing.assert_array_equal(volume.ids[:], expected)
        if volume.video is not None:
            pictures = np.array(take.pictures[:count]).reshape(count, HEIGHT, WIDTH, 3)
            np.testing.assert_array_equal(volume.video[:], pictures)
        assert volume.events.tolist() == [
            (t, *event) for t, result in enumerate(results) for event in result.events.tolist()
        ]
        if count:
            np.testing.assert_array_equal(volume.adjacency(-1), results[-1].adjacency)
        # tracks sum up the rows of segments; `finish` compares every byte of all tables
        areas = Counter[int]()
        for result in results:
            areas.update(dict(result.segments[["id", "area"]].tolist()))
        assert volume.tracks[["id", "volume"]].tolist() == sorted(areas.items())


Volumes.TestCase.settings = settings(max_examples=10, stateful_step_count=10)
TestVolumes = Volumes.TestCase

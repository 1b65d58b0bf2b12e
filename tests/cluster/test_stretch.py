"""A film without scene changes in stretches: the same bytes anywhere, every seam accounted for."""

from __future__ import annotations

import shutil
from contextlib import closing

import numpy as np
import pytest
from support.clips import write_clip
from support.invariants import violations
from support.scenes import scene_frame
from support.volumes import files

from aaams_stream import open_volume, segment_video
from aaams_stream.cluster.engines import DaskEngine, SerialEngine
from aaams_stream.cluster.run import LEAD, prepare, run_films
from aaams_stream.errors import SinkError
from aaams_stream.model import Clip
from aaams_stream.params import Params
from aaams_stream.run.repair import repair_volume
from aaams_stream.run.segment_video import Job, run_job
from aaams_stream.store.stitch import Overlaps, match

STRETCH = 1.0  # seconds: 25 frames
FRAMES = 66


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    frames = [scene_frame(1, t) for t in range(FRAMES)]
    return write_clip(tmp_path_factory.mktemp("scene") / "scene.mkv", frames)


@pytest.fixture(scope="module")
def settings():
    return Params().updated({"stream": {"segments": 16, "refresh": 30}})


@pytest.fixture(scope="module")
def stretched(scene, settings, tmp_path_factory, compiled):
    """Return a volume in stretches, made here."""
    store = tmp_path_factory.mktemp("stretched") / "scene.zarr"
    summary = segment_video(scene, store, settings, with_video=True, stretch=STRETCH)
    assert (summary.frames, summary.complete) == (FRAMES, True)
    return store


def test_a_stretched_volume_holds_together(stretched):
    assert violations(stretched) == []


def test_workers_write_the_bytes_that_are_written_here(
    stretched, scene, settings, tmp_path, client
):
    job = Job(scene, tmp_path / "scene.zarr", settings, with_video=True)
    with closing(DaskEngine(client)) as engine:
        (standing,) = run_films([prepare(job, STRETCH)], engine)
    assert standing.error is None
    assert files(job.store) == files(stretched)


def test_the_first_stretch_is_that_of_one_pass(stretched, scene, settings, tmp_path):
    run_job(Job(scene, tmp_path / "one.zarr", settings))
    one, parts = open_volume(tmp_path / "one.zarr"), open_volume(stretched)
    np.testing.assert_array_equal(one.ids[:25], parts.ids[:25])
    np.testing.assert_array_equal(one.times, parts.times)
    assert (one.ids[30] != parts.ids[30]).mean() < 0.5  # and most of what follows is, too


@pytest.mark.parametrize("seam", [25, 50])
def test_no_identity_begins_or_ends_at_a_seam_without_an_event(stretched, seam):
    volume = open_volume(stretched)
    before, after = (set(volume.segments(t)["id"].tolist()) for t in (seam - 1, seam))
    told = volume.events_at(seam)
    begun = told["id"][np.isin(told["kind"], (1, 3, 5))]  # birth, split, return
    ended = told["id"][np.isin(told["kind"], (2, 4))]  # death, merge
    assert after - before <= set(begun.tolist())
    assert before - after <= set(ended.tolist())
    assert len(before & after) >= 0.6 * len(before)  # most go on


def test_a_stretched_volume_says_so_and_is_not_gone_on_with_otherwise(stretched, scene, settings):
    assert open_volume(stretched).header.stretch == STRETCH
    job = Job(scene, stretched, settings, with_video=True, resume=True)
    with pytest.raises(SinkError, match=r"was begun with stretch 1.0 and not None"):
        run_job(job)
    (standing,) = run_films([prepare(job, STRETCH)], SerialEngine())
    assert standing.film.complete


def test_a_film_that_ends_within_a_lead_has_no_stretch_of_nothing(scene, settings, tmp_path):
    frames = 50 - LEAD + 3  # the second lead is begun, and not come to its end
    job = Job(scene, tmp_path / "scene.zarr", settings, clip=Clip(duration=frames / 25))
    (standing,) = run_films([prepare(job, STRETCH)], SerialEngine())
    assert standing.error is None
    assert open_volume(job.store).frame_count == frames


def overlaps(*pairs):
    first, second, pixels = np.array(pairs).T
    none = np.zeros(0, np.uint32)
    return Overlaps(first.astype(np.uint32), second.astype(np.uint32), pixels, none, none)


def test_match_joins_those_that_share_most_first():
    assert match(overlaps((1, 1, 60), (1, 2, 40), (2, 2, 60))) == {1: 1, 2: 2}
    assert match(overlaps((1, 1, 40), (1, 2, 30), (1, 3, 30))) == {1: 1}
    assert match(overlaps((1, 1, 50), (2, 1, 50))) == {1: 1}  # ties go to the lowest
    # 1 likes 2 best, which has 2; so it is the other that it became
    assert match(overlaps((1, 1, 30), (1, 2, 40), (2, 2, 90))) == {2: 2, 1: 1}


def test_match_wants_a_twentieth_of_both():
    assert match(overlaps((1, 1, 4), *((k, 1, 4) for k in range(2, 32)), (1, 2, 96))) == {2: 1}
    assert match(overlaps((1, 1, 4), (2, 1, 96))) == {1: 2}
    assert match(overlaps((1, 1, 6), (1, 2, 94), (2, 2, 95))) == {2: 2, 1: 1}


def test_repair_of_a_stretched_volume_is_refused_in_words(stretched, tmp_path):
    copy = tmp_path / "copy.zarr"
    shutil.copytree(stretched, copy)
    next(copy.glob("labels/ids/0/c/1/*/*")).write_bytes(b"spoilt")
    with pytest.raises(SinkError, match="made in stretches"):
        repair_volume(copy)

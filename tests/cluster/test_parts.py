"""A film in parts, one after the other in this process: the volume of one pass, byte for byte."""

from __future__ import annotations

import dataclasses
import signal

import numpy as np
import pytest
from support.clips import H264, write_clip
from support.scenes import drawn_film
from support.volumes import files

from aaams_stream.cluster import film as films
from aaams_stream.cluster.engines import SerialEngine
from aaams_stream.cluster.part import segment_part
from aaams_stream.cluster.plan import Start, Survey, survey_film
from aaams_stream.cluster.run import prepare, run_films, stopped_film
from aaams_stream.errors import ConfigError, SinkError, SourceError
from aaams_stream.model import Clip
from aaams_stream.run.segment_video import run_job
from aaams_stream.store import open_volume

SPACING = 8


def run(job, **options):
    """Segment a job in parts; return the film and how it stands."""
    film = prepare(job, **{"spacing": SPACING, **options})
    (standing,) = run_films([film], SerialEngine())
    if standing.error is not None:
        raise standing.error
    return film, standing


def pieces_of(film):
    return [piece.begin for piece in film._chain.pieces]


@pytest.fixture
def segmented(monkeypatch):
    """Return a list that grows with the first frame of every part that is segmented."""
    begun = []

    def noted(request, start, *more):
        begun.append(start.frame)
        return segment_part(request, start, *more)

    monkeypatch.setattr(films, "segment_part", noted)
    return begun


def test_parts_that_end_with_scenes_make_the_volume_of_one_pass(job, one_pass):
    film, _ = run(job)
    assert len(pieces_of(film)) >= 4  # three cuts at least are found
    assert files(job.store) == one_pass
    assert not film.request.folder.exists()


def surveyed(job, *frames):
    """Prepare a film whose survey proposes these frames, and may well be wrong."""
    film = prepare(job, spacing=SPACING)
    survey = survey_film(film.request)
    none = survey.starts[0].marks
    starts = tuple(Start(frame, none) for frame in (0, *frames))
    dataclasses.replace(survey, starts=starts).save(film.request.folder)
    return film


@pytest.mark.parametrize("proposed", [(), (5, 30, 50), (33, 60)], ids=str)
def test_wrong_proposals_cost_no_byte(job, one_pass, segmented, proposed):
    """None, wrong ones, and a right one (60) after a wrong one."""
    film = surveyed(job, *proposed)
    (standing,) = run_films([film], SerialEngine())
    assert standing.error is None
    assert files(job.store) == one_pass
    assert pieces_of(film) == [0, *(frame for frame in proposed if frame == 60)]
    assert len(segmented) == len(set(segmented))


def test_a_film_goes_on_with_the_parts_that_are_done(job, one_pass, segmented):
    film = prepare(job, spacing=SPACING)
    starts = survey_film(film.request).starts
    for start in starts[1:3]:
        segment_part(film.request, start)
    done = {start.frame: files(film.request.part(start.frame)) for start in starts[1:3]}
    film.writer.release()
    again = prepare(job, spacing=SPACING)
    remove = films.remove_parts
    seen = {}

    def look_and_remove(request):
        seen.update({frame: files(request.part(frame)) for frame in done})
        remove(request)

    films.remove_parts = look_and_remove
    try:
        run_films([again], SerialEngine())
    finally:
        films.remove_parts = remove
    assert files(job.store) == one_pass
    assert seen == done  # nobody wrote to them again


def test_ctrl_c_stops_after_a_chunk_and_the_same_goes_on(job, one_pass):
    film = prepare(job, spacing=SPACING)

    def press(news):
        if news.begin > 0 and news.progress.frames == 3:
            signal.raise_signal(signal.SIGINT)

    (standing,) = run_films([film], SerialEngine(press))
    assert standing.stopped == signal.SIGINT
    assert stopped_film(standing).code == 130
    assert film.request.folder.exists()
    run(job)
    assert files(job.store) == one_pass


def test_a_volume_that_is_complete_is_left_alone(job, one_pass, segmented):
    run(job)
    before = len(segmented)
    _, standing = run(job)
    assert standing.film.complete
    assert len(segmented) == before
    assert files(job.store) == one_pass


def test_a_volume_begun_in_one_pass_is_not_gone_on_with_in_parts(job):
    short = dataclasses.replace(job, resume=True)

    def press(progress):
        if progress.frames == 10:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_job(short, press)
    with pytest.raises(SinkError, match="was begun in one pass; go on without --dask"):
        prepare(job)
    assert open_volume(job.store).frame_count == 16


def test_parts_of_other_settings_are_not_used(job, one_pass, segmented):
    other = dataclasses.replace(job, params=job.params.updated({"stream": {"segments": 9}}))
    film = prepare(other, spacing=SPACING)
    segment_part(film.request, survey_film(film.request).starts[0])
    film.writer.release()
    with pytest.raises(SinkError, match=r"other settings \(stream.segments\)"):
        prepare(job)
    run(dataclasses.replace(job, overwrite=True))
    assert files(job.store) == one_pass


def test_every_n_th_frame_at_another_size_of_a_film_that_is_sought_in(tmp_path, compiled, job):
    """H.264 with B-frames: parts begin between keyframes, and after a seek."""
    options = {"g": "24", "bf": "2", "x264-params": "scenecut=0"}
    clip = write_clip(tmp_path / "film.mp4", drawn_film(), **H264, options=options)
    job = dataclasses.replace(
        job, source=clip, with_video=False, clip=Clip(start=0.2, every=2, size=(72, 48))
    )
    run_job(dataclasses.replace(job, store=tmp_path / "one.zarr"))
    film, _ = run(job)
    assert len(pieces_of(film)) >= 3
    assert files(job.store) == files(tmp_path / "one.zarr")


def test_the_first_part_is_begun_while_the_film_is_looked_through(job):
    film = prepare(job, spacing=SPACING)
    survey = survey_film(film.request)
    under_way = dataclasses.replace(survey, starts=survey.starts[:1], frames=5, complete=False)
    under_way.save(film.request.folder)
    assert [task.number for task in film.next()] == [0]
    dataclasses.replace(under_way, starts=survey.starts[:3], frames=40).save(film.request.folder)
    assert [task.number for task in film.next()] == [survey.starts[1].frame]  # the end of 3 is open
    survey.save(film.request.folder)
    assert len(film.next()) == len(survey.starts) - 2
    film.writer.release()


def test_a_source_that_cannot_be_read_twice_is_refused(job, tmp_path, monkeypatch):
    options = {"codec": "rawvideo", "pix_fmt": "yuv420p"}
    piped = write_clip(tmp_path / "piped.y4m", drawn_film(lengths=(3,)), **options)
    with piped.open() as standard_input:
        monkeypatch.setattr("sys.stdin", standard_input)
        with pytest.raises(SourceError, match="cannot be read a second time, as parts are"):
            prepare(dataclasses.replace(job, source="-"))


def test_a_survey_is_kept_whole_and_known_again(job):
    film = prepare(job, spacing=SPACING)
    survey = survey_film(film.request)
    film.writer.release()
    kept = Survey.load(film.request.folder)
    assert kept is not None
    assert (kept.frames, kept.complete, kept.ended) == (98, True, "complete")
    assert [start.frame for start in kept.starts] == [start.frame for start in survey.starts]
    for one, other in zip(kept.starts, survey.starts, strict=True):
        np.testing.assert_array_equal(one.marks, other.marks)
    (film.request.folder / "survey.npz").write_bytes(b"half of a")
    assert Survey.load(film.request.folder) is None


@pytest.mark.parametrize("seconds", [0.0, 0.5, -1.0])
def test_stretches_too_short_to_overlap_are_refused(job, seconds):
    with pytest.raises(ConfigError, match=r"--stretch must be at least 24 frames \(0.96 s\)"):
        prepare(job, seconds)
    with pytest.raises(ConfigError, match="stretch must be a number of seconds, got nan"):
        prepare(job, float("nan"))

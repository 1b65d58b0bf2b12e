"""What is painted, and films that keep size, times and good manners."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from support.clips import moving_frames

from aaams_stream.cli import video
from aaams_stream.draw.video import VIEWS, Film, boundaries, id_colours, mean_colours, paint
from aaams_stream.errors import SinkError


@pytest.fixture
def scene():
    """Two segments, left and right, and a noisy picture."""
    ids = np.full((10, 16), 7, dtype=np.uint32)
    ids[:, 9:] = 12
    rgb = np.random.default_rng(0).integers(0, 256, (10, 16, 3), dtype=np.uint8)
    return rgb, ids


def test_boundaries_lie_between_segments(scene):
    rgb, ids = scene
    edge = boundaries(ids)
    assert edge[:, 8].all()
    assert edge.sum() == 10
    painted = paint(rgb, ids, "boundaries")
    np.testing.assert_array_equal(painted[~edge], rgb[~edge])
    assert (painted[edge] != rgb[edge]).any(axis=1).all()


def test_segments_get_their_mean_colour(scene):
    rgb, ids = scene
    painted = paint(rgb, ids, "colours")
    for segment in (7, 12):
        mean = np.rint(rgb[ids == segment].mean(axis=0))
        assert (painted[ids == segment] == mean).all()
    far = np.where(ids == 7, np.uint32(1), np.uint32(2**32 - 1))
    np.testing.assert_array_equal(mean_colours(rgb, far), painted)


def test_an_identity_keeps_its_colour(scene):
    _, ids = scene
    colours = id_colours(ids)
    np.testing.assert_array_equal(colours[0, 0], id_colours(ids[:, ::-1])[0, -1])
    many = id_colours(np.arange(1, 2000, dtype=np.uint32)[None])[0]
    assert len(np.unique(many, axis=0)) == 1999


def test_painting_leaves_its_input_alone(scene):
    rgb, ids = scene
    before = rgb.copy()
    for view in VIEWS:
        assert paint(rgb, ids, view).shape == rgb.shape
    np.testing.assert_array_equal(rgb, before)
    with pytest.raises(ValueError, match="boundaries, colours, ids"):
        paint(rgb, ids, "edges")


def test_the_command_offers_every_view():
    assert video.VIEWS == VIEWS


def film(path, frames, times, **options):
    height, width = frames[0].shape[:2]
    options = {"rate": Fraction(30), "time_base": Fraction(1, 90000), **options}
    with Film(path, (width, height), **options) as opened:
        for rgb, time in zip(frames, times, strict=True):
            opened.add(rgb, time)


def read(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        return list(container.decode(stream))


@pytest.mark.parametrize(
    ("time_base", "ticks"),
    [
        (Fraction(1, 90000), [126000, 129003, 132006, 180000]),
        (Fraction(1001, 30000), [0, 1, 2, 3]),
        (Fraction(1, 1000000), [0, 34000, 67000, 101000]),
        (Fraction(1, 1), [0, 1, 2, 3600]),
    ],
)
def test_films_keep_the_times_they_are_given(tmp_path, time_base, ticks):
    times = [tick * time_base for tick in ticks]
    film(tmp_path / "a.mp4", moving_frames(4), times, time_base=time_base)
    assert [Fraction(f.pts * f.time_base) for f in read(tmp_path / "a.mp4")] == times


def test_times_that_run_backwards_become_the_next_tick(tmp_path):
    times = [Fraction(n, 25) for n in (0, 2, 1, 3)]
    film(tmp_path / "a.mp4", moving_frames(4), times, time_base=Fraction(1, 25))
    assert [f.pts * f.time_base * 25 for f in read(tmp_path / "a.mp4")] == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("size", "expected"), [((48, 64), (48, 64)), ((241, 321), (242, 322)), ((1, 1), (16, 16))]
)
def test_odd_and_tiny_sizes_become_even(tmp_path, size, expected):
    frames = [np.full((*size, 3), 90, np.uint8)] * 2
    film(tmp_path / "a.mp4", frames, [Fraction(0), Fraction(1, 30)])
    decoded = read(tmp_path / "a.mp4")
    assert (decoded[0].height, decoded[0].width) == expected
    assert abs(int(decoded[0].to_ndarray(format="rgb24").mean()) - 90) <= 2


def test_a_film_that_fails_leaves_nothing_behind(tmp_path):
    frames = [*moving_frames(1), None]
    with pytest.raises(AttributeError):
        film(tmp_path / "a.mp4", frames, [Fraction(0), Fraction(1, 25)])
    assert list(tmp_path.iterdir()) == []


def test_a_film_replaces_nothing_unasked(tmp_path):
    target = tmp_path / "a.mp4"
    target.write_text("precious")
    frames, times = moving_frames(1), [Fraction(0)]
    with pytest.raises(SinkError, match="--overwrite"):
        film(target, frames, times)
    assert target.read_text() == "precious"
    film(target, frames, times, overwrite=True)
    assert len(read(target)) == 1
    with pytest.raises(SinkError, match=r"\.mp4"):
        film(tmp_path / "a.txt", frames, times)
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="cannot be written"):
        film(tmp_path / "file" / "a.mp4", frames, times)


def test_a_film_that_cannot_be_finished_leaves_nothing_behind(scene, tmp_path):
    path = tmp_path / "a.mp4"
    film = Film(path, (16, 10), rate=Fraction(25), time_base=Fraction(1, 25))
    film.add(scene[0], Fraction(0))
    path.mkdir()  # so that it cannot get its name
    with pytest.raises(SinkError, match=r"a\.mp4: cannot be written"):
        film.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.mp4"]


def test_a_film_may_have_a_colon_in_its_name(scene, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Film(Path("12:30.mp4"), (16, 10), rate=Fraction(25), time_base=Fraction(1, 25)) as film:
        film.add(scene[0], Fraction(0))
    assert [entry.name for entry in tmp_path.iterdir()] == ["12:30.mp4"]

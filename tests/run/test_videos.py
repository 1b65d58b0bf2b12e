"""Which videos are meant, and what their volumes are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.volumes import HEADER, VERSION

from aaams_stream import store
from aaams_stream.errors import ConfigError, SinkError, SourceError
from aaams_stream.run.segment_video import Job
from aaams_stream.run.videos import find_videos, plan, require_apart

LIKE = Job("", Path(), resume=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder of files that are videos by their names."""
    monkeypatch.chdir(tmp_path)
    names = ("a.mp4", "a.AVI", "notes.txt", "deep/b.mkv", "deep/er/a.mp4", "old.zarr/c.mp4")
    for name in (*names, "frames/1.png", "frames/2.png"):
        path = tmp_path / "videos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "videos" / "folder.mp4").mkdir()
    return tmp_path / "videos"


def names_of(*inputs):
    return [str(video.name) for video in find_videos(inputs)]


def test_a_folder_is_searched_in_depth_but_for_volumes(folder):
    assert names_of(folder) == ["a.AVI", "a.mp4", "deep/b.mkv", "deep/er/a.mp4"]
    assert names_of(f"{folder}/") == names_of(folder)


def test_a_file_is_taken_whatever_its_name_ends_in(folder):
    assert names_of(folder / "notes.txt", folder / "deep" / "b.mkv") == ["notes.txt", "b.mkv"]


def test_a_folder_of_images_is_one_clip(folder, monkeypatch):
    assert names_of(folder / "frames") == ["frames"]
    monkeypatch.chdir(folder / "frames")
    assert names_of(".") == ["frames"]


def test_a_pattern_keeps_the_way_from_where_it_begins(folder):
    assert names_of("videos/*") == ["a.AVI", "a.mp4"]
    assert names_of("videos/deep/**/*.m[pk]*") == ["b.mkv", "er/a.mp4"]
    assert names_of("vid*/frames") == ["videos/frames"]
    assert names_of("videos/de*") == ["deep/b.mkv", "deep/er/a.mp4"]


def test_a_video_that_is_named_twice_is_found_once(folder):
    assert names_of("videos/a.mp4", folder, folder / "deep" / ".." / "a.mp4") == [
        *("a.mp4", "a.AVI", "deep/b.mkv", "deep/er/a.mp4")
    ]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(folder):
    (folder / "[x].mp4").touch()
    assert names_of(folder / "[x].mp4") == ["[x].mp4"]


@pytest.mark.parametrize("given", ["none.mp4", "videos/*.webm", "videos/old.zarr/x", "demo"])
def test_what_is_not_there_is_an_error(folder, given):
    with pytest.raises(SourceError, match=given.replace("*", r"\*")):
        find_videos([given])


def test_a_folder_without_videos_is_an_error(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no videos found"):
        find_videos([folder, tmp_path / "empty"])


def test_plan_gives_every_video_a_volume_and_a_film(folder):
    tasks = plan(find_videos([folder]), Path("out"), LIKE, Path("films"))
    assert [(task.name, str(task.job.store), str(task.job.overlay)) for task in tasks[1:3]] == [
        ("a.mp4", "out/a.mp4.zarr", "films/a.mp4.mp4"),
        ("deep/b.mkv", "out/deep/b.mkv.zarr", "films/deep/b.mkv.mp4"),
    ]
    assert all(task.job.resume for task in tasks)
    assert not Path("out").exists()


def test_plan_never_gives_two_videos_one_volume(folder):
    both = find_videos([folder / "a.mp4", folder / "deep" / "er" / "a.mp4"])
    with pytest.raises(ConfigError, match=r"a\.mp4 and .*er/a\.mp4 would share .*out/a\.mp4\.zarr"):
        plan(both, Path("out"), LIKE)


def test_plan_refuses_a_volume_for_a_folder_of_volumes(folder, tmp_path):
    store.create(tmp_path / "a.zarr", HEADER, VERSION)
    with pytest.raises(SinkError, match="is a volume"):
        plan(find_videos([folder]), tmp_path / "a.zarr", LIKE)


def test_films_never_take_the_place_of_videos(folder):
    (folder / "a.mp4.mp4").touch()
    videos = find_videos([folder / "a.mp4", folder / "a.mp4.mp4"])
    with pytest.raises(ConfigError, match=r"a\.mp4\.mp4: the film of .*a\.mp4 would replace it"):
        plan(videos, Path("out"), LIKE, folder)


def test_films_do_not_go_where_videos_are_searched_for(folder):
    require_apart(Path("films"), [folder])
    require_apart(folder, [folder / "a.mp4"])
    for films in (folder, folder / "films"):
        with pytest.raises(ConfigError, match="taken for videos"):
            require_apart(films, [folder])

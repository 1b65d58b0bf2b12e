"""Which videos a batch is about, and where the volume of each goes."""

from __future__ import annotations

import dataclasses
import glob
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from aaams_stream import store as stores
from aaams_stream.errors import ConfigError, SinkError, SourceError
from aaams_stream.paths import expanded
from aaams_stream.run.segment_video import Job
from aaams_stream.source.folder import SUFFIXES as IMAGE_SUFFIXES

SUFFIXES = frozenset(
    [
        *(".avi", ".flv", ".gif", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4"),
        *(".mpeg", ".mpg", ".mts", ".ogv", ".ts", ".webm", ".wmv", ".y4m"),
    ]
)


class Video(NamedTuple):
    """One input of a batch."""

    path: Path  # a file, or a folder of images
    name: Path  # the file's, with the way to it from a folder that was searched


class Task(NamedTuple):
    """What is to be done for one video."""

    name: str
    job: Job


def find_videos(inputs: Sequence[str | Path]) -> list[Video]:
    """Return the videos that files, folders and patterns stand for, each once.

    A file is taken whatever its name ends in. A folder is searched in depth for files whose names
    end as those of videos do, without volumes; one that has none, but has images, is a clip of
    these. A pattern stands for such files or, if it matches none, for such folders.
    """
    found: dict[Path, Video] = {}
    for given in inputs:
        for video in _meant_by(str(given)):
            found.setdefault(video.path.resolve(), video)
    return list(found.values())


def plan(
    videos: Sequence[Video], volumes: Path, like: Job, films: Path | None = None
) -> list[Task]:
    """Return a task for every video: `like`, with a source, a volume and perhaps a film of its own.

    The volume of `a.mp4` is `volumes/a.mp4.zarr`: with the whole name, so that a.mp4 and a.avi
    share none. Below a folder that was searched, or the part of a pattern without wildcards, the
    way from there is kept: `volumes/deep/a.mp4.zarr`. Two videos that would still share a volume
    are a ConfigError. Nothing is written here.
    """
    if stores.is_volume(volumes):
        raise SinkError(f"{volumes}: is a volume; expected a folder in which volumes go")
    taken: dict[Path, Video] = {}
    for video in videos:
        other = taken.setdefault(video.name, video)
        if other is not video:
            raise ConfigError(
                f"{other.path} and {video.path} would share the volume "
                f"{volumes / video.name}.zarr; name the folder above both, or run them apart"
            )
    sources = {video.path.resolve(): video for video in videos}
    tasks = []
    for path, name in videos:
        film = None if films is None else films / f"{name}.mp4"
        if film is not None and (source := sources.get(film.resolve())):
            raise ConfigError(f"{source.path}: the film of {path} would replace it")
        job = dataclasses.replace(like, source=path, store=volumes / f"{name}.zarr", overlay=film)
        tasks.append(Task(str(name), job))
    return tasks


def require_apart(films: Path, inputs: Sequence[str | Path]) -> None:
    """Raise a ConfigError if films would lie where videos are searched for."""
    for given in map(Path, inputs):
        folder = expanded(given).resolve()
        if folder.is_dir() and films.resolve().is_relative_to(folder):
            raise ConfigError(
                f"{films}: lies in {given}, where films would be taken for videos the next time; "
                "choose another folder"
            )


def _meant_by(given: str) -> list[Video]:
    path = expanded(given)
    try:
        if path.is_file():
            return [Video(path, Path(path.name))]
        if path.is_dir():
            found = list(_inside(path, path))
        elif glob.has_magic(given):
            found = list(_matching(path))
        else:
            raise SourceError(f"{given}: no such file or folder; expected videos, also as patterns")
    except OSError as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"{given}: cannot be read ({error.strerror})") from error
    if not found:
        raise SourceError(f"{given}: no videos found; expected files that end in .mp4 or the like")
    return found


def _inside(folder: Path, base: Path) -> Iterator[Video]:
    """Yield the videos below a folder, in order of name, named by their way from `base`."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.endswith(".zarr")]
        files = (Path(place, name) for name in names)
        found += [file for file in files if file.suffix.lower() in SUFFIXES and file.is_file()]
    for path in sorted(found):
        yield Video(path, path.relative_to(base))
    if not found and any(path.suffix.lower() in IMAGE_SUFFIXES for path in folder.iterdir()):
        name = folder.relative_to(base)
        yield Video(folder, name if name.name else Path(folder.resolve().name))


def _matching(pattern: Path) -> Iterator[Video]:
    """Yield the videos that match, or lie below folders that do, named by their way from `base`."""
    fixed = itertools.takewhile(lambda part: not glob.has_magic(part), pattern.parts)
    base = Path(*fixed)
    matches = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]
    files = [path for path in matches if path.suffix.lower() in SUFFIXES and path.is_file()]
    for path in files:
        yield Video(path, path.relative_to(base))
    if not files:
        for path in filter(Path.is_dir, matches):
            yield from _inside(path, base)

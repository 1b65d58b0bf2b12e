"""Pictures out of folders and patterns of image files, in natural order."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from aaams_stream.errors import SourceError
from aaams_stream.source.marks import Entry
from aaams_stream.source.pixels import Picture
from aaams_stream.source.reader import DEFAULT_RATE, VideoReader

SUFFIXES = frozenset(
    [
        ".bmp",
        ".exr",
        ".jp2",
        ".jpeg",
        ".jpg",
        ".pbm",
        ".pgm",
        ".png",
        ".pnm",
        ".ppm",
        ".tga",
        ".tif",
        ".tiff",
        ".webp",
    ]
)
_APART = 8  # images from one entry to the next


def natural_key(path: Path) -> list[tuple[int, int, str]]:
    """Sort key under which frame2 comes before frame10."""
    parts = re.split(r"(\d+)", path.name)
    return [(1, int(part), part) if part.isdecimal() else (0, 0, part.lower()) for part in parts]


def images_among(paths: Iterator[Path], name: str) -> list[Path]:
    """Return the image files in natural order; a SourceError if there are none."""
    images = [path for path in paths if path.suffix.lower() in SUFFIXES and path.is_file()]
    if not images:
        raise SourceError(
            f"{name}: no images found; expected files that end in .png, .jpg, .tif or the like"
        )
    return sorted(images, key=natural_key)


class FolderReader:
    """Image files as a stream of 25 pictures a second.

    An image that does not decode is left out and keeps its place in time; `damage` counts them.
    """

    def __init__(self, paths: Sequence[Path], name: str) -> None:
        self.name = name
        self.rate = DEFAULT_RATE
        self.time_base = 1 / DEFAULT_RATE
        self.frame_count: int | None = len(paths)
        self.duration: Fraction | None = len(paths) / DEFAULT_RATE
        self.damage: str | None = None
        self.seekable = False
        self._paths = paths
        self._stopped = False

    def pictures(self, start: Fraction | Sequence[Entry] | None = None) -> Iterator[Picture]:
        """Yield one picture per readable file, all of them or those from the first entry on."""
        at = start[0] if isinstance(start, Sequence) else Entry((0, 0))
        begin, (lost, first) = at.place[0], at.damage
        self._note_damage(lost, first)
        for index in range(begin, len(self._paths)):
            if self._stopped:
                return
            picture = _read(self._paths[index])
            if picture is None:
                lost, first = lost + 1, first if lost else index
                self._note_damage(lost, first)
                continue
            entry = None
            if (index - begin) % _APART == 0:
                entry = Entry((index, index), (lost, first))
            yield dataclasses.replace(picture, time=index / self.rate, entry=entry)

    def _note_damage(self, lost: int, first: int) -> None:
        more = f" and {lost - 1} more" if lost > 1 else ""
        name = self._paths[first].name
        self.damage = f"images that do not decode: {name}{more}" if lost else None

    def stop(self) -> None:
        """End the iteration after the picture at hand; safe from any thread."""
        self._stopped = True

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""


def _read(path: Path) -> Picture | None:
    try:
        # absolute: a colon in a relative name misleads FFmpeg
        reader = VideoReader(os.path.abspath(path), path.name)
    except SourceError:
        return None
    try:
        return next(reader.pictures(), None)
    finally:
        reader.close()

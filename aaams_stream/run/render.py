"""A volume drawn over its source, as a film."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from aaams_stream.draw.video import check_video_target
from aaams_stream.draw.views import draw_view
from aaams_stream.errors import SinkError
from aaams_stream.paths import expanded
from aaams_stream.run.sink import open_film
from aaams_stream.run.stream import pictures_of
from aaams_stream.source import local_file
from aaams_stream.store import LevelView, Volume, open_volume

OBJECTS = 25  # groups a frame: about the things a person would name


def render_volume(
    store: str | Path | Volume,
    output: str | Path,
    *,
    view: str = "boundaries",
    source: str | Path | None = None,
    partial: bool = False,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Draw a volume over its source as an H.264 film that keeps the source's times.

    store: where the volume is, or the volume itself, also seen at a level. The view `objects` shows
    it at the level of OBJECTS groups a frame unless it is seen at another.

    The pictures come from `source` if given, else from the volume if they are stored there, else
    from where the volume was made. partial: draw what is there of a volume that is not complete.
    progress: called with frames done and all. Returns the count.
    """
    volume = store if isinstance(store, Volume) else open_volume(store)
    path = expanded(output)
    origin = local_file(volume.source if source is None else source)
    folder = volume.path if isinstance(volume.path, Path) else None
    check_video_target(path, overwrite, source=origin, volume=folder)
    total = volume.frame_count
    if not total:
        raise SinkError(f"{volume.path}: holds no frames yet; --resume goes on with it")
    if not volume.complete and not partial:
        raise SinkError(
            f"{volume.path}: is not complete ({total} frames so far); finish it with segment "
            "--resume, or draw what is there with --partial"
        )
    fine = None
    if view == "objects":
        volume = volume if isinstance(volume, LevelView) else volume.at(segments=OBJECTS)
        fine = volume.base.ids
    film_of = open_film(path, volume.header, overwrite)
    with film_of as film, closing(pictures_of(volume, source)) as pictures:
        for t, picture in enumerate(pictures):
            segments = None if fine is None else fine[t]
            drawn = draw_view(picture.rgb, volume.ids[t], view, fine=segments)
            film.add(drawn, picture.time)
            if progress is not None:
                progress(t + 1, total)
    return total

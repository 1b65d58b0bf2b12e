"""The settings page: every setting of `Params`, with its range and what it does to a picture.

Defaults come from the records, ranges from what the package says to a value that cannot be, and
the pictures are segmented while the site is built. A test holds `SHOWN` against `Params`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream import ConfigError, Params, Segmenter, segment_image
from aaams_stream.draw.views import draw_view
from generate import scenes

Scene = Callable[[int], NDArray[np.uint8]]
_GAP, _STRIP, _ZOOM = 8, 22, 2
_EARLY = 4  # the frame of a film whose ids are sought again in the last


class Shown(NamedTuple):
    """What is told of a setting, and which values its picture shows."""

    does: str
    values: tuple[Any, ...]
    scene: Scene = scenes.meadow
    frames: int = 0  # 0: one image
    also: tuple[str, ...] = ()  # other settings of the picture, where it would not show else
    spot: tuple[tuple[int, int], ...] = ()  # x, y of one thing in an early and the last frame


_UNMERGED = ("post.level=0",)
_TABLES = {
    "colour": "Colour is in L\\*a\\*b\\* units, in which 2 is about the least difference a person "
    "sees. The pictures of `colour` and `space` show clusters before neighbours are merged "
    "(`post.level = 0`), because merging hides most of what these do.",
    "space": "In pixels of the frame.",
    "time": "In squared frames. They count in films only.",
    "core": "When pixels stop climbing. Pictures before neighbours are merged, as above.",
    "post": "From clusters to segments.",
    "stream": "Films only. Each picture is the last frame of a short film; below it stands how "
    "many ids of its fifth frame are still there, and how many events there were on the way.",
}
SHOWN: dict[str, Shown] = {
    "colour.sigma2": Shown(
        "How much colours within a cluster may differ: the window in colour. Larger smooths over "
        "texture and noise; smaller keeps faint shades apart.",
        (2, 10, 60),
        also=_UNMERGED,
    ),
    "colour.epsilon2": Shown(
        "How far apart in colour two clusters may be and still become one on the climb. Larger "
        "merges more boldly and is faster; 1 is the paper's.",
        (0.5, 4, 40),
        also=_UNMERGED,
    ),
    "space.sigma2": Shown(
        "The window in space, which reaches two σ. Larger gives larger, smoother clusters and "
        "takes longer: the work grows with it.",
        (3, 15, 60),
        also=_UNMERGED,
    ),
    "space.epsilon2": Shown(
        "How far apart in space two clusters may be and still become one. Larger gives fewer "
        "clusters.",
        (2, 16, 100),
        also=_UNMERGED,
    ),
    "time.sigma2": Shown(
        "How long a cluster remembers the way it came, which shapes its bandwidth. You will hardly "
        "see it in a picture: outlines stay, the bandwidths in the tables follow the light faster "
        "or more slowly.",
        (1, 16, 400),
        scenes.dusk,
        20,
    ),
    "time.epsilon2": Shown(
        "For how long something hidden may come back under its id: 900 is 30 frames, 1 is one. "
        "Here a ball was behind the wall for a dozen frames.",
        (1, 900),
        scenes.passing,
        40,
        spot=((26, 116), (166, 116)),
    ),
    "core.delta": Shown(
        "A cluster that moves no further than this has arrived. Larger ends the climb sooner.",
        (0.001, 0.01, 1),
        also=_UNMERGED,
    ),
    "core.max_iterations": Shown(
        "The end of the climb in any case. It seldom comes to that.",
        (2, 5, 100),
        also=_UNMERGED,
    ),
    "core.min_merge_share": Shown(
        "The climb ends once merges have all but ceased. 0 goes on until every cluster has "
        "arrived: slower, with a few clusters less.",
        (0, 0.05, 0.5),
        also=_UNMERGED,
    ),
    "post.min_size": Shown(
        "Smaller segments join their closest neighbour: specks go.",
        (1, 10, 200),
    ),
    "post.criterion": Shown(
        'By what neighbours are merged: `"size-aware"` asks better reasons of large ones and '
        'looks at the edge between them; `"bhattacharyya"` is the paper\'s plain distance of '
        "colours.",
        ("size-aware", "bhattacharyya"),
        also=("post.level=0.5", "post.bhattacharyya=0.5"),
    ),
    "post.bhattacharyya": Shown(
        'Neighbours closer than this merge, with criterion `"bhattacharyya"`; 0: none do. The knob '
        "for fewer or more segments of an image, by that criterion.",
        (0.2, 1, 3),
        also=('post.criterion="bhattacharyya"',),
    ),
    "post.level": Shown(
        'Neighbours below this level merge, with criterion `"size-aware"`; 0: none do. The first '
        "knob to turn for images.",
        (0.2, 1, 3),
    ),
    "stream.segments": Shown(
        "How many segments a frame has, roughly, where the picture has as many. The first knob to "
        "turn for films (`--segments`). 0 cuts at `post.level` instead.",
        (10, 40, 290),
        frames=8,
    ),
    "stream.tolerance2": Shown(
        "How far a pixel's colour may be from what it was and still be the same thing. Larger "
        "holds ids through flicker and falling light; too large, and things leak into each other.",
        (1, 9, 40),
        scenes.dusk,
        20,
    ),
    "stream.refresh": Shown(
        "In so many frames every segment is re-estimated once. Smaller corrects errors sooner, and "
        "costs time and ids.",
        (8, 192, 2000),
        scenes.dusk,
        20,
    ),
    "stream.flow": Shown(
        'How finely motion is sought: `"fine"` at half the resolution, `"fast"` at a quarter, '
        "which loses thin things that move fast.",
        ("fine", "fast"),
        scenes.running,
        20,
    ),
    "stream.scale": Shown(
        "Frames are segmented at this share of their width and height; ids still have every pixel "
        "of the frame, and at boundaries follow its colours. Smaller is faster and loses thin "
        "things.",
        (0.35, 0.75, 1),
        scenes.running,
        20,
    ),
}


def keys() -> list[str]:
    """Return every setting as table.key."""
    tables = Params().to_dict()
    return [f"{table}.{key}" for table, values in tables.items() for key in values]


def default_of(key: str) -> float | int | str:
    """Return the default of a setting."""
    table, name = key.split(".")
    return Params().to_dict()[table][name]


def range_of(key: str) -> str:
    """Return which values a setting takes, in the words the package refuses others with."""
    table, name = key.split(".")
    record = getattr(Params(), table)
    impossible = {float: float("nan"), int: -1, str: "?"}[type(default_of(key))]
    try:
        dataclasses.replace(record, **{name: impossible}).check(table)
    except ConfigError as error:
        return str(error).split(" must be ", 1)[1].rsplit(", got ", 1)[0]
    raise AssertionError(f"{key} takes anything")


def page(pictures: Path) -> str:
    """Draw the pictures into a folder; return the page."""
    pictures.mkdir(parents=True, exist_ok=True)
    parts = [_OPENING]
    for table in Params().to_dict():
        parts.append(f"## {table}\n\n{_TABLES[table]}")
        for key in (key for key in keys() if key.startswith(f"{table}.")):
            shown = SHOWN[key]
            name = f"{key.replace('.', '-')}.png"
            told = _draw(key, shown, pictures / name)
            parts += [
                f"### {key}",
                shown.does,
                f"Default `{_toml(default_of(key))}`; {_words(range_of(key))}.",
                f"![{key} at {_values(shown)}](settings/{name})",
                f"*{told}*",
            ]
    return "\n\n".join(parts) + "\n"


_OPENING = """# Settings

The defaults are meant for any film: look here when a result is not what you want. Not sure which
setting to turn? Begin with [what to turn](../guide/what_to_turn.md).

On the command line a setting is changed with `--set`, as often as needed:

```sh
aaams-stream segment clip.mp4 -o clip.zarr --set stream.tolerance2=20 --set post.min_size=30
```

or all at once by a TOML file, `--config mine.toml`, that names only what it changes:

```toml
[stream]
tolerance2 = 20

[post]
min_size = 30
```

In Python it is `params="mine.toml"`, or `Params().overridden(["stream.tolerance2=20"])`. Four sets
of settings come along and are found by name, as in `--config realtime`: `default`, `detail` (finer
images), `coarse` (fewer segments in images) and `realtime` (for cameras: half the work).

`sigma2` and `epsilon2` are squared, as the paper prints them. Every picture was segmented while
this page was built, from a scene drawn for it: what has the same colour has the same id.
"""


def _draw(key: str, shown: Shown, path: Path) -> str:
    """Draw a panel for each value; return the caption."""
    panels, told = [], []
    for value in shown.values:
        params = Params().overridden([*shown.also, f"{key}={_toml(value)}"])
        picture, words = _film(shown, params) if shown.frames else _image(shown, params)
        panels.append(_titled(picture, f"{value}{' (default)' * (value == default_of(key))}"))
        told.append(f"{value}: {words}")
    gap = np.full((panels[0].shape[0], _GAP, 3), 255, np.uint8)
    row = [piece for panel in panels for piece in (panel, gap)][:-1]
    cv2.imwrite(
        str(path), np.concatenate(row, axis=1)[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9]
    )
    also = f" With {', '.join(f'`{one}`' for one in shown.also)}." if shown.also else ""
    return "; ".join(told) + "." + also


def _image(shown: Shown, params: Params) -> tuple[NDArray[np.uint8], str]:
    rgb = shown.scene(0)
    result = segment_image(rgb, params)
    drawn = draw_view(rgb, result.labels + np.uint32(1), "ids")
    return drawn, f"{result.count} segments, {result.n_iter} iterations"


def _film(shown: Shown, params: Params) -> tuple[NDArray[np.uint8], str]:
    segmenter = Segmenter(params)
    results = [segmenter.step(shown.scene(t)) for t in range(shown.frames)]
    early, last = results[_EARLY], results[-1]
    drawn = draw_view(shown.scene(shown.frames - 1), last.ids, "ids")
    if shown.spot:
        before, after = (
            int(r.ids[y, x]) for r, (x, y) in zip((early, last), shown.spot, strict=True)
        )
        words = f"the ball is id {before} before and id {after} after"
    else:
        kept = np.isin(early.segments["id"], last.segments["id"]).sum()
        events = sum(len(result.events) for result in results[1:])
        words = f"{kept} of {len(early.segments)} ids kept, {events} events"
    return drawn, words


def _titled(picture: NDArray[np.uint8], title: str) -> NDArray[np.uint8]:
    large = cv2.resize(picture, None, fx=_ZOOM, fy=_ZOOM, interpolation=cv2.INTER_NEAREST)
    strip = np.full((_STRIP, large.shape[1], 3), 255, np.uint8)
    font = cv2.FONT_HERSHEY_SIMPLEX
    cv2.putText(strip, title, (2, _STRIP - 7), font, 0.5, (40, 40, 40), 1, cv2.LINE_AA)
    return np.concatenate([strip, large])


def _values(shown: Shown) -> str:
    return ", ".join(str(value) for value in shown.values)


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


def _words(expected: str) -> str:
    return expected.replace("**", "^").replace("*", "\\*").replace("<", "\\<").replace(">", "\\>")

"""The volume on disk, table by table: columns from the dtypes, units and meaning from here.

A test holds every column against `MEANING`: one that is added without a word fails it.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from aaams_stream import segment_video
from aaams_stream.store.layout import CHUNK_FRAMES, COPY, FINAL_TABLES, KEY, SCHEMA, TABLES

_FRAME = ("frames", "number of the frame, from 0")
_LAB = "L\\*a\\*b\\* units"
# Unit and meaning of every column.
MEANING: dict[str, dict[str, tuple[str, str]]] = {
    "segments": {
        "frame": _FRAME,
        "id": ("", "identity, from 1; an id is never used again"),
        "area": ("pixels", "how many pixels it has"),
        "mode": (f"{_LAB}; pixels", "L, a, b, x, y of the density's peak it stands on"),
        "bandwidth_colour": (
            f"{_LAB}, squared",
            "full bandwidth matrix of the mode in colour, upper triangle: LL, La, Lb, aa, ab, bb",
        ),
        "bandwidth_space": ("pixels squared", "the same in space: xx, xy, yy"),
        "bbox": ("pixels", "x0, y0, x1, y1; x1 and y1 lie one past the last pixel"),
        "density": ("share", "density at the mode, 1 at the frame's maximum"),
        "centroid": ("pixels", "x, y: mean of its pixels' centres, the first pixel's being 0, 0"),
        "colour": (_LAB, "mean L, a, b; L from 0 to 100"),
        "colour_spread": (_LAB, "standard deviation of L, a, b"),
        "perimeter": ("pixel sides", "sides of its pixels that face another segment or the rim"),
        "motion": ("pixels a frame", "x, y: mean of its flow since the frame before"),
        "age": ("frames", "since it was first seen; 0 in that frame"),
        "parent": ("", "id it was split off; 0: none"),
    },
    "adjacency": {
        "frame": _FRAME,
        "first": ("", "the smaller of the two ids"),
        "second": ("", "the larger"),
        "length": ("pixel sides", "that they share"),
        "contrast": (_LAB, "mean colour distance across those sides"),
    },
    "events": {
        "frame": _FRAME,
        "kind": ("", "what happened, see [events](../reference/events.md)"),
        "id": ("", "to which identity"),
        "other": ("", "the other identity of a split or merge; 0: none"),
    },
    "tracks": {
        "id": ("", "identity, in order"),
        "first": ("frames", "the first frame it is seen in"),
        "last": ("frames", "the last frame it is seen in"),
        "frames": ("frames", "in which it is seen; fewer than last − first + 1 if it was hidden"),
        "volume": ("pixels", "over its life"),
        "parent": ("", "id it was split off; 0: none"),
        "end": ("", "the event that ended it: death, merge or cut; 0 while it lives"),
        "heir": ("", "id it merged into; 0: none"),
        "start": ("pixels", "centroid when first seen, x, y"),
        "stop": ("pixels", "centroid when last seen, x, y"),
        "path": ("pixels", "that its centroid travelled"),
        "colour": (_LAB, "mean L, a, b over its volume"),
    },
    "hierarchy": {
        "survivor": ("", "the group that takes in the other, by its smallest id"),
        "absorbed": ("", "the group that is taken in, by its smallest id"),
        "level": ("level", "at which that happens; never falls within a scene"),
    },
    "objects": {
        "id": ("", "the smallest of its ids: the name of the group"),
        "level": ("level", "at which `volume.at(level=…)` shows it as one group"),
        "score": ("", "how much it looks like a thing; only the order means something"),
        "first": ("frames", "the first frame it is seen in"),
        "last": ("frames", "the last frame it is seen in"),
        "frames": ("frames", "in which it is seen"),
    },
}
_ABOUT = {
    "segments": "One row per segment and frame, in order of frame and id. "
    "`offsets` (t + 1) says where the rows of each frame begin.",
    "adjacency": "One row per pair of segments that touch, in order of frame and both ids; "
    "with `offsets` as above.",
    "events": "One row per event, in the order they happened; with `offsets` as above.",
    "tracks": "One row per identity. Written when the volume is complete; before that "
    "`volume.tracks` sums up what is there.",
    "hierarchy": "One row per merge of two groups of identities, in order: the tree behind "
    "[levels](../guide/levels.md). Written when the volume is complete.",
    "objects": "One row per group that looks like a thing, best first. Written when the volume is "
    "complete.",
}
_COMPLETE = 2  # frames that are enough to see every node


def columns() -> dict[str, dict[str, str]]:
    """Return the type of each column of every table, as the package lays them out."""
    found = {}
    for table, its in TABLES.items():
        found[table] = {name: _kind(one.dtype, one.width) for name, one in its.items()}
    for table, (_, dtype) in FINAL_TABLES.items():
        fields = {name: dtype[name] for name in dtype.names or ()}
        found[table] = {
            name: _kind(field.base, field.shape[0] if field.shape else None)
            for name, field in fields.items()
        }
    return found


def _kind(dtype: np.dtype[Any], width: int | None) -> str:
    return f"{dtype} × {width}" if width else str(dtype)


def page() -> str:
    """Return the page."""
    parts = [
        "# The volume on disk",
        f"One Zarr v3 group, schema {SCHEMA}, valid OME-NGFF 0.5. This page is made from the "
        "package's own tables and from a volume written while the site was built.",
        "## Nodes",
        "A volume of the demo with its frames, as it lies on disk. `t` counts frames.",
        *_nodes(),
        "Frames are kept in chunks of "
        f"{CHUNK_FRAMES}, whole up to 1280x720 and in tiles above. A reader trusts as many frames "
        "as the attribute `frames_committed` says: it is written after the data it counts. Ids are "
        "`uint32`; 0 outside the region of interest, and where nothing is written yet.",
        "All of it is NumPy in Python: `volume.segments(t)`, `volume.adjacency(t)`, "
        "`volume.events_at(t)` and `volume.tracks` are structured arrays with the columns below, "
        "`volume.table(name)` all rows of the first three with the frame in front.",
        "As pandas, polars, Arrow, CSV and Parquet a column of several numbers becomes several: "
        "`centroid` is `centroid_x` and `centroid_y`, `bbox` is `bbox_x0` to `bbox_y1`, `colour` "
        "is `colour_L`, `colour_a` and `colour_b`; and kinds of events are words. Pixels count "
        "from the top left, x to the right and y downwards.",
    ]
    for table, its in columns().items():
        parts += [f"## {table}", _ABOUT[table], _table(table, its)]
    parts += ["## Attributes", _attributes()]
    return "\n\n".join(parts) + "\n"


def _table(table: str, its: dict[str, str]) -> str:
    rows = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    for name, kind in its.items():
        unit, meaning = MEANING[table][name]
        rows.append(f"| `{name}` | {kind} | {unit} | {meaning} |")
    return "\n".join(rows)


def _nodes() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "demo.zarr")
        segment_video("demo", path, duration=_COMPLETE / 24, with_video=True)
        root = zarr.open_group(str(path), mode="r")
        rows = ["| array | type | axes | chunk | codecs |", "|---|---|---|---|---|"]
        for name in ("labels/ids/0", "time"):
            rows.append(_row(name, root[name]))
        with warnings.catch_warnings():  # that one codec of the frames is not in Zarr's own list
            warnings.simplefilter("ignore")
            rows.append(_row("0", root["0"], " (with `--with-video`)"))
        for table in columns():
            group = root[table]
            count = len(list(group.array_keys()))
            rows.append(f"| `{table}/…` | a table | see below | | {count} arrays, one per column |")
    return ["\n".join(rows)]


def _row(name: str, array: zarr.Array[Any], note: str = "") -> str:
    axes = ", ".join(map(str, array.metadata.dimension_names or ()))
    codecs = [type(codec).__name__.removesuffix("Codec").lower() for codec in array.metadata.codecs]
    chunk = "×".join(map(str, array.chunks))
    return f"| `{name}`{note} | {array.dtype} | {axes} | {chunk} | {', '.join(codecs)} |"


def _attributes() -> str:
    return (
        f"The group's attribute `{KEY}` says what a volume is about: `schema`, `version` (of the "
        "package), `source` (address, size, rate, which stretch of it, what tells the file "
        "from others, and a region of interest as `roi`: a bit a pixel, row by row, deflated, in "
        "base64), `configuration` (every setting), `frames_committed`, `complete`, `ended` "
        "(`complete`, `damaged: …` or `interrupted`) and `counts` (identities and events). "
        "`aaams-stream info VOLUME` prints them. The group `labels` repeats all of it as "
        f"`{COPY}`, from which `check --repair` writes a damaged root document anew."
    )

"""A volume as the layers of napari: picture, ids, groups of them, tracks and lineage.

    import napari
    viewer = napari.Viewer()
    for data, options, kind in napari_layers(open_volume("clip.zarr")):
        getattr(viewer, f"add_{kind}")(data, **options)

Nothing of napari is needed to make the layers, and pictures and ids are read as they are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from aaams_stream.store import Volume

Layer = tuple[Any, dict[str, Any], str]


def napari_layers(
    volume: Volume, min_life: int = 2, at: Sequence[int] = (50, 25, 10)
) -> list[Layer]:
    """Return data, options and kind of each layer.

    For each number `at` of groups a frame there is a layer of labels beside that of the ids, hidden
    until it is asked for; none where a volume is without levels. Tracks run through the centroids
    of identities seen in at least `min_life` frames; the graph of a track names the one it was
    split off.
    """
    scale = (float(1 / volume.header.rate), 1.0, 1.0)
    layers: list[Layer] = []
    if volume.video is not None:
        options = {"name": "video", "rgb": True, "scale": scale}
        layers.append((volume.video, options, "image"))
    layers.append((volume.ids, {"name": "ids", "opacity": 0.5, "scale": scale}, "labels"))
    for count in at if volume.has_levels else ():
        options = {"name": f"{count} groups", "opacity": 0.5, "scale": scale, "visible": False}
        layers.append((volume.at(segments=count).ids, options, "labels"))
    points, graph, features = tracks_of(volume, min_life)
    options = {"name": "tracks", "graph": graph, "features": features, "scale": scale}
    layers.append((points, options, "tracks"))
    return layers


def tracks_of(
    volume: Volume, min_life: int = 2
) -> tuple[NDArray[np.float64], dict[int, list[int]], dict[str, NDArray[Any]]]:
    """Return tracks (n, 4) as rows of id, frame, y, x; the graph; and features of each row.

    The graph maps an id to the one it was split off, where both are among the tracks.
    """
    lives = volume.tracks
    lives = lives[lives["frames"] >= min_life]
    rows = volume.table("segments")
    rows = rows[np.isin(rows["id"], lives["id"])]
    rows = rows[np.lexsort((rows["frame"], rows["id"]))]
    points = np.column_stack([rows["id"], rows["frame"], rows["centroid"][:, ::-1]])
    related = lives[np.isin(lives["parent"], lives["id"])]
    graph = {int(row["id"]): [int(row["parent"])] for row in related}
    features = {name: rows[name].copy() for name in ("area", "age")}
    features["speed"] = np.hypot(*rows["motion"].T)
    return points.astype(np.float64), graph, features

"""A volume as a tracking graph in GEFF, the graph exchange file format: a Zarr group.

Written by hand, because the library that defines it holds back others that a volume needs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from aaams_stream.export.selection import Chosen
from aaams_stream.model import ADJACENCY_DTYPE, EDGE_FEATURES, build_graph

Property = tuple[NDArray[Any], str, str | None]  # values, description, unit

_VERSION = "1.1"  # the first with what is used here; later readers take it
_CHUNK = 1 << 16  # rows
# What is told of a node beside its place: column of the segment table, description, unit.
_PROPERTIES = {
    "area": ("pixels of the segment in the frame", "pixel"),
    "perimeter": ("sides of its pixels that face another segment or the rim", "pixel"),
    "colour": ("mean L*, a*, b*", None),
    "motion": ("x, y: mean flow since the frame before", "pixel"),
    "age": ("frames since it was first seen", "frame"),
}


def write_geff(chosen: Chosen, folder: Path, step: Callable[[], None]) -> None:
    """Write a node per segment and frame, and edges forwards in time along identities.

    Nodes have t (frame), y and x (centroid), track_id, what `_PROPERTIES` lists, and tracklet:
    counted from 1, new wherever an identity begins, splits, or takes another in. Edges say whether
    they are a split or a merge; the others join an identity with itself.
    """
    volume = chosen.volume
    rows, events = [], []
    for t in chosen:
        rows.append(chosen.segments(t))
        events.append(volume.events_at(t))
        step()
    untouched = [np.zeros(0, ADJACENCY_DTYPE)] * len(rows)
    graph = build_graph(chosen.frames, rows, untouched, events)
    segments = np.concatenate(rows)
    edges, once = np.unique(graph.edge_index.T, axis=0, return_index=True)
    kinds = graph.edge_attr[once]
    nodes: dict[str, Property] = {
        "t": (graph.frame, "frame", "frame"),
        "y": (graph.pos[:, 1], "centroid", "pixel"),
        "x": (graph.pos[:, 0], "centroid", "pixel"),
        "track_id": (graph.id, "identity; the value of its pixels in labels/ids", None),
        "tracklet": (_tracklets(len(segments), edges), "stretch without a split or merge", None),
        **{name: (segments[name], *about) for name, about in _PROPERTIES.items()},
    }
    links: dict[str, Property] = {
        name: (kinds[:, EDGE_FEATURES.index(name)] > 0, f"whether it is a {name}", None)
        for name in ("split", "merge")
    }
    root = zarr.open_group(str(folder), mode="w", zarr_format=3)
    _write_part(root, "nodes", np.arange(len(segments), dtype=np.uint64), nodes)
    _write_part(root, "edges", edges.astype(np.uint64), links)
    root.attrs["geff"] = {
        "geff_version": _VERSION,
        "directed": True,
        "axes": [
            _axis("t", "time", "frame", graph.frame)
            | {"scale": float(1 / volume.header.rate), "scaled_unit": "second"},
            _axis("y", "space", "pixel", graph.pos[:, 1]),
            _axis("x", "space", "pixel", graph.pos[:, 0]),
        ],
        "node_props_metadata": _described(nodes),
        "edge_props_metadata": _described(links),
        "track_node_props": {"tracklet": "tracklet"},
        "extra": {"source": volume.source, "volume": str(volume.path.absolute())},
    }


def _write_part(
    root: zarr.Group,
    name: str,
    ids: NDArray[np.uint64],
    properties: dict[str, Property],
) -> None:
    arrays = {f"{name}/ids": ids}
    arrays |= {f"{name}/props/{key}/values": values for key, (values, *_) in properties.items()}
    for path, values in arrays.items():
        chunks = (max(1, min(len(values), _CHUNK)), *values.shape[1:])
        array = root.create_array(path, shape=values.shape, chunks=chunks, dtype=values.dtype)
        array[:] = values


def _described(
    properties: dict[str, Property],
) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "identifier": name,
            "dtype": values.dtype.name,
            "varlength": False,
            "description": description,
            "unit": unit,
        }
        for name, (values, description, unit) in properties.items()
    }


def _axis(name: str, kind: str, unit: str, values: NDArray[Any]) -> dict[str, Any]:
    axis: dict[str, Any] = {"name": name, "type": kind, "unit": unit}
    if len(values):
        axis |= {"min": float(values.min()), "max": float(values.max())}
    return axis


def _tracklets(count: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the tracklet of each node: paths along which no edge leaves or joins."""
    leaving = np.bincount(edges[:, 0], minlength=count)
    coming = np.bincount(edges[:, 1], minlength=count)
    within = edges[(leaving[edges[:, 0]] == 1) & (coming[edges[:, 1]] == 1)]
    before = np.arange(count)
    before[within[:, 1]] = within[:, 0]
    while not np.array_equal(before, before[before]):  # twice as far back each time
        before = before[before]
    return np.unique(before, return_inverse=True)[1].astype(np.int64) + 1

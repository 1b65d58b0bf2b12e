"""Segments as a graph: against its definition, written out in plain Python."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from aaams_stream import open_volume, segment_video
from aaams_stream.model import (
    ADJACENCY_DTYPE,
    EDGE_FEATURES,
    EVENT_DTYPE,
    NODE_FEATURES,
    SEGMENT_DTYPE,
    EventKind,
    build_graph,
)


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    target = tmp_path_factory.mktemp("volume") / "demo.zarr"
    # the boat comes out from behind the house: something is born, something splits
    segment_video("demo", target, duration=0.75, size=(160, 120))
    return open_volume(target)


def plain_edges(volume, frames):
    """Return every edge with its attributes, by frames and ids instead of nodes."""
    seen = {t: set(volume.segments(t)["id"].tolist()) for t in frames}

    def last(name, before):
        return max((t for t in frames if t < before and name in seen[t]), default=None)

    edges = {}
    for t in frames:
        for one, other, length, contrast in volume.adjacency(t).tolist():
            edges[(t, one), (t, other)] = edges[(t, other), (t, one)] = (
                1,
                0,
                0,
                0,
                length,
                contrast,
            )
        for name in seen[t]:
            if last(name, t) is not None:
                edges[(last(name, t), name), (t, name)] = (0, 1, 0, 0, 0, 0)
        for kind, name, other in volume.events_at(t).tolist():
            if kind == EventKind.SPLIT and name in seen[t] and last(other, t) is not None:
                edges[(last(other, t), other), (t, name)] = (0, 0, 1, 0, 0, 0)
            if kind == EventKind.MERGE and other in seen[t] and last(name, t) is not None:
                edges[(last(name, t), name), (t, other)] = (0, 0, 0, 1, 0, 0)
    return edges


@pytest.mark.parametrize("stretch", [(0, None), (3, 9), (-4, None), (5, 6), (5, 5)])
def test_graph_of_a_volume_has_the_edges_of_its_definition(volume, stretch):
    graph = volume.graph(*stretch)
    frames = range(volume.frame_count)[slice(*stretch)]
    nodes = [(t, name) for t in frames for name in volume.segments(t)["id"].tolist()]
    assert list(zip(graph.frame.tolist(), graph.id.tolist(), strict=True)) == nodes
    edges = {
        (nodes[a], nodes[b]): tuple(values)
        for a, b, values in zip(*graph.edge_index.tolist(), graph.edge_attr.tolist(), strict=True)
    }
    assert len(edges) == graph.edge_index.shape[1]  # none twice
    assert edges == plain_edges(volume, frames)
    assert graph.edge_attr.shape[1] == len(EDGE_FEATURES)


def test_graph_of_a_volume_has_edges_of_every_kind_over_a_clip(volume):
    kinds = volume.graph().edge_attr[:, :4].sum(axis=0)
    assert (kinds[:3] > 0).all()
    whole = volume.at(segments=5).graph()
    assert 0 < len(whole.x) < len(volume.graph().x)


def test_graph_nodes_bring_the_columns_of_the_table(volume):
    graph = volume.graph(2, 4)
    rows = np.concatenate([volume.segments(2), volume.segments(3)])
    assert graph.x.shape == (len(rows), len(NODE_FEATURES))
    np.testing.assert_array_equal(graph.x[:, NODE_FEATURES.index("area")], rows["area"])
    np.testing.assert_array_equal(graph.x[:, NODE_FEATURES.index("b")], rows["colour"][:, 2])
    np.testing.assert_array_equal(graph.x[:, NODE_FEATURES.index("motion_x")], rows["motion"][:, 0])
    np.testing.assert_array_equal(graph.pos, rows["centroid"])


def test_graph_leads_a_merged_identity_into_the_one_that_took_it_in():
    rows = np.zeros(2, SEGMENT_DTYPE)
    rows["id"] = 4, 7
    merged = np.array([(EventKind.MERGE, 7, 4)], EVENT_DTYPE)
    graph = build_graph(
        [10, 11],
        [rows, rows[:1]],
        [np.zeros(0, ADJACENCY_DTYPE)] * 2,
        [merged[:0], merged],
    )
    assert graph.edge_index.T.tolist() == [[0, 2], [1, 2]]
    assert graph.edge_attr[:, :4].tolist() == [[0, 1, 0, 0], [0, 0, 0, 1]]


def test_graph_is_taken_by_a_graph_library(volume):
    """Neighbours, as networkx walks them, are those the volume tells of."""
    arrays = volume.graph(6, 7).arrays()
    graph = networkx.Graph()
    graph.add_edges_from(arrays["edge_index"].T.tolist())
    name = int(arrays["id"][3])
    around = {int(arrays["id"][node]) for node in graph[3]}
    assert around == set(volume.neighbours(name, 6)["id"].tolist())
    assert all(values.flags.c_contiguous for values in arrays.values())

"""A volume as a tracking graph: its rules checked here, as the library that defines GEFF does."""

from __future__ import annotations

import os
import subprocess

import networkx
import numpy as np
import pytest
import zarr

from aaams_stream import open_volume, segment_video
from aaams_stream.export import Selection, export_volume
from aaams_stream.model import EventKind


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    target = tmp_path_factory.mktemp("volume") / "demo.zarr"
    # the boat comes out from behind the house: something is born, something splits
    segment_video("demo", target, duration=0.75, size=(160, 120))
    return target


@pytest.fixture
def volume(path):
    return open_volume(path)


def read(folder):
    """Return the graph with all properties, and the metadata, checking the layout on the way."""
    root = zarr.open_group(str(folder), mode="r")
    about = root.attrs["geff"]
    graph = networkx.DiGraph() if about["directed"] else networkx.Graph()
    parts = {}
    for part in ("nodes", "edges"):
        ids = root[f"{part}/ids"][:]
        properties = {}
        assert set(root[f"{part}/props"]) == set(about[f"{part[:-1]}_props_metadata"])
        for name, told in about[f"{part[:-1]}_props_metadata"].items():
            values = root[f"{part}/props/{name}/values"][:]
            assert told["identifier"] == name
            assert values.dtype == np.dtype(told["dtype"])
            assert len(values) == len(ids)
            properties[name] = values
        parts[part] = (ids, properties)
    for axis in about["axes"]:
        values = parts["nodes"][1][axis["name"]]
        assert (values.min(), values.max()) == (axis["min"], axis["max"])
    for number, name in enumerate(parts["nodes"][0].tolist()):
        graph.add_node(name, **{key: values[number] for key, values in parts["nodes"][1].items()})
    for number, (a, b) in enumerate(parts["edges"][0].tolist()):
        assert not graph.has_edge(a, b)
        graph.add_edge(a, b, **{key: values[number] for key, values in parts["edges"][1].items()})
    return graph, about


def test_geff_has_every_segment_and_its_identity_through_time(volume, tmp_path):
    assert export_volume(volume, "geff", tmp_path / "out.geff") == volume.frame_count
    graph, about = read(tmp_path / "out.geff")
    rows = volume.table("segments")
    assert [(data["t"], data["track_id"]) for _, data in graph.nodes(data=True)] == list(
        zip(rows["frame"], rows["id"], strict=True)
    )
    for (_, data), row in zip(graph.nodes(data=True), rows, strict=True):
        assert (data["x"], data["y"]) == tuple(row["centroid"])
        assert data["area"] == row["area"]
        np.testing.assert_array_equal(data["colour"], row["colour"])
    assert about["axes"][0]["scale"] == pytest.approx(1 / 24)
    for a, b, data in graph.edges(data=True):
        one, other = graph.nodes[a], graph.nodes[b]
        assert one["t"] < other["t"]
        assert (one["track_id"] == other["track_id"]) == (not data["split"] and not data["merge"])
    splits = sum(data["split"] for *_, data in graph.edges(data=True))
    assert splits == np.count_nonzero(volume.events["kind"] == EventKind.SPLIT) > 0


def test_geff_tracklets_are_the_longest_paths_without_a_fork(volume, tmp_path):
    export_volume(volume, "geff", tmp_path / "out")
    graph, about = read(tmp_path / "out")
    assert about["track_node_props"] == {"tracklet": "tracklet"}
    within = networkx.Graph()
    within.add_nodes_from(graph)
    within.add_edges_from(
        (a, b) for a, b in graph.edges if graph.out_degree(a) == graph.in_degree(b) == 1
    )
    expected = {frozenset(part) for part in networkx.connected_components(within)}
    found = {}
    for node, data in graph.nodes(data=True):
        found.setdefault(data["tracklet"], set()).add(node)
    assert {frozenset(part) for part in found.values()} == expected


def test_geff_keeps_to_the_selection_and_is_replaced_on_demand(volume, tmp_path):
    export_volume(volume, "geff", tmp_path / "out")
    wanted = Selection(min_area=200, start=0.25)
    export_volume(volume, "geff", tmp_path / "out", wanted, overwrite=True)
    graph, _ = read(tmp_path / "out")
    assert min(data["area"] for _, data in graph.nodes(data=True)) >= 200
    assert min(data["t"] for _, data in graph.nodes(data=True)) == 6


GEFF = """
import sys
import geff
from geff.validate.data import ValidationConfig, validate_data

geff.validate_structure(sys.argv[1])
memory = geff.core_io.read_to_memory(sys.argv[1])
validate_data(memory, ValidationConfig(graph=True, tracklet=True))
print(len(memory["node_ids"]), len(memory["edge_ids"]))
"""


@pytest.mark.skipif(
    "AAAMS_GEFF" not in os.environ,
    reason="geff has an environment of its own, named by AAAMS_GEFF; see CONTRIBUTING.md",
)
def test_geff_is_valid_to_the_library_that_defines_it(volume, tmp_path):
    export_volume(volume, "geff", tmp_path / "out")
    command = [os.environ["AAAMS_GEFF"], "-c", GEFF, str(tmp_path / "out")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout.split()[0]) == len(volume.table("segments"))

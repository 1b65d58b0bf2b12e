"""A volume in napari: through OME-NGFF, and as layers with tracks and lineage; without a window."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

import dask
import numpy as np
import pytest
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader
from support.hierarchies import drop_levels

from aaams_stream import open_volume, segment_video
from aaams_stream.export.napari import napari_layers, tracks_of


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    target = tmp_path_factory.mktemp("volume") / "demo.zarr"
    # the boat comes out from behind the house: something is born, something splits
    segment_video("demo", target, duration=0.75, size=(160, 120), with_video=True)
    return target


@pytest.fixture
def volume(path):
    return open_volume(path)


def test_tracks_run_through_the_centroids_of_each_id(volume):
    points, graph, features = tracks_of(volume)
    lives = {int(row["id"]): int(row["frames"]) for row in volume.tracks if row["frames"] >= 2}
    names, counts = np.unique(points[:, 0], return_counts=True)
    assert dict(zip(names.astype(int), counts, strict=True)) == lives
    for name, t, y, x in points[::37]:
        row = volume.segment(int(name), int(t))
        assert row["centroid"].tolist() == [x, y]
    assert all(len(values) == len(points) for values in features.values())
    for child, (parent,) in graph.items():
        assert parent in lives
        assert volume.lineage(child).ancestors[0] == parent


def test_pictures_have_their_colours_last(volume):
    (video, _, kind), *_ = napari_layers(volume)
    assert kind == "image"
    assert video.shape == (18, 120, 160, 3)
    whole = volume.video[:]
    for key in (3, slice(2, 9, 3), (4, slice(10, 20)), (slice(1, 3), slice(None), 5, 2)):
        np.testing.assert_array_equal(video[key], whole[key], err_msg=str(key))
    np.testing.assert_array_equal(np.asarray(video), whole)


def test_levels_are_layers_that_are_read_as_they_are_shown(volume, tmp_path, path):
    layers = {options["name"]: (data, options) for data, options, _ in napari_layers(volume)}
    assert list(layers) == ["video", "ids", "50 groups", "25 groups", "10 groups", "tracks"]
    data, options = layers["10 groups"]
    assert not options["visible"]
    np.testing.assert_array_equal(data[7], volume.at(segments=10).ids[7])
    assert [o["name"] for _, o, _ in napari_layers(volume, at=[3])][2] == "3 groups"
    shutil.copytree(path, tmp_path / "older.zarr")
    drop_levels(tmp_path / "older.zarr")
    older = napari_layers(open_volume(tmp_path / "older.zarr"))
    assert [options["name"] for _, options, _ in older] == ["video", "ids", "tracks"]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")  # Zarr 3.1 warns of the frames' codec
def test_the_reader_of_ome_zarr_finds_picture_and_ids(path, volume):
    """What napari's plugin for OME-Zarr reads with."""
    nodes = [node for node in Reader(parse_url(str(path)))() if node.data]
    found = {tuple(axis["name"] for axis in node.metadata["axes"]): node for node in nodes}
    with dask.config.set(scheduler="synchronous"):  # leaves no thread behind
        video, ids = (np.asarray(found[tuple(axes)].data[0]) for axes in ("tcyx", "tyx"))
    np.testing.assert_array_equal(video.transpose(0, 2, 3, 1), volume.video[:])
    np.testing.assert_array_equal(ids, volume.ids[:])


# In a process of its own: napari warns while it is imported, and warnings are failures here.
NAPARI = """
import sys
import numpy as np
from napari.components import ViewerModel
from napari_ome_zarr import napari_get_reader
from aaams_stream import open_volume
from aaams_stream.export.napari import napari_layers, tracks_of

volume = open_volume(sys.argv[1])
viewer = ViewerModel()
for data, options, kind in napari_layers(volume):
    getattr(viewer, f"add_{kind}")(data, **options)
groups = ["50 groups", "25 groups", "10 groups"]
assert [layer.name for layer in viewer.layers] == ["video", "ids", *groups, "tracks"]
points, graph, _ = tracks_of(volume)
tracks = viewer.layers["tracks"]
np.testing.assert_array_equal(tracks.data, points)
assert tracks.graph == graph
assert graph, "the clip has no split to show"

kinds = {}
for data, options, kind in napari_get_reader(sys.argv[1])(sys.argv[1]):
    kinds[kind] = data[0] if isinstance(data, list) else data
ids = np.asarray(kinds["labels"])
np.testing.assert_array_equal(ids.reshape(volume.ids.shape), volume.ids[:])
print("napari took it")
"""


@pytest.mark.skipif(
    importlib.util.find_spec("napari_ome_zarr") is None,
    reason="napari is an extra, too large for every test run",
)
def test_napari_takes_the_volume_its_tracks_and_its_lineage(path):
    command = [sys.executable, "-c", NAPARI, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip().endswith("napari took it")

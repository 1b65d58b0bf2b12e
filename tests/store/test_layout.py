"""What a volume looks like on disk, to us and to others."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from support.volumes import HEADER, VERSION, fill

from aaams_stream import store
from aaams_stream.model import SEGMENT_DTYPE, TRACK_DTYPE
from aaams_stream.params import Params
from aaams_stream.store import layout


def test_layout_is_the_documented_one(whole):
    root = zarr.open_group(str(whole[0]), mode="r")
    ids = root["labels/ids/0"]
    assert ids.metadata.zarr_format == 3
    assert ids.metadata.dimension_names == ("t", "y", "x")
    assert ids.chunks == (8, 48, 64)
    assert ids.fill_value == 0
    names = [type(codec).__name__ for codec in ids.metadata.codecs]
    assert names == ["TransposeCodec", "BytesCodec", "ZstdCodec"]
    assert root["0"].metadata.dimension_names == ("t", "c", "y", "x")
    assert root["time"].dtype == np.float64
    segments = {"frame", *SEGMENT_DTYPE.names, "offsets"}
    assert {"area", "mode", "bandwidth_colour", "bandwidth_space", "bbox", "density"} < segments
    assert set(root["segments"].array_keys()) == segments
    assert set(root["events"].array_keys()) == {"frame", "kind", "id", "other", "offsets"}
    pairs = {"frame", "first", "second", "length", "contrast", "offsets"}
    assert set(root["adjacency"].array_keys()) == pairs
    assert set(root["tracks"].array_keys()) == set(TRACK_DTYPE.names)
    assert root["segments/offsets"].shape == (30,)
    assert "resume" not in root
    record = root.attrs["aaams_stream"]
    assert record["schema"] == layout.SCHEMA
    assert record["version"] == VERSION
    assert record["source"]["spec"] == HEADER.spec
    assert record["configuration"] == Params().to_dict()
    assert (record["frames_committed"], record["complete"], record["ended"]) == (
        29,
        True,
        "complete",
    )


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((480, 640), (480, 640)),
        ((720, 1280), (720, 1280)),
        ((1280, 720), (1280, 720)),
        ((1080, 1920), (540, 960)),
        ((2160, 3840), (720, 1280)),
    ],
)
def test_tiles_divide_frames_above_720p(size, expected):
    assert layout.tile(*size) == expected


def test_metadata_is_ome_ngff(whole):
    v05 = pytest.importorskip("ome_zarr_models.v05")
    root = zarr.open_group(str(whole[0]), mode="r")
    image = v05.image.Image.from_zarr(root)
    assert [axis.name for axis in image.attributes.ome.multiscales[0].axes] == list("tcyx")
    label = v05.image_label.ImageLabel.from_zarr(root["labels/ids"])
    scales = label.attributes.ome.multiscales[0]
    assert [axis.name for axis in scales.axes] == list("tyx")
    assert scales.datasets[0].coordinateTransformations[0].scale == [0.04, 1.0, 1.0]
    labels = v05.labels.Labels.from_zarr(root["labels"])
    assert labels.attributes.ome.labels == ["ids"]


def test_labels_are_valid_without_the_picture(tmp_path):
    v05 = pytest.importorskip("ome_zarr_models.v05")
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 3)
    writer.finish("complete")
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    assert v05.image_label.ImageLabel.from_zarr(group["labels/ids"])
    assert "0" not in group


def test_arrays_open_in_xarray_and_dask(whole):
    xarray = pytest.importorskip("xarray")
    array = pytest.importorskip("dask.array")
    path, results = whole
    opened = xarray.open_zarr(str(path / "labels" / "ids"), consolidated=False, chunks=None)
    assert opened["0"].dims == ("t", "y", "x")
    np.testing.assert_array_equal(opened["0"][7], results[7].ids)
    lazy = array.from_zarr(str(path), component="labels/ids/0")
    np.testing.assert_array_equal(lazy[28].compute(scheduler="synchronous"), results[28].ids)
    table = xarray.open_zarr(str(path / "segments"), consolidated=False, chunks=None)
    assert table["mode"].dims == ("row", "Labxy")

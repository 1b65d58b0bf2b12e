"""What a volume looks like on disk, to us and to others."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys

import numpy as np
import pytest
import zarr
from support import synthetic
from support.clips import moving_frames
from support.older import make_older
from support.volumes import HEADER, VERSION, files, fill
from zarr.codecs import ZstdCodec

from aaams_stream import store
from aaams_stream.model import OBJECT_DTYPE, SEGMENT_DTYPE, TRACK_DTYPE
from aaams_stream.params import Params
from aaams_stream.store import layout, open_volume
from aaams_stream.store.arrays import ChunkedArray

# Zarr 3.1 warns others of the codec of frames; our own code opens them without a warning.
others_are_warned = pytest.mark.filterwarnings("ignore:Numcodecs codecs")


@others_are_warned
def test_layout_is_the_documented_one(whole):
    root = zarr.open_group(str(whole[0]), mode="r")
    ids = root["labels/ids/0"]
    assert ids.metadata.zarr_format == 3
    assert ids.metadata.dimension_names == ("t", "y", "x")
    assert ids.chunks == (8, 48, 64)
    assert ids.fill_value == 0
    names = [type(codec).__name__ for codec in ids.metadata.codecs]
    assert names == ["TransposeCodec", "BytesCodec", "ZstdCodec", "Crc32cCodec"]
    video = root["0"]
    assert video.metadata.dimension_names == ("t", "c", "y", "x")
    assert (video.dtype, video.chunks) == (np.uint8, (8, 3, 48, 64))
    names = [type(codec).__name__ for codec in video.metadata.codecs]
    assert names == ["TransposeCodec", "Delta", "BytesCodec", "ZstdCodec", "Crc32cCodec"]
    assert root["time"].dtype == np.float64
    segments = {"frame", *SEGMENT_DTYPE.names, "offsets"}
    assert {"area", "mode", "bandwidth_colour", "bandwidth_space", "bbox", "density"} < segments
    assert set(root["segments"].array_keys()) == segments
    assert set(root["events"].array_keys()) == {"frame", "kind", "id", "other", "offsets"}
    pairs = {"frame", "first", "second", "length", "contrast", "offsets"}
    assert set(root["adjacency"].array_keys()) == pairs
    assert set(root["tracks"].array_keys()) == set(TRACK_DTYPE.names)
    assert set(root["hierarchy"].array_keys()) == {"survivor", "absorbed", "level"}
    assert root["hierarchy/level"].metadata.dimension_names == ("merge",)
    assert set(root["objects"].array_keys()) == set(OBJECT_DTYPE.names)
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


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (13, 17), (721, 1281)])
def test_frames_come_back_exactly_at_any_size(size):
    """The last has several tiles; the differences are taken modulo 256."""
    height, width = size
    root = zarr.create_group({})
    header = dataclasses.replace(HEADER, height=height, width=width, with_video=True)
    layout.build(root, header)
    frames = np.random.default_rng(0).integers(0, 256, (9, 3, height, width), np.uint8)
    frames[1] = 0
    written = ChunkedArray(layout.video_in(root), 0)
    written.append(frames)
    written.flush()
    np.testing.assert_array_equal(layout.video_in(root)[:], frames)


@others_are_warned
def test_frames_take_less_room_than_plain_ones():
    """Noise, as of a camera, leaves little to find but that colours and neighbours are alike."""
    picture = synthetic.landscape(120, 160, sigma=0.0).rgb.astype(np.int16)
    rng = np.random.default_rng(0)
    grain = np.rint(rng.normal(0.0, 3.0, (8, 120, 160, 1))).astype(np.int16)
    frames = np.clip(picture + grain, 0, 255).astype(np.uint8).transpose(0, 3, 1, 2)
    header = dataclasses.replace(HEADER, height=120, width=160, with_video=True)
    sizes = []
    for plain in (False, True):
        root = zarr.create_group({})
        layout.build(root, header)
        if plain:
            _keep_frames_plain(root)
        ChunkedArray(layout.video_in(root), 0).append(frames)
        sizes.append(root["0"].nbytes_stored())
    assert sizes[0] < 0.75 * sizes[1]


def _keep_frames_plain(root):
    """Replace the empty array of frames by one as earlier builds made it."""
    video = layout.video_in(root)
    root.create_array(
        "0",
        shape=video.shape,
        chunks=video.chunks,
        dtype=video.dtype,
        compressors=[ZstdCodec(level=1)],
        fill_value=0,
        dimension_names=("t", "c", "y", "x"),
        overwrite=True,
    )


def test_frames_of_earlier_builds_are_read_and_gone_on_with(tmp_path):
    header = dataclasses.replace(HEADER, with_video=True)
    expected = np.stack(list(moving_frames(13)))
    for name in ("at once", "resumed"):
        store.create(tmp_path / name, header, VERSION).release()
        make_older(tmp_path / name)
        _keep_frames_plain(zarr.open_group(str(tmp_path / name), mode="r+"))
        writer, state = store.resume(tmp_path / name, header, VERSION)
        if name == "resumed":
            fill(writer, 11)  # 8 of them are committed
            writer.release()
            assert open_volume(tmp_path / name).video.shape[0] == 8
            writer, state = store.resume(tmp_path / name, header, VERSION)
        fill(writer, 13, state=state)
        writer.finish("complete")
        np.testing.assert_array_equal(open_volume(tmp_path / name).video[:], expected)
    assert files(tmp_path / "at once") == files(tmp_path / "resumed")


def test_frames_are_read_by_zarr_alone(whole):
    """In a process that never saw this package: every codec is one that Zarr brings along."""
    program = (
        "import hashlib, sys, zarr\n"
        "frames = zarr.open(sys.argv[1], mode='r')['0'][:]\n"
        "assert 'aaams_stream' not in sys.modules\n"
        "print(frames.shape, hashlib.sha256(frames.tobytes()).hexdigest())"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, whole[0]], capture_output=True, text=True, check=True
    )
    expected = np.stack(list(moving_frames(29))).transpose(0, 3, 1, 2)
    digest = hashlib.sha256(expected.tobytes()).hexdigest()
    assert found.stdout.split("\n")[0] == f"{expected.shape} {digest}"


@others_are_warned
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


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")  # Zarr 3.1 warns of the frames' codec
def test_time_is_a_coordinate_in_xarray(whole):
    xarray = pytest.importorskip("xarray")
    path, results = whole
    tree = xarray.open_datatree(str(path), engine="zarr", consolidated=False, chunks=None)
    assert set(tree.coords) == {"time"}
    assert tree["0"].coords["time"].dims == ("t",)
    np.testing.assert_array_equal(tree["time"], np.arange(29) / 25)
    ids = tree["labels/ids/0"].assign_coords(time=tree["time"])
    at = ids.swap_dims(t="time").sel(time=0.4, method="nearest")
    np.testing.assert_array_equal(at, results[10].ids)
    assert {"segments", "events", "tracks", "hierarchy"} <= set(tree.children)
    tree.close()

"""What all formats have in common, and boxes, read back by the library their consumers use."""

from __future__ import annotations

import copy
import sys

import motmetrics
import numpy as np
import pytest

from aaams_stream import open_volume, store, stream
from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.export import export_volume


@pytest.mark.filterwarnings("ignore:Operation with tuple is deprecated")  # in motmetrics
def test_boxes_as_mot_read_back_equal(volume, tmp_path):
    export_volume(volume, "mot", tmp_path / "out.txt")
    back = motmetrics.io.loadtxt(tmp_path / "out.txt", fmt="mot15-2D")
    rows = volume.table("segments")
    assert back.index.to_list() == list(zip(rows["frame"] + 1, rows["id"], strict=True))
    boxes = back[["X", "Y", "Width", "Height"]].to_numpy()
    x0, y0, x1, y1 = rows["bbox"].T
    np.testing.assert_array_equal(boxes, np.stack([x0, y0, x1 - x0, y1 - y0], axis=1))


def test_export_volume_takes_an_unfinished_volume_only_on_demand(path, tmp_path):
    writer = store.create(tmp_path / "a.zarr", open_volume(path).header, "1")
    with pytest.raises(SinkError, match="holds no frames yet"):
        export_volume(open_volume(tmp_path / "a.zarr"), "mot", tmp_path / "a.txt")
    for frame in stream("demo", duration=8 / 24, size=(160, 120)):
        writer.append(frame, frame.time, frame.rgb)
    writer.commit({})
    with pytest.raises(SinkError, match=r"not complete \(8 frames so far\).*--partial"):
        export_volume(open_volume(tmp_path / "a.zarr"), "mot", tmp_path / "a.txt")
    volume = open_volume(tmp_path / "a.zarr")
    assert export_volume(volume, "mot", tmp_path / "a.txt", partial=True) == 8


@pytest.mark.parametrize(
    ("to", "module", "extra"),
    [("parquet", "pyarrow.parquet", "arrow"), ("rrd", "rerun", "rerun")],
)
def test_export_volume_names_a_missing_extra_and_writes_nothing(
    volume, tmp_path, monkeypatch, to, module, extra
):
    monkeypatch.setitem(sys.modules, module, None)
    name = tmp_path / ("a.rrd" if to == "rrd" else "a")
    with pytest.raises(ConfigError, match=rf"pip install 'aaams-stream\[{extra}\]'"):
        export_volume(volume, to, name)
    assert not any(tmp_path.iterdir())


def test_export_volume_never_replaces_the_source(volume, tmp_path):
    """A folder of images may be named as an export names its own."""
    images = tmp_path / "images"
    images.mkdir()
    (images / "00000.png").touch()
    made = copy.copy(volume)
    made.source = str(images / "*.png")
    with pytest.raises(SinkError, match="images: holds the source; choose another name"):
        export_volume(made, "png16", images, overwrite=True)
    assert (images / "00000.png").exists()

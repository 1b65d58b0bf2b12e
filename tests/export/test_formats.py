"""Exports, each read back by the library its consumers use."""

from __future__ import annotations

import csv
import json
import sys

import motmetrics
import numpy as np
import pandas
import polars
import pyarrow.parquet
import pytest
import rerun.chunk
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from pycocotools import mask as coco_masks

from aaams_stream import open_volume, segment_video, store
from aaams_stream.cli import main
from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.export import Selection, as_arrow, as_pandas, as_polars, export_volume
from aaams_stream.export.masks import _run_lengths, palette
from aaams_stream.export.tables import columns
from aaams_stream.model import SEGMENT_DTYPE

OLD_PYCOCOTOOLS = pytest.mark.filterwarnings("ignore::DeprecationWarning:pycocotools")
TABLES = ("segments", "adjacency", "events", "tracks")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    target = tmp_path_factory.mktemp("volume") / "demo.zarr"
    segment_video("demo", target, duration=0.5, size=(160, 120), with_video=True, segments=40)
    return target


@pytest.fixture
def volume(path):
    return open_volume(path)


def rows_of(volume, table):
    return volume.tracks if table == "tracks" else volume.table(table)


# Tables.


@pytest.mark.parametrize("table", TABLES)
def test_parquet_reads_back_equal(volume, tmp_path, table):
    export_volume(volume, "parquet", tmp_path / "out")
    back = pyarrow.parquet.read_table(tmp_path / "out" / f"{table}.parquet")
    expected = columns(rows_of(volume, table))
    assert back.column_names == list(expected)
    for name, values in expected.items():
        assert back[name].to_numpy().dtype == values.dtype
        np.testing.assert_array_equal(back[name].to_numpy(), values)


@pytest.mark.parametrize("table", TABLES)
def test_csv_reads_back_equal(volume, tmp_path, table):
    export_volume(volume, "csv", tmp_path / "out")
    with (tmp_path / "out" / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        names, *lines = csv.reader(file)
    expected = columns(rows_of(volume, table))
    assert names == list(expected)
    for name, texts in zip(names, zip(*lines, strict=True), strict=True):
        np.testing.assert_array_equal(np.array(texts).astype(expected[name].dtype), expected[name])


def test_tables_become_arrow_pandas_and_polars(volume):
    rows = volume.segments(3)
    for frame in (as_arrow(rows).to_pandas(), as_pandas(rows), as_polars(rows).to_pandas()):
        assert isinstance(frame, pandas.DataFrame)
        np.testing.assert_array_equal(frame["id"], rows["id"])
        np.testing.assert_array_equal(frame["bbox_x1"], rows["bbox"][:, 2])
        np.testing.assert_array_equal(frame["bandwidth_space_yy"], rows["bandwidth_space"][:, 2])
    assert as_polars(rows).schema["mode_L"] == polars.Float32


# Masks.


@OLD_PYCOCOTOOLS
def test_coco_reads_back_equal(volume, tmp_path):
    export_volume(volume, "coco", tmp_path / "out.json")
    document = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert document["videos"][0]["length"] == volume.frame_count
    back = np.zeros(volume.ids.shape, np.uint32)
    for track in document["annotations"]:
        for t, code in enumerate(track["segmentations"]):
            if code is None:
                assert track["bboxes"][t] is track["areas"][t] is None
                continue
            back[t] += coco_masks.decode(code).astype(np.uint32) * np.uint32(track["id"])
            assert coco_masks.area(code) == track["areas"][t]
            assert coco_masks.toBbox(code).tolist() == track["bboxes"][t]
    np.testing.assert_array_equal(back, volume.ids[:])


@given(
    hnp.arrays(
        np.int32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=40), elements=st.integers(0, 2)
    )
)
def test_run_lengths_are_those_of_coco(labels):
    present = [label for label in range(3) if (labels == label).any()]
    rows = np.zeros(len(present), SEGMENT_DTYPE)
    dense = np.searchsorted(present, labels).astype(np.int32)
    for row in range(len(present)):
        y, x = np.nonzero(dense == row)
        rows["bbox"][row] = x.min(), y.min(), x.max() + 1, y.max() + 1
    for row, text in enumerate(_run_lengths(dense, rows)):
        whole = np.asfortranarray(dense == row).astype(np.uint8, order="F")
        assert text == coco_masks.encode(whole)["counts"].decode("ascii")


@OLD_PYCOCOTOOLS
def test_run_lengths_of_many_segments_find_room():
    labels = np.arange(200 * 200, dtype=np.int32).reshape(200, 200) // 2
    rows = np.zeros(20000, SEGMENT_DTYPE)
    y, x = np.divmod(2 * np.arange(20000), 200)
    rows["bbox"] = np.stack([x, y, x + 2, y + 1], axis=1)
    texts = _run_lengths(labels, rows)
    decoded = coco_masks.decode({"size": [200, 200], "counts": texts[12345]})
    np.testing.assert_array_equal(decoded, labels == 12345)


def test_16_bit_png_reads_back_equal(volume, tmp_path):
    export_volume(volume, "png16", tmp_path / "out")
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == [f"{t:05d}.png" for t in range(volume.frame_count)]
    for t, file in enumerate(files):
        np.testing.assert_array_equal(np.asarray(Image.open(file)), volume.ids[t])


def test_davis_png_reads_back_equal(volume, tmp_path):
    export_volume(volume, "davis-png", tmp_path / "out")
    assert volume.tracks["id"].max() <= 255
    for t in range(volume.frame_count):
        picture = Image.open(tmp_path / "out" / f"{t:05d}.png")
        assert picture.mode == "P"
        np.testing.assert_array_equal(np.asarray(picture), volume.ids[t])
        np.testing.assert_array_equal(
            np.array(picture.getpalette()).reshape(-1, 3),
            palette()[: len(picture.getpalette()) // 3],
        )
    assert palette()[:4].tolist() == [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0]]


class Renamed:
    """A volume whose ids are larger by a constant."""

    def __init__(self, volume, by):
        self._volume, self._by = volume, np.uint32(by)
        self.ids = volume.ids[:] + self._by

    def __getattr__(self, name):
        return getattr(self._volume, name)

    @property
    def tracks(self):
        return self._raised(self._volume.tracks)

    def segments(self, t):
        return self._raised(self._volume.segments(t))

    def _raised(self, rows):
        rows["id"] += self._by
        return rows


def test_davis_png_counts_ids_beyond_255_and_says_which(volume, tmp_path):
    later = Renamed(volume, 1000)
    export_volume(later, "davis-png", tmp_path / "out")
    table = np.loadtxt(tmp_path / "out" / "ids.csv", delimiter=",", skiprows=1, dtype=np.uint32)
    assert table[:, 0].tolist() == list(range(1, len(table) + 1))
    names = np.append(0, table[:, 1])
    for t in range(volume.frame_count):
        pixels = np.asarray(Image.open(tmp_path / "out" / f"{t:05d}.png"))
        np.testing.assert_array_equal(names[pixels], later.ids[t])


def test_png_says_when_there_are_too_many_ids(volume, tmp_path, monkeypatch):
    monkeypatch.setattr("aaams_stream.export.masks.MOST_INDEXED", 10)
    with pytest.raises(SinkError, match=r"holds 10 ids.*--min-area"):
        export_volume(volume, "davis-png", tmp_path / "out")
    with pytest.raises(SinkError, match=r"up to 65535, and the largest is 7\d{4}"):
        export_volume(Renamed(volume, 70000), "png16", tmp_path / "out")
    assert not any(tmp_path.iterdir())


# Boxes and recordings.


@pytest.mark.filterwarnings("ignore:Operation with tuple is deprecated")  # in motmetrics
def test_mot_reads_back_equal(volume, tmp_path):
    export_volume(volume, "mot", tmp_path / "out.txt")
    back = motmetrics.io.loadtxt(tmp_path / "out.txt", fmt="mot15-2D")
    rows = volume.table("segments")
    assert back.index.to_list() == list(zip(rows["frame"] + 1, rows["id"], strict=True))
    boxes = back[["X", "Y", "Width", "Height"]].to_numpy()
    x0, y0, x1, y1 = rows["bbox"].T
    np.testing.assert_array_equal(boxes, np.stack([x0, y0, x1 - x0, y1 - y0], axis=1))


def test_a_recording_reads_back_equal(volume, tmp_path):
    export_volume(volume, "rrd", tmp_path / "out.rrd")
    found, names = {}, set()
    for chunk in rerun.chunk.RrdReader(tmp_path / "out.rrd").stream():
        batch = chunk.to_record_batch()
        if chunk.entity_path == "/video/ids":
            frames, buffers = batch.column("frame"), batch.column("SegmentationImage:buffer")
            for frame, buffer in zip(frames.to_pylist(), buffers.to_pylist(), strict=True):
                found[frame] = np.frombuffer(bytes(buffer[0]), np.uint16).reshape(120, 160)
        if chunk.entity_path == "/video/boxes":
            for labels in batch.column("Boxes2D:labels").to_pylist():
                names.update(map(int, labels))
    assert sorted(found) == list(range(volume.frame_count))
    for t, ids in found.items():
        np.testing.assert_array_equal(ids, volume.ids[t])
    assert names == set(volume.tracks["id"].tolist())


# Filters.


def test_filters_choose_by_area_life_and_time(volume, tmp_path):
    chosen = Selection(min_area=60, max_area=4000, min_life=6, start=0.125, duration=0.25)
    assert export_volume(volume, "png16", tmp_path / "out", chosen) == 6
    tracks = volume.tracks
    lasting = tracks["id"][tracks["frames"] >= 6]
    for t in range(3, 9):
        rows = volume.segments(t)
        keep = rows["id"][(rows["area"] >= 60) & (rows["area"] <= 4000)]
        keep = keep[np.isin(keep, lasting)]
        expected = np.where(np.isin(volume.ids[t], keep), volume.ids[t], 0)
        np.testing.assert_array_equal(
            np.asarray(Image.open(tmp_path / "out" / f"{t:05d}.png")), expected
        )
    assert len(list((tmp_path / "out").iterdir())) == 6

    export_volume(volume, "parquet", tmp_path / "tables", chosen)
    read = {name: pandas.read_parquet(tmp_path / "tables" / f"{name}.parquet") for name in TABLES}
    segments, pairs = read["segments"], read["adjacency"]
    assert segments["area"].between(60, 4000).all()
    assert set(segments["frame"]) == set(range(3, 9))
    passed = set(zip(segments["frame"], segments["id"], strict=True))
    assert set(zip(pairs["frame"], pairs["first"], strict=True)) <= passed
    assert set(zip(pairs["frame"], pairs["second"], strict=True)) <= passed
    assert set(read["tracks"]["id"]) == set(segments["id"])
    with pytest.raises(ConfigError, match="no frame between 9 s and inf s"):
        export_volume(volume, "csv", tmp_path / "no", Selection(start=9))
    with pytest.raises(ConfigError, match="min area must be >= 0, got -1"):
        Selection(min_area=-1)


# What goes wrong.


def run(capsys, *words):
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command_exports_and_reports(path, tmp_path, capsys):
    out = tmp_path / "boxes.txt"
    code, said, _ = run(capsys, "export", path, "--to", "mot", "-o", out, "--min-area", 9, "--json")
    assert code == 0
    assert json.loads(said)["frames"] == 12
    code, _, err = run(capsys, "export", path, "--to", "mot", "-o", out)
    assert (code, "--overwrite" in err) == (2, True)
    assert run(capsys, "export", path, "--to", "mot", "-o", out, "--overwrite", "--quiet")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.zarr", "--to", "mot", "-o", "a.txt"), "nowhere.zarr: no such volume"),
        (("VOLUME", "--to", "xml", "-o", "a"), "'xml' is no format; expected one of parquet"),
        (("VOLUME", "--to", "coco", "-o", "a.xml"), "must end in .json"),
        (("VOLUME", "--to", "csv", "-o", "no/where"), "does not exist; create it first"),
        (("VOLUME", "--to", "csv", "-o", "a", "--start", "99"), "no frame between"),
        (("VOLUME", "--to", "csv", "-o", "home", "--overwrite"), "holds thesis.tex, which no"),
        (("VOLUME", "--to", "coco", "-o", "home"), "is a folder, expected the name of a file"),
    ],
)
def test_errors_are_one_line_and_exit_2(path, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work", encoding="utf-8")
    words = [path if word == "VOLUME" else word for word in words]
    code, out, err = run(capsys, "export", *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert (tmp_path / "home" / "thesis.tex").exists()


def test_an_unfinished_volume_is_exported_only_on_demand(path, tmp_path):
    writer = store.create(tmp_path / "a.zarr", open_volume(path).header, "1")
    with pytest.raises(SinkError, match="holds no frames yet"):
        export_volume(open_volume(tmp_path / "a.zarr"), "mot", tmp_path / "a.txt")
    from aaams_stream import stream

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
def test_a_missing_extra_is_named(volume, tmp_path, monkeypatch, to, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    name = tmp_path / ("a.rrd" if to == "rrd" else "a")
    with pytest.raises(ConfigError, match=rf"pip install 'aaams-stream\[{extra}\]'"):
        export_volume(volume, to, name)
    assert not any(tmp_path.iterdir())

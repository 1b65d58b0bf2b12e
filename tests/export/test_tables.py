"""Tables, each read back by the library its consumers use."""

from __future__ import annotations

import csv

import numpy as np
import pandas
import polars
import pyarrow.parquet
import pytest

from aaams_stream import EventKind
from aaams_stream.export import as_arrow, as_pandas, as_polars, export_volume
from aaams_stream.export.tables import columns

TABLES = ("segments", "adjacency", "events", "tracks")


def rows_of(volume, table):
    return volume.tracks if table == "tracks" else volume.table(table)


@pytest.mark.parametrize("table", TABLES)
def test_tables_as_parquet_read_back_equal(volume, tmp_path, table):
    export_volume(volume, "parquet", tmp_path / "out")
    back = pyarrow.parquet.read_table(tmp_path / "out" / f"{table}.parquet")
    expected = columns(rows_of(volume, table))
    assert back.column_names == list(expected)
    for name, values in expected.items():
        if values.dtype.kind != "U":  # words are Python's own in Arrow
            assert back[name].to_numpy().dtype == values.dtype
        np.testing.assert_array_equal(back[name].to_numpy(), values)


@pytest.mark.parametrize("table", TABLES)
def test_tables_as_csv_read_back_equal(volume, tmp_path, table):
    export_volume(volume, "csv", tmp_path / "out")
    with (tmp_path / "out" / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        names, *lines = csv.reader(file)
    expected = columns(rows_of(volume, table))
    assert names == list(expected)
    for name, texts in zip(names, zip(*lines, strict=True), strict=True):
        np.testing.assert_array_equal(np.array(texts).astype(expected[name].dtype), expected[name])


def test_tables_have_words_for_kinds_of_events(volume, tmp_path):
    export_volume(volume, "csv", tmp_path / "out")
    events = pandas.read_csv(tmp_path / "out" / "events.csv")
    kinds = [EventKind(kind).name.lower() for kind in volume.events["kind"]]
    assert events["kind"].to_list() == kinds
    assert {"birth", "death"} <= set(kinds)
    ends = pandas.read_csv(tmp_path / "out" / "tracks.csv")["end"]
    lives = volume.tracks["end"] == 0
    assert set(ends[lives]) == {"alive"}
    assert set(ends[~lives]) <= {"death", "merge", "cut"}
    for frame in (as_arrow(volume.events).to_pandas(), as_pandas(volume.events)):
        assert frame["kind"].to_list() == kinds
    assert as_polars(volume.events)["kind"].to_list() == kinds


def test_tables_become_arrow_pandas_and_polars(volume):
    rows = volume.segments(3)
    for frame in (as_arrow(rows).to_pandas(), as_pandas(rows), as_polars(rows).to_pandas()):
        assert isinstance(frame, pandas.DataFrame)
        np.testing.assert_array_equal(frame["id"], rows["id"])
        np.testing.assert_array_equal(frame["bbox_x1"], rows["bbox"][:, 2])
        np.testing.assert_array_equal(frame["bandwidth_space_yy"], rows["bandwidth_space"][:, 2])
    assert as_polars(rows).schema["mode_L"] == polars.Float32

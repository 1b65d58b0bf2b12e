"""What of a volume passes: by area, by life, by time."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from PIL import Image

from aaams_stream.errors import ConfigError
from aaams_stream.export import Selection, export_volume
from aaams_stream.export.tables import TABLES

MIDDLE = Selection(min_area=60, max_area=4000, min_life=6, start=0.125, duration=0.25)


def test_selection_chooses_masks_by_area_life_and_time(volume, tmp_path):
    assert export_volume(volume, "png16", tmp_path / "out", MIDDLE) == 6
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


def test_selection_chooses_rows_of_tables_of_which_both_ends_pass(volume, tmp_path):
    export_volume(volume, "parquet", tmp_path / "tables", MIDDLE)
    read = {name: pandas.read_parquet(tmp_path / "tables" / f"{name}.parquet") for name in TABLES}
    segments, pairs = read["segments"], read["adjacency"]
    assert segments["area"].between(60, 4000).all()
    assert set(segments["frame"]) == set(range(3, 9))
    passed = set(zip(segments["frame"], segments["id"], strict=True))
    assert set(zip(pairs["frame"], pairs["first"], strict=True)) <= passed
    assert set(zip(pairs["frame"], pairs["second"], strict=True)) <= passed
    assert set(read["tracks"]["id"]) == set(segments["id"])


def test_selection_refuses_a_stretch_without_frames(volume, tmp_path):
    with pytest.raises(ConfigError, match="no frame between 9 s and inf s"):
        export_volume(volume, "csv", tmp_path / "no", Selection(start=9))


def test_selection_refuses_bounds_below_zero():
    with pytest.raises(ConfigError, match="min area must be >= 0, got -1"):
        Selection(min_area=-1)

"""Masks, each read back by the library its consumers use."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from pycocotools import mask as coco_masks

from aaams_stream.errors import SinkError
from aaams_stream.export import Selection, export_volume
from aaams_stream.export.masks import _run_lengths, palette
from aaams_stream.model import SEGMENT_DTYPE

OLD_PYCOCOTOOLS = pytest.mark.filterwarnings("ignore::DeprecationWarning:pycocotools")


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


@OLD_PYCOCOTOOLS
def test_masks_as_coco_read_back_equal(volume, tmp_path):
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


def test_masks_as_16_bit_png_read_back_equal(volume, tmp_path):
    export_volume(volume, "png16", tmp_path / "out")
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == [f"{t:05d}.png" for t in range(volume.frame_count)]
    for t, file in enumerate(files):
        np.testing.assert_array_equal(np.asarray(Image.open(file)), volume.ids[t])


def test_masks_as_davis_png_read_back_equal(volume, tmp_path):
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


def test_masks_as_davis_png_count_ids_beyond_255_and_say_which(volume, tmp_path):
    later = Renamed(volume, 1000)
    export_volume(later, "davis-png", tmp_path / "out")
    table = np.loadtxt(tmp_path / "out" / "ids.csv", delimiter=",", skiprows=1, dtype=np.uint32)
    assert table[:, 0].tolist() == list(range(1, len(table) + 1))
    names = np.append(0, table[:, 1])
    for t in range(volume.frame_count):
        pixels = np.asarray(Image.open(tmp_path / "out" / f"{t:05d}.png"))
        np.testing.assert_array_equal(names[pixels], later.ids[t])


def test_masks_as_png_say_when_there_are_too_many_ids(volume, tmp_path, monkeypatch):
    monkeypatch.setattr("aaams_stream.export.masks.MOST_INDEXED", 10)
    with pytest.raises(SinkError, match=r"holds 10 ids.*--min-area"):
        export_volume(volume, "davis-png", tmp_path / "out")
    with pytest.raises(SinkError, match=r"up to 65535, and the largest is 7\d{4}"):
        export_volume(Renamed(volume, 70000), "png16", tmp_path / "out")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("by", [0, 5000])
def test_masks_as_mots_png_read_back_equal(volume, tmp_path, by):
    later = Renamed(volume, by)
    export_volume(later, "mots-png", tmp_path / "out")
    names = np.arange(1000)
    if by:
        table = np.loadtxt(tmp_path / "out" / "ids.csv", delimiter=",", skiprows=1, dtype=np.uint32)
        names = np.append(0, table[:, 1])
    for t in range(volume.frame_count):
        # as the devkit of MOTS reads them
        pixels = np.array(Image.open(tmp_path / "out" / f"{t:06d}.png"))
        assert set(np.unique(pixels // 1000)) == {1}
        np.testing.assert_array_equal(names[pixels % 1000], later.ids[t])


def test_masks_as_mots_png_are_0_where_nothing_passes(volume, tmp_path):
    export_volume(volume, "mots-png", tmp_path / "out", Selection(min_area=300))
    pixels = np.array(Image.open(tmp_path / "out" / "000003.png"))
    large = volume.segments(3)["id"][volume.segments(3)["area"] >= 300]
    expected = np.where(np.isin(volume.ids[3], large), volume.ids[3] + 1000, 0)
    np.testing.assert_array_equal(pixels, expected)
    assert 0 in expected


def test_masks_as_coco_name_the_pictures_and_their_times(volume, tmp_path):
    names = [f"clip/{t:03d}.png" for t in range(volume.frame_count)]
    export_volume(volume, "coco", tmp_path / "out.json", Selection(start=0.25), pictures=names)
    video = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["videos"][0]
    assert video["file_names"] == names[6:]
    assert video["times"] == volume.times[6:].tolist()

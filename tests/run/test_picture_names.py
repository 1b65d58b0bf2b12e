"""Names of the images a volume was made from, as exports give them."""

from __future__ import annotations

import json

import pytest
from support.clips import moving_frames

from aaams_stream import open_volume, segment_video
from aaams_stream.cli import main
from aaams_stream.files import encode_image
from aaams_stream.run.picture_names import picture_names


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "pictures"
    place.mkdir()
    for number, rgb in enumerate(moving_frames(9), start=3):
        name = place / f"shot {number}.png"
        name.write_bytes(encode_image(name, rgb))
    return place


def names_in(folder, tmp_path, source=None, **clip):
    path = tmp_path / "out.zarr"
    segment_video(source or folder, path, overwrite=True, **clip)
    return picture_names(open_volume(path))


def test_names_are_those_of_a_folder_in_its_order(folder, tmp_path):
    assert names_in(folder, tmp_path) == [f"shot {number}.png" for number in range(3, 12)]


def test_names_heed_the_stretch_and_what_is_left_out(folder, tmp_path):
    found = names_in(folder, tmp_path, start=0.08, every=3)
    assert found == ["shot 5.png", "shot 8.png", "shot 11.png"]


def test_names_skip_an_image_that_does_not_decode(folder, tmp_path):
    (folder / "shot 4.png").write_bytes(b"no picture")
    found = names_in(folder, tmp_path)
    assert found[:3] == ["shot 3.png", "shot 5.png", "shot 6.png"]


def test_names_of_a_pattern_lie_below_the_folder_they_share(folder, tmp_path):
    (tmp_path / "more").mkdir()
    (folder / "shot 3.png").rename(tmp_path / "more" / "shot 3.png")
    found = names_in(folder, tmp_path, source=str(tmp_path / "*" / "*.png"))
    assert found[:2] == ["more/shot 3.png", "pictures/shot 4.png"]


def test_names_are_unknown_of_a_film_or_where_images_changed(folder, tmp_path):
    assert names_in(folder, tmp_path, source="demo", duration=0.1, size=(64, 48)) is None
    names_in(folder, tmp_path)
    (folder / "shot 1.png").write_bytes((folder / "shot 3.png").read_bytes())
    assert picture_names(open_volume(tmp_path / "out.zarr")) is None


def test_export_as_coco_gives_the_names(folder, tmp_path, capsys):
    segment_video(folder, tmp_path / "a.zarr")
    words = ["export", tmp_path / "a.zarr", "--to", "coco", "-o", tmp_path / "a.json", "--quiet"]
    assert main([str(word) for word in words]) == 0
    video = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["videos"][0]
    assert video["file_names"][0] == "shot 3.png"
    assert video["times"][2] == pytest.approx(0.08)

"""Names of files as users give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aaams_stream import Params, Segmenter, open_volume, segment_video, stream
from aaams_stream.errors import AaamsError, ConfigError
from aaams_stream.paths import expanded


def test_expanded_writes_the_home_folder_out(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USERPROFILE", "/home/me")
    assert expanded("~/a.mp4") == Path("/home/me/a.mp4")
    assert expanded(Path("a")) == Path("a")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("~nobody-of-that-name/x", "is nobody's folder here"),
        ("a\0b", "NUL character"),
        (7, "expected the name of a file or folder, got int"),
        (np.zeros((2, 3)), r"got ndarray of shape \(2, 3\)"),
    ],
)
def test_expanded_refuses_what_no_file_can_be_named(name, message):
    with pytest.raises(ConfigError, match=message):
        expanded(name)


def test_an_address_is_never_taken_for_a_folder_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("s3://bucket/clip.zarr", Path("s3://bucket/clip.zarr")):
        with pytest.raises(ConfigError, match="is an address"):
            expanded(name)
    with pytest.raises(AaamsError, match=r"nothing://bucket/clip\.zarr"):
        segment_video("demo", "nothing://bucket/clip.zarr", duration=0.1, size=(64, 48))
    with pytest.raises(ConfigError, match="is an address"):
        segment_video("demo", Path("s3://bucket/clip.zarr"))
    assert list(tmp_path.iterdir()) == []


WRONG = ["~nobody-of-that-name/x", "a\0b", 7, np.zeros((2, 3))]


@pytest.mark.parametrize("name", WRONG, ids=["user", "nul", "number", "array"])
def test_every_door_says_clearly_that_a_name_is_wrong(name, tmp_path):
    doors = [
        lambda: segment_video(name, tmp_path / "a.zarr"),
        lambda: segment_video("demo", name),
        lambda: segment_video("demo", tmp_path / "a.zarr", overlay=name),
        lambda: segment_video("demo", tmp_path / "a.zarr", params=name),
        lambda: next(stream(name)),
        lambda: open_volume(name),
        lambda: Params.load(name),
    ]
    for door in doors:
        with pytest.raises(AaamsError) as caught:
            door()
        assert len(str(caught.value)) < 200
    assert list(tmp_path.iterdir()) == []


def test_settings_as_a_plain_dict_are_refused_with_a_word_about_what_takes_them():
    with pytest.raises(ConfigError, match=r"got dict; Params\(\)\.updated\(\{\.\.\.\}\)"):
        Segmenter({"stream": {"segments": 9}})

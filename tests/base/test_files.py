"""Picture and label files: encoded, written whole or not at all, checked beforehand."""

from __future__ import annotations

import os

import numpy as np
import pytest

from aaams_stream import files
from aaams_stream.errors import ConfigError, SinkError, SourceError
from aaams_stream.source.images import read_image

RGB = np.random.default_rng(0).integers(0, 256, (12, 17, 3), np.uint8)


def test_encode_labels_gives_labels_back_from_both_formats(tmp_path):
    labels = np.arange(300, dtype=np.uint32).reshape(15, 20) * 200
    for name, dtype in (("a.png", np.uint16), ("a.npy", np.uint32)):
        path = tmp_path / name
        files.write_files({path: files.encode_labels(path, labels)})
        found = np.load(path) if name.endswith("npy") else read_image(path)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, labels)


def test_encode_labels_names_the_other_format_where_sixteen_bits_are_too_few(tmp_path):
    labels = np.arange(65_537, dtype=np.uint32).reshape(1, -1)
    with pytest.raises(SinkError, match=r"holds 65536 labels, got 65537; write a\.npy instead"):
        files.encode_labels(tmp_path / "a.png", labels)
    assert files.encode_labels(tmp_path / "a.png", labels[:, :-1])
    assert files.encode_labels(tmp_path / "a.npy", labels)


def test_check_target_refuses_what_cannot_be(tmp_path):
    suffixes = (".png", ".npy")
    assert files.check_target(tmp_path / "a.PNG", suffixes) == tmp_path / "a.PNG"
    with pytest.raises(ConfigError, match=r"must end in \.png or \.npy, got \.jpg"):
        files.check_target(tmp_path / "a.jpg", suffixes)
    with pytest.raises(ConfigError, match="got no suffix"):
        files.check_target(tmp_path / "a", suffixes)
    deep = tmp_path / "to be" / "made" / "a.png"
    assert files.check_target(deep, suffixes) == deep
    assert not deep.parent.exists()
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match=r"file/a\.png: .*file is not a folder"):
        files.check_target(tmp_path / "file" / "a.png", suffixes)
    (tmp_path / "b.png").mkdir()
    with pytest.raises(SinkError, match="is a folder, expected the name of a file"):
        files.check_target(tmp_path / "b.png", suffixes)


def test_check_target_refuses_what_may_not_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(SinkError, match="no permission to write there"):
        files.check_target(tmp_path / "a.png", (".png",))


def test_check_target_refuses_a_pattern_of_what_is_there(tmp_path):
    assert files.check_target(tmp_path / "*.png", None) == tmp_path / "*.png"
    (tmp_path / "a.png").touch()
    with pytest.raises(SinkError, match=r"\*\.png: is a pattern of files that are there"):
        files.check_target(tmp_path / "*.png", None)


def test_check_target_spares_what_is_there_unless_it_may_be_replaced(tmp_path):
    file, full, empty = tmp_path / "a.png", tmp_path / "full", tmp_path / "empty"
    file.touch()
    full.mkdir()
    empty.mkdir()
    (full / "b.png").touch()
    for path, suffixes in ((file, [".png"]), (full, None)):
        assert files.check_target(path, suffixes) == path
        with pytest.raises(SinkError, match="exists; --overwrite replaces it"):
            files.check_target(path, suffixes, overwrite=False)
    assert files.check_target(empty, None, overwrite=False) == empty
    with pytest.raises(SinkError, match="is a file, expected the name of a folder"):
        files.check_target(file, None)


def test_check_target_keeps_away_from_what_is_precious(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, volume = tmp_path / "a.png", tmp_path / "a.zarr"
    apart = {"the source": source, "nothing": None}  # the source need not be there
    with pytest.raises(SinkError, match=r"a\.png: is the source; choose another name"):
        files.check_target("a.png", [".png"], apart=apart)
    source.touch()
    (tmp_path / "link.png").symlink_to(source)
    with pytest.raises(SinkError, match=r"link\.png: is the source"):
        files.check_target("link.png", [".png"], apart=apart)
    for inside in ("a.zarr", "a.zarr/deep/b.png"):
        with pytest.raises(SinkError, match="lies in the volume; choose another name"):
            files.check_target(inside, [".png"], outside={"the volume": volume})
    assert files.check_target("b.png", [".png"], apart=apart, outside={"the volume": volume})


def test_check_target_refuses_a_name_that_is_too_long(tmp_path):
    with pytest.raises(SinkError, match="cannot be written"):
        files.check_target(tmp_path / f"{'x' * 300}.png", [".png"])


def test_draft_becomes_the_file_or_folder_once_it_is_whole(tmp_path):
    file, folder = tmp_path / "made" / "a.png", tmp_path / "folder"
    for content in (b"first", b"second"):
        with files.Draft(file) as draft:
            assert draft.suffix == ".png"
            draft.write_bytes(content)
            assert not file.exists() or file.read_bytes() == b"first"
        with files.Draft(folder) as draft:
            draft.mkdir()
            (draft / content.decode()).touch()
        assert file.read_bytes() == content
        assert [entry.name for entry in folder.iterdir()] == [content.decode()]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "made"]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(28, "No space left on device"), SinkError),
        (SourceError("gone"), SourceError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_draft_leaves_nothing_behind_after_an_error(tmp_path, error, raised):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "before").touch()

    def fail():
        with files.Draft(kept) as draft:
            draft.mkdir()
            (draft / "after").touch()
            raise error

    with pytest.raises(raised):
        fail()
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]
    assert [entry.name for entry in kept.iterdir()] == ["before"]


def test_write_files_writes_all_or_none(tmp_path):
    kept = tmp_path / "kept.png"
    kept.write_bytes(b"before")
    with pytest.raises(SinkError, match=r"kept\.png/b\.png: cannot be written \("):
        files.write_files({kept: b"after", kept / "b.png": b"after"})
    assert kept.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.png"]
    files.write_files({kept: b"after"})
    assert kept.read_bytes() == b"after"


def test_write_files_leaves_nothing_behind_on_a_full_disk(tmp_path, monkeypatch):
    def fail(self, data):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(tmp_path), "write_bytes", fail)
    with pytest.raises(SinkError, match=r"a\.png: cannot be written \(No space left on device\)"):
        files.write_files({tmp_path / "a.png": b"x"})
    assert list(tmp_path.iterdir()) == []


def test_draft_gives_back_the_folder_that_stood_there_when_it_cannot_take_its_place(
    tmp_path, monkeypatch
):
    target = tmp_path / "out"
    target.mkdir()
    (target / "kept").touch()
    replace = type(tmp_path).replace

    def fail(path, other):
        if path.name.endswith(".part") and other == target:
            raise OSError(28, "No space left on device")
        return replace(path, other)

    monkeypatch.setattr(type(tmp_path), "replace", fail)
    with pytest.raises(SinkError, match="out: cannot be written"), files.Draft(target) as folder:
        folder.mkdir()
    assert [path.name for path in target.iterdir()] == ["kept"]
    assert list(tmp_path.iterdir()) == [target]

"""One image out of a file: upright, as deep as it is, or a clear error."""

from __future__ import annotations

import struct

import cv2
import numpy as np
import pytest

from aaams_stream.errors import SourceError
from aaams_stream.source.images import read_image

RGB = np.random.default_rng(0).integers(0, 256, (12, 17, 3), np.uint8)


def save(path, pixels):
    """Write RGB, RGBA or grey pixels in the format of the suffix."""
    order = {3: cv2.COLOR_RGB2BGR, 4: cv2.COLOR_RGBA2BGRA}
    if pixels.ndim == 3:
        pixels = cv2.cvtColor(pixels, order[pixels.shape[2]])
    assert cv2.imwrite(str(path), pixels)
    return path


@pytest.mark.parametrize("suffix", ["png", "tif", "bmp"])
def test_read_image_gives_colours_in_rgb_order(tmp_path, suffix):
    path = save(tmp_path / f"a.{suffix}", RGB)
    np.testing.assert_array_equal(read_image(path), RGB)
    np.testing.assert_array_equal(read_image(str(path)), RGB)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(12, 17), (12, 17, 3), (12, 17, 4), (1, 1), (1, 40, 3)])
def test_read_image_keeps_depth_grey_and_alpha(tmp_path, dtype, shape):
    pixels = np.random.default_rng(1).integers(0, np.iinfo(dtype).max, shape).astype(dtype)
    found = read_image(save(tmp_path / "a.png", pixels))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, pixels)


def with_orientation(jpeg: bytes, orientation: int) -> bytes:
    """Return the JPEG with an EXIF segment that says how to turn it."""
    entry = struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0)
    exif = b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 1) + entry + struct.pack(">I", 0)
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


@pytest.mark.parametrize(("orientation", "turns"), [(1, 0), (3, 2), (6, -1), (8, 1)])
def test_read_image_turns_a_photograph_upright(tmp_path, orientation, turns):
    rgb = np.full((16, 32, 3), 40, np.uint8)
    rgb[:8, :8] = (250, 240, 230)
    jpeg = cv2.imencode(".jpg", rgb)[1].tobytes()
    path = tmp_path / "photo.jpg"
    path.write_bytes(with_orientation(jpeg, orientation))
    found = read_image(path)
    expected = np.rot90(rgb, turns)
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected).mean() < 10


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "bmp", "webp"])
def test_read_image_refuses_a_truncated_file_and_codecs_keep_quiet(tmp_path, suffix, capfd):
    rough = np.random.default_rng(2).integers(0, 256, (64, 64, 3), np.uint8)
    path = save(tmp_path / f"a.{suffix}", rough)
    data = path.read_bytes()
    for share in (0.3, 0.6, 0.9):
        path.write_bytes(data[: int(len(data) * share)])
        with pytest.raises(SourceError, match=r"a\.\w+: (the image is truncated|cannot decode)"):
            read_image(path)
    assert capfd.readouterr().err == ""


def test_read_image_refuses_what_is_no_image_by_name(tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("hello", encoding="utf-8")
    (tmp_path / "clip.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    save(tmp_path / "float.tiff", np.zeros((4, 4), np.float32))
    for name, message in [
        ("empty.png", "the file is empty"),
        ("text.png", "cannot decode the image"),
        ("clip.mp4", "is a video, expected one image"),
        ("float.tiff", "expected 8 or 16 bits per channel, got float32"),
        ("missing.png", "no such file"),
        (".", "is a folder, expected one image file"),
    ]:
        with pytest.raises(SourceError, match=message) as raised:
            read_image(tmp_path / name)
        assert str(raised.value).startswith(str(tmp_path / name))

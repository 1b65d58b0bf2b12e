"""Picture and label files: read upright, written whole or not at all. Knows OpenCV's codecs."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import ConfigError, SinkError, SourceError

LABEL_SUFFIXES = (".png", ".npy")
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
MOST_PNG_LABELS = 65_536  # what 16 bits can number
_VIDEO_SUFFIXES = {".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpg", ".mpeg", ".ts", ".webm", ".y4m"}


def read_image(path: str | Path) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """Return the picture in a file, upright: (h, w), (h, w, 3) or (h, w, 4) in RGB order.

    8 and 16 bits per channel are kept, and so is alpha. A photograph is turned as its EXIF
    orientation says. A file that ends too soon is an error, not a picture with a grey rest.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except IsADirectoryError as error:
        raise SourceError(f"{path}: is a folder, expected one image file") from error
    except FileNotFoundError as error:
        raise SourceError(f"{path}: no such file") from error
    except OSError as error:
        raise SourceError(f"{path}: cannot read the image ({error.strerror})") from error
    if not data:
        raise SourceError(f"{path}: the file is empty, expected an image")
    if _ends_too_soon(data):
        raise SourceError(f"{path}: the image is truncated; fetch or save it again")
    # Without UNCHANGED OpenCV drops alpha, with it the EXIF orientation; JPEG has no alpha.
    decoded = None if data.startswith(b"\xff\xd8") else _decode(data, cv2.IMREAD_UNCHANGED)
    if decoded is None or decoded.ndim != 3 or decoded.shape[2] != 4:
        decoded = _decode(data, cv2.IMREAD_ANYCOLOR | cv2.IMREAD_ANYDEPTH)
    if decoded is None:
        if path.suffix.lower() in _VIDEO_SUFFIXES:
            raise SourceError(f"{path}: is a video, expected one image; see aaams-stream segment")
        raise SourceError(f"{path}: cannot decode the image; expected PNG, JPEG, TIFF or the like")
    if decoded.dtype not in (np.uint8, np.uint16):
        raise SourceError(
            f"{path}: expected 8 or 16 bits per channel, got {decoded.dtype}; convert it first"
        )
    if decoded.ndim == 2:
        return decoded
    order = cv2.COLOR_BGRA2RGBA if decoded.shape[2] == 4 else cv2.COLOR_BGR2RGB
    rgb: NDArray[Any] = cv2.cvtColor(decoded, order)
    return rgb


def encode_image(path: Path, rgb: NDArray[np.uint8]) -> bytes:
    """Return a picture (h, w, 3) as a file in the format of the path's suffix."""
    return _encode(path, cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))


def encode_labels(path: Path, labels: NDArray[np.uint32]) -> bytes:
    """Return labels (h, w) as a file: `.png` with 16-bit grey levels, `.npy` with uint32."""
    if path.suffix.lower() == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, labels.astype(np.uint32, copy=False))
        return buffer.getvalue()
    count = int(labels.max()) + 1
    if count > MOST_PNG_LABELS:
        raise SinkError(
            f"{path}: a 16-bit PNG holds {MOST_PNG_LABELS} labels, got {count}; "
            f"write {path.with_suffix('.npy').name} instead, or ask for fewer segments"
        )
    return _encode(path, labels.astype(np.uint16))


def encode_mask(path: Path, mask: NDArray[np.bool_]) -> bytes:
    """Return a mask (h, w) as a file: 255 where it is, 0 elsewhere."""
    return _encode(path, mask.astype(np.uint8) * np.uint8(255))


def draw_boundaries(
    image: NDArray[np.uint8] | NDArray[np.uint16], labels: NDArray[np.uint32]
) -> NDArray[np.uint8]:
    """Return the picture (h, w, 3) with a bright line along the edges between labels.

    image (h, w, 3) is uint8 or uint16. Line pixels are the first of the label to the right or
    below, so that lines are one pixel wide.
    """
    rgb = image if image.dtype == np.uint8 else (image >> 8).astype(np.uint8)
    edge = np.zeros(labels.shape, np.bool_)
    edge[:, 1:] |= labels[:, 1:] != labels[:, :-1]
    edge[1:] |= labels[1:] != labels[:-1]
    # Yellow where it is dark, near black where it is bright: seen on any ground.
    bright = rgb.astype(np.float32) @ np.array([0.30, 0.59, 0.11], np.float32) > 150
    drawn = rgb.astype(np.uint8, copy=True)
    drawn[edge & bright] = (30, 10, 60)
    drawn[edge & ~bright] = (255, 225, 40)
    return drawn


def check_output(path: str | Path, suffixes: Sequence[str]) -> Path:
    """Return the path if a file can be put there; say what is wrong before anything is computed.

    Folders that are missing are no mistake: `write_files` makes them.
    """
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        found = path.suffix or "no suffix"
        raise ConfigError(f"{path}: the output must end in {' or '.join(suffixes)}, got {found}")
    if path.is_dir():
        raise SinkError(f"{path}: is a folder, expected the name of a file")
    there = next(place for place in (path, *path.parents) if place.exists())
    if there != path and not there.is_dir():
        raise SinkError(f"{path}: {there} is not a folder")
    if not os.access(there, os.W_OK):
        raise SinkError(f"{path}: no permission to write there")
    return path


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files whole, or none: drafts in the same folders first, moved into place last.

    Missing folders are made.
    """
    drafts = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in files}
    path = Path()
    try:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            drafts[path].write_bytes(data)
        for path, draft in drafts.items():
            os.replace(draft, path)
    except OSError as error:
        raise SinkError(f"{path}: cannot write ({error.strerror})") from error
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def _ends_too_soon(data: bytes) -> bool:
    """Tell whether a JPEG lacks its end after the last scan, or a PNG its last chunk."""
    if data.startswith(b"\xff\xd8"):
        return data.rfind(b"\xff\xd9") < data.rfind(b"\xff\xda")
    return data.startswith(b"\x89PNG\r\n\x1a\n") and b"IEND" not in data


def _decode(data: bytes, flags: int) -> NDArray[Any] | None:
    """Decode, or return None; what the codecs print is passed on only if a picture came out."""
    decoded: NDArray[Any] | None = None
    with tempfile.TemporaryFile() as log:
        with _diverted(2, log.fileno()), suppress(cv2.error):
            decoded = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        log.seek(0)
        if decoded is not None:
            with suppress(OSError):
                os.write(2, log.read())
    return decoded


@contextmanager
def _diverted(stream: int, target: int) -> Iterator[None]:
    """Let a file descriptor lead to another one for a while: codecs print from C."""
    try:
        kept = os.dup(stream)
    except OSError:  # closed, so there is nothing to divert
        yield
        return
    os.dup2(target, stream)
    try:
        yield
    finally:
        os.dup2(kept, stream)
        os.close(kept)


def _encode(path: Path, pixels: NDArray[Any]) -> bytes:
    try:
        done, data = cv2.imencode(path.suffix.lower(), pixels)
    except cv2.error as error:
        raise SinkError(f"{path}: cannot encode the picture ({error.err})") from error
    if not done:
        raise SinkError(f"{path}: cannot encode the picture")
    return data.tobytes()

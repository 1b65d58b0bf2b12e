"""One image out of a file. What OpenCV's decoders know ends here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import SourceError
from aaams_stream.paths import expanded

_VIDEO_SUFFIXES = {".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpg", ".mpeg", ".ts", ".webm", ".y4m"}


def read_image(path: str | Path) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """Read the picture in a file, upright.

    8 and 16 bits per channel are kept, and so is alpha. A photograph is turned as its EXIF
    orientation says. A file that ends too soon is an error, not a picture with a grey rest.

    Args:
        path: an image file: PNG, JPEG, TIFF, WebP or what else OpenCV reads.

    Returns:
        (h, w), (h, w, 3) or (h, w, 4) in RGB order, uint8 or uint16.

    Raises:
        SourceError: there is no such file, or no whole picture in it.

    Example:
        >>> import cv2
        >>> import numpy as np
        >>> import aaams_stream as aaams
        >>> _ = cv2.imwrite("photo.png", np.zeros((40, 60, 3), np.uint8))
        >>> rgb = aaams.read_image("photo.png")
        >>> rgb.shape, aaams.segment_image(rgb).count
        ((40, 60, 3), 1)
    """
    path = expanded(path)
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

"""Files that are written: whole or not at all, checked beforehand; pictures are encoded here."""

from __future__ import annotations

import glob
import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import AaamsError, ConfigError, SinkError
from aaams_stream.paths import expanded

LABEL_SUFFIXES = (".png", ".npy")
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
MOST_PNG_LABELS = 65_536  # what 16 bits can number


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


class Draft:
    """A file or folder in the making, beside the name it gets once it is whole.

    As a context manager it gives the path to write under: at the end what is there takes the place
    of `path`; after an error nothing is left of it, and what stood there before still does. The
    draft has the suffix of `path`, by which many libraries choose a format. Missing folders are
    made. Errors of the system become SinkErrors that name `path`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
        self._target = path
        with _sink_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.keep()
            return
        self.drop()
        with _sink_errors(self._target):
            raise error  # as it is, or as a SinkError

    def keep(self) -> None:
        """Move what was written into its place; on error remove it."""
        try:
            with _sink_errors(self._target):
                if self.path.is_dir() and self._target.is_dir():
                    # out of the way first: a folder is replaced only if it is empty
                    old = self.path.with_name(f"{self.path.name}.old")
                    self._target.replace(old)
                    try:
                        self.path.replace(self._target)
                    except BaseException:
                        old.replace(self._target)
                        raise
                    shutil.rmtree(old, ignore_errors=True)
                else:
                    self.path.replace(self._target)
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Remove what was written."""
        if self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files whole, or none: nothing is moved into its place before all are written."""
    with ExitStack() as stack:
        for path, data in files.items():
            stack.enter_context(Draft(path)).write_bytes(data)


def check_target(
    path: str | Path,
    suffixes: Sequence[str] | None,
    *,
    overwrite: bool = True,
    apart: Mapping[str, Path | None] | None = None,
    outside: Mapping[str, Path | None] | None = None,
    ours: re.Pattern[str] | None = None,
) -> Path:
    """Return the path if an output can be put there; say what is wrong before anything is computed.

    suffixes: what the name of a file may end in; None for a folder, which may be there if it is
    empty. overwrite: whether what is there may be replaced. apart: what must not be replaced in any
    case, nor lie in a folder that is. outside: what it must not lie in. Both map words to paths:
    "the source" to clip.mp4. ours: how all is named in a folder that may be replaced. Missing
    folders are no mistake: `Draft` makes them.
    """
    path = expanded(path)
    require_no_pattern(path)
    with _sink_errors(path):
        place = path.resolve()
        for what, other in (apart or {}).items():
            if other is not None and _same(place, other):
                raise SinkError(f"{path}: is {what}; choose another name")
            if suffixes is None and other is not None and place in other.resolve().parents:
                raise SinkError(f"{path}: holds {what}; choose another name")
        for what, other in (outside or {}).items():
            if other is not None and other.resolve() in (place, *place.parents):
                raise SinkError(f"{path}: lies in {what}; choose another name")
        if suffixes is not None and path.is_dir():
            raise SinkError(f"{path}: is a folder, expected the name of a file")
        if suffixes is not None and path.suffix.lower() not in suffixes:
            wanted, found = " or ".join(suffixes), path.suffix or "no suffix"
            raise ConfigError(f"{path}: the output must end in {wanted}, got {found}")
        if suffixes is None and path.exists() and not path.is_dir():
            raise SinkError(f"{path}: is a file, expected the name of a folder")
        if not overwrite and (any(path.iterdir()) if path.is_dir() else path.exists()):
            raise SinkError(f"{path}: exists; --overwrite replaces it")
        if ours is not None and path.is_dir():
            strange = [entry.name for entry in path.iterdir() if not ours.fullmatch(entry.name)]
            if strange:
                raise SinkError(
                    f"{path}: holds {min(strange)}, which is not of an earlier run; choose another "
                    "folder"
                )
        there = next(found for found in (path, *path.parents) if found.exists())
        if there != path and not there.is_dir():
            raise SinkError(f"{path}: {there} is not a folder, so this cannot be written there")
        folder = there if there != path else path.parent  # where the draft is made
        if not os.access(folder, os.W_OK):
            raise SinkError(f"{path}: no permission to write there")
    return path


def require_no_pattern(path: Path) -> None:
    """Raise a SinkError where a file of this name would be taken for what a pattern means."""
    if glob.has_magic(str(path)) and not path.exists() and glob.glob(str(path)):
        raise SinkError(f"{path}: is a pattern of files that are there; choose another name")


def _same(place: Path, other: Path) -> bool:
    """Tell whether two names are those of one file, also through links; it need not exist."""
    if place.exists() and other.exists():
        return place.samefile(other)
    return place == other.resolve()


@contextmanager
def _sink_errors(path: Path) -> Iterator[None]:
    """Turn the system's errors into a SinkError that names the output."""
    try:
        yield
    except AaamsError:
        raise
    except OSError as error:
        raise SinkError(f"{path}: cannot be written ({error.strerror or error})") from error


def _encode(path: Path, pixels: NDArray[Any]) -> bytes:
    try:
        done, data = cv2.imencode(path.suffix.lower(), pixels)
    except cv2.error as error:
        raise SinkError(f"{path}: cannot encode the picture ({error.err})") from error
    if not done:
        raise SinkError(f"{path}: cannot encode the picture")
    return data.tobytes()

"""Segments to be looked at: painted over a frame, and encoded as a film."""

from __future__ import annotations

import contextlib
import os
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import SinkError

VIEWS = ("boundaries", "colours", "ids")

_LINE = np.array([255, 214, 10], dtype=np.uint8)
_SMALLEST = 16  # pixels a side, below which frames are enlarged for the encoder
_WIDE_SPAN = 1 << 22  # ids further apart than this are counted by sorting


def paint(
    rgb: NDArray[np.uint8], ids: NDArray[np.uint32], view: str = "boundaries"
) -> NDArray[np.uint8]:
    """Return `rgb` (h, w, 3) with the segments `ids` (h, w) shown as `view` says.

    boundaries: a line between segments. colours: each segment in its mean colour. ids: each
    identity in a colour of its own, the same in every frame, over the picture.
    """
    if view == "boundaries":
        painted = rgb.copy()
        painted[boundaries(ids)] = _LINE
        return painted
    if view == "colours":
        return mean_colours(rgb, ids)
    if view == "ids":
        mixed = (rgb.astype(np.uint16) + id_colours(ids)) // 2
        painted = mixed.astype(np.uint8)
        painted[boundaries(ids)] = 255
        return painted
    raise ValueError(f"view must be one of {', '.join(VIEWS)}, got {view!r}")


def boundaries(ids: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return where a pixel's segment differs from that to its right or below."""
    edge = np.zeros(ids.shape, dtype=bool)
    edge[:, :-1] = ids[:, :-1] != ids[:, 1:]
    edge[:-1] |= ids[:-1] != ids[1:]
    return edge


def mean_colours(rgb: NDArray[np.uint8], ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return every pixel in the mean colour of its segment."""
    low = int(ids.min())
    if int(ids.max()) - low < _WIDE_SPAN:
        index = (ids - np.uint32(low)).ravel().astype(np.intp)
    else:
        index = np.unique(ids, return_inverse=True)[1].ravel()
    counts = np.maximum(np.bincount(index), 1)
    means = [np.bincount(index, rgb[:, :, k].ravel()) / counts for k in range(3)]
    table = np.rint(np.stack(means, axis=1)).astype(np.uint8)
    return table[index].reshape(rgb.shape)


def id_colours(ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return a bright colour for each id, far from those of the ids next to it."""
    mixed = ids * np.uint32(2654435761)
    mixed ^= mixed >> np.uint32(15)
    colours = np.empty((*ids.shape, 3), dtype=np.uint8)
    for k in range(3):
        colours[..., k] = (mixed >> np.uint32(8 * k)) & np.uint32(255)
    return colours


def check_film(
    path: Path, overwrite: bool, *, source: Path | None = None, volume: Path | None = None
) -> None:
    """Raise a SinkError where a film cannot be written under this name.

    Neither over the source it is drawn from, nor into the volume.
    """
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise SinkError(f"{path}: is the source; choose another name for the film")
    if volume is not None and volume.resolve() in (place := path.resolve(), *place.parents):
        raise SinkError(f"{path}: lies in the volume; choose another name for the film")
    if path.exists() and not (overwrite and path.is_file()):
        raise SinkError(f"{path}: exists; --overwrite replaces it")
    if path.suffix.lower() not in {".mp4", ".m4v", ".mov"}:
        raise SinkError(f"{path}: films are written as MP4; expected a name ending in .mp4")


class Film:
    """An H.264 film in MP4 whose frames keep the times they are given.

    A context manager. The file appears under its name when the film is closed; an error leaves
    nothing behind. Odd sizes are filled up to even ones by repeating the last row or column.
    """

    def __init__(
        self,
        path: Path,
        size: tuple[int, int],
        *,
        rate: Fraction,
        time_base: Fraction,
        overwrite: bool = False,
    ) -> None:
        import av

        check_film(path, overwrite)
        self._path = path
        self._partial = path.with_name(f".{path.stem}.partial{path.suffix}")
        self._zoom = -(-_SMALLEST // min(*size, _SMALLEST))
        width, height = (n * self._zoom + n * self._zoom % 2 for n in size)
        self._time_base = time_base
        self._last = -(1 << 62)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # absolute, or FFmpeg would take what stands before a colon for a protocol
            self._container = av.open(os.path.abspath(self._partial), "w")
        except (av.error.FFmpegError, OSError) as error:
            raise SinkError(f"{path}: cannot be written ({error.strerror or error})") from error
        # x264 plans its bits by a rate; the times of the frames are what counts in the file
        stream = self._container.add_stream(
            "libx264", rate=rate.limit_denominator(1001), options={"crf": "20"}
        )
        stream.width, stream.height = width, height
        stream.pix_fmt = "yuv420p"
        stream.time_base = stream.codec_context.time_base = time_base
        self._stream = stream
        self._shape = (height, width)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.discard()

    def add(self, rgb: NDArray[np.uint8], time: Fraction) -> None:
        """Append one frame (h, w, 3) to be shown at `time`.

        A film cannot run backwards: a time not after the last one becomes the next tick.
        """
        import av

        if self._zoom > 1:
            rgb = rgb.repeat(self._zoom, axis=0).repeat(self._zoom, axis=1)
        missing = (self._shape[0] - rgb.shape[0], self._shape[1] - rgb.shape[1])
        if any(missing):
            rgb = np.pad(rgb, ((0, missing[0]), (0, missing[1]), (0, 0)), mode="edge")
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb), format="rgb24")
        self._last = max(round(time / self._time_base), self._last + 1)
        frame.pts = self._last
        frame.time_base = self._time_base
        self._write(frame)

    def close(self) -> None:
        """Finish the file and give it its name."""
        import av

        try:
            self._write(None)
            self._container.close()
            os.replace(self._partial, self._path)
        except (av.error.FFmpegError, OSError, SinkError) as error:
            self.discard()
            if isinstance(error, SinkError):
                raise
            raise SinkError(f"{self._path}: cannot be written ({error.strerror})") from error

    def discard(self) -> None:
        """Close and remove what was written."""
        with contextlib.suppress(Exception):  # what went wrong before is what matters
            self._container.close()
        self._partial.unlink(missing_ok=True)

    def _write(self, frame: object) -> None:
        import av

        try:
            for packet in self._stream.encode(frame):  # type: ignore[arg-type]
                self._container.mux(packet)
        except (av.error.FFmpegError, OSError) as error:
            raise SinkError(f"{self._path}: cannot be written ({error.strerror})") from error

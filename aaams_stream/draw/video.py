"""Pictures as a film: H.264 in MP4, each at its own time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Self

import av
import numpy as np
from numpy.typing import NDArray

from aaams_stream import files
from aaams_stream.errors import SinkError
from aaams_stream.jit import processor_knows

VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov")

_SMALLEST = 16  # pixels a side, below which frames are enlarged for the encoder


def check_video_target(
    path: Path, overwrite: bool, *, source: Path | None = None, volume: Path | None = None
) -> None:
    """Raise an error where no video can be written under this name.

    Neither over the source it is drawn from, nor into the volume.
    """
    files.check_target(
        path,
        VIDEO_SUFFIXES,
        overwrite=overwrite,
        apart={"the source": source},
        outside={"the volume": volume},
    )


class VideoWriter:
    """Writes an H.264 video in MP4 whose frames keep the times they are given.

    A context manager. The file appears under its name when the writer is closed; an error leaves
    nothing behind. The same frames give the same bytes. Odd sizes are filled up to even ones by
    repeating the last row or column.
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
        check_video_target(path, overwrite)
        self._path = path
        self._draft = files.Draft(path)
        self._zoom = -(-_SMALLEST // min(*size, _SMALLEST))
        width, height = (n * self._zoom + n * self._zoom % 2 for n in size)
        self._time_base = time_base
        self._last = -(1 << 62)
        with _sink_errors(path):
            # absolute, or FFmpeg would take what stands before a colon for a protocol
            self._container = av.open(os.path.abspath(self._draft.path), "w")
        # x264 plans its bits by a rate; the times of the frames are what counts in the file
        options = {"crf": "20"}
        # With AVX-512 x264 reads memory that was never written as it plans its bits, and no two
        # films are the same; without it they are, on any processor.
        if processor_knows("avx512bw"):
            options["x264-params"] = "asm=avx2"
        stream = self._container.add_stream(
            "libx264", rate=rate.limit_denominator(1001), options=options
        )
        stream.width, stream.height = width, height
        stream.pix_fmt = "yuv420p"
        stream.time_base = stream.codec_context.time_base = time_base
        self._stream = stream
        self._shape = (height, width)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
        else:
            self.discard()

    def add(self, rgb: NDArray[np.uint8], time: Fraction) -> None:
        """Append one frame (h, w, 3) to be shown at `time`.

        A video cannot run backwards: a time not after the last one becomes the next tick.
        """
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
        try:
            self._write(None)
            with _sink_errors(self._path):
                self._container.close()
            self._draft.keep()
        except SinkError:
            self.discard()
            raise

    def discard(self) -> None:
        """Close and remove what was written."""
        with contextlib.suppress(Exception):  # what went wrong before is what matters
            self._container.close()
        self._draft.drop()

    def _write(self, frame: av.VideoFrame | None) -> None:
        with _sink_errors(self._path):
            for packet in self._stream.encode(frame):
                self._container.mux(packet)


@contextlib.contextmanager
def _sink_errors(path: Path) -> Iterator[None]:
    """Turn the errors of FFmpeg and of the system into a SinkError that names the video."""
    try:
        yield
    except (av.error.FFmpegError, OSError) as error:
        raise SinkError(f"{path}: cannot be written ({error.strerror or error})") from error

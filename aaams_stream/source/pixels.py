"""A decoded picture to RGB as a viewer sees it: upright, square pixels, opaque, one size."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from aaams_stream.source.marks import Entry

_BACKDROP = 0.5  # transparent pixels are seen over mid-grey, as `features.as_rgb` has it
_SANE_ASPECT = (Fraction(1, 8), Fraction(8))  # beyond, a pixel aspect is a mistake of the file


@dataclass(frozen=True, slots=True)
class Orientation:
    """How decoded rows and columns lie on the screen: transposed first, then mirrored."""

    transpose: bool = False
    mirror_x: bool = False
    mirror_y: bool = False

    @classmethod
    def of(cls, frame: av.VideoFrame) -> Orientation:
        """Read the display matrix of a frame, to the nearest quarter turn."""
        side_data: Any = frame.side_data  # PyAV's stub calls it a TypedDict of other keys
        data = side_data.get("DISPLAYMATRIX")
        if data is None:
            return cls()
        # a pixel (x, y) is shown at (a·x + c·y, b·x + d·y), y pointing down
        a, b, _, c, d = np.frombuffer(bytes(data), dtype=np.int32)[:5].tolist()
        if abs(b) + abs(c) > abs(a) + abs(d):
            return cls(True, c < 0, b < 0)
        return cls(False, a < 0, d < 0)

    def apply(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Turn (h, w, 3) pixels; the result is contiguous."""
        if self.transpose:
            pixels = pixels.transpose(1, 0, 2)
        if self.mirror_x:
            pixels = pixels[:, ::-1]
        if self.mirror_y:
            pixels = pixels[::-1]
        return np.ascontiguousarray(pixels)


@dataclass(frozen=True, slots=True)
class Picture:
    """One decoded frame that has not been converted yet: most skipped frames never are."""

    time: Fraction
    frame: av.VideoFrame | NDArray[np.uint8]  # an array is ready as it is
    orientation: Orientation = Orientation()
    aspect: Fraction | None = None  # of one pixel, width over height
    entry: Entry | None = None  # if a later reading can begin with it

    @property
    def size(self) -> tuple[int, int]:
        """Width and height on the screen."""
        if isinstance(self.frame, np.ndarray):
            return self.frame.shape[1], self.frame.shape[0]
        width, height = self.frame.width, self.frame.height
        if self.aspect and _SANE_ASPECT[0] <= self.aspect <= _SANE_ASPECT[1]:
            width = max(1, round(width * self.aspect))
        return (height, width) if self.orientation.transpose else (width, height)


class Converter:
    """Converts pictures to RGB, keeping FFmpeg's scaler from one to the next."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()
        self._glancer = VideoReformatter()

    def thumbnail(self, picture: Picture, size: tuple[int, int]) -> NDArray[np.uint8]:
        """Return about every n-th pixel, (h, w, 3) at `size` (width, height), as it lies on disk.

        A tenth of the time that the whole picture takes.
        """
        frame = picture.frame
        if isinstance(frame, np.ndarray):
            rows, columns = (
                np.arange(n) * full // n for n, full in zip(size[::-1], frame.shape, strict=False)
            )
            return np.asarray(frame[rows[:, None], columns])
        small = self._glancer.reformat(
            frame, width=size[0], height=size[1], format="rgb24", interpolation="POINT"
        )
        return np.asarray(small.to_ndarray(), dtype=np.uint8)

    def rgb(self, picture: Picture, size: tuple[int, int]) -> NDArray[np.uint8]:
        """Return (h, w, 3) at `size` (width, height)."""
        frame = picture.frame
        if isinstance(frame, np.ndarray):
            if picture.size == size:
                return frame
            frame = av.VideoFrame.from_ndarray(frame, format="rgb24")
        width, height = size[::-1] if picture.orientation.transpose else size
        shrinks = width * height < frame.width * frame.height
        see_through = frame.format.name == "pal8" or any(
            component.is_alpha for component in frame.format.components
        )
        converted = self._reformatter.reformat(
            frame,
            width=width,
            height=height,
            format="rgba" if see_through else "rgb24",
            interpolation="AREA" if shrinks else "BICUBIC",
        )
        pixels = np.asarray(converted.to_ndarray(), dtype=np.uint8)
        return picture.orientation.apply(_opaque(pixels) if see_through else pixels)


def _opaque(rgba: NDArray[np.uint8]) -> NDArray[np.uint8]:
    alpha = rgba[:, :, 3:].astype(np.float32) / 255
    blended = rgba[:, :, :3] * alpha + (1 - alpha) * (_BACKDROP * 255)
    return np.rint(blended).astype(np.uint8)

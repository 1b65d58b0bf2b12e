"""Pictures that a program has at hand: any iterable of arrays."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.features import as_rgb
from aaams_stream.errors import SourceError
from aaams_stream.model import Clip, Frame
from aaams_stream.paths import kind_of
from aaams_stream.source.marks import Entry
from aaams_stream.source.open import check_clip
from aaams_stream.source.pixels import Picture
from aaams_stream.source.reader import DEFAULT_RATE
from aaams_stream.source.source import Source

# An array by itself, one with its time in seconds, or a frame of another stream.
GivenFrame = NDArray[Any] | tuple[NDArray[Any], float | Fraction] | Frame
_PRECISION = 10**9  # of times in seconds


def open_frames(frames: Iterable[GivenFrame], clip: Clip) -> Source:
    """Open what a program has at hand: arrays (h, w), (h, w, 3) or (h, w, 4) uint8, RGB.

    Each by itself, 25 a second, or in a pair with its time in seconds; or a `Frame`. The first is
    taken at once, each once, and copied, so that its memory may be used again.
    """
    check_clip(clip)
    if isinstance(frames, np.ndarray) and _is_one_image(frames):
        raise SourceError(
            f"expected frames one after the other, got one array of shape {frames.shape}; a single "
            "image goes to segment_image, or to Segmenter.step"
        )
    try:
        iterator = iter(frames)
    except TypeError:
        raise SourceError(
            f"expected the name of an input or frames one after the other, got {kind_of(frames)}"
        ) from None
    return Source(_GivenReader(iterator), clip)


def _is_one_image(array: NDArray[Any]) -> bool:
    return array.ndim < 3 or (array.ndim == 3 and array.shape[2] in (3, 4))


class _GivenReader:
    """Reads frames that a program has at hand."""

    def __init__(self, frames: Iterator[GivenFrame]) -> None:
        self.name = "the given frames"
        self.rate = DEFAULT_RATE
        self.time_base = Fraction(1, _PRECISION)
        self.frame_count: int | None = None
        self.duration: Fraction | None = None
        self.damage: str | None = None
        self.seekable = False
        self._frames = frames
        self._stopped = False

    def pictures(self, start: Fraction | Sequence[Entry] | None = None) -> Iterator[Picture]:
        """Yield the pictures, of those that were not taken yet."""
        for index, given in enumerate(self._frames):
            if self._stopped:
                return
            seconds: float | Fraction
            if isinstance(given, Frame):
                pixels, seconds = given.rgb, given.time
            elif isinstance(given, tuple):
                if len(given) != 2:
                    raise ValueError(
                        f"frame {index}: expected an array, or one and its time, got {len(given)}"
                    )
                pixels, seconds = given
            else:
                pixels, seconds = given, index / self.rate
            rgb = as_rgb(pixels)
            if rgb.dtype != np.uint8:
                raise ValueError(f"a frame must be uint8, got {rgb.dtype}")
            if not isinstance(seconds, numbers.Real) or not math.isfinite(seconds):
                raise ValueError(f"frame {index}: its time must be seconds, got {seconds!r}")
            time = Fraction(seconds).limit_denominator(_PRECISION)
            yield Picture(time, np.array(rgb, np.uint8))

    def stop(self) -> None:
        """End the iteration after the frame that is waited for; safe from any thread."""
        self._stopped = True

    def close(self) -> None:
        """Do nothing: whoever has the frames closes what they come from."""

"""The region of interest: what lies outside of it has id 0, in every frame.

Frames are cut to the box around it, so that nothing beyond costs work. What is left of the outside
within that box bears a label like any segment, row 0 of the tracks, with id 0: every step looks at
it as at a segment that nothing resembles, stands still and touches nobody.
"""

from __future__ import annotations

import base64
import binascii
import functools
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.errors import ConfigError

OUTSIDE = 0  # label of a pixel outside, where there is one, and its id


@dataclass(frozen=True, slots=True, eq=False)
class Roi:
    """Which pixels of a frame are segmented; some are."""

    mask: NDArray[np.bool_]  # (h, w)
    name: str = "region of interest"  # of a file, for errors

    def __post_init__(self) -> None:
        if self.mask.ndim != 2 or self.mask.dtype != np.bool_:
            raise ValueError(f"a mask must be (h, w) of bool, got {self.mask.shape}")
        if not self.mask.any():
            raise ConfigError(
                f"{self.name}: the mask is empty; mark what is to be segmented with values above 0"
            )

    def require_size(self, shape: tuple[int, ...]) -> None:
        """Raise a ConfigError unless frames of `shape` (h, w, …) are what the mask is for."""
        if self.mask.shape != shape[:2]:
            given, wanted = (f"{s[1]}x{s[0]}" for s in (self.mask.shape, shape))
            raise ConfigError(
                f"{self.name}: the mask is {given}, expected {wanted} as the frames are"
            )

    @property
    def box(self) -> tuple[slice, slice]:
        """Rows and columns around all that is inside."""
        return _box_of(self)

    def crop(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return of a frame (h, w, 3) the box around all that is inside."""
        self.require_size(frame.shape)
        return np.ascontiguousarray(frame[self.box])

    def outside(self, shape: tuple[int, int]) -> NDArray[np.bool_] | None:
        """Return which pixels of the crop are outside, at the size `shape`; None: none of them.

        At a smaller size those of which no pixel of the frame is inside, but always one at least.
        """
        return _outside_of(self, shape)

    def to_text(self) -> str | None:
        """Return the mask as text, for `of_text`: a bit a pixel, deflated; None: all is inside."""
        if self.mask.all():
            return None
        packed = zlib.compress(np.packbits(self.mask).tobytes(), 9)
        return base64.b64encode(packed).decode("ascii")

    @classmethod
    def of_text(cls, text: str, shape: tuple[int, int]) -> Roi:
        """Return the region of `to_text`; a ValueError where the text is of no such mask."""
        pixels = shape[0] * shape[1]
        size = -(-pixels // 8)
        try:
            reader = zlib.decompressobj()
            packed = reader.decompress(base64.b64decode(text, validate=True), size + 1)
        except (binascii.Error, zlib.error) as error:
            raise ValueError(f"not a mask ({error})") from None
        if len(packed) != size or not reader.eof:
            raise ValueError(f"not a mask of {shape[1]}x{shape[0]} pixels")
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=pixels)
        return cls(bits.reshape(shape).view(np.bool_))

    def paste(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return ids (h, w) of a whole frame from those of the crop."""
        whole = np.zeros(self.mask.shape, np.uint32)
        whole[self.box] = ids
        return whole

    def shift(self, rows: NDArray[Any]) -> None:
        """Bring the places of a segment table from the crop to the frame, in place."""
        y, x = (side.start for side in self.box)
        rows["mode"][:, 3:] += np.array([x, y], np.float32)
        rows["centroid"] += np.array([x, y], np.float32)
        rows["bbox"] += np.array([x, y, x, y], np.int32)


def as_roi(mask: Roi | ArrayLike | None, name: str = "region of interest") -> Roi | None:
    """Return a region of interest; None where there is none.

    mask: (h, w) of bool or of numbers, above 0 where it is; name: of a file, for errors.
    """
    if mask is None or isinstance(mask, Roi):
        return mask
    given = np.asarray(mask)
    if given.ndim != 2 or given.dtype.kind not in "buif":
        raise ConfigError(
            f"{name}: expected an array (h, w) of bool or numbers, above 0 where it is, got "
            f"{given.shape} {given.dtype}"
        )
    inside = np.ascontiguousarray(given > 0)
    return Roi(inside, name)


def keep_apart(labels: NDArray[np.int32], outside: NDArray[np.bool_], unknown: int) -> None:
    """Have all of the outside bear its label, and nothing else; unknown: what others get."""
    labels[labels == OUTSIDE] = unknown
    labels[outside] = OUTSIDE


def nearest_places(small: int, large: int) -> NDArray[np.int64]:
    """Return which of `small` pixels is the nearest to each of `large`, as kernels choose it."""
    return np.asarray((2 * np.arange(large, dtype=np.int64) + 1) * small // (2 * large))


@functools.lru_cache(maxsize=8)  # asked for every frame
def _box_of(roi: Roi) -> tuple[slice, slice]:
    sides = (np.flatnonzero(roi.mask.any(axis=axis)) for axis in (1, 0))
    rows, columns = (slice(int(side[0]), int(side[-1]) + 1) for side in sides)
    return rows, columns


@functools.lru_cache(maxsize=8)  # asked for every frame
def _outside_of(roi: Roi, shape: tuple[int, int]) -> NDArray[np.bool_] | None:
    inside = roi.mask[roi.box]
    if inside.all():
        return None
    h, w = inside.shape
    y, x = (nearest_places(m, n) for n, m in zip((h, w), shape, strict=True))
    rows, columns = np.nonzero(inside)
    covered = np.bincount(y[rows] * shape[1] + x[columns], minlength=shape[0] * shape[1])
    outside: NDArray[np.bool_] = covered.reshape(shape) == 0
    if not outside.any():  # its row of the tracks must not vanish while the size is another
        outside.flat[covered.argmin()] = True
    outside.flags.writeable = False
    return outside

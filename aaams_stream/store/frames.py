"""The frames of a volume as an array that is read on demand."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import SinkError
from aaams_stream.store.layout import CHUNK_FRAMES
from aaams_stream.store.stored import StoredArray


class Frames:
    """An array over time, read on demand: `frames[t]`, `frames[a:b]`, `frames[a:b, y, x]`.

    Its length is what was committed. Indices mean what they mean to NumPy, but time comes first.
    Reading frame by frame decodes each chunk once. With a `lookup` (n,) every value that is read
    stands for what the lookup says instead.
    """

    def __init__(self, array: StoredArray, count: int, lookup: NDArray[Any] | None = None) -> None:
        self._array = array
        self._lookup = lookup
        self.shape: tuple[int, ...] = (count, *array.shape[1:])
        self.dtype: np.dtype[Any] = array.dtype
        self.ndim = len(self.shape)
        self.chunks: tuple[int, ...] = array.chunks
        self._block: tuple[int, NDArray[Any]] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        index: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)
        first, rest = index[0], index[1:]
        if first is Ellipsis:
            raise IndexError("index time first, for example ids[t] or ids[:, 10:20]")
        if np.ndim(first) and np.asarray(first).dtype == bool:
            index = (*self._chosen_by(np.asarray(first)), *rest)
            first, rest = index[0], index[1:]
        # Numbers and slices are taken as frames are read. The rest is left to NumPy, as it
        # depends on the index of time: two lists are paired, and a mask counts as such lists.
        crop, paired = (rest, ()) if all(map(_is_plain, rest)) else ((), rest)
        if isinstance(first, slice):
            return np.asarray(self._crop(first, *crop)[(slice(None), *paired)])
        if np.ndim(first) == 0:
            frame = self._frame(operator.index(first))
            return np.asarray(frame[None][(0, *paired)] if paired else frame[crop])
        times = np.asarray(first) if np.size(first) else np.empty(np.shape(first), np.intp)
        if times.dtype.kind not in "iu":
            raise IndexError(f"frames are chosen by whole numbers or a mask, got {times.dtype}")
        if not times.size:
            return np.asarray(self._crop(slice(0, 0), *crop)[(times, *paired)])
        needed, position = np.unique(times, return_inverse=True)
        frames = np.stack([self._frame(int(t))[crop] for t in needed])
        return np.asarray(frames[(position.reshape(times.shape), *paired)])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def _chosen_by(self, mask: NDArray[np.bool_]) -> tuple[NDArray[np.intp], ...]:
        """Return the indices a mask over the first axes stands for."""
        if mask.shape != self.shape[: mask.ndim]:
            raise IndexError(f"a mask over time needs {len(self)} entries, got shape {mask.shape}")
        return mask.nonzero()

    def _crop(self, *key: slice | int) -> NDArray[Any]:
        """Read a part of the array; Zarr knows only steps forwards."""
        if len(key) > self.ndim:
            raise IndexError(f"too many indices: got {len(key)} for {self.ndim} axes")
        chosen = [range(n)[index] for index, n in zip(key, self.shape, strict=False)]
        forwards = tuple(_forwards(index) for index in chosen)
        turns = (slice(None, None, -1 if r.step < 0 else 1) for r in chosen if isinstance(r, range))
        return self._read(forwards)[tuple(turns)]

    def _frame(self, t: int) -> NDArray[Any]:
        if not -len(self) <= t < len(self):
            raise IndexError(f"frame {t} is out of range; the volume holds {len(self)} frames")
        t %= len(self)
        block, within = divmod(t, CHUNK_FRAMES)
        if self._block is None or self._block[0] != block:
            start = block * CHUNK_FRAMES
            stop = min(start + CHUNK_FRAMES, len(self))
            self._block = (block, self._read(slice(start, stop)))
        return np.array(self._block[1][within])

    def _read(self, key: Any) -> NDArray[Any]:
        stored = self._array[key]
        if self._lookup is None:
            return stored
        try:
            return np.asarray(self._lookup[stored])
        except IndexError as error:
            raise SinkError(f"{self._array.path}: damaged, it has ids that no table has") from error


def _is_plain(index: object) -> bool:
    """Whether an index is a slice or a number, which keeps axes apart from each other."""
    return isinstance(index, slice | int | np.integer) and not isinstance(index, bool)


def _forwards(index: range | int) -> slice | int:
    """Return the same places in rising order."""
    if isinstance(index, int):
        return index
    if not index:
        return slice(0, 0)
    low, high = sorted((index[0], index[-1]))
    return slice(low, high + 1, abs(index.step))


class Pictures:
    """The stored pictures of a volume, (t, h, w, 3) uint8, read on demand: `pictures[t]` is one.

    They lie on disk as (t, c, y, x), as OME-NGFF wants it. Time is indexed first, then rows,
    columns and colours.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        t, c, h, w = frames.shape
        self.shape: tuple[int, ...] = (t, h, w, c)
        self.dtype, self.ndim = frames.dtype, 4

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        first, *rest = key if isinstance(key, tuple) else (key,)
        chosen = np.moveaxis(self._frames[first], -3, -1)
        crop = (slice(None),) * (chosen.ndim - 3) + tuple(rest)
        return np.ascontiguousarray(chosen[crop])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

"""Features of segments from features of pixels, or of the cells of a network's map."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.kernels import measure


def pool(
    ids: NDArray[np.uint32],
    features: ArrayLike,
    track_ids: NDArray[np.uint32] | None = None,
    *,
    layout: str | None = None,
) -> NDArray[np.float32]:
    """Return the mean of features over each segment: (k,) or (k, c) float32.

    Rows are in order of id, as in the segment table: a network's features become those of
    supervoxels. Pixels of id 0 are of none.

    Args:
        ids: of a frame, (h, w).
        features: (h, w), (h, w, c) or (c, h, w) of any number type, of the frame's size or of
            another, as a network's maps are: each cell then counts by the pixels it covers.
        track_ids: the ids that are there, in order, where they are known.
        layout: "hwc" or "chw", for three axes. Where it is not given, the one whose height and
            width are those of the frame, or in proportion to them, and "hwc" where both are.

    Returns:
        The means, (k,) or (k, c) float32.

    Raises:
        ValueError: the features do not fit the frame.

    Example:
        >>> import numpy as np
        >>> import aaams_stream as aaams
        >>> ids = np.array([[1, 1, 3], [1, 3, 3]], np.uint32)
        >>> aaams.pool(ids, [[0, 3, 6], [3, 6, 9]])
        array([2., 7.], dtype=float32)
    """
    values = np.asarray(features)
    if values.ndim == 3 and _layout(values.shape, ids.shape, layout) == "chw":
        values = np.moveaxis(values, 0, -1)
    if values.ndim not in (2, 3) or not values.size:
        raise _shape_error(values.shape, ids.shape)
    if track_ids is None:
        track_ids = np.unique(ids)
        track_ids = track_ids[track_ids > 0]
    if not ids.all() and not (track_ids == 0).any():
        known = np.append(np.uint32(0), track_ids)
        return pool(ids, values, known, layout="hwc" if values.ndim == 3 else None)[1:]
    if values.shape[:2] == ids.shape:
        flat = np.ascontiguousarray(values.reshape(ids.size, -1), dtype=np.float32)
        means = np.empty((len(track_ids), flat.shape[1]), np.float32)
        measure.mean_rows(rows_of(ids, track_ids).reshape(-1), flat, means)
    else:
        means = _pool_cells(rows_of(ids, track_ids), values, len(track_ids))
    return means[:, 0] if values.ndim == 2 else means


def rows_of(ids: NDArray[np.uint32], track_ids: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Return for each pixel (h, w) the row of its id in `track_ids`, which are in order."""
    rows = np.empty(ids.shape, np.int32)
    measure.find_rows(np.ascontiguousarray(ids), np.ascontiguousarray(track_ids), rows)
    return rows


def _layout(shape: tuple[int, ...], frame: tuple[int, ...], layout: str | None) -> str:
    """Return where the channels of features with three axes lie."""
    sides = {"hwc": shape[:2], "chw": shape[1:]}
    if layout is not None:
        if layout not in sides:
            raise ValueError(f'layout must be "hwc" or "chw", got {layout!r}')
        return layout
    equal = [name for name, side in sides.items() if side == frame]
    fitting = equal[:1] or [name for name, side in sides.items() if _in_proportion(side, frame)]
    if len(fitting) != 1:
        raise _shape_error(shape, frame)
    return fitting[0]


def _in_proportion(side: tuple[int, ...], frame: tuple[int, ...]) -> bool:
    """Whether a map covers a frame with cells as high as wide, up to rounding to whole cells."""
    low = max((n - 1) / m for n, m in zip(side, frame, strict=True))
    high = min((n + 1) / m for n, m in zip(side, frame, strict=True))
    return low < high


def _shape_error(shape: tuple[int, ...], frame: tuple[int, ...]) -> ValueError:
    h, w = frame
    return ValueError(
        f"features must have shape {(h, w)}, {(h, w, 'c')} or {('c', h, w)}, or be a map of the "
        f"frame in another size, got {shape}; where that is meant, say layout='hwc' or 'chw'"
    )


def _pool_cells(
    rows: NDArray[np.int32], values: NDArray[np.generic], count: int
) -> NDArray[np.float32]:
    """Return the mean (count, c) over each row of a map of another size, laid over its pixels.

    Pixels and cells meet on the finer grid of both, in each direction.
    """
    grid = [max(n, m) for n, m in zip(rows.shape, values.shape, strict=False)]
    pixel, cell = (
        [_places(n, fine) for n, fine in zip(shape, grid, strict=True)]
        for shape in (rows.shape, values.shape[:2])
    )
    seen = rows[np.ix_(*pixel)].astype(np.int64)
    where = cell[0][:, None] * values.shape[1] + cell[1]
    cells = values.shape[0] * values.shape[1]
    pairs, weights = np.unique(seen * cells + where, return_counts=True)
    row, column = np.divmod(pairs, cells)
    flat = values.reshape(cells, -1)
    sums = np.zeros((count, flat.shape[1]))
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    weighted = flat[column].astype(np.float64) * weights[:, None]
    sums[row[begins]] = np.add.reduceat(weighted, begins, axis=0)
    totals = np.bincount(row, weights, count)
    return np.asarray(sums / np.maximum(totals, 1)[:, None], np.float32)


def _places(size: int, grid: int) -> NDArray[np.int64]:
    """Return on which of `size` cells each of `grid` equal parts has its centre."""
    return np.asarray((2 * np.arange(grid, dtype=np.int64) + 1) * size // (2 * grid))

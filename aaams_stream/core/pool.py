"""Features of segments from features of pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.kernels import measure


def pool(
    ids: NDArray[np.uint32], features: ArrayLike, track_ids: NDArray[np.uint32] | None = None
) -> NDArray[np.float32]:
    """Return the mean of any per-pixel array over each segment: (k,) or (k, c) float32.

    Rows are in order of id, as in the segment table: a network's features become those of
    supervoxels.

    Args:
        ids: of a frame, (h, w).
        features: (h, w) or (h, w, c) of any number type.
        track_ids: the ids that are there, in order, where they are known.

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
    if values.shape[:2] != ids.shape or values.ndim not in (2, 3):
        raise ValueError(
            f"features must have shape {ids.shape} or {(*ids.shape, 'c')}, got {values.shape}; "
            "scale them to the frame first"
        )
    if track_ids is None:
        track_ids = np.unique(ids)
    flat = np.ascontiguousarray(values.reshape(ids.size, -1), dtype=np.float32)
    means = np.empty((len(track_ids), flat.shape[1]), np.float32)
    measure.mean_rows(rows_of(ids, track_ids).reshape(-1), flat, means)
    return means[:, 0] if values.ndim == 2 else means


def rows_of(ids: NDArray[np.uint32], track_ids: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Return for each pixel (h, w) the row of its id in `track_ids`, which are in order."""
    rows = np.empty(ids.shape, np.int32)
    measure.find_rows(np.ascontiguousarray(ids), np.ascontiguousarray(track_ids), rows)
    return rows

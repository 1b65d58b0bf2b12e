"""Features of segments from features of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import tables


def pool(ids: NDArray[np.uint32], features: Any) -> NDArray[np.float32]:
    """Return the mean of any per-pixel array over each segment: (k,) or (k, c) float32.

    ids (h, w); features (h, w) or (h, w, c) of any number type. Rows are in order of id, as in the
    segment table: a network's features become those of supervoxels.
    """
    values = np.asarray(features)
    if values.shape[:2] != ids.shape or values.ndim not in (2, 3):
        raise ValueError(
            f"features must have shape {ids.shape} or {(*ids.shape, 'c')}, got {values.shape}; "
            "scale them to the frame first"
        )
    names, rows = np.unique(ids, return_inverse=True)
    flat = np.ascontiguousarray(values.reshape(ids.size, -1), dtype=np.float32)
    means = np.empty((len(names), flat.shape[1]), np.float32)
    tables.mean_rows(rows.reshape(-1).astype(np.int32), flat, means)
    return means[:, 0] if values.ndim == 2 else means

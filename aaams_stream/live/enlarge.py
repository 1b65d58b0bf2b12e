"""The segments of a smaller frame in the pixels of the frame itself."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import FrameSegmentation


def enlarged(result: FrameSegmentation, shape: tuple[int, int]) -> FrameSegmentation:
    """Return what was found in a smaller frame for the frame itself, of `shape` (h, w).

    Each pixel gets the nearest id. What counts pixels and their sides counts those of the larger
    picture, exactly; places, motion and bandwidths are scaled.
    """
    h, w = result.ids.shape
    row, column = _nearest(h, shape[0]), _nearest(w, shape[1])
    heights, widths = np.bincount(row), np.bincount(column)  # of the smaller picture's pixels
    scale = np.array([shape[1] / w, shape[0] / h])
    old, rows = result.segments, result.segments.copy()
    at = np.searchsorted(old["id"], result.ids)
    rows["area"] = _totals(at, np.outer(heights, widths), len(old))
    rows["mode"][:, 3:] = (old["mode"][:, 3:] + 0.5) * scale - 0.5
    rows["centroid"] = (old["centroid"] + 0.5) * scale - 0.5
    rows["motion"] *= scale.astype(np.float32)
    rows["bandwidth_space"] *= np.array([scale[0] ** 2, scale.prod(), scale[1] ** 2], np.float32)
    rows["bbox"][:, 0::2] = np.searchsorted(column, old["bbox"][:, 0::2])
    rows["bbox"][:, 1::2] = np.searchsorted(row, old["bbox"][:, 1::2])
    one, other, length = _sides(at, heights, widths)
    rows["perimeter"] = _totals(one, length, len(old)) + _totals(other, length, len(old))
    for edge, sides in (
        (at[0], widths),
        (at[-1], widths),
        (at[:, 0], heights),
        (at[:, -1], heights),
    ):
        rows["perimeter"] += _totals(edge, sides, len(old)).astype(np.uint32)
    return dataclasses.replace(
        result,
        ids=result.ids[row[:, None], column],
        segments=rows,
        adjacency=_longer(result.adjacency, old["id"], one, other, length),
    )


def _nearest(small: int, large: int) -> NDArray[np.intp]:
    """Return for each of `large` pixels in a row the nearest of `small`."""
    return np.asarray((np.arange(large) + 0.5) * small / large, np.intp)


def _totals(at: NDArray[Any], weights: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Sum whole weights for each of `count` segments."""
    return np.rint(np.bincount(at.ravel(), weights.ravel(), count)).astype(np.int64)


def _sides(
    at: NDArray[np.intp], heights: NDArray[np.intp], widths: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the two segments, and the length, of each side between pixels of two segments."""
    y, x = np.nonzero(at[:, :-1] != at[:, 1:])
    v, u = np.nonzero(at[:-1] != at[1:])
    return (
        np.concatenate([at[y, x], at[v, u]]),
        np.concatenate([at[y, x + 1], at[v + 1, u]]),
        np.concatenate([heights[y], widths[u]]),
    )


def _longer(
    pairs: NDArray[Any],
    known: NDArray[np.uint32],
    one: NDArray[np.intp],
    other: NDArray[np.intp],
    length: NDArray[np.intp],
) -> NDArray[Any]:
    """Return the table of contacts with the lengths they have now."""
    k = len(known)
    pair = np.searchsorted(known, pairs["first"]) * k + np.searchsorted(known, pairs["second"])
    side = np.minimum(one, other) * k + np.maximum(one, other)
    longer = pairs.copy()
    longer["length"] = _totals(np.searchsorted(pair, side), length, len(pairs))
    return longer

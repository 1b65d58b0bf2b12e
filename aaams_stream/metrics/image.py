"""How close the segmentation of an image, or of points, is to what people drew.

Every measure takes `labels` and `truths`: one truth, or a sequence of truths (one per annotator)
over which the measure is averaged. Labels are names only: renaming them changes nothing.

The first three rest on one table, the number of points each pair of labels shares:

    pri   probabilistic Rand index, 0 to 1, more is better
    gce   global consistency error, 0 to 1, less is better
    voi   variation of information in bits, less is better
    bde   boundary displacement error in pixels, less is better

None of them says enough alone: GCE forgives any number of labels, VoI likes few. Report all four
with the number of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.kernels.metrics import squared_distances

# Up to this many cells per point, a sparse table is cheaper than finding the labels in use.
_CELLS_PER_POINT = 4
_ALWAYS_CHEAP = 1 << 16

Truths = ArrayLike | Sequence[ArrayLike]


@dataclass(frozen=True, slots=True)
class ImageScores:
    """One segmentation against its annotators: the mean of each measure over them."""

    pri: float
    gce: float
    voi: float
    bde: float


@dataclass(frozen=True, slots=True)
class _Overlap:
    """The points two partitions share; only pairs of labels that meet have a row."""

    shared: NDArray[np.float64]  # (k,) points with both labels
    first: NDArray[np.float64]  # (k,) size of the pair's first label
    second: NDArray[np.float64]  # (k,) size of the pair's second label
    total: int


def pri(labels: ArrayLike, truths: Truths) -> float:
    """Return the probabilistic Rand index: the share of point pairs on which both agree.

    With several annotators this is the mean of the Rand indices (Unnikrishnan et al.). A single
    point has no pairs and scores 1.
    """
    return _mean_over_truths(_rand, labels, truths)


def gce(labels: ArrayLike, truths: Truths) -> float:
    """Return the global consistency error (Martin et al.).

    A point's local refinement error is the share of its segment that its other segment misses;
    the mean over the points is taken in both directions and the smaller one counts, so that a pure
    refinement of the truth costs nothing.
    """
    return _mean_over_truths(_consistency_error, labels, truths)


def voi(labels: ArrayLike, truths: Truths) -> float:
    """Return the variation of information H(L|T) + H(T|L) in bits (Meila)."""
    return _mean_over_truths(_information, labels, truths)


def bde(labels: ArrayLike, truths: Truths) -> float:
    """Return the boundary displacement error in pixels (Freixenet et al.).

    The mean distance from a boundary pixel of one segmentation to the nearest one of the other,
    averaged over the two directions. Follows the customary benchmark code: a pixel is on a boundary
    where its neighbours left and right, or above and below, differ (at the rim: it and its one
    neighbour), and a segmentation without boundaries has the image's rim for one.

    labels and each truth (h, w). The measure grows with the image: compare at one size only.
    """
    array, pairs = _checked(labels, truths)
    _require_image(array)
    return _mean_displacement(array, pairs)


def score_image(labels: ArrayLike, truths: Truths) -> ImageScores:
    """Return all four measures of one image, at the price of one table per annotator."""
    array, pairs = _checked(labels, truths)
    _require_image(array)
    overlaps = [_overlap(array, truth) for truth in pairs]
    return ImageScores(
        pri=float(np.mean([_rand(overlap) for overlap in overlaps])),
        gce=float(np.mean([_consistency_error(overlap) for overlap in overlaps])),
        voi=float(np.mean([_information(overlap) for overlap in overlaps])),
        bde=_mean_displacement(array, pairs),
    )


def boundaries(labels: ArrayLike) -> NDArray[np.bool_]:
    """Return the mask (h, w) of boundary pixels as `bde` counts them: two pixels wide."""
    array = _as_labels(labels, "labels")
    _require_image(array)
    marked = np.zeros(array.shape, dtype=bool)
    for turned, out in ((array, marked), (array.T, marked.T)):
        if turned.shape[0] > 1:
            out[0] |= turned[0] != turned[1]
            out[-1] |= turned[-1] != turned[-2]
            out[1:-1] |= turned[2:] != turned[:-2]
    if not marked.any():
        marked[0] = marked[-1] = True
        marked[:, 0] = marked[:, -1] = True
    return marked


def _mean_over_truths(
    measure: Callable[[_Overlap], float], labels: ArrayLike, truths: Truths
) -> float:
    array, pairs = _checked(labels, truths)
    return float(np.mean([measure(_overlap(array, truth)) for truth in pairs]))


def _as_labels(values: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape})")
    if array.dtype.kind not in "iub":
        raise ValueError(f"{name} must hold integers, got {array.dtype}")
    return array


def _checked(labels: ArrayLike, truths: Truths) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Return labels and the list of truths as integer arrays of one shape."""
    array = _as_labels(labels, "labels")
    if array.ndim == 0:
        raise ValueError("labels must be an array, got a single number")
    several: Any = truths
    if not isinstance(several, np.ndarray | Sequence):
        raise ValueError(f"truths must be an array or a sequence of arrays, got {type(truths)}")
    if len(several) == 0:
        raise ValueError("truths is empty: at least one annotator is needed")
    if np.ndim(several[0]) != array.ndim:  # one deeper than labels would be one per annotator
        several = [several]
    pairs = []
    for index, truth in enumerate(several):
        pair = _as_labels(truth, f"truth {index}")
        if pair.shape != array.shape:
            raise ValueError(
                f"truth {index} must have the shape of labels {array.shape}, got {pair.shape}"
            )
        pairs.append(pair)
    return array, pairs


def _require_image(array: NDArray[Any]) -> None:
    if array.ndim != 2:
        raise ValueError(f"boundaries need labels of shape (h, w), got {array.shape}")


def _from_zero(array: NDArray[Any]) -> tuple[NDArray[np.intp], int]:
    """Return the flat labels moved to start at 0, and a number above them all.

    Labels far apart are numbered anew, so that the number stays within reach of the points.
    """
    flat = array.ravel()
    if flat.dtype.kind == "b":
        flat = flat.view(np.uint8)
    low, high = int(flat.min()), int(flat.max())
    if high - low >= max(flat.size, 256):
        distinct, inverse = np.unique(flat, return_inverse=True)
        return inverse.ravel(), len(distinct)
    if high > np.iinfo(np.intp).max:  # uint64 beyond the index type
        flat = flat - np.array(low, dtype=flat.dtype)
        low, high = 0, high - low
    return flat.astype(np.intp) - low, high - low + 1


def _overlap(labels: NDArray[Any], truth: NDArray[Any]) -> _Overlap:
    rows, row_count = _from_zero(labels)
    columns, column_count = _from_zero(truth)
    keys = rows * column_count + columns
    if row_count * column_count <= max(_ALWAYS_CHEAP, _CELLS_PER_POINT * keys.size):
        table = np.bincount(keys, minlength=row_count * column_count)
        cells = np.flatnonzero(table)
        shared = table[cells]
    else:
        cells, shared = np.unique(keys, return_counts=True)
    row_of, column_of = np.divmod(cells, column_count)
    first = np.bincount(rows, minlength=row_count)
    second = np.bincount(columns, minlength=column_count)
    return _Overlap(
        shared=shared.astype(np.float64),
        first=first[row_of].astype(np.float64),
        second=second[column_of].astype(np.float64),
        total=keys.size,
    )


def _rand(overlap: _Overlap) -> float:
    """Σ over pairs of labels, in float64: exact until n² passes 2^53, 94 million points."""
    if overlap.total == 1:
        return 1.0
    # A label's squared size is its size times the points it shares with every label it meets.
    same_first = np.dot(overlap.shared, overlap.first)
    same_second = np.dot(overlap.shared, overlap.second)
    same_both = np.dot(overlap.shared, overlap.shared)
    pairs = float(overlap.total) * (overlap.total - 1)
    return float(1.0 - (same_first + same_second - 2.0 * same_both) / pairs)


def _consistency_error(overlap: _Overlap) -> float:
    refined = np.dot(overlap.shared, 1.0 - overlap.shared / overlap.first)
    coarsened = np.dot(overlap.shared, 1.0 - overlap.shared / overlap.second)
    return float(min(refined, coarsened) / overlap.total)


def _information(overlap: _Overlap) -> float:
    # H(L|T) + H(T|L) = Σ p log(p_l p_t / p²)
    surprise = np.log2(overlap.first / overlap.shared) + np.log2(overlap.second / overlap.shared)
    return float(np.dot(overlap.shared, surprise) / overlap.total)


def _mean_displacement(labels: NDArray[Any], truths: list[NDArray[Any]]) -> float:
    edges = boundaries(labels)
    distances = _distances(edges)
    errors = []
    for truth in truths:
        truth_edges = boundaries(truth)
        there = _distances(truth_edges)[edges].mean()
        back = distances[truth_edges].mean()
        errors.append((there + back) / 2)
    return float(np.mean(errors))


def _distances(marked: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return each pixel's Euclidean distance to the nearest marked one."""
    squared = np.empty(marked.shape, dtype=np.int64)
    squared_distances(np.ascontiguousarray(marked).view(np.uint8), squared)
    return np.sqrt(squared, dtype=np.float64)

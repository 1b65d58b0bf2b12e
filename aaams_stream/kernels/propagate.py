"""Labels of the frame before, warped along the optical flow.

Labels (h, w) are int32 rows of the track table, -1 where nothing is known. Floats are float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from aaams_stream.kernels.common import empty_marks, list_ends


class Limits(NamedTuple):
    """Squared distances: in L*a*b* units, and in σ of a segment's colours."""

    tolerance: Any  # L*a*b*: the pixel is the one it was
    strange: Any  # L*a*b*: it is quite another
    outlier: Any  # σ
    inlier: Any  # σ


@njit(cache=True, nogil=True, error_model="numpy")
def gather_row(nearest, labels, density, gap, strange_sq, warped, dense):
    """Write label and density of where a row came from to warped and dense (w,); -1, 0: nowhere.

    nearest (w,) as in `Motion`; labels, density (h·w,) of the frame before. Returns how
    many pixels came from somewhere, and of how many of them the gap exceeds a limit.
    """
    came = np.int32(0)
    strange = np.int32(0)
    for x in range(warped.size):
        within = nearest[x] >= 0
        at = np.uintp(nearest[x] if within else np.int32(0))
        warped[x] = labels[at] if within else np.int32(-1)
        dense[x] = density[at] if within else np.float32(0.0)
        came += np.int32(within)
        strange += np.int32(within & (gap[x] > strange_sq))
    return came, strange


@njit(cache=True, nogil=True, error_model="numpy")
def keep_row(warped, colours, watched, limits, row_l, row_a, row_b, gap, marks, ends, kept, area):
    """Write the labels of a row that stay to kept (w,), else -1; count them in area (k,).

    warped (w,): the labels; colours, watched, limits as in `warp_labels`; row_l, row_a, row_b (w,):
    the colours now; gap (w,) as in `Motion`; marks, ends: scratch of `list_ends`. Goes run
    by run of one label, whose numbers are then constants, so that it vectorises.
    """
    tolerance = limits.tolerance
    inlier = limits.inlier
    two = np.float32(2.0)
    start = 0
    for k in range(list_ends(warped, marks, ends)):
        stop = ends[k] + 1
        label = warped[start]
        if label < 0:
            for x in range(np.uintp(start), np.uintp(stop)):
                kept[x] = label
            start = stop
            continue
        # one that changed must be well inside the colours of its segment
        limit = limits.outlier if watched[label] else np.float32(np.inf)
        l0 = colours[label, 0]
        a0 = colours[label, 1]
        b0 = colours[label, 2]
        ll = colours[label, 3]
        la = two * colours[label, 4]
        lb = two * colours[label, 5]
        aa = colours[label, 6]
        ab = two * colours[label, 7]
        bb = colours[label, 8]
        count = np.int32(0)
        for x in range(np.uintp(start), np.uintp(stop)):
            dl = row_l[x] - l0
            da = row_a[x] - a0
            db = row_b[x] - b0
            off = (ll * dl + (la * da + lb * db)) * dl + (aa * da + ab * db) * da + bb * db * db
            stays = off <= (inlier if gap[x] > tolerance else limit)
            kept[x] = label if stays else np.int32(-1)
            count += np.int32(stays)
        area[label] += count
        start = stop


@njit(cache=True, nogil=True, error_model="numpy")
def warp_labels(
    first, last, before, motion, smooth, colours, watched, limits, out, area, inside, strange
):
    """Warp labels along the motion; keep those whose pixel still has its earlier colour.

    Writes the rows from `first` to before `last`.

    before: `Before`; motion: `Motion` since then; smooth (3, h, w): the colours now; colours
    (k, 9): mean and inverse variance of each segment; watched (k,) bool: segments searched for
    outliers; limits: `Limits`; out: a `Prediction`. Writes its warped, kept and density: kept is
    the label where the colour at the source lies within the tolerance and, in watched segments, is
    no outlier among the colours of its segment; also where it has changed, as in blur or new light,
    but lies well inside them; else -1. area (k,) int64 counts the pixels that each segment keeps,
    inside (h,) in each row those that came from inside the picture, strange (h,) those of them that
    changed by more than a limit. Each step of a row is a function of its own: all in one, they take
    twice the time.
    """
    h, w = before.labels.shape
    flat_labels = before.labels.reshape(h * w)
    flat_density = before.density.reshape(h * w)
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    area[:] = 0
    for y in range(first, last):
        gap = motion.gap[y]
        inside[y], strange[y] = gather_row(
            motion.nearest[y],
            flat_labels,
            flat_density,
            gap,
            limits.strange,
            out.warped[y],
            out.density[y],
        )
        keep_row(
            out.warped[y],
            colours,
            watched,
            limits,
            smooth[0, y],
            smooth[1, y],
            smooth[2, y],
            gap,
            marks,
            ends,
            out.kept[y],
            area,
        )

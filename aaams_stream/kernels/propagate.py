"""Labels of the frame before, warped along the optical flow.

Labels (h, w) are int32 rows of the track table, -1 where nothing is known. Floats are float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class Limits(NamedTuple):
    """Squared distances: in L*a*b* units, and in σ of a segment's colours."""

    tolerance: Any  # L*a*b*: the pixel is the one it was
    strange: Any  # L*a*b*: it is quite another
    outlier: Any  # σ
    inlier: Any  # σ


@njit(cache=True, nogil=True, error_model="numpy")
def trace_row(y, flow, columns, h, nearest, corner, part_x, part_y):
    """Find where the pixels of row y came from.

    flow (2w,): x and y of each vector in turn, which vectorises as (w, 2) would not; columns (w,):
    0, 1, 2... Writes flat indices (w,) int32: nearest, -1 if outside the picture, and corner, the
    upper left of the four pixels around; part_x, part_y (w,): how far it is from there to the next.
    """
    w = columns.size
    none = np.float32(0.0)
    half = np.float32(0.5)
    right = np.float32(w - 1)
    bottom = np.float32(h - 1)
    last_x = np.int32(max(w - 2, 0))
    last_y = np.int32(max(h - 2, 0))
    pitch = np.int32(w)
    row = np.float32(y)
    for x in range(w):
        sx = columns[x] + flow[2 * x]
        sy = row + flow[2 * x + 1]
        nx = np.floor(sx + half)
        ny = np.floor(sy + half)
        within = (nx >= none) & (ny >= none) & (nx <= right) & (ny <= bottom)
        nx = min(max(nx, none), right)
        ny = min(max(ny, none), bottom)
        place = np.int32(ny) * pitch + np.int32(nx)
        nearest[x] = place if within else np.int32(-1)
        sx = min(max(sx, none), right)
        sy = min(max(sy, none), bottom)
        x0 = min(np.int32(sx), last_x)
        y0 = min(np.int32(sy), last_y)
        corner[x] = y0 * pitch + x0
        part_x[x] = sx - np.float32(x0)
        part_y[x] = sy - np.float32(y0)


@njit(cache=True, nogil=True, error_model="numpy")
def compare_row(before, h, corner, part_x, part_y, row_l, row_a, row_b, gap):
    """Write how far colours lie from those where they came from, squared, to gap (w,).

    before (3hw,): the planes of the frame before; corner, part_x, part_y (w,) as `trace_row` found
    them; row_l, row_a, row_b (w,): the colours now.
    """
    w = gap.size
    plane = np.uintp(before.size // 3)
    # unsigned offsets: a signed index would be checked for counting from the end
    right = np.uintp(w > 1)
    down = np.uintp(w if h > 1 else 0)
    one = np.float32(1.0)
    for x in range(w):
        fx = part_x[x]
        fy = part_y[x]
        at = np.uintp(corner[x])
        top = before[at] * (one - fx) + before[at + right] * fx
        low = before[at + down] * (one - fx) + before[at + down + right] * fx
        dl = top * (one - fy) + low * fy - row_l[x]
        at += plane
        top = before[at] * (one - fx) + before[at + right] * fx
        low = before[at + down] * (one - fx) + before[at + down + right] * fx
        da = top * (one - fy) + low * fy - row_a[x]
        at += plane
        top = before[at] * (one - fx) + before[at + right] * fx
        low = before[at + down] * (one - fx) + before[at + down + right] * fx
        db = top * (one - fy) + low * fy - row_b[x]
        gap[x] = dl * dl + da * da + db * db


@njit(cache=True, nogil=True, error_model="numpy")
def warp_labels(before, smooth, colours, watched, limits, out, inside, strange):
    """Warp labels along the motion; keep those whose pixel still has its earlier colour.

    before: `Before`; smooth (3, h, w): the colours now; colours (k, 9): mean and inverse variance
    of each segment; watched (k,) bool: segments searched for outliers; limits: `Limits`; out: a
    `Prediction` whose flow is known. Writes its warped, kept and density: kept is the label where
    the colour at the source (bilinear) lies within the tolerance and, in watched segments, is no
    outlier among the colours of its segment; also where it has changed, as in blur or new light,
    but lies well inside them; else -1. inside (h,) counts in each row the pixels that came from
    inside the picture, strange (h,) those of them that changed by more than a limit. Each loop over
    a row does one thing: the first vectorises, the second has no branch.
    """
    h, w = before.labels.shape
    flat_labels = before.labels.reshape(h * w)
    flat_density = before.density.reshape(h * w)
    flat_planes = before.smooth.reshape(3 * h * w)
    planes = smooth
    warped = out.warped
    kept = out.kept
    density = out.density
    flow = out.flow
    tolerance = limits.tolerance
    strange_sq = limits.strange
    outlier = limits.outlier
    inlier = limits.inlier
    columns = np.arange(w).astype(np.float32)
    nearest = np.empty(w, np.int32)
    corner = np.empty(w, np.int32)
    part_x = np.empty(w, np.float32)
    part_y = np.empty(w, np.float32)
    gap = np.empty(w, np.float32)
    for y in range(h):
        row_l = planes[0, y]
        row_a = planes[1, y]
        row_b = planes[2, y]
        trace_row(y, flow[y].reshape(2 * w), columns, h, nearest, corner, part_x, part_y)
        compare_row(flat_planes, h, corner, part_x, part_y, row_l, row_a, row_b, gap)
        came = 0
        differ = 0
        for x in range(w):
            if nearest[x] < 0:
                warped[y, x] = -1
                kept[y, x] = -1
                density[y, x] = np.float32(0.0)
                continue
            at = np.uintp(nearest[x])
            label = flat_labels[at]
            warped[y, x] = label
            density[y, x] = flat_density[at]
            came += 1
            changed = gap[x] > tolerance
            differ += gap[x] > strange_sq
            stays = label
            if changed or watched[np.uintp(label)]:
                m = colours[np.uintp(label)]
                dl = row_l[x] - m[0]
                da = row_a[x] - m[1]
                db = row_b[x] - m[2]
                off = (
                    (m[3] * dl + np.float32(2.0) * (m[4] * da + m[5] * db)) * dl
                    + (m[6] * da + np.float32(2.0) * m[7] * db) * da
                    + m[8] * db * db
                )
                limit = inlier if changed else outlier
                stays = label if off <= limit else np.int32(-1)
            kept[y, x] = stays
        inside[y] = came
        strange[y] = differ

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


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
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
    across = down + right
    for x in range(w):
        fx = part_x[x]
        w11 = fx * part_y[x]
        w10 = part_y[x] - w11
        w01 = fx - w11
        w00 = np.float32(1.0) - w01 - part_y[x]
        p = np.uintp(corner[x])
        q = p + plane
        r = q + plane
        dl = before[p] * w00 + before[p + right] * w01 - row_l[x]
        da = before[q] * w00 + before[q + right] * w01 - row_a[x]
        db = before[r] * w00 + before[r + right] * w01 - row_b[x]
        dl += before[p + down] * w10 + before[p + across] * w11
        da += before[q + down] * w10 + before[q + across] * w11
        db += before[r + down] * w10 + before[r + across] * w11
        gap[x] = dl * dl + da * da + db * db


@njit(cache=True, nogil=True, error_model="numpy")
def keep_run(label, model, row_l, row_a, row_b, gap, limits, limit, start, stop, kept):
    """Write the label to kept (w,) for a run of pixels of one segment, -1 where it does not stay.

    Returns how many stay.
    model (9,): mean and inverse variance of the segment's colours; gap as from `compare_row`;
    limit: squared σ within which a pixel that did not change stays.
    """
    l0 = model[0]
    a0 = model[1]
    b0 = model[2]
    two = np.float32(2.0)
    ll = model[3]
    la = two * model[4]
    lb = two * model[5]
    aa = model[6]
    ab = two * model[7]
    bb = model[8]
    tolerance = limits.tolerance
    inlier = limits.inlier
    count = np.int32(0)
    for x in range(np.uintp(start), np.uintp(stop)):
        dl = row_l[x] - l0
        da = row_a[x] - a0
        db = row_b[x] - b0
        off = (ll * dl + (la * da + lb * db)) * dl + (aa * da + ab * db) * da + bb * db * db
        stays = off <= (inlier if gap[x] > tolerance else limit)
        kept[x] = label if stays else np.int32(-1)
        count += np.int32(stays)
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def warp_labels(before, smooth, colours, watched, limits, out, area, inside, strange):
    """Warp labels along the motion; keep those whose pixel still has its earlier colour.

    before: `Before`; smooth (3, h, w): the colours now; colours (k, 9): mean and inverse variance
    of each segment; watched (k,) bool: segments searched for outliers; limits: `Limits`; out: a
    `Prediction` whose flow is known. Writes its warped, kept and density: kept is the label where
    the colour at the source (bilinear) lies within the tolerance and, in watched segments, is no
    outlier among the colours of its segment; also where it has changed, as in blur or new light,
    but lies well inside them; else -1. area (k,) int64 counts the pixels that each segment keeps,
    inside (h,) in each row those that came from inside the picture, strange (h,) those of them that
    changed by more than a limit. Each loop over a row does one thing, without a branch; the last
    goes run by run, so that it vectorises.
    """
    h, w = before.labels.shape
    flat_labels = before.labels.reshape(h * w)
    flat_density = before.density.reshape(h * w)
    flat_planes = before.smooth.reshape(3 * h * w)
    planes = smooth
    flow = out.flow
    strange_sq = limits.strange
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    area[:] = 0
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
        warped = out.warped[y]
        kept = out.kept[y]
        density = out.density[y]
        came = 0
        differ = 0
        for x in range(w):
            within = nearest[x] >= 0
            at = np.uintp(max(nearest[x], np.int32(0)))
            warped[x] = flat_labels[at] if within else np.int32(-1)
            density[x] = flat_density[at] if within else np.float32(0.0)
            came += within
            differ += within & (gap[x] > strange_sq)
        inside[y] = came
        strange[y] = differ
        start = 0
        for k in range(list_ends(warped, marks, ends)):
            stop = ends[k] + 1
            label = warped[start]
            if label < 0:
                kept[start:stop] = -1
            else:
                limit = limits.outlier if watched[label] else np.float32(np.inf)
                area[label] += keep_run(
                    label,
                    colours[label],
                    row_l,
                    row_a,
                    row_b,
                    gap,
                    limits,
                    limit,
                    start,
                    stop,
                    kept,
                )
            start = stop

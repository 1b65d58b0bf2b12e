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
def gather_row(nearest, labels, density, gap, strange_sq, warped, dense):
    """Write label and density of where a row came from to warped and dense (w,); -1, 0: nowhere.

    nearest (w,) as `trace_row` found it; labels, density (h·w,) of the frame before. Returns how
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
    the colours now; gap (w,) as from `compare_row`; marks, ends: scratch of `list_ends`. Goes run
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
def warp_labels(before, smooth, colours, watched, limits, out, area, inside, strange):
    """Warp labels along the motion; keep those whose pixel still has its earlier colour.

    before: `Before`; smooth (3, h, w): the colours now; colours (k, 9): mean and inverse variance
    of each segment; watched (k,) bool: segments searched for outliers; limits: `Limits`; out: a
    `Prediction` whose flow is known. Writes its warped, kept and density: kept is the label where
    the colour at the source (bilinear) lies within the tolerance and, in watched segments, is no
    outlier among the colours of its segment; also where it has changed, as in blur or new light,
    but lies well inside them; else -1. area (k,) int64 counts the pixels that each segment keeps,
    inside (h,) in each row those that came from inside the picture, strange (h,) those of them that
    changed by more than a limit. Each step of a row is a function of its own: all in one, they take
    twice the time.
    """
    h, w = before.labels.shape
    flat_labels = before.labels.reshape(h * w)
    flat_density = before.density.reshape(h * w)
    flat_planes = before.smooth.reshape(3 * h * w)
    planes = smooth
    flow = out.flow
    marks = empty_marks(w)
    ends = np.empty(w + 1, np.int32)
    area[:] = 0
    columns = np.empty(w, np.float32)
    for x in range(w):
        columns[x] = np.float32(x)
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
        inside[y], strange[y] = gather_row(
            nearest, flat_labels, flat_density, gap, limits.strange, out.warped[y], out.density[y]
        )
        keep_row(
            out.warped[y],
            colours,
            watched,
            limits,
            row_l,
            row_a,
            row_b,
            gap,
            marks,
            ends,
            out.kept[y],
            area,
        )

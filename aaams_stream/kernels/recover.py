"""Segments that the optical flow lost, found as a whole.

Labels (h, w) are int32 rows of the track table, -1 where nothing is known; planes (3, h, w) are
float32. `wanted` (k,) int32 gives the segments that are searched for their number, and others -1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class Search(NamedTuple):
    """Where and by what m segments are searched for."""

    samples: Any  # (m, most) int32 flat indices of pixels in the frame before
    found: Any  # (m,) int64 how many of them there are
    guess: Any  # (m, 2) int64 shift x, y to look around
    reach: Any  # pixels
    pace: Any  # pixels between the first tries
    tolerance_sq: Any  # squared colour distance up to which a pixel is the one it was


@njit(cache=True, nogil=True, error_model="numpy")
def sample_segments(before, wanted, size, samples, found):
    """Pick pixels of the m wanted segments, spread evenly in raster order.

    before (h, w): labels; size (m,) int64: about how many pixels a segment has. Writes flat indices
    to samples (m, most) int32 and how many there are to found (m,) int64.
    """
    h, w = before.shape
    most = samples.shape[1]
    found[:] = 0
    if not found.size:
        return
    seen = np.zeros(found.size, np.int64)
    for y in range(h):
        row = before[y]
        for x in range(w):
            r = wanted[row[x]]
            if r < 0:
                continue
            seen[r] += 1
            # taken where the share that was seen passes the next of equal parts
            if found[r] < most and seen[r] * min(most, size[r]) // size[r] > found[r]:
                samples[r, found[r]] = y * w + x
                found[r] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def count_matches(pixels, columns, colours, n, dx, dy, planes, labels, w, tolerance_sq, best):
    """Count pixels that, moved by (dx, dy), meet one without a label in their own colour.

    pixels, columns (n,): flat indices and x; colours (3, n) their own; planes (3, h·w) and labels
    (h·w,) of the picture. May stop once the count cannot exceed `best`.
    """
    count = 0
    step = dy * w + dx
    for i in range(n):
        if count + n - i <= best:
            break
        x = columns[i] + dx
        at = pixels[i] + step  # x being inside, a wrong y is outside of the whole
        if x < 0 or x >= w or at < 0 or at >= labels.size or labels[np.uintp(at)] >= 0:
            continue
        dl = planes[0, np.uintp(at)] - colours[0, i]
        da = planes[1, np.uintp(at)] - colours[1, i]
        db = planes[2, np.uintp(at)] - colours[2, i]
        count += dl * dl + da * da + db * db <= tolerance_sq
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def search_segments(search, planes_before, planes, labels, shift, matches):
    """Find for each segment the shift by which most of its samples find their colour.

    search: `Search`. All shifts within reach of the guess are tried at the pace, then single pixels
    around the best; of equal ones the nearest to the guess. Writes shift
    (m, 2) int64 and matches (m,) int64: how many samples it explains, 0 if fewer than half.
    """
    guess = search.guess
    reach = search.reach
    pace = search.pace
    samples = search.samples
    found = search.found
    tolerance_sq = search.tolerance_sq
    h, w = labels.shape
    flat_before = planes_before.reshape(3, h * w)
    flat = planes.reshape(3, h * w)
    flat_labels = labels.reshape(h * w)
    for r in range(found.size):
        pixels = samples[r]
        n = found[r]
        columns = np.empty(n, np.int64)
        colours = np.empty((3, n), np.float32)
        for i in range(n):
            columns[i] = pixels[i] % w
            for k in range(3):
                colours[k, i] = flat_before[k, pixels[i]]
        half = max((n + 1) // 2, np.int64(1))
        best = half - 1
        far = np.int64(-1)
        best_x = np.int64(0)
        best_y = np.int64(0)
        for j in range(-reach, reach + 1, pace):
            for i in range(-reach, reach + 1, pace):
                dx = guess[r, 0] + i
                dy = guess[r, 1] + j
                count = count_matches(
                    pixels,
                    columns,
                    colours,
                    n,
                    dx,
                    dy,
                    flat,
                    flat_labels,
                    w,
                    tolerance_sq,
                    best - 1,
                )
                if count > best or (count == best and i * i + j * j < far):
                    best = count
                    best_x = dx
                    best_y = dy
                    far = i * i + j * j
        matches[r] = 0
        shift[r, 0] = 0
        shift[r, 1] = 0
        if best < half:
            continue
        coarse_x = best_x
        coarse_y = best_y
        for j in range(1 - pace, pace):
            for i in range(1 - pace, pace):
                dx = coarse_x + i
                dy = coarse_y + j
                count = count_matches(
                    pixels,
                    columns,
                    colours,
                    n,
                    dx,
                    dy,
                    flat,
                    flat_labels,
                    w,
                    tolerance_sq,
                    best,
                )
                if count > best:
                    best = count
                    best_x = dx
                    best_y = dy
        matches[r] = best
        shift[r, 0] = best_x
        shift[r, 1] = best_y


@njit(cache=True, nogil=True, error_model="numpy")
def move_segments(before, wanted, shift, planes, tolerance_sq, out):
    """Let pixels without a label become those of the wanted segments, moved by their shift (m, 2).

    before: `Before`. Writes all of the `Prediction` out. Where two segments meet, the pixel that
    comes first in the frame before stays. Returns how many pixels it gave.
    """
    labels = out.kept
    h, w = before.labels.shape
    given = 0
    if not shift.size:
        return given
    for sy in range(h):
        row = before.labels[sy]
        for sx in range(w):
            r = wanted[row[sx]]
            if r < 0:
                continue
            y = sy + shift[r, 1]
            x = sx + shift[r, 0]
            if y < 0 or x < 0 or y >= h or x >= w or labels[y, x] >= 0:
                continue
            dl = planes[0, y, x] - before.smooth[0, sy, sx]
            da = planes[1, y, x] - before.smooth[1, sy, sx]
            db = planes[2, y, x] - before.smooth[2, sy, sx]
            if dl * dl + da * da + db * db <= tolerance_sq:
                labels[y, x] = row[sx]
                out.warped[y, x] = row[sx]
                out.density[y, x] = before.density[sy, sx]
                out.flow[y, x, 0] = np.float32(-shift[r, 0])
                out.flow[y, x, 1] = np.float32(-shift[r, 1])
                given += 1
    return given

"""Run lengths of masks, as COCO writes them."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def find_runs(labels, label, box, counts):
    """Write how long the runs of a mask are: zeros, ones, zeros …, column by column.

    labels (h, w) int32; box (4,): x0, y0, x1, y1, outside of which the label is not. Writes counts
    int64, with room for two more than the box has pixels; returns how many there are.
    """
    h, w = labels.shape
    n = 0
    end = np.int64(0)  # where the last run of ones ended, in pixels from the first
    for x in range(box[0], box[2]):
        for y in range(box[1], box[3]):
            if labels[y, x] != label:
                continue
            place = np.int64(x) * h + y
            if n > 0 and place == end:
                counts[n - 1] += 1
            else:
                counts[n] = place - end
                counts[n + 1] = 1
                n += 2
            end = place + 1
    if end < np.int64(w) * h:
        counts[n] = np.int64(w) * h - end
        n += 1
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def write_text(counts, n, out, at):
    """Write n counts as COCO's text into out (m,) uint8 from `at` on; return where it ends.

    From the fourth on, a number is the difference to the one two before. Each is cut into five
    bits a character, lowest first; the sixth bit says that more follow, and 48 is added.
    """
    for i in range(n):
        rest = counts[i] - counts[i - 2] if i > 2 else counts[i]
        more = True
        while more:
            bits = rest & 0x1F
            rest >>= 5
            more = rest != -1 if bits & 0x10 else rest != 0
            out[at] = bits + 48 + (0x20 if more else 0)
            at += 1
    return at


@njit(cache=True, nogil=True, error_model="numpy")
def encode_masks(labels, rows, boxes, out, bounds):
    """Write the run lengths of the masks of several segments as COCO's text, one after the other.

    labels (h, w) int32; rows (n,) int32: which labels; boxes (n, 4) int32: where each lies. Writes
    out (m,) uint8 and bounds (n + 1,) int64: text i is out[bounds[i]:bounds[i + 1]]. Returns
    whether there was room.
    """
    most = np.int64(0)
    for i in range(rows.size):
        side = np.int64(boxes[i, 2] - boxes[i, 0])
        most = max(most, side * (boxes[i, 3] - boxes[i, 1]))
    counts = np.empty(most + 2, np.int64)
    bounds[0] = 0
    for i in range(rows.size):
        n = find_runs(labels, rows[i], boxes[i], counts)
        if bounds[i] + 8 * n > out.size:  # a count below 2^35 has at most eight characters
            return False
        bounds[i + 1] = write_text(counts, n, out, bounds[i])
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def find_crop_runs(labels, rows, boxes, out, bounds):
    """Write how long the runs of the masks of several segments are, each within its box alone.

    labels (h, w) int32; rows (n,) int32: which labels; boxes (n, 4) int32: where each lies. Writes
    out (m,) int32 and bounds (n + 1,) int64: the runs of mask i, zeros first and column by column,
    are out[bounds[i]:bounds[i + 1]]. Returns whether there was room.
    """
    bounds[0] = 0
    for i in range(rows.size):
        x0, y0, x1, y1 = boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3]
        crop = labels[y0:y1, x0:x1].copy()
        whole = np.zeros(4, boxes.dtype)
        whole[2], whole[3] = x1 - x0, y1 - y0
        counts = np.empty(crop.size + 2, np.int64)
        n = find_runs(crop, rows[i], whole, counts)
        if bounds[i] + n > out.size:
            return False
        for k in range(n):
            out[bounds[i] + k] = counts[k]
        bounds[i + 1] = bounds[i] + n
    return True

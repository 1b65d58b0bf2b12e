"""Dense inverse search (Kroeger et al. 2016): optical flow from small patches, coarse to fine.

Planes are float32, padded by PAD pixels that repeat the rim, so that a patch may leave the picture.
Patches of SIDE pixels lie a stride apart; the last of a row ends with the picture. A patch is
compared after both means were taken off, so that light may change.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SIDE = 8  # pixels of a patch, along and across
PAD = SIDE + 1
_SIZE = SIDE * SIDE
_SHARE = np.float32(1.0 / _SIZE)
_RIDGE = np.float32(1.0)  # squared levels: a patch with less texture than that does not move
_SAME = np.float32(0.25)  # pixels: a neighbour's flow this close is not tried
_ARRIVED = np.float32(0.04)  # squared pixels: a step this short is the last
_FAR = np.float32(SIDE * SIDE)  # squared pixels beyond which a search has gone astray


@njit(cache=True, nogil=True, error_model="numpy")
def pad_plane(plane, out):
    """Write a plane (h, w) uint8 to out (h + 2 PAD, w + 2 PAD), its rim repeated."""
    h, w = plane.shape
    for y in range(h + 2 * PAD):
        row = plane[min(max(y - PAD, 0), h - 1)]
        to = out[y]
        for x in range(w):
            to[x + PAD] = np.float32(row[x])
        for x in range(PAD):
            to[x] = to[PAD]
            to[w + PAD + x] = to[w + PAD - 1]


@njit(cache=True, nogil=True, error_model="numpy")
def find_slopes(now, across, down):
    """Write the central differences of a padded plane to across and down (h, w)."""
    h, w = across.shape
    half = np.float32(0.5)
    for y in range(h):
        here = now[y + PAD]
        above = now[y + PAD - 1]
        below = now[y + PAD + 1]
        slope_x = across[y]
        slope_y = down[y]
        for x in range(w):
            slope_x[x] = (here[x + PAD + 1] - here[x + PAD - 1]) * half
        for x in range(w):
            slope_y[x] = (below[x + PAD] - above[x + PAD]) * half


@njit(cache=True, nogil=True, error_model="numpy")
def search_level(now, before, coarse, stride, steps, flow):
    """Write the flow (h, w, 2) of one level: from each pixel of `now` to where it was.

    now, before (h, w) uint8; coarse: the flow of the level above, of half the size, or empty.
    """
    h, w = now.shape
    here = np.empty((h + 2 * PAD, w + 2 * PAD), np.float32)
    there = np.empty((h + 2 * PAD, w + 2 * PAD), np.float32)
    pad_plane(now, here)
    pad_plane(before, there)
    across = np.empty((h, w), np.float32)
    down = np.empty((h, w), np.float32)
    find_slopes(here, across, down)
    rows = (h - SIDE + stride - 1) // stride + 1
    columns = (w - SIDE + stride - 1) // stride + 1
    found = np.zeros((rows, columns, 2), np.float32)
    if coarse.size:
        begin_search(coarse, stride, found, h, w)
    errors = np.empty((rows, columns), np.float32)
    search_patches(here, there, across, down, stride, steps, found, errors)
    spread_patches(here, there, stride, found, np.empty((3, h, w), np.float32), flow)


@njit(cache=True, nogil=True, error_model="numpy")
def begin_search(coarse, stride, found, h, w):
    """Start the patches of a picture (h, w) from the flow of one half as large."""
    high, wide, _ = coarse.shape
    two = np.float32(2.0)
    for j in range(found.shape[0]):
        y = min((min(j * stride, h - SIDE) + SIDE // 2) // 2, high - 1)
        for i in range(found.shape[1]):
            x = min((min(i * stride, w - SIDE) + SIDE // 2) // 2, wide - 1)
            found[j, i, 0] = two * coarse[y, x, 0]
            found[j, i, 1] = two * coarse[y, x, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def copy_patch(plane, pitch, at, patch, to):
    """Copy SIDE rows of a flat plane, from index `at` on, to the patch, from index `to` on."""
    for r in range(SIDE):
        row = np.uintp(at + r * pitch)
        place = np.uintp(to + r * SIDE)
        for c in range(np.uintp(SIDE)):
            patch[place + c] = plane[row + c]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def warp_patch(before, h, w, y, x, u, v, out):
    """Write the patch (64,) that lies (u, v) off (x, y) in the frame before, bilinear.

    before: a padded plane, flat. Beyond the padding it lies at its rim.
    """
    pitch = w + 2 * PAD
    v = min(max(np.float32(y) + v, np.float32(-SIDE)), np.float32(h))
    u = min(max(np.float32(x) + u, np.float32(-SIDE)), np.float32(w))
    top = np.floor(v)
    left = np.floor(u)
    v -= top
    u -= left
    at = (int(top) + PAD) * pitch + int(left) + PAD
    w11 = u * v
    w10 = v - w11
    w01 = u - w11
    w00 = np.float32(1.0) - u - v + w11
    one = np.uintp(1)
    below = np.uintp(pitch)
    for r in range(SIDE):
        p = np.uintp(at + r * pitch)
        k = np.uintp(r * SIDE)
        for c in range(np.uintp(SIDE)):
            out[k + c] = (
                before[p + c] * w00
                + before[p + c + one] * w01
                + before[p + below + c] * w10
                + before[p + below + c + one] * w11
            )


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def compare_patches(seen, patch):
    """Return how far off a patch seen (64,) is: squares summed, and their slope in x and y.

    patch (192,): levels, slope in x, slope in y. Means are taken off.
    """
    total = np.float32(0.0)
    squares = np.float32(0.0)
    along = np.float32(0.0)
    down = np.float32(0.0)
    for i in range(np.uintp(_SIZE)):
        d = seen[i] - patch[i]
        total += d
        squares += d * d
        along += d * patch[i + np.uintp(_SIZE)]
        down += d * patch[i + np.uintp(2 * _SIZE)]
    return total, squares - total * total * _SHARE, along, down


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def texture(patch):
    """Return the sums of a patch's slopes in x and y, and of their products xx, xy, yy."""
    sx = np.float32(0.0)
    sy = np.float32(0.0)
    xx = np.float32(0.0)
    xy = np.float32(0.0)
    yy = np.float32(0.0)
    for i in range(np.uintp(_SIZE)):
        gx = patch[i + np.uintp(_SIZE)]
        gy = patch[i + np.uintp(2 * _SIZE)]
        sx += gx
        sy += gy
        xx += gx * gx
        xy += gx * gy
        yy += gy * gy
    return sx, sy, xx, xy, yy


@njit(cache=True, nogil=True, error_model="numpy")
def search_patches(now, before, across, down, stride, steps, found, errors):
    """Find for each patch where it was: found (rows, columns, 2), which says where to begin.

    Goes down the picture and up again. A patch tries the flow of the two neighbours that were just
    searched, if it differs, and descends from the best (Gauss-Newton), at most `steps` times; on
    the way back only where a neighbour's was better. errors (rows, columns) is scratch.
    """
    h, w = across.shape
    rows, columns, _ = found.shape
    pitch = w + 2 * PAD
    flat_now = now.reshape(now.size)
    flat_before = before.reshape(before.size)
    flat_across = across.reshape(across.size)
    flat_down = down.reshape(down.size)
    patch = np.empty(3 * _SIZE, np.float32)
    seen = np.empty(_SIZE, np.float32)
    for turn in range(2 * rows * columns):
        back = turn >= rows * columns
        job = 2 * rows * columns - 1 - turn if back else turn
        j = job // columns
        i = job - j * columns
        side = 1 if back else -1
        u = found[j, i, 0]
        v = found[j, i, 1]
        copied = False
        better = not back
        total = np.float32(0.0)
        slope_x = np.float32(0.0)
        slope_y = np.float32(0.0)
        best = errors[j, i]
        y = min(j * stride, h - SIDE)
        x = min(i * stride, w - SIDE)
        for n in range(-1, 2):  # its own flow, then its neighbours'
            beside_j = j + (side if n == 1 else 0)
            beside_i = i + (side if n == 0 else 0)
            try_u = u
            try_v = v
            if n < 0:
                if back:
                    continue
            else:
                if min(beside_j, beside_i) < 0 or beside_j >= rows or beside_i >= columns:
                    continue
                try_u = found[beside_j, beside_i, 0]
                try_v = found[beside_j, beside_i, 1]
                if abs(try_u - u) + abs(try_v - v) < _SAME:
                    continue
            if not copied:
                copy_patch(flat_now, pitch, (y + PAD) * pitch + x + PAD, patch, 0)
                copy_patch(flat_across, w, y * w + x, patch, _SIZE)
                copy_patch(flat_down, w, y * w + x, patch, 2 * _SIZE)
                copied = True
            warp_patch(flat_before, h, w, y, x, try_u, try_v, seen)
            mean, error, along, below = compare_patches(seen, patch)
            if n < 0 or error < best:
                best = error
                u = try_u
                v = try_v
                total = mean
                slope_x = along
                slope_y = below
                better = True
        if not better:
            continue
        sx, sy, xx, xy, yy = texture(patch)
        xx += _RIDGE - sx * sx * _SHARE
        xy -= sx * sy * _SHARE
        yy += _RIDGE - sy * sy * _SHARE
        inverse = np.float32(1.0) / (xx * yy - xy * xy)
        begun_u = u
        begun_v = v
        found[j, i, 0] = u
        found[j, i, 1] = v
        errors[j, i] = best
        for _ in range(steps):
            slope_x -= total * sx * _SHARE
            slope_y -= total * sy * _SHARE
            du = (yy * slope_x - xy * slope_y) * inverse
            dv = (xx * slope_y - xy * slope_x) * inverse
            if du * du + dv * dv < _ARRIVED:
                u -= du
                v -= dv
                break
            warp_patch(flat_before, h, w, y, x, u - du, v - dv, seen)
            total, error, slope_x, slope_y = compare_patches(seen, patch)
            if error >= best:
                break
            best = error
            u -= du
            v -= dv
        off_u = u - begun_u
        off_v = v - begun_v
        if off_u * off_u + off_v * off_v <= _FAR:
            found[j, i, 0] = u
            found[j, i, 1] = v
            errors[j, i] = best


@njit(cache=True, nogil=True, error_model="numpy")
def spread_patches(now, before, stride, found, sums, flow):
    """Write the flow (h, w, 2) of every pixel: the mean of its patches', by how well each fits it.

    sums (3, h, w) is scratch.
    """
    h, w, _ = flow.shape
    pitch = w + 2 * PAD
    flat_now = now.reshape(now.size)
    flat_before = before.reshape(before.size)
    weights = sums[0].reshape(h * w)
    sums_u = sums[1].reshape(h * w)
    sums_v = sums[2].reshape(h * w)
    one = np.float32(1.0)
    own = np.empty(_SIZE, np.float32)
    seen = np.empty(_SIZE, np.float32)
    weight = np.empty(_SIZE, np.float32)
    sums[:] = np.float32(0.0)
    for j in range(found.shape[0]):
        y = min(j * stride, h - SIDE)
        for i in range(found.shape[1]):
            x = min(i * stride, w - SIDE)
            u = found[j, i, 0]
            v = found[j, i, 1]
            copy_patch(flat_now, pitch, (y + PAD) * pitch + x + PAD, own, 0)
            warp_patch(flat_before, h, w, y, x, u, v, seen)
            for k in range(np.uintp(_SIZE)):
                weight[k] = one / max(one, abs(seen[k] - own[k]))
            for r in range(SIDE):
                p = np.uintp((y + r) * w + x)
                k = np.uintp(r * SIDE)
                for c in range(np.uintp(SIDE)):
                    weights[p + c] += weight[k + c]
                for c in range(np.uintp(SIDE)):
                    sums_u[p + c] += weight[k + c] * u
                for c in range(np.uintp(SIDE)):
                    sums_v[p + c] += weight[k + c] * v
    out = flow.reshape(2 * h * w)
    for p in range(np.uintp(h * w)):
        share = one / weights[p]
        out[p + p] = sums_u[p] * share
        out[p + p + np.uintp(1)] = sums_v[p] * share


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
def trace_pixels(before, smooth, motion):
    """Write where the pixels of a frame came from, and how far their colours lie from those there.

    before, smooth (3, h, w): the colours of both frames; motion: a `Motion` whose flow is known.
    Writes its nearest and gap, the latter against the colour between the four pixels around. Each
    step of a row is a function of its own: all in one, they take twice the time.
    """
    _, h, w = smooth.shape
    flat = before.reshape(before.size)
    flow = motion.flow
    nearest = motion.nearest
    gap = motion.gap
    columns = np.empty(w, np.float32)
    for x in range(w):
        columns[x] = np.float32(x)
    corner = np.empty(w, np.int32)
    part_x = np.empty(w, np.float32)
    part_y = np.empty(w, np.float32)
    for y in range(h):
        trace_row(y, flow[y].reshape(2 * w), columns, h, nearest[y], corner, part_x, part_y)
        compare_row(
            flat, h, corner, part_x, part_y, smooth[0, y], smooth[1, y], smooth[2, y], gap[y]
        )

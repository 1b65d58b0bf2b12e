"""Alg. 1 on a pixel grid, the climb: joint colour-space window sums.

Clusters and pixels are those of `records`. On a single image every pixel began as a cluster, of its
own index. Floats are float32. Each cluster owns its row, so parts of a list may run at once,
and nothing depends on the number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import LANES

_BLOCK = 512  # pixels per accumulator block: a constant, so that the compiler sees no aliasing
_CUTOFF_SQ = np.float32(4.0)  # windows end at 2σ in space
_BEYOND = np.float32(1e9)  # a squared distance outside of any window
_LEAST_WEIGHT = np.float32(1e-30)  # a sum of weights below this is none: its inverse must be finite


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def decay(s):
    """exp(-32 s) for s ≥ 0 as (1 - s + s²/2)³² - 2⁻³²: no branch and no call, so loops vectorise.

    Within 1 % of the Gaussian up to d = 2.7, and exactly 0 from d = 8 on.
    """
    s = min(s, np.float32(1.0))
    p = np.float32(1.0) - s + np.float32(0.5) * s * s
    p = p * p
    p = p * p
    p = p * p
    p = p * p
    return p * p - np.float32(2.0**-32)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def first_shift(planes, half_widths, space_weights, colour_scale, top, end, bearing, density):
    """Shift every pixel of the rows from top to end once with the base bandwidth (Eq. 4).

    planes (3, h, pitch); half_widths (2r+1,) int64: the window's half width in each of its rows;
    space_weights (2r+1, 2r+1); colour_scale 1/(64 σr²). Writes bearing (h*w, 5), density (h, w).
    Lanes run along the image row: 1.3e9 weights/s on one core.
    """
    h, w = density.shape
    radius = half_widths.size // 2
    blocks = (w + _BLOCK - 1) // _BLOCK
    for job in range(top * blocks, end * blocks):
        y = job // blocks
        start = (job % blocks) * _BLOCK
        n = min(_BLOCK, w - start)
        sums = np.zeros(6 * _BLOCK, np.float32)
        own = np.empty(3 * _BLOCK, np.float32)
        for x in range(n):
            own[x] = planes[0, y, start + x]
            own[x + _BLOCK] = planes[1, y, start + x]
            own[x + 2 * _BLOCK] = planes[2, y, start + x]
        for dy in range(max(-radius, -y), min(radius, h - 1 - y) + 1):
            half = half_widths[dy + radius]
            for dx in range(-half, half + 1):
                x0 = max(0, -dx - start)
                x1 = min(n, w - dx - start)
                if x1 <= x0:
                    continue
                weight_space = space_weights[dy + radius, dx + radius]
                step_x = np.float32(dx)
                step_y = np.float32(dy)
                left = start + x0 + dx
                right = start + x1 + dx
                row_l = planes[0, y + dy, left:right]
                row_a = planes[1, y + dy, left:right]
                row_b = planes[2, y + dy, left:right]
                acc = sums[x0:]
                mid = own[x0:]
                for j in range(x1 - x0):
                    dl = row_l[j] - mid[j]
                    da = row_a[j] - mid[j + _BLOCK]
                    db = row_b[j] - mid[j + 2 * _BLOCK]
                    weight = decay((dl * dl + da * da + db * db) * colour_scale) * weight_space
                    acc[j] += weight
                    acc[j + _BLOCK] += weight * dl
                    acc[j + 2 * _BLOCK] += weight * da
                    acc[j + 3 * _BLOCK] += weight * db
                    acc[j + 4 * _BLOCK] += weight * step_x
                    acc[j + 5 * _BLOCK] += weight * step_y
        for x in range(n):
            inverse = np.float32(1.0) / sums[x]
            for k in range(5):
                bearing[y * w + start + x, k] = sums[x + (k + 1) * _BLOCK] * inverse
            density[y, start + x] = sums[x]


@njit(cache=True, nogil=True, error_model="numpy")
def density_at(planes, density, u, colour_weight, space_weight):
    """Return the stored density of the data point nearest to `u`, of the 3x3 pixels around it."""
    h, w = density.shape
    cx = min(max(int(u[3] + np.float32(0.5)), 0), w - 1)
    cy = min(max(int(u[4] + np.float32(0.5)), 0), h - 1)
    best = np.float32(np.inf)
    rho = np.float32(0.0)
    for y in range(max(cy - 1, 0), min(cy + 2, h)):
        for x in range(max(cx - 1, 0), min(cx + 2, w)):
            dl = planes[0, y, x] - u[0]
            da = planes[1, y, x] - u[1]
            db = planes[2, y, x] - u[2]
            dx = np.float32(x) - u[3]
            dy = np.float32(y) - u[4]
            d = (dl * dl + da * da + db * db) * colour_weight + (dx * dx + dy * dy) * space_weight
            if d < best:
                best = d
                rho = density[y, x]
    return rho


@njit(cache=True, nogil=True, error_model="numpy")
def seed_clusters(pixels, clusters, scales):
    """Found one cluster per pixel, standing where the first shift took it."""
    planes = pixels.planes
    density = pixels.density
    bearing = clusters.bearing
    position = clusters.position
    rho = clusters.rho
    colour = scales.colour
    space = scales.space
    h, w = density.shape
    for y in range(h):
        for x in range(w):
            c = y * w + x
            for k in range(3):
                position[c, k] = planes[k, y, x] + bearing[c, k]
            position[c, 3] = np.float32(x) + bearing[c, 3]
            position[c, 4] = np.float32(y) + bearing[c, 4]
            rho[c] = density_at(planes, density, position[c], colour, space)


@njit(cache=True, nogil=True, error_model="numpy")
def refresh_bandwidths(which, clusters, scales):
    """Set Σ_u = Var(T_u) + ξI per domain (Eq. 6) for adaptive clusters, stored inverted.

    which (m,): rows of clusters. The centred scatter has no eigenvalue below 0 beyond rounding, so
    none of Σ lies below ξ.
    """
    moments = clusters.trajectory
    precision = clusters.precision
    members = clusters.members
    least = scales.adaptive
    colour_floor = scales.floor_colour
    space_floor = scales.floor_space
    for i in range(which.size):
        u = which[i]
        if members[u] < least or moments[u, 0] <= np.float32(0.0):
            continue
        inv = np.float32(1.0) / moments[u, 0]
        ll = moments[u, 6] * inv + colour_floor
        la = moments[u, 7] * inv
        lb = moments[u, 8] * inv
        aa = moments[u, 9] * inv + colour_floor
        ab = moments[u, 10] * inv
        bb = moments[u, 11] * inv + colour_floor
        c0 = aa * bb - ab * ab
        c1 = lb * ab - la * bb
        c2 = la * ab - lb * aa
        det = ll * c0 + la * c1 + lb * c2
        idet = np.float32(1.0) / det
        precision[u, 0] = c0 * idet
        precision[u, 1] = c1 * idet
        precision[u, 2] = c2 * idet
        precision[u, 3] = (ll * bb - lb * lb) * idet
        precision[u, 4] = (la * lb - ll * ab) * idet
        precision[u, 5] = (ll * aa - la * la) * idet
        xx = moments[u, 12] * inv + space_floor
        xy = moments[u, 13] * inv
        yy = moments[u, 14] * inv + space_floor
        det_space = xx * yy - xy * xy
        idet = np.float32(1.0) / det_space
        precision[u, 6] = yy * idet
        precision[u, 7] = -xy * idet
        precision[u, 8] = xx * idet
        precision[u, 9] = np.float32(1.0) / np.sqrt(det * det_space)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def row_span(px, pxy, py, dy, ux, w):
    """Columns of one window row with (x-u)ᵀP(x-u) ≤ cutoff: first, and one past the last."""
    # px·dx² + 2·pxy·dy·dx + py·dy² - cutoff ≤ 0
    b = pxy * dy
    disc = b * b - px * (py * dy * dy - _CUTOFF_SQ)
    if disc < np.float32(0.0):
        return 0, 0
    root = np.sqrt(disc)
    x0 = max(int(np.ceil(ux + (-b - root) / px)), 0)
    x1 = min(int(np.floor(ux + (-b + root) / px)) + 1, w)
    return x0, x1


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def lane_span(x, half, pitch):
    """First column, and number of chunks of 16 pixels, that cover x ± half of a padded row."""
    x0 = max(int(np.ceil(x - half)), 0)
    wanted = min(int(x + half) + 1, pitch) - x0
    chunks = max((wanted + LANES - 1) // LANES, 1)
    x0 = max(0, min(x0, pitch - chunks * LANES))
    return x0, chunks


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def own_weight(dl, da, db, far, p0, p1, p2, p3, p4, p5):
    """Weight of a pixel so far off in colour and, `far`, in space; none beyond the window."""
    s = (p0 * dl + p1 * da + p2 * db) * dl + (p3 * da + p4 * db) * da + p5 * db * db
    return decay(s + far if far <= _CUTOFF_SQ / np.float32(64.0) else np.float32(1.0))


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def own_step(planes, u, p, thin, out):
    """Mean shift under one bandwidth: Eq. 3 with the cluster's own, Eq. 4 with the base one.

    u (5,), p (10,). Writes the shift to out (5,), 0 where nothing carries weight; returns the sum
    of weights. The window is the 2σ ellipse; every thin-th row is read, its own among them, in
    whole lanes, of which pixels beyond it weigh nothing. Three rows at a time: the lanes are summed
    up at the end of each chunk, which would take half the time if it were done for each row.
    """
    _, h, pitch = planes.shape
    flat = planes.reshape(planes.size)
    plane = np.uintp(h * pitch)
    scale = np.float32(1.0 / 64.0)
    p0 = p[0] * scale
    p1 = p[1] * scale * np.float32(2.0)
    p2 = p[2] * scale * np.float32(2.0)
    p3 = p[3] * scale
    p4 = p[4] * scale * np.float32(2.0)
    p5 = p[5] * scale
    px = p[6]
    pxy = p[7]
    py = p[8]
    ul = u[0]
    ua = u[1]
    ub = u[2]
    ux = u[3]
    uy = u[4]
    spread = _CUTOFF_SQ / (px * py - pxy * pxy)
    half = np.sqrt(spread * py)
    round_sq = _CUTOFF_SQ / px
    flat_sq = py / px
    reach = np.sqrt(spread * px)
    total = np.float32(0.0)
    sl = np.float32(0.0)
    sa = np.float32(0.0)
    sb = np.float32(0.0)
    sx = np.float32(0.0)
    sy = np.float32(0.0)
    px *= scale
    pxy *= scale * np.float32(2.0)
    py *= scale
    top = max(int(np.ceil(uy - reach)), 0)
    end = min(int(uy + reach) + 1, h)
    top += (int(uy + np.float32(0.5)) - top) % thin
    for y in range(top, end, 3 * thin):
        # a row beyond the window is the first of the three again, too far to weigh
        y1 = y + thin if y + thin < end else y
        y2 = y + 2 * thin if y + 2 * thin < end else y
        c = np.float32(y) - uy
        d = np.float32(y1) - uy
        e = np.float32(y2) - uy
        far_c = py * c * c
        far_d = py * d * d if y1 > y else _BEYOND
        far_e = py * e * e if y2 > y else _BEYOND
        if pxy == np.float32(0.0):  # the widest of the three rows is the one nearest to the middle
            near = max(max(c, -max(d, e)), np.float32(0.0))
            half = np.sqrt(max(round_sq - flat_sq * near * near, np.float32(0.0)))
        x0, chunks = lane_span(ux, half, pitch)
        for k in range(chunks):
            start = x0 + k * LANES
            first = np.float32(start) - ux
            c_l = np.uintp(y * pitch + start)
            d_l = np.uintp(y1 * pitch + start)
            e_l = np.uintp(y2 * pitch + start)
            c_a = c_l + plane
            d_a = d_l + plane
            e_a = e_l + plane
            c_b = c_a + plane
            d_b = d_a + plane
            e_b = e_a + plane
            for j in range(np.uintp(LANES)):
                x = first + np.float32(np.int32(j))
                cl = flat[c_l + j] - ul
                ca = flat[c_a + j] - ua
                cb = flat[c_b + j] - ub
                dl = flat[d_l + j] - ul
                da = flat[d_a + j] - ua
                db = flat[d_b + j] - ub
                el = flat[e_l + j] - ul
                ea = flat[e_a + j] - ua
                eb = flat[e_b + j] - ub
                wc = own_weight(cl, ca, cb, (px * x + pxy * c) * x + far_c, p0, p1, p2, p3, p4, p5)
                wd = own_weight(dl, da, db, (px * x + pxy * d) * x + far_d, p0, p1, p2, p3, p4, p5)
                we = own_weight(el, ea, eb, (px * x + pxy * e) * x + far_e, p0, p1, p2, p3, p4, p5)
                weight = wc + wd + we
                total += weight
                sl += wc * cl + wd * dl + we * el
                sa += wc * ca + wd * da + we * ea
                sb += wc * cb + wd * db + we * eb
                sx += weight * x
                sy += wc * c + wd * d + we * e
    inv = np.float32(1.0) / total if total > _LEAST_WEIGHT else np.float32(0.0)
    out[0] = sl * inv
    out[1] = sa * inv
    out[2] = sb * inv
    out[3] = sx * inv
    out[4] = sy * inv
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def first_step(where, which, pixels, clusters, base, density_scale, thin):
    """Found clusters on single pixels, and shift them once with the base bandwidth `base` (10,).

    where, which (m,): flat indices of the pixels, and the clusters they found; thin as in
    `own_step`. Writes their rows, and the density at these pixels: the sum of weights times
    `density_scale`, at most 1.
    """
    planes = pixels.planes
    density = pixels.density
    bearing = clusters.bearing
    position = clusters.position
    w = density.shape[1]
    for i in range(where.size):
        c = which[i]
        y = np.int64(np.uint32(where[i]) // np.uint32(w))  # in half the time of int64
        x = where[i] - y * w
        place = position[c]
        for k in range(3):
            place[k] = planes[k, y, x]
        place[3] = np.float32(x)
        place[4] = np.float32(y)
        total = own_step(planes, place, base, thin, bearing[c])
        rho = min(total * density_scale, np.float32(1.0))
        density[y, x] = rho
        clusters.rho[c] = rho
        trajectory = clusters.trajectory[c]
        trajectory[0] = rho
        for k in range(5):
            place[k] += bearing[c, k]
            clusters.shift[c, k] = bearing[c, k]
            trajectory[1 + k] = place[k]
        for k in range(6, 15):
            trajectory[k] = np.float32(0.0)
        for k in range(10):
            clusters.precision[c, k] = base[k]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def all_adaptive(adaptive, u, p):
    """Tell whether all clusters in the window around `u` have a bandwidth of their own."""
    h, w = adaptive.shape
    px = p[6]
    pxy = p[7]
    py = p[8]
    reach = np.sqrt(_CUTOFF_SQ * px / (px * py - pxy * pxy))
    for y in range(max(int(np.ceil(u[4] - reach)), 0), min(int(np.floor(u[4] + reach)) + 1, h)):
        x0, x1 = row_span(px, pxy, py, np.float32(y) - u[4], u[3], w)
        row = adaptive[y, x0:x1]
        missing = 0
        for j in range(x1 - x0):
            missing += 1 - row[j]
        if missing > 0:
            return False
    return True


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def full_step(planes, owner, precision, u, p, thin, out):
    """Mean shift under the neighbours' bandwidths (Eq. 2b): Σ_g of each pixel's own cluster.

    The window is that of the cluster at `u` with precision `p`, thinned as in `own_step`. Runs of
    pixels of one cluster share its bandwidth, so the inner loop has constants and vectorises.
    Writes the shift to out, 0 where nothing carries weight.
    """
    h, w = owner.shape
    scale = np.float32(1.0 / 64.0)
    px = p[6]
    pxy = p[7]
    py = p[8]
    ul = u[0]
    ua = u[1]
    ub = u[2]
    ux = u[3]
    uy = u[4]
    reach = np.sqrt(_CUTOFF_SQ * px / (px * py - pxy * pxy))
    # Σ_g w/c_g P_g: colour (6), space (3); Σ_g P_g Σ_i w/c_g (x_i - u): colour (3), space (2)
    a0 = np.float32(0.0)
    a1 = np.float32(0.0)
    a2 = np.float32(0.0)
    a3 = np.float32(0.0)
    a4 = np.float32(0.0)
    a5 = np.float32(0.0)
    a6 = np.float32(0.0)
    a7 = np.float32(0.0)
    a8 = np.float32(0.0)
    total = np.float32(0.0)
    b0 = np.float32(0.0)
    b1 = np.float32(0.0)
    b2 = np.float32(0.0)
    b3 = np.float32(0.0)
    b4 = np.float32(0.0)
    top = max(int(np.ceil(uy - reach)), 0)
    top += (int(uy + np.float32(0.5)) - top) % thin
    for y in range(top, min(int(np.floor(uy + reach)) + 1, h), thin):
        dy = np.float32(y) - uy
        x0, x1 = row_span(px, pxy, py, dy, ux, w)
        while x0 < x1:
            g = owner[y, x0]
            end = x0 + 1
            while end < x1 and owner[y, end] == g:
                end += 1
            p0 = precision[g, 0]
            p1 = precision[g, 1]
            p2 = precision[g, 2]
            p3 = precision[g, 3]
            p4 = precision[g, 4]
            p5 = precision[g, 5]
            g0 = precision[g, 6]
            g1 = precision[g, 7]
            g2 = precision[g, 8]
            c = precision[g, 9]
            q0 = g2 * dy * dy * scale
            q1 = g1 * dy * scale * np.float32(2.0)
            q2 = g0 * scale
            k0 = p0 * scale
            k1 = p1 * scale * np.float32(2.0)
            k2 = p2 * scale * np.float32(2.0)
            k3 = p3 * scale
            k4 = p4 * scale * np.float32(2.0)
            k5 = p5 * scale
            row_l = planes[0, y, x0:end]
            row_a = planes[1, y, x0:end]
            row_b = planes[2, y, x0:end]
            first = np.float32(x0) - ux
            row = np.float32(0.0)
            sl = np.float32(0.0)
            sa = np.float32(0.0)
            sb = np.float32(0.0)
            sx = np.float32(0.0)
            for j in range(end - x0):
                dl = row_l[j] - ul
                da = row_a[j] - ua
                db = row_b[j] - ub
                dx = first + np.float32(j)
                s = (k0 * dl + k1 * da + k2 * db) * dl + (k3 * da + k4 * db) * da + k5 * db * db
                weight = decay(s + (q2 * dx + q1) * dx + q0)
                row += weight
                sl += weight * dl
                sa += weight * da
                sb += weight * db
                sx += weight * dx
            row *= c
            sl *= c
            sa *= c
            sb *= c
            sx *= c
            sy = row * dy
            total += row
            a0 += row * p0
            a1 += row * p1
            a2 += row * p2
            a3 += row * p3
            a4 += row * p4
            a5 += row * p5
            a6 += row * g0
            a7 += row * g1
            a8 += row * g2
            b0 += p0 * sl + p1 * sa + p2 * sb
            b1 += p1 * sl + p3 * sa + p4 * sb
            b2 += p2 * sl + p4 * sa + p5 * sb
            b3 += g0 * sx + g1 * sy
            b4 += g1 * sx + g2 * sy
            x0 = end
    if total > _LEAST_WEIGHT:
        # Mean precisions: determinants of the sums would leave float32 where all weights are small.
        f = np.float32(1.0) / total
        a0 *= f
        a1 *= f
        a2 *= f
        a3 *= f
        a4 *= f
        a5 *= f
        a6 *= f
        a7 *= f
        a8 *= f
        c0 = a3 * a5 - a4 * a4
        c1 = a2 * a4 - a1 * a5
        c2 = a1 * a4 - a2 * a3
        c3 = a0 * a5 - a2 * a2
        c4 = a1 * a2 - a0 * a4
        c5 = a0 * a3 - a1 * a1
        inv = f / (a0 * c0 + a1 * c1 + a2 * c2)
        out[0] = (c0 * b0 + c1 * b1 + c2 * b2) * inv
        out[1] = (c1 * b0 + c3 * b1 + c4 * b2) * inv
        out[2] = (c2 * b0 + c4 * b1 + c5 * b2) * inv
        inv = f / (a6 * a8 - a7 * a7)
        out[3] = (a8 * b3 - a7 * b4) * inv
        out[4] = (a6 * b4 - a7 * b3) * inv
    else:
        out[:] = np.float32(0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def shift_clusters(which, pixels, clusters, scales, kind):
    """Move each listed cluster one step (Eqs. 2b, 3, 4).

    which (m,): rows of clusters. Reads owners and bandwidths as they stood before the pass; row u
    writes only row u. kind[i] says which update it was: 0 scalar, 1 partial, 2 full.
    """
    planes = pixels.planes
    density = pixels.density
    owner = pixels.owner
    adaptive = pixels.adaptive
    position = clusters.position
    rho = clusters.rho
    shift = clusters.shift
    precision = clusters.precision
    members = clusters.members
    colour = scales.colour
    space = scales.space
    least = scales.adaptive
    thin = scales.thin
    for i in range(which.size):
        u = which[i]
        place = position[u]
        step = shift[u]
        own = precision[u]
        kind[i] = 0
        if members[u] >= least:
            kind[i] = 2 if all_adaptive(adaptive, place, own) else 1
        if kind[i] == 2:
            full_step(planes, owner, precision, place, own, thin, step)
        else:
            own_step(planes, place, own, thin, step)
        for k in range(5):
            place[k] += step[k]
        rho[u] = density_at(planes, density, place, colour, space)


@njit(cache=True, nogil=True, error_model="numpy")
def measure_shifts(which, shift, lengths):
    """Write how far each listed cluster moved last to lengths (m,)."""
    for i in range(which.size):
        total = np.float32(0.0)
        for k in range(5):
            total += shift[which[i], k] * shift[which[i], k]
        lengths[i] = np.sqrt(total)

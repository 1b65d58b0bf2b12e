"""Alg. 1 on a pixel grid, the agglomeration: trajectories, merge check, merges.

Clusters and pixels are those of `records`. Each pass reads one state and merges clusters one by
one in an order fixed by density and index, so nothing depends on the number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aaams_stream.kernels.common import LANES, find_root, numbers

_LEVELS = 4096  # steps of density that order the merges


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def add_place(a, weight, place):
    """Add one place (5,) to trajectory moments a (15,): raw sums would cancel in float32."""
    total = a[0] + weight
    g = weight / total if total > np.float32(0.0) else np.float32(1.0)  # the first that counts
    f = a[0] * g
    d0 = place[0] - a[1]
    d1 = place[1] - a[2]
    d2 = place[2] - a[3]
    d3 = place[3] - a[4]
    d4 = place[4] - a[5]
    a[0] = total
    a[1] += g * d0
    a[2] += g * d1
    a[3] += g * d2
    a[4] += g * d3
    a[5] += g * d4
    a[6] += f * d0 * d0
    a[7] += f * d0 * d1
    a[8] += f * d0 * d2
    a[9] += f * d1 * d1
    a[10] += f * d1 * d2
    a[11] += f * d2 * d2
    a[12] += f * d3 * d3
    a[13] += f * d3 * d4
    a[14] += f * d4 * d4


@njit(cache=True, nogil=True, error_model="numpy")
def add_moments(a, b):
    """Add trajectory moments b (15,) to a (15,): their mean as a place, then their scatter."""
    add_place(a, b[0], b[1:6])
    for k in range(6, 15):
        a[k] += b[k]


@njit(cache=True, nogil=True, error_model="numpy")
def begin_trajectories(which, clusters):
    """Begin the trajectory of each listed cluster with the place where it stands."""
    trajectory = clusters.trajectory
    position = clusters.position
    rho = clusters.rho
    for i in range(which.size):
        u = which[i]
        trajectory[u, 0] = rho[u]
        for k in range(5):
            trajectory[u, 1 + k] = position[u, k]
        for k in range(6, 15):
            trajectory[u, k] = np.float32(0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def extend_trajectories(which, clusters):
    """Add the place where each listed cluster stands to its trajectory, weighted by its density."""
    trajectory = clusters.trajectory
    position = clusters.position
    rho = clusters.rho
    for i in range(which.size):
        u = which[i]
        add_place(trajectory[u], rho[u], position[u])


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def same_mode(u, m, y, bearing, colour_weight, space_weight):
    """Merge check: `u` moving by `m` and `y` moving by `bearing` close in and head the same way.

    Each domain is scaled by its base bandwidth. Not strict: on flat ground nothing moves, and
    what does not move belongs together.
    """
    along = np.float32(0.0)
    closing = np.float32(0.0)
    for k in range(3):
        along += m[k] * bearing[k] * colour_weight
        closing += (u[k] - y[k]) * (m[k] - bearing[k]) * colour_weight
    for k in range(3, 5):
        along += m[k] * bearing[k] * space_weight
        closing += (u[k] - y[k]) * (m[k] - bearing[k]) * space_weight
    return along >= np.float32(0.0) and closing <= np.float32(0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def absorb(u, v, clusters):
    """Merge clusters u and v; the denser assimilates the other. Returns whether u survives."""
    if clusters.rho[u] > clusters.rho[v]:
        clusters.parent[v] = u
        clusters.members[u] += clusters.members[v]
        add_moments(clusters.trajectory[u], clusters.trajectory[v])
        clusters.changed[u] = True
        return True
    clusters.parent[u] = v
    clusters.members[v] += clusters.members[u]
    add_moments(clusters.trajectory[v], clusters.trajectory[u])
    clusters.changed[v] = True
    return False


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def vicinity_span(u, dy, epsilon_sq, w):
    """Columns of one row, `dy` off, that lie within ε of `u` in space: first, one past the last."""
    room = epsilon_sq - dy * dy
    if room < np.float32(0.0):
        return 0, 0
    half = np.sqrt(room)
    return max(int(np.ceil(u[3] - half)), 0), min(int(np.floor(u[3] + half)) + 1, w)


@njit(cache=True, nogil=True, error_model="numpy")
def order_by_density(clusters, rho, order):
    """Sort clusters densest first, ties in the order given (counting sort on 4096 levels)."""
    starts = np.zeros(_LEVELS + 1, np.int64)
    for c in clusters:
        starts[_LEVELS - int(rho[c] * np.float32(_LEVELS - 1))] += 1
    for k in range(_LEVELS):
        starts[k + 1] += starts[k]
    for c in clusters:
        level = _LEVELS - 1 - int(rho[c] * np.float32(_LEVELS - 1))
        order[starts[level]] = c
        starts[level] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def merge_pixels(order, y0, y1, planes, clusters, scales, w):
    """Merge single-pixel clusters one by one in the order given, looking at rows y0 to y1 only.

    The first pass of Alg. 1, when every pixel owns itself. Returns the merges made.
    """
    epsilon_colour_sq = scales.epsilon_colour
    epsilon_space_sq = scales.epsilon_space
    bearing = clusters.bearing
    parent = clusters.parent
    reach = int(np.sqrt(epsilon_space_sq))
    y = np.empty(5, np.float32)
    merges = 0
    for u in order:
        if parent[u] != u:
            continue
        place = clusters.position[u]
        alive = True
        row = max(int(place[4]) - reach, y0)
        last = min(int(place[4]) + reach + 2, y1)
        while alive and row < last:
            y[4] = np.float32(row)
            x0, x1 = vicinity_span(place, place[4] - y[4], epsilon_space_sq, w)
            for x in range(x0, x1):
                y[0] = planes[0, row, x]
                d = place[0] - y[0]
                gap = d * d
                if gap > epsilon_colour_sq:
                    continue
                y[1] = planes[1, row, x]
                y[2] = planes[2, row, x]
                d = place[1] - y[1]
                gap += d * d
                d = place[2] - y[2]
                gap += d * d
                if gap > epsilon_colour_sq:
                    continue
                p = row * w + x
                v = find_root(parent, np.int32(p))
                if v == u:
                    continue
                y[3] = np.float32(x)
                if not same_mode(place, bearing[u], y, bearing[p], scales.colour, scales.space):
                    continue
                merges += 1
                alive = absorb(u, v, clusters)
                if not alive:
                    break
            row += 1
    return merges


@njit(cache=True, nogil=True, error_model="numpy")
def merge_band(top, end, planes, clusters, scales):
    """First merge pass inside a band of rows, densest first; return the merges made.

    Bands share no cluster, so they may run at the same time.
    """
    w = clusters.rho.size // planes.shape[1]
    order = np.empty((end - top) * w, np.int32)
    order_by_density(numbers(top * w, end * w), clusters.rho, order)
    return merge_pixels(order, top, end, planes, clusters, scales, w)


@njit(cache=True, nogil=True, error_model="numpy")
def merge_seams(band, planes, clusters, scales):
    """First merge pass across the seams of bands of so many rows; return the merges made.

    Only a cluster that stands within ε of a seam can still find something new.
    """
    h = planes.shape[1]
    parent = clusters.parent
    w = parent.size // h
    reach = np.sqrt(scales.epsilon_space)
    near = np.empty(parent.size, np.int32)
    n = 0
    for u in range(parent.size):
        if parent[u] == u:
            top = (u // w) // band * band
            y = clusters.position[u, 4]
            if (top > 0 and y - reach < top) or (top + band < h and y + reach > top + band - 1):
                near[n] = u
                n += 1
    order = np.empty(n, np.int32)
    order_by_density(near[:n], clusters.rho, order)
    return merge_pixels(order, np.int64(0), h, planes, clusters, scales, w)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def near_lanes(flat, plane, at, first, dy, place, epsilon_colour_sq, epsilon_space_sq):
    """Tell which pixels of the lanes that begin at `at` lie within ε of `place`: bit j for lane j.

    flat: the planes (3·plane,); first, dy: how far off the first of them is in x and y.
    """
    ul = place[0]
    ua = place[1]
    ub = place[2]
    dy_sq = dy * dy
    at_l = np.uintp(at)
    at_a = at_l + plane
    at_b = at_a + plane
    hits = np.int32(0)
    for j in range(np.uintp(LANES)):
        dl = flat[at_l + j] - ul
        da = flat[at_a + j] - ua
        db = flat[at_b + j] - ub
        dx = first + np.float32(np.int32(j))
        near = (dl * dl + da * da + db * db <= epsilon_colour_sq) & (
            dx * dx + dy_sq <= epsilon_space_sq
        )
        hits |= np.int32(near) << np.int32(j)
    return hits


@njit(cache=True, nogil=True, error_model="numpy")
def find_partners(which, pixels, clusters, scales, partners, found):
    """List the clusters that each moved cluster may merge with, in the order they are met.

    which (m,): rows of clusters; writes partners (m, k) int32 and found (m,) int32, which exceeds k
    where there are more. A partner owns a data point within ε that passes the merge check. The list
    ends with the first partner that is denser: whatever else merges before, that one will absorb
    the cluster, because in every merge the denser survives.
    """
    planes = pixels.planes
    owner = pixels.owner
    start = pixels.start
    position = clusters.position
    rho = clusters.rho
    shift = clusters.shift
    bearing = clusters.bearing
    colour = scales.colour
    space = scales.space
    epsilon_colour_sq = scales.epsilon_colour
    epsilon_space_sq = scales.epsilon_space
    _, h, pitch = planes.shape
    flat = planes.reshape(planes.size)
    plane = np.uintp(h * pitch)
    reach = int(np.sqrt(epsilon_space_sq))
    chunks = min((2 * reach + 2 + LANES - 1) // LANES, pitch // LANES)
    room = partners.shape[1]
    for i in range(which.size):
        u = which[i]
        place = position[u]
        own_shift = shift[u]
        y = np.empty(5, np.float32)
        n = 0
        lost = False
        left = min(max(int(place[3]) - reach, 0), pitch - chunks * LANES)
        top = max(int(place[4]) - reach, 0)
        end = min(int(place[4]) + reach + 2, h)
        middle = min(max(int(place[4] + np.float32(0.5)), top), end - 1)
        for job in range(2 * (reach + 2) * chunks):
            # from the middle outwards: whoever absorbs it is mostly near
            off = (job // chunks + 1) // 2
            row = middle + (off if job // chunks % 2 else -off)
            if row < top or row >= end:
                continue
            x = left + job % chunks * LANES
            y[4] = np.float32(row)
            hits = near_lanes(
                flat,
                plane,
                row * pitch + x,
                np.float32(x) - place[3],
                y[4] - place[4],
                place,
                epsilon_colour_sq,
                epsilon_space_sq,
            )
            while hits != 0:
                if hits & 1:
                    v = owner[np.uintp(row), np.uintp(x)]
                    known = v == u
                    for k in range(min(n, room)):
                        known |= partners[i, k] == v
                    if not known:
                        y[0] = planes[0, row, x]
                        y[1] = planes[1, row, x]
                        y[2] = planes[2, row, x]
                        y[3] = np.float32(x)
                        ahead = bearing[start[row, x]]
                        if same_mode(place, own_shift, y, ahead, colour, space):
                            if n < room:
                                partners[i, n] = v
                            n += 1
                            lost = rho[v] > rho[u]
                            if lost:
                                break
                hits >>= 1
                x += 1
            if lost:
                break
        found[i] = n


@njit(cache=True, nogil=True, error_model="numpy")
def merge_partners(order, which, partners, found, clusters):
    """Merge clusters with their partners one by one, densest first (Alg. 1).

    order (m,): positions in `which`, rows of clusters. Partners beyond the room of the list wait
    for the next iteration. Returns the merges made.
    """
    merges = 0
    for i in order:
        u = which[i]
        if clusters.parent[u] != u:
            continue
        for k in range(min(found[i], partners.shape[1])):
            v = find_root(clusters.parent, partners[i, k])
            if v == u:
                continue
            merges += 1
            if not absorb(u, v, clusters):
                break
    return merges


@njit(cache=True, nogil=True, error_model="numpy")
def refresh_owners(where, pixels, clusters, scales):
    """Point the listed pixels at their surviving clusters; mark those that are adaptive.

    where (m,): flat indices of pixels.
    """
    owners = pixels.owner.reshape(pixels.owner.size)
    marks = pixels.adaptive.reshape(pixels.adaptive.size)
    parent = clusters.parent
    members = clusters.members
    least = scales.adaptive
    for i in range(where.size):
        p = where[i]
        c = owners[p]
        while parent[c] != c:
            c = parent[c]
        owners[p] = c
        marks[p] = members[c] >= least

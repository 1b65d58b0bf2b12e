"""Compiled loops of Alg. 2 for points: which clusters join, cheapest pair first.

Scaled coordinates as in `kernels.points`; all arrays C-contiguous, float64 or int64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray


class Members(NamedTuple):
    """What is known of each cluster's members; kernels write into the arrays."""

    mode: NDArray[np.float64]  # (k, d)
    rho: NDArray[np.float64]  # (k,) density of the mode
    count: NDArray[np.float64]  # type: ignore[assignment]  # (k,) by weight; hides tuple.count
    mass: NDArray[np.float64]  # (k,) Σρ
    mean: NDArray[np.float64]  # (k, d) weighted by ρ
    scatter: NDArray[np.float64]  # (k, d, d) around the mean, weighted by ρ


@njit(cache=True, nogil=True, error_model="numpy")
def log_det_and_square(matrix, vector):
    """Return log det M and vᵀM⁻¹v of a positive definite M (d, d), which is overwritten."""
    dims = vector.shape[0]
    log_det = np.float64(0.0)
    square = np.float64(0.0)
    for a in range(dims):
        for b in range(a + 1):
            value = matrix[a, b]
            for c in range(b):
                value -= matrix[a, c] * matrix[b, c]
            matrix[a, b] = np.sqrt(value) if a == b else value / matrix[b, b]
        log_det += 2.0 * np.log(matrix[a, a])
        forward = vector[a]
        for c in range(a):
            forward -= matrix[a, c] * vector[c]
        vector[a] = forward / matrix[a, a]
        square += vector[a] * vector[a]
    return log_det, square


@njit(cache=True, nogil=True, error_model="numpy")
def bhattacharyya(mean_a, variance_a, log_det_a, mean_b, variance_b, log_det_b):
    """Return the Bhattacharyya distance d_B between two Gaussians."""
    middle = 0.5 * (variance_a + variance_b)
    log_det, square = log_det_and_square(middle, mean_a - mean_b)
    return 0.125 * square + 0.5 * (log_det - 0.5 * (log_det_a + log_det_b))


@njit(cache=True, nogil=True, error_model="numpy")
def distance_sq(mode, a, b):
    """Return the squared distance of two rows of mode (k, d)."""
    dist_sq = np.float64(0.0)
    for c in range(mode.shape[1]):
        dist_sq += (mode[a, c] - mode[b, c]) ** 2
    return dist_sq


@njit(cache=True, nogil=True, error_model="numpy")
def pair_cost(a, b, members, ridge, log_det, reach_sq):
    """Return d_B of clusters a and b; infinite past the reach, where they are not adjacent."""
    if distance_sq(members.mode, a, b) > reach_sq:
        return np.inf
    mass, mean, scatter = members.mass, members.mean, members.scatter
    return bhattacharyya(
        mean[a], scatter[a] / mass[a] + ridge, log_det[a],
        mean[b], scatter[b] / mass[b] + ridge, log_det[b],
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def absorb(a, b, members, alive, parent):
    """Let the denser of two clusters, a on a tie, take over the other; return it and the other."""
    mass, mean, scatter = members.mass, members.mean, members.scatter
    dims = mean.shape[1]
    winner, loser = (a, b) if members.rho[a] >= members.rho[b] else (b, a)
    alive[loser] = False
    parent[loser] = winner
    members.count[winner] += members.count[loser]
    share = mass[loser] / (mass[winner] + mass[loser])
    delta = mean[loser] - mean[winner]
    for c in range(dims):
        for e in range(dims):
            scatter[winner, c, e] += (
                scatter[loser, c, e] + mass[winner] * share * delta[c] * delta[e]
            )
    for c in range(dims):
        mean[winner, c] += share * delta[c]
    mass[winner] += mass[loser]
    return winner, loser


@njit(cache=True, nogil=True, error_model="numpy")
def flatten(parent):
    """Let every row name the row it ended in."""
    for a in range(parent.shape[0]):
        root = a
        while parent[root] != root:
            root = parent[root]
        parent[a] = root


@njit(cache=True, nogil=True, error_model="numpy")
def join_small(members, min_size, out_parent):
    """Alg. 2, step 3: the smallest cluster under min_size joins the nearest mode, until none is.

    The denser mode stays. Renews `members`; out_parent (k,) names the row each ended in.
    """
    mode, count = members.mode, members.count
    k = mode.shape[0]
    alive = np.ones(k, np.bool_)
    for a in range(k):
        out_parent[a] = a
    for _ in range(k - 1):
        a = -1
        for c in range(k):
            if alive[c] and count[c] < min_size and (a < 0 or count[c] < count[a]):
                a = c
        if a < 0:
            break
        nearest, nearest_sq = -1, np.inf
        for c in range(k):
            if alive[c] and c != a:
                dist_sq = distance_sq(mode, a, c)
                if dist_sq < nearest_sq:
                    nearest, nearest_sq = c, dist_sq
        absorb(a, nearest, members, alive, out_parent)
    flatten(out_parent)


@njit(cache=True, nogil=True, error_model="numpy")
def find_partner(a, members, ridge, log_det, reach_sq, alive, best, partner):
    """Write the partner that costs cluster a least, and the cost; -1 where there is none."""
    best[a], partner[a] = np.inf, -1
    for b in range(alive.shape[0]):
        if alive[b] and b != a:
            cost = pair_cost(a, b, members, ridge, log_det, reach_sq)
            if cost < best[a]:
                best[a], partner[a] = cost, b


@njit(cache=True, nogil=True, error_model="numpy")
def join_close(members, ridge, reach_sq, threshold, wanted, out_parent):
    """Alg. 2, step 5: the adjacent pair of least d_B joins, statistics renewed after each.

    Goes on while that d_B is below `threshold` or more than `wanted` clusters are left. The denser
    mode stays. ridge (d, d) is ξ on the diagonal. Renews `members`; out_parent (k,) names the row
    each ended in.
    """
    mass, scatter = members.mass, members.scatter
    k, dims = members.mode.shape
    log_det = np.zeros(k)
    alive = np.ones(k, np.bool_)
    best = np.full(k, np.inf)
    partner = np.full(k, -1)
    for a in range(k):
        out_parent[a] = a
        log_det[a] = log_det_and_square(scatter[a] / mass[a] + ridge, np.zeros(dims))[0]
    for a in range(k):
        find_partner(a, members, ridge, log_det, reach_sq, alive, best, partner)
    for left in range(k, 1, -1):
        a = -1
        for c in range(k):
            if alive[c] and partner[c] >= 0 and (a < 0 or best[c] < best[a]):
                a = c
        if a < 0 or (best[a] >= threshold and left <= wanted):
            break
        winner, loser = absorb(a, partner[a], members, alive, out_parent)
        log_det[winner] = log_det_and_square(
            scatter[winner] / mass[winner] + ridge, np.zeros(dims)
        )[0]
        for c in range(k):
            if not alive[c]:
                continue
            if c == winner or partner[c] == winner or partner[c] == loser:
                find_partner(c, members, ridge, log_det, reach_sq, alive, best, partner)
            else:
                cost = pair_cost(c, winner, members, ridge, log_det, reach_sq)
                if cost < best[c]:
                    best[c], partner[c] = cost, winner
    flatten(out_parent)


@njit(cache=True, nogil=True, error_model="numpy")
def longest_link_sq(mode):
    """Return the longest squared edge of the modes' minimum spanning tree (Prim).

    Connecting all modes within it gives a connected graph; anything shorter does not.
    """
    k = mode.shape[0]
    distance = np.full(k, np.inf)
    waiting = np.ones(k, np.bool_)
    longest = np.float64(0.0)
    current = 0
    for _ in range(k - 1):
        waiting[current] = False
        following = -1
        for c in range(k):
            if waiting[c]:
                distance[c] = min(distance[c], distance_sq(mode, c, current))
                if following < 0 or distance[c] < distance[following]:
                    following = c
        longest = max(longest, distance[following])
        current = following
    return longest

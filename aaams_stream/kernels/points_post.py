"""Compiled loops of Alg. 2 for points: which clusters join, cheapest pair first.

Scaled coordinates as in `kernels.points`; all arrays C-contiguous, float64 or int64.
"""

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def bhattacharyya(mean_a, variance_a, log_det_a, mean_b, variance_b, log_det_b):
    """Return the Bhattacharyya distance d_B between two Gaussians."""
    middle = 0.5 * (variance_a + variance_b)
    log_det, square = log_det_and_square(middle, mean_a - mean_b)
    return 0.125 * square + 0.5 * (log_det - 0.5 * (log_det_a + log_det_b))


@njit(cache=True, error_model="numpy")
def pair_cost(a, b, by_distance, reach_sq, modes, mass, mean, scatter, ridge, log_dets):
    """Return what joining clusters a and b costs: d_B, or the squared distance of their modes.

    Infinite past the reach: such clusters are not adjacent.
    """
    dist_sq = np.float64(0.0)
    for c in range(modes.shape[1]):
        dist_sq += (modes[a, c] - modes[b, c]) ** 2
    if by_distance:
        return dist_sq
    if dist_sq > reach_sq:
        return np.inf
    return bhattacharyya(
        mean[a], scatter[a] / mass[a] + ridge, log_dets[a],
        mean[b], scatter[b] / mass[b] + ridge, log_dets[b],
    )  # fmt: skip


@njit(cache=True, error_model="numpy")
def reduce_clusters(
    by_distance, reach_sq, threshold, min_size, wanted, ridge, modes, densities, sizes, mass,
    mean, scatter, out_parent,
):  # fmt: skip
    """Join clusters in pairs, cheapest first, statistics renewed after each; return what is left.

    With `by_distance` (Alg. 2, step 3) the smallest cluster under min_size joins the one with the
    nearest mode, until none is left. Otherwise (step 5) the adjacent pair of least d_B is joined
    while that is below `threshold` or more than `wanted` clusters remain. The denser mode stays.
    Rows: modes (k, d), densities, sizes, mass (k,), mean (k, d), scatter (k, d, d), all renewed
    in place; `ridge` (d, d) is ξ on the diagonal. out_parent (k,) names the row each ended in.
    """
    k, dims = modes.shape
    log_dets = np.zeros(k)
    alive = np.ones(k, np.bool_)
    best = np.full(k, np.inf)
    partner = np.full(k, -1)
    for a in range(k):
        out_parent[a] = a
        if not by_distance:
            log_dets[a] = log_det_and_square(scatter[a] / mass[a] + ridge, np.zeros(dims))[0]
    for a in range(k):
        for b in range(k):
            if b != a and not by_distance:
                cost = pair_cost(
                    a, b, by_distance, reach_sq, modes, mass, mean, scatter, ridge, log_dets
                )
                if cost < best[a]:
                    best[a], partner[a] = cost, b
    left = k
    while left > 1:
        a = -1
        if by_distance:
            for c in range(k):
                if alive[c] and sizes[c] < min_size and (a < 0 or sizes[c] < sizes[a]):
                    a = c
            if a < 0:
                break
            best[a] = np.inf
            for c in range(k):
                if alive[c] and c != a:
                    cost = pair_cost(
                        a, c, True, reach_sq, modes, mass, mean, scatter, ridge, log_dets
                    )
                    if cost < best[a]:
                        best[a], partner[a] = cost, c
        else:
            for c in range(k):
                if alive[c] and partner[c] >= 0 and (a < 0 or best[c] < best[a]):
                    a = c
            if a < 0 or (best[a] >= threshold and left <= wanted):
                break
        b = partner[a]
        winner, loser = (a, b) if densities[a] >= densities[b] else (b, a)
        alive[loser] = False
        out_parent[loser] = winner
        left -= 1
        sizes[winner] += sizes[loser]
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
        if by_distance:
            continue
        log_dets[winner] = log_det_and_square(
            scatter[winner] / mass[winner] + ridge, np.zeros(dims)
        )[0]
        for c in range(k):
            if not alive[c]:
                continue
            if c == winner or partner[c] == winner or partner[c] == loser:
                best[c], partner[c] = np.inf, -1
                for e in range(k):
                    if alive[e] and e != c:
                        cost = pair_cost(
                            c, e, False, reach_sq, modes, mass, mean, scatter, ridge, log_dets
                        )
                        if cost < best[c]:
                            best[c], partner[c] = cost, e
            else:
                cost = pair_cost(
                    c, winner, False, reach_sq, modes, mass, mean, scatter, ridge, log_dets
                )
                if cost < best[c]:
                    best[c], partner[c] = cost, winner
    for a in range(k):
        root = a
        while out_parent[root] != root:
            root = out_parent[root]
        out_parent[a] = root
    return left


@njit(cache=True, error_model="numpy")
def longest_link_sq(modes):
    """Return the longest squared edge of the modes' minimum spanning tree (Prim).

    Connecting all modes within it gives a connected graph; anything shorter does not.
    """
    k, dims = modes.shape
    distance = np.full(k, np.inf)
    waiting = np.ones(k, np.bool_)
    longest = np.float64(0.0)
    current = 0
    for _ in range(k - 1):
        waiting[current] = False
        following = -1
        for c in range(k):
            if waiting[c]:
                dist_sq = np.float64(0.0)
                for a in range(dims):
                    dist_sq += (modes[c, a] - modes[current, a]) ** 2
                distance[c] = min(distance[c], dist_sq)
                if following < 0 or distance[c] < distance[following]:
                    following = c
        longest = max(longest, distance[following])
        current = following
    return longest

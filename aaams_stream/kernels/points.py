"""Compiled loops of AAAMS over points: a k-d tree, the three updates, merging and ESS.

Everything here lives in *scaled* coordinates: each domain divided by its σ_base, so that the base
bandwidth is the identity and one unit means one σ. All arrays are C-contiguous, float64 or int64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from aaams_stream.kernels.common import find_root

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Tree(NamedTuple):
    """The data points in the order of a k-d tree: those of a leaf are neighbours in memory.

    Node i has children 2i+1 and 2i+2 and owns points[starts[i]:stops[i]].
    """

    points: Floats  # (n, d)
    weights: Floats  # (n,)
    original: Ints  # (n,) where each point stood in the caller's order
    starts: Ints  # (m,)
    stops: Ints  # (m,)
    lows: Floats  # (m, d) bounding box of a node
    highs: Floats  # (m, d)


class Domains(NamedTuple):
    """Domains are runs of axes; these are the ends of the run an axis belongs to."""

    first: Ints  # (d,)
    last: Ints  # (d,) exclusive


class Clusters(NamedTuple):
    """Row u is the cluster whose principal member is point u; valid while parent[u] == u."""

    position: Floats  # (n, d) where it stands
    shift: Floats  # (n, d) last shift
    nearest: Ints  # (n,) the data point nearest to its position
    rho: Floats  # (n,) density there
    parent: Ints  # (n,) union-find: itself while a cluster lives
    members: Floats  # (n,) by weight
    changed: Flags  # (n,) bandwidth is out of date


class Bandwidths(NamedTuple):
    """Σ of each cluster, as the loops want it; only rows of adaptive clusters are read.

    A *whitening* matrix W has WᵀW = Σ⁻¹, block by block of the domains, so that ‖W(x−u)‖² is the
    squared Mahalanobis distance.
    """

    adaptive: Flags  # (n,) has a bandwidth of its own
    whitening: Floats  # (n, d, d)
    log_det: Floats  # (n,) of Σ
    reach: Floats  # (n, d) how far the window reaches along each axis
    radius_sq: Floats  # (n, d) ... and within the axis's domain, in any direction


class Trajectories(NamedTuple):
    """Trajectory sets T_u: sums for Eq. band, sums for ESS, and the positions themselves.

    A set is a chain through the pool, from head to tail.
    """

    mass: Floats  # (n,) Σρ
    mean: Floats  # (n, d) weighted by ρ
    scatter: Floats  # (n, d, d) around the mean, weighted by ρ
    size: Floats  # (n,) points that the positions stand for
    centre: Floats  # (n, d) their plain mean
    head: Ints  # (n,) -1 where the set is empty
    tail: Ints  # (n,)
    pool: Floats  # (m, d) positions
    pool_count: Floats  # (m,) points that each stands for
    pool_next: Ints  # (m,) -1 at the end of a chain


class Moves(NamedTuple):
    """What one round of updates found, row by row of the clusters that moved."""

    shift: Floats  # (r, d)
    mass: Floats  # (r,) sum of weights
    kind: Ints  # (r,) 0 scalar, 1 partial, 2 full
    nearest: Ints  # (r,) the data point nearest to where the cluster moves


@njit(cache=True, nogil=True, error_model="numpy")
def build_tree(points, levels, order, starts, stops, lows, highs):
    """Sort `order` (n,) into a balanced k-d tree of 2**levels leaves, splitting the widest axis.

    Node i has children 2i+1 and 2i+2; it owns order[starts[i]:stops[i]], whose bounding box is
    lows[i], highs[i] (d,). Ties keep the order they came in.
    """
    n, dims = points.shape
    nodes = 2 ** (levels + 1) - 1
    starts[0], stops[0] = 0, n
    for node in range(nodes):
        begin, end = starts[node], stops[node]
        for a in range(dims):
            lows[node, a] = np.inf
            highs[node, a] = -np.inf
        for i in range(begin, end):
            for a in range(dims):
                value = points[order[i], a]
                lows[node, a] = min(lows[node, a], value)
                highs[node, a] = max(highs[node, a], value)
        child = 2 * node + 1
        if child < nodes:
            axis = 0
            for a in range(1, dims):
                if highs[node, a] - lows[node, a] > highs[node, axis] - lows[node, axis]:
                    axis = a
            part = order[begin:end].copy()
            values = np.empty(end - begin)
            for i in range(end - begin):
                values[i] = points[part[i], axis]
            ranks = np.argsort(values, kind="mergesort")
            for i in range(end - begin):
                order[begin + i] = part[ranks[i]]
            middle = (begin + end) // 2
            starts[child], stops[child] = begin, middle
            starts[child + 1], stops[child + 1] = middle, end


@njit(cache=True, nogil=True, error_model="numpy")
def find_neighbours(
    tree, domains, centre, whitening, isotropic, reach, radius_sq, limit_sq, out_index, out_dist_sq
):
    """Write the points around `centre` (d,) and return how many there are.

    A point belongs when in every domain its squared distance, ‖W(x−centre)‖² or with `isotropic`
    the plain one, is at most `limit_sq` (d,) (one value per axis, equal within a domain).
    `reach` (d,) bounds the region along each axis and `radius_sq` (d,) in each domain: both only
    skip tree nodes. out_dist_sq is summed over the domains.
    """
    points, starts, stops, lows, highs = tree.points, tree.starts, tree.stops, tree.lows, tree.highs
    first, last = domains.first, domains.last
    nodes, dims = lows.shape
    found = 0
    stack = np.zeros(128, np.int64)  # from the root on
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        outside = False
        gap_sq = np.float64(0.0)
        for a in range(dims):
            if a == first[a]:
                gap_sq = np.float64(0.0)
            gap = max(lows[node, a] - centre[a], centre[a] - highs[node, a], 0.0)
            gap_sq += gap * gap
            if gap > reach[a] or gap_sq > radius_sq[a]:
                outside = True
                break
        if outside:
            continue
        child = 2 * node + 1
        if child < nodes:
            stack[top] = child + 1
            stack[top + 1] = child
            top += 2
            continue
        for i in range(starts[node], stops[node]):
            total = np.float64(0.0)
            part = np.float64(0.0)
            inside = True
            for a in range(dims):
                if a == first[a]:
                    part = np.float64(0.0)
                if isotropic:
                    term = points[i, a] - centre[a]
                else:
                    term = np.float64(0.0)
                    for b in range(first[a], last[a]):
                        term += whitening[a, b] * (points[i, b] - centre[b])
                part += term * term
                if part > limit_sq[a]:
                    inside = False
                    break
                if a + 1 == last[a]:
                    total += part
            if inside:
                out_index[found] = i
                out_dist_sq[found] = total
                found += 1
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def whitened_sq(whitening, domains, point, centre):
    """Return ‖W(point−centre)‖²."""
    first, last = domains.first, domains.last
    total = np.float64(0.0)
    for a in range(point.shape[0]):
        term = np.float64(0.0)
        for b in range(first[a], last[a]):
            term += whitening[a, b] * (point[b] - centre[b])
        total += term * term
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def solve_spd(matrix, vector):
    """Solve matrix · x = vector in place by Cholesky; `matrix` (d, d) is positive definite."""
    dims = vector.shape[0]
    for a in range(dims):
        for b in range(a + 1):
            value = matrix[a, b]
            for c in range(b):
                value -= matrix[a, c] * matrix[b, c]
            matrix[a, b] = np.sqrt(value) if a == b else value / matrix[b, b]
    for a in range(dims):
        for c in range(a):
            vector[a] -= matrix[a, c] * vector[c]
        vector[a] /= matrix[a, a]
    for a in range(dims - 1, -1, -1):
        for c in range(a + 1, dims):
            vector[a] -= matrix[c, a] * vector[c]
        vector[a] /= matrix[a, a]


@njit(cache=True, nogil=True, error_model="numpy")
def full_shift(tree, domains, near, owner, centre, bandwidths, out):
    """Write the shift of Eq. full: every neighbour weighs with its own cluster's Σ_g and 1/c_g.

    near (k,) are the neighbours, owner (n,) the cluster of each point. Weights are taken relative
    to the largest, which cancels: far from narrow clusters all of them could underflow.
    """
    points, weights, whitening = tree.points, tree.weights, bandwidths.whitening
    first, last = domains.first, domains.last
    found, dims = near.shape[0], centre.shape[0]
    owners = np.empty(found, np.int64)
    exponents = np.empty(found)
    largest = -np.inf
    for j in range(found):
        g = owner[near[j]]
        owners[j] = g
        dist_sq = whitened_sq(whitening[g], domains, points[near[j]], centre)
        exponents[j] = -0.5 * (dist_sq + bandwidths.log_det[g])
        largest = max(largest, exponents[j])
    ranks = np.argsort(owners, kind="mergesort")
    matrix = np.zeros((dims, dims))
    vector = np.zeros(dims)
    moment = np.zeros(dims)
    mass = np.float64(0.0)
    for k in range(found):
        j = ranks[k]
        g = owners[j]
        i = near[j]
        weight = weights[i] * np.exp(exponents[j] - largest)
        mass += weight
        for a in range(dims):
            moment[a] += weight * (points[i, a] - centre[a])
        if k + 1 == found or owners[ranks[k + 1]] != g:
            for a in range(dims):
                for b in range(first[a], last[a]):
                    precision = np.float64(0.0)
                    for c in range(first[a], last[a]):
                        precision += whitening[g, c, a] * whitening[g, c, b]
                    matrix[a, b] += mass * precision
                    vector[a] += precision * moment[b]
            mass = np.float64(0.0)
            moment[:] = 0.0
    solve_spd(matrix, vector)
    out[:] = vector


@njit(cache=True, nogil=True, error_model="numpy")
def find_nearest(tree, centre, guess):
    """Return the data point nearest to `centre` (d,) (ρ's rule), searching from point `guess`.

    Ties go to the point that came first in the caller's order.
    """
    points, starts, stops, lows, highs = tree.points, tree.starts, tree.stops, tree.lows, tree.highs
    original = tree.original
    nodes, dims = lows.shape
    best = guess
    best_sq = np.float64(0.0)
    for a in range(dims):
        best_sq += (points[best, a] - centre[a]) ** 2
    stack = np.zeros(128, np.int64)  # from the root on
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        gap_sq = np.float64(0.0)
        for a in range(dims):
            gap = max(lows[node, a] - centre[a], centre[a] - highs[node, a], 0.0)
            gap_sq += gap * gap
            if gap_sq > best_sq:
                break
        if gap_sq > best_sq:
            continue
        child = 2 * node + 1
        if child < nodes:
            # The half on the centre's side is popped first: it tightens the bound early.
            left_sq = np.float64(0.0)
            right_sq = np.float64(0.0)
            for a in range(dims):
                left_sq += (0.5 * (lows[child, a] + highs[child, a]) - centre[a]) ** 2
                right_sq += (0.5 * (lows[child + 1, a] + highs[child + 1, a]) - centre[a]) ** 2
            nearer = child if left_sq <= right_sq else child + 1
            stack[top] = 2 * child + 1 - nearer
            stack[top + 1] = nearer
            top += 2
            continue
        for i in range(starts[node], stops[node]):
            dist_sq = np.float64(0.0)
            for a in range(dims):
                dist_sq += (points[i, a] - centre[a]) ** 2
            if dist_sq < best_sq or (dist_sq == best_sq and original[i] < original[best]):
                best = i
                best_sq = dist_sq
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def shift_block(begin, end, rows, tree, domains, clusters, bandwidths, cutoff_sq, out):
    """Do what `shift_clusters` says for rows[begin:end]."""
    points, weights = tree.points, tree.weights
    owner, adaptive = clusters.parent, bandwidths.adaptive
    n, dims = points.shape
    index = np.empty(n, np.int64)
    dist_sq = np.empty(n)
    limit_sq = np.full(dims, cutoff_sq)
    base_reach = np.full(dims, np.sqrt(cutoff_sq))
    for r in range(begin, end):
        u = rows[r]
        centre = clusters.position[u]
        reach = bandwidths.reach[u] if adaptive[u] else base_reach
        radius_sq = bandwidths.radius_sq[u] if adaptive[u] else limit_sq
        found = find_neighbours(
            tree, domains, centre, bandwidths.whitening[u], not adaptive[u], reach, radius_sq,
            limit_sq, index, dist_sq,
        )  # fmt: skip
        mass = np.float64(0.0)
        moment = np.zeros(dims)
        all_adaptive = adaptive[u]
        for j in range(found):
            i = index[j]
            weight = weights[i] * np.exp(-0.5 * dist_sq[j])
            mass += weight
            for a in range(dims):
                moment[a] += weight * (points[i, a] - centre[a])
            if not adaptive[owner[i]]:
                all_adaptive = False
        out.mass[r] = mass
        out.kind[r] = 0
        if adaptive[u]:
            out.kind[r] = 2 if all_adaptive else 1
        for a in range(dims):
            out.shift[r, a] = moment[a] / mass if mass > 0.0 else 0.0
        if all_adaptive and found > 0:
            full_shift(tree, domains, index[:found], owner, centre, bandwidths, out.shift[r])
        out.nearest[r] = find_nearest(tree, centre + out.shift[r], clusters.nearest[u])


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def shift_clusters(size, rows, tree, domains, clusters, bandwidths, cutoff_sq, out):
    """Compute one mean-shift vector for each cluster of `rows` (r,), all from the same state.

    Eq. scalar with the base bandwidth while a cluster is not adaptive; Eq. full where every
    cluster owning a neighbour is; Eq. partial otherwise. `clusters.parent` must be flat: it names
    the owner of each point. Writes all of `out`, `Moves`.

    Blocks of `size` rows run side by side. A row writes only its own outputs, so nothing depends
    on the thread count. A cluster with no point in reach stays put.
    """
    points, weights, original, starts, stops, lows, highs = tree
    first, last = domains  # records are put together inside, or numba may lose what is written
    position, shift, nearest, rho, parent, members, changed = clusters
    adaptive, whitening, log_det, reach, radius_sq = bandwidths
    out_shift, out_mass, out_kind, out_nearest = out
    for block in prange((rows.shape[0] + size - 1) // size):
        shift_block(
            block * size, min(rows.shape[0], (block + 1) * size), rows,
            Tree(points, weights, original, starts, stops, lows, highs), Domains(first, last),
            Clusters(position, shift, nearest, rho, parent, members, changed),
            Bandwidths(adaptive, whitening, log_det, reach, radius_sq), cutoff_sq,
            Moves(out_shift, out_mass, out_kind, out_nearest),
        )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def extend_trajectories(rows, counts, domains, clusters, trajectories, used):
    """Add the clusters' positions to their trajectory sets; return how much of the pool is used.

    counts (r,) says how many points a position stands for. The pool has room for r more.
    """
    first, last = domains.first, domains.last
    position, rho = clusters.position, clusters.rho
    mass, mean, scatter = trajectories.mass, trajectories.mean, trajectories.scatter
    size, centre = trajectories.size, trajectories.centre
    head, tail, pool = trajectories.head, trajectories.tail, trajectories.pool
    dims = position.shape[1]
    for r in range(rows.shape[0]):
        u = rows[r]
        weight = rho[u] * counts[r]
        total = mass[u] + weight
        delta = position[u] - mean[u]
        gain = weight / total
        for a in range(dims):
            for b in range(first[a], last[a]):
                scatter[u, a, b] += mass[u] * gain * delta[a] * delta[b]
        for a in range(dims):
            mean[u, a] += gain * delta[a]
        mass[u] = total
        size[u] += counts[r]
        for a in range(dims):
            centre[u, a] += counts[r] / size[u] * (position[u, a] - centre[u, a])
            pool[used, a] = position[u, a]
        trajectories.pool_count[used] = counts[r]
        trajectories.pool_next[used] = head[u]
        head[u] = used
        if tail[u] < 0:
            tail[u] = used
        used += 1
    return used


@njit(cache=True, nogil=True, error_model="numpy")
def absorb(winner, loser, domains, clusters, trajectories):
    """Let `winner` take over the members and the trajectory set of `loser`."""
    first, last = domains.first, domains.last
    mass, mean, scatter = trajectories.mass, trajectories.mean, trajectories.scatter
    size, centre = trajectories.size, trajectories.centre
    head, tail = trajectories.head, trajectories.tail
    dims = mean.shape[1]
    clusters.parent[loser] = winner
    clusters.members[winner] += clusters.members[loser]
    clusters.changed[winner] = True
    total = mass[winner] + mass[loser]
    if mass[loser] > 0.0:
        share = mass[loser] / total
        delta = mean[loser] - mean[winner]
        for a in range(dims):
            for b in range(first[a], last[a]):
                scatter[winner, a, b] += (
                    scatter[loser, a, b] + mass[winner] * share * delta[a] * delta[b]
                )
        for a in range(dims):
            mean[winner, a] += share * delta[a]
        mass[winner] = total
    if head[loser] >= 0:
        size[winner] += size[loser]
        for a in range(dims):
            centre[winner, a] += size[loser] / size[winner] * (centre[loser, a] - centre[winner, a])
        if head[winner] < 0:
            head[winner] = head[loser]
        else:
            trajectories.pool_next[tail[winner]] = head[loser]
        tail[winner] = tail[loser]


@njit(cache=True, nogil=True, error_model="numpy")
def bearings_agree(position, shift, point, bearing):
    """Return the light MergeCheck: the two are closing in, and they head the same way."""
    closing = np.float64(0.0)
    together = np.float64(0.0)
    for a in range(position.shape[0]):
        closing += (position[a] - point[a]) * (shift[a] - bearing[a])
        together += shift[a] * bearing[a]
    return closing <= 0.0 and together >= 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def merge_candidates(u, candidates, rank, domains, clusters, trajectories):
    """Merge u with the owners of `candidates`, densest first; return the number of merges.

    rank (n,) orders the data points by density. The denser cluster absorbs the other; u ends its
    turn when it is the one absorbed.
    """
    rho = clusters.rho
    merges = 0
    ranks = np.argsort(rank[candidates])
    for k in range(candidates.shape[0]):
        g = find_root(clusters.parent, candidates[ranks[k]])
        if g == u:
            continue
        merges += 1
        if rho[u] > rho[g]:
            absorb(u, g, domains, clusters, trajectories)
        else:
            absorb(g, u, domains, clusters, trajectories)
            break
    return merges


@njit(cache=True, nogil=True, error_model="numpy")
def merge_clusters(rows, tree, domains, bearing, rank, check, epsilon, clusters, trajectories):
    """Run the merge phase over `rows` (r,) in the order given; return the number of merges.

    A candidate is a point inside epsilon (d,) of the cluster in every domain that passes the
    light check (`check` 0) or any such point (`check` 1). bearing (n, d) and rank (n,) belong to
    the data points.
    """
    points = tree.points
    position, shift, parent = clusters.position, clusters.shift, clusters.parent
    n, dims = points.shape
    index = np.empty(n, np.int64)
    dist_sq = np.empty(n)
    epsilon_sq = epsilon * epsilon
    no_whitening = np.empty((dims, dims))
    merges = 0
    for r in range(rows.shape[0]):
        u = rows[r]
        if parent[u] != u:
            continue
        found = find_neighbours(
            tree, domains, position[u], no_whitening, True, epsilon, epsilon_sq, epsilon_sq,
            index, dist_sq,
        )  # fmt: skip
        kept = 0
        for j in range(found):
            y = index[j]
            if find_root(parent, y) != u and (
                check == 1 or bearings_agree(position[u], shift[u], points[y], bearing[y])
            ):
                index[kept] = y
                kept += 1
        merges += merge_candidates(u, index[:kept], rank, domains, clusters, trajectories)
    return merges


@njit(cache=True, nogil=True, error_model="numpy")
def effective_sizes(rows, whitening, domains, enough, trajectories, out):
    """Write ESS(u) = Σ_{v∈T_u} w(T̄_u − v) / w(0) of each row; stop counting past `enough`.

    whitening (r, d, d) belongs to the rows, not to the clusters. out (r,).
    """
    centre, pool = trajectories.centre, trajectories.pool
    for r in range(rows.shape[0]):
        u = rows[r]
        total = np.float64(0.0)
        v = trajectories.head[u]
        while v >= 0 and total < enough:
            dist_sq = whitened_sq(whitening[r], domains, pool[v], centre[u])
            total += trajectories.pool_count[v] * np.exp(-0.5 * dist_sq)
            v = trajectories.pool_next[v]
        out[r] = total

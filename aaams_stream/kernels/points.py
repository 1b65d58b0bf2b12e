"""Compiled loops of AAAMS over points: a k-d tree, the three updates, merging and ESS.

Everything here lives in *scaled* coordinates: each domain divided by its σ_base, so that the base
bandwidth is the identity and one unit means one σ. All arrays are C-contiguous, float64 or int64.
Rows of `points` stand in tree order, where the points of a leaf are neighbours in memory.

A *whitening* matrix W of a cluster has WᵀW = Σ⁻¹, block by block of the domains, so that
‖W(x−u)‖² is the squared Mahalanobis distance. `domain_of` (d,) names each axis's domain; domains
are runs of axes. `first` and `last` (d,) are the run an axis belongs to, `last` exclusive.
"""

import numpy as np
from numba import njit, prange


@njit(cache=True, error_model="numpy")
def build_tree(points, levels, order, starts, stops, lows, highs):
    """Sort `order` (n,) into a balanced k-d tree of 2**levels leaves, splitting the widest axis.

    Node i has children 2i+1 and 2i+2; it owns order[starts[i]:stops[i]], whose bounding box is
    lows[i], highs[i] (d,). Ties keep the order they came in.
    """
    n, dims = points.shape
    nodes = 2 ** (levels + 1) - 1
    starts[0] = 0
    stops[0] = n
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


@njit(cache=True, error_model="numpy")
def find_neighbours(
    points, starts, stops, lows, highs, first, last, centre, whiten, isotropic,
    reach, radius_sq, limit_sq, out_index, out_dist_sq,
):  # fmt: skip
    """Write the points around `centre` (d,) and return how many there are.

    A point belongs when in every domain its squared distance, ‖W(x−centre)‖² or with `isotropic`
    the plain one, is at most `limit_sq` (d,) (one value per axis, equal within a domain).
    `reach` (d,) bounds the region along each axis and `radius_sq` (d,) in each domain: both only
    skip tree nodes. out_dist_sq is summed over the domains.
    """
    nodes, dims = lows.shape
    count = 0
    stack = np.empty(128, np.int64)
    stack[0] = 0
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
                        term += whiten[a, b] * (points[i, b] - centre[b])
                part += term * term
                if part > limit_sq[a]:
                    inside = False
                    break
                if a + 1 == last[a]:
                    total += part
            if inside:
                out_index[count] = i
                out_dist_sq[count] = total
                count += 1
    return count


@njit(cache=True, error_model="numpy")
def whitened_sq(whiten, first, last, point, centre):
    """Return ‖W(point−centre)‖²."""
    total = np.float64(0.0)
    for a in range(point.shape[0]):
        term = np.float64(0.0)
        for b in range(first[a], last[a]):
            term += whiten[a, b] * (point[b] - centre[b])
        total += term * term
    return total


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def full_shift(
    points, weights, index, count, owner, centre, whitenings, log_dets, first, last, out
):
    """Write the shift of Eq. full: every neighbour weighs with its own cluster's Σ_g and 1/c_g.

    index[:count] are the neighbours, owner (n,) the cluster of each point, log_dets (n,) the
    logarithm of det Σ_g. Weights are taken relative to the largest, which cancels: far from
    narrow clusters all of them could underflow.
    """
    dims = centre.shape[0]
    owners = np.empty(count, np.int64)
    exponents = np.empty(count)
    largest = -np.inf
    for j in range(count):
        g = owner[index[j]]
        owners[j] = g
        dist_sq = whitened_sq(whitenings[g], first, last, points[index[j]], centre)
        exponents[j] = -0.5 * (dist_sq + log_dets[g])
        largest = max(largest, exponents[j])
    ranks = np.argsort(owners, kind="mergesort")
    matrix = np.zeros((dims, dims))
    vector = np.zeros(dims)
    moment = np.zeros(dims)
    mass = np.float64(0.0)
    for k in range(count):
        j = ranks[k]
        g = owners[j]
        i = index[j]
        weight = weights[i] * np.exp(exponents[j] - largest)
        mass += weight
        for a in range(dims):
            moment[a] += weight * (points[i, a] - centre[a])
        if k + 1 == count or owners[ranks[k + 1]] != g:
            for a in range(dims):
                for b in range(first[a], last[a]):
                    precision = np.float64(0.0)
                    for c in range(first[a], last[a]):
                        precision += whitenings[g, c, a] * whitenings[g, c, b]
                    matrix[a, b] += mass * precision
                    vector[a] += precision * moment[b]
            mass = np.float64(0.0)
            for a in range(dims):
                moment[a] = 0.0
    solve_spd(matrix, vector)
    for a in range(dims):
        out[a] = vector[a]


@njit(cache=True, error_model="numpy")
def find_nearest(points, starts, stops, lows, highs, original, centre, guess):
    """Return the data point nearest to `centre` (d,) (ρ's rule), searching from point `guess`.

    Ties go to the point that came first in the caller's order, `original` (n,).
    """
    nodes, dims = lows.shape
    best = guess
    best_sq = np.float64(0.0)
    for a in range(dims):
        best_sq += (points[best, a] - centre[a]) ** 2
    stack = np.empty(128, np.int64)
    stack[0] = 0
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


@njit(cache=True, error_model="numpy")
def shift_block(
    begin, end, points, weights, starts, stops, lows, highs, first, last, rows, positions, owner,
    confident, whitenings, log_dets, reaches, radii_sq, cutoff_sq, original, nearest,
    out_shift, out_mass, out_kind, out_nearest,
):  # fmt: skip
    """Do what `shift_clusters` says for rows[begin:end]."""
    n, dims = points.shape
    index = np.empty(n, np.int64)
    dist_sq = np.empty(n)
    limit_sq = np.full(dims, cutoff_sq)
    base_reach = np.full(dims, np.sqrt(cutoff_sq))
    for r in range(begin, end):
        u = rows[r]
        centre = positions[u]
        sure = confident[u]
        if sure:
            count = find_neighbours(
                points, starts, stops, lows, highs, first, last, centre, whitenings[u], False,
                reaches[u], radii_sq[u], limit_sq, index, dist_sq,
            )  # fmt: skip
        else:
            count = find_neighbours(
                points, starts, stops, lows, highs, first, last, centre, whitenings[u], True,
                base_reach, limit_sq, limit_sq, index, dist_sq,
            )  # fmt: skip
        mass = np.float64(0.0)
        moment = np.zeros(dims)
        all_sure = sure
        for j in range(count):
            i = index[j]
            weight = weights[i] * np.exp(-0.5 * dist_sq[j])
            mass += weight
            for a in range(dims):
                moment[a] += weight * (points[i, a] - centre[a])
            if not confident[owner[i]]:
                all_sure = False
        out_mass[r] = mass
        out_kind[r] = 0
        if sure:
            out_kind[r] = 2 if all_sure else 1
        for a in range(dims):
            out_shift[r, a] = moment[a] / mass if mass > 0.0 else 0.0
        if all_sure and count > 0:
            full_shift(
                points, weights, index, count, owner, centre, whitenings, log_dets,
                first, last, out_shift[r],
            )  # fmt: skip
        out_nearest[r] = find_nearest(
            points, starts, stops, lows, highs, original, centre + out_shift[r], nearest[u]
        )


@njit(cache=True, parallel=True, error_model="numpy")
def shift_clusters(
    size, points, weights, starts, stops, lows, highs, first, last, rows, positions, owner,
    confident, whitenings, log_dets, reaches, radii_sq, cutoff_sq, original, nearest,
    out_shift, out_mass, out_kind, out_nearest,
):  # fmt: skip
    """Compute one mean-shift vector for each cluster of `rows` (r,), all from the same state.

    While not confident[u], Eq. scalar with the base bandwidth; Eq. full where every cluster
    owning a neighbour is confident; Eq. partial otherwise. Writes out_shift (r, d), out_mass (r,)
    the sum of weights, out_kind (r,): 0 scalar, 1 partial, 2 full, and out_nearest (r,): the data
    point nearest to where the cluster moves. `nearest` (n,) was the nearest before.

    Blocks of `size` rows run side by side. A row writes only its own outputs, so nothing depends
    on the thread count. A position with no point in reach stays put.
    """
    for block in prange((rows.shape[0] + size - 1) // size):
        shift_block(
            block * size, min(rows.shape[0], (block + 1) * size), points, weights, starts, stops,
            lows, highs, first, last, rows, positions, owner, confident, whitenings, log_dets,
            reaches, radii_sq, cutoff_sq, original, nearest,
            out_shift, out_mass, out_kind, out_nearest,
        )  # fmt: skip


@njit(cache=True, error_model="numpy")
def extend_trajectories(
    rows, positions, densities, counts, first, last, mass, mean, scatter, size, centre,
    head, tail, pool, pool_count, pool_next, used,
):  # fmt: skip
    """Add each row's position to its trajectory set T_u and return the new length of the pool.

    Density-weighted moments (Eq. band): mass (n,), mean (n, d), centred scatter (n, d, d), blocks
    of domains only. Plain ones for ESS: size (n,), centre (n, d) the mean of T_u. The set itself
    is a chain through `pool` (m, d) from head to tail; `counts` (r,) says how many points a
    position stands for.
    """
    dims = positions.shape[1]
    for r in range(rows.shape[0]):
        u = rows[r]
        rho = densities[u] * counts[r]
        total = mass[u] + rho
        delta = positions[u] - mean[u]
        gain = rho / total
        for a in range(dims):
            for b in range(first[a], last[a]):
                scatter[u, a, b] += mass[u] * gain * delta[a] * delta[b]
        for a in range(dims):
            mean[u, a] += gain * delta[a]
        mass[u] = total
        size[u] += counts[r]
        for a in range(dims):
            centre[u, a] += counts[r] / size[u] * (positions[u, a] - centre[u, a])
            pool[used, a] = positions[u, a]
        pool_count[used] = counts[r]
        pool_next[used] = head[u]
        head[u] = used
        if tail[u] < 0:
            tail[u] = used
        used += 1
    return used


@njit(cache=True, error_model="numpy")
def find_root(parent, i):
    """Return the cluster that owns i, shortening the path on the way."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(cache=True, error_model="numpy")
def absorb(
    winner, loser, parent, members, first, last, mass, mean, scatter, size, centre,
    head, tail, pool_next,
):  # fmt: skip
    """Let `winner` take over the members and the trajectory set of `loser`."""
    dims = mean.shape[1]
    parent[loser] = winner
    members[winner] += members[loser]
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
            pool_next[tail[winner]] = head[loser]
        tail[winner] = tail[loser]


@njit(cache=True, error_model="numpy")
def bearings_agree(position, shift, point, bearing):
    """Return the light MergeCheck: the two are closing in, and they head the same way."""
    closing = np.float64(0.0)
    together = np.float64(0.0)
    for a in range(position.shape[0]):
        closing += (position[a] - point[a]) * (shift[a] - bearing[a])
        together += shift[a] * bearing[a]
    return closing <= 0.0 and together >= 0.0


@njit(cache=True, error_model="numpy")
def join_candidates(
    u, candidates, rank, densities, changed, parent, members, first, last, mass, mean, scatter,
    size, centre, head, tail, pool_next,
):  # fmt: skip
    """Merge u with the owners of `candidates`, densest first; return the number of merges.

    The denser cluster assimilates the other; u ends its turn when it is the one assimilated.
    """
    merges = 0
    ranks = np.argsort(rank[candidates])
    for k in range(candidates.shape[0]):
        g = find_root(parent, candidates[ranks[k]])
        if g == u:
            continue
        merges += 1
        if densities[u] > densities[g]:
            absorb(
                u, g, parent, members, first, last, mass, mean, scatter, size, centre,
                head, tail, pool_next,
            )  # fmt: skip
            changed[u] = True
        else:
            absorb(
                g, u, parent, members, first, last, mass, mean, scatter, size, centre,
                head, tail, pool_next,
            )  # fmt: skip
            changed[g] = True
            break
    return merges


@njit(cache=True, error_model="numpy")
def merge_clusters(
    points, starts, stops, lows, highs, first, last, rows, positions, shifts, bearings, check,
    epsilon, epsilon_sq, rank, densities, changed, parent, members, mass, mean, scatter, size,
    centre, head, tail, pool_next,
):  # fmt: skip
    """Run the merge phase over `rows` (r,) in the order given; return the number of merges.

    A candidate is a point inside epsilon (d,) of the cluster in every domain that passes the
    light check (`check` 0) or any such point (`check` 1).
    """
    n, dims = points.shape
    index = np.empty(n, np.int64)
    dist_sq = np.empty(n)
    no_whitening = np.empty((dims, dims))
    merges = 0
    for r in range(rows.shape[0]):
        u = rows[r]
        if parent[u] != u:
            continue
        count = find_neighbours(
            points, starts, stops, lows, highs, first, last, positions[u], no_whitening, True,
            epsilon, epsilon_sq, epsilon_sq, index, dist_sq,
        )  # fmt: skip
        kept = 0
        for j in range(count):
            y = index[j]
            if find_root(parent, y) != u and (
                check == 1 or bearings_agree(positions[u], shifts[u], points[y], bearings[y])
            ):
                index[kept] = y
                kept += 1
        merges += join_candidates(
            u, index[:kept], rank, densities, changed, parent, members, first, last, mass, mean,
            scatter, size, centre, head, tail, pool_next,
        )  # fmt: skip
    return merges


@njit(cache=True, error_model="numpy")
def effective_sizes(
    rows, centre, whitenings, first, last, enough, head, pool, pool_count, pool_next, out
):
    """Write ESS(u) = Σ_{v∈T_u} w(T̄_u − v) / w(0) of each row; stop counting past `enough`.

    whitenings (r, d, d) belong to the rows, not to the clusters. out (r,).
    """
    for r in range(rows.shape[0]):
        u = rows[r]
        total = np.float64(0.0)
        v = head[u]
        while v >= 0 and total < enough:
            dist_sq = whitened_sq(whitenings[r], first, last, pool[v], centre[u])
            total += pool_count[v] * np.exp(-0.5 * dist_sq)
            v = pool_next[v]
        out[r] = total

"""Slow, obvious NumPy AAAMS, each equation of the paper a small function: the oracle.

Nothing is scaled, cached or skipped: trajectory sets are lists, neighbours are found by looking
at every point. Bandwidths are full (d, d) matrices, block-diagonal over the domains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Domain:
    """`size` columns of the data with their own detail σ and vicinity ε, neither squared."""

    size: int
    sigma: float
    epsilon: float


def slices(domains: Sequence[Domain]) -> list[slice]:
    stops = np.cumsum([domain.size for domain in domains])
    return [slice(int(b - d.size), int(b)) for b, d in zip(stops, domains, strict=True)]


def sigmas(domains: Sequence[Domain]) -> Array:
    return np.repeat([d.sigma for d in domains], [d.size for d in domains])


def base_bandwidth(domains: Sequence[Domain]) -> Array:
    """Σ_base: σ²I, domain by domain."""
    return np.diag(sigmas(domains) ** 2)


def weight(dist_sq: Array) -> Array:
    """K': the Gaussian profile's derivative, up to a factor that cancels everywhere."""
    return np.exp(-0.5 * dist_sq)


def distances_sq(
    points: Array, centre: Array, bandwidth: Array, domains: Sequence[Domain]
) -> Array:
    """Squared Mahalanobis distances (n, number of domains)."""
    columns = []
    for part in slices(domains):
        difference = points[:, part] - centre[part]
        precision = np.linalg.inv(bandwidth[part, part])
        columns.append(np.einsum("na,ab,nb->n", difference, precision, difference))
    return np.stack(columns, axis=1)


def neighbours(
    points: Array, centre: Array, bandwidth: Array, domains: Sequence[Domain], truncation: float
) -> NDArray[np.int64]:
    """Ne_x(u): the points within the truncated kernel of every domain."""
    near = distances_sq(points, centre, bandwidth, domains) <= truncation**2
    return np.flatnonzero(near.all(axis=1))


def partial_update(
    points: Array,
    masses: Array,
    centre: Array,
    bandwidth: Array,
    domains: Sequence[Domain],
    truncation: float,
) -> tuple[Array, float]:
    """Eq. partial: the neighbourhood's expectation under u's own bandwidth; and Σw."""
    near = neighbours(points, centre, bandwidth, domains, truncation)
    dist_sq = distances_sq(points[near], centre, bandwidth, domains).sum(axis=1)
    weights = masses[near] * weight(dist_sq)
    return weights @ points[near] / weights.sum(), float(weights.sum())


def scalar_update(
    points: Array, masses: Array, centre: Array, domains: Sequence[Domain], truncation: float
) -> tuple[Array, float]:
    """Eq. scalar: the standard mean-shift update with σ_base; and Σw, which is the density."""
    return partial_update(points, masses, centre, base_bandwidth(domains), domains, truncation)


def full_update(
    points: Array,
    masses: Array,
    centre: Array,
    bandwidth: Array,
    owner: NDArray[np.int64],
    bandwidths: Array,
    domains: Sequence[Domain],
    truncation: float,
) -> Array:
    """Eq. full: every neighbour weighs with the bandwidth of the cluster g that owns it."""
    left = np.zeros_like(bandwidth)
    right = np.zeros_like(centre)
    for i in neighbours(points, centre, bandwidth, domains, truncation):
        sigma_g = bandwidths[owner[i]]
        dist_sq = distances_sq(points[i : i + 1], centre, sigma_g, domains).sum(axis=1)[0]
        term = (
            masses[i] * weight(dist_sq) / np.sqrt(np.linalg.det(sigma_g)) * np.linalg.inv(sigma_g)
        )
        left += term
        right += term @ points[i]
    return np.linalg.solve(left, right)


def effective_sample_size(
    trajectory: Array, counts: Array, bandwidth: Array, domains: Sequence[Domain]
) -> float:
    """Eq. ESS, over one K'(0): how many trajectory points the mean of T_u really feels."""
    mean = counts @ trajectory / counts.sum()
    dist_sq = distances_sq(trajectory, mean, bandwidth, domains).sum(axis=1)
    return float(counts @ weight(dist_sq))


def trajectory_bandwidth(
    trajectory: Array, rho: Array, xi: float, domains: Sequence[Domain]
) -> Array:
    """Eq. band: density-weighted variance of T_u, plus ξI, eigenvalues clamped to ξ.

    `xi` is a share of σ² of each domain.
    """
    eta = rho @ trajectory / rho.sum()
    centred = trajectory - eta
    variance = np.einsum("v,va,vb->ab", rho, centred, centred) / rho.sum()
    out = np.zeros_like(variance)
    for part, domain in zip(slices(domains), domains, strict=True):
        floor = xi * domain.sigma**2
        values, vectors = np.linalg.eigh(variance[part, part] + floor * np.eye(domain.size))
        out[part, part] = vectors @ np.diag(np.maximum(values, floor)) @ vectors.T
    return out


def density_at(position: Array, points: Array, density: Array, domains: Sequence[Domain]) -> float:
    """ρ(u): the stored density of the data point nearest to u, domains measured in σ."""
    dist_sq = (((points - position) / sigmas(domains)) ** 2).sum(axis=1)
    return float(density[np.argmin(dist_sq)])


def in_vicinity(position: Array, points: Array, domains: Sequence[Domain]) -> NDArray[np.bool_]:
    """‖u − y‖ ≤ ε in every domain."""
    inside = [
        np.linalg.norm(points[:, part] - position[part], axis=1) <= domain.epsilon
        for part, domain in zip(slices(domains), domains, strict=True)
    ]
    return np.all(inside, axis=0)


def merge_check(u: Array, y: Array, m_u: Array, m_y: Array, domains: Sequence[Domain]) -> bool:
    """MergeCheck: the distance is decreasing, and the bearings point the same way."""
    scale = sigmas(domains) ** 2
    return bool(np.sum((u - y) * (m_u - m_y) / scale) <= 0 and np.sum(m_u * m_y / scale) >= 0)


def bhattacharyya(mean_a: Array, sigma_a: Array, mean_b: Array, sigma_b: Array) -> float:
    """d_B of Alg. 2."""
    middle = (sigma_a + sigma_b) / 2
    difference = mean_a - mean_b
    determinants = np.linalg.det(sigma_a) * np.linalg.det(sigma_b)
    return float(
        difference @ np.linalg.inv(middle) @ difference / 8
        + 0.5 * np.log(np.linalg.det(middle) / np.sqrt(determinants))
    )


@dataclass
class Cluster:
    """One surviving u: where it is, how it last moved, what it owns."""

    position: Array
    members: list[int]
    bandwidth: Array
    shift: Array
    rho: float = 0.0
    adaptive: bool = False
    changed: bool = False
    trajectory: list[Array] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)  # ρ of each position
    counts: list[float] = field(default_factory=list)


@dataclass
class Result:
    """What Alg. 1 returns, clusters by falling density, ties by principal member."""

    labels: NDArray[np.int64]
    modes: Array
    bandwidths: Array
    iterations: int
    clusters_left: list[int]
    kinds: set[str]


def aaams(
    points: Array,
    domains: Sequence[Domain],
    *,
    masses: Array | None = None,
    truncation: float = 3.0,
    xi: float = 0.25,
    ess_min: float = 5.0,
    min_members: int | None = None,
    delta: float = 0.01,
    max_iter: int = 300,
    shift_scale: Array | None = None,
    check: Callable[[Array, Array, Array, Array, Sequence[Domain]], bool] = merge_check,
) -> Result:
    """Alg. 1 in two phases: all updates from one state, then merges one by one.

    min_members: switch to anisotropic updates at so many members instead of by ESS.
    shift_scale (d,): δ is measured in these units; σ of each axis unless given.
    """
    points = np.asarray(points, np.float64)
    n = len(points)
    masses = np.ones(n) if masses is None else masses
    shift_scale = sigmas(domains) if shift_scale is None else shift_scale
    base = base_bandwidth(domains)
    large = np.full(points.shape[1], np.inf)
    alive = {u: Cluster(points[u].copy(), [u], base, large) for u in range(n)}
    owner = np.arange(n)
    density = bearing = np.zeros(0)
    clusters_left: list[int] = []
    kinds: set[str] = set()

    def moving(cluster: Cluster) -> bool:
        return bool(np.linalg.norm(cluster.shift / shift_scale) > delta)

    while any(moving(c) for c in alive.values()) and len(clusters_left) < max_iter:
        rows = [u for u, c in alive.items() if moving(c)]

        # Phase one: every update sees the state the iteration began with.
        bandwidths = np.broadcast_to(base, (n, *base.shape)).copy()
        adaptive = np.zeros(n, bool)
        for u, c in alive.items():
            bandwidths[u], adaptive[u] = c.bandwidth, c.adaptive
        moved = {}
        first_density = np.zeros(n)
        for u in rows:
            c = alive[u]
            near = neighbours(points, c.position, c.bandwidth, domains, truncation)
            if not c.adaptive:
                kinds.add("scalar")
                moved[u], first_density[u] = scalar_update(
                    points, masses, c.position, domains, truncation
                )
            elif adaptive[owner[near]].all():
                kinds.add("full")
                moved[u] = full_update(
                    points, masses, c.position, c.bandwidth, owner, bandwidths, domains, truncation
                )
            else:
                kinds.add("partial")
                moved[u], _ = partial_update(
                    points, masses, c.position, c.bandwidth, domains, truncation
                )
        if not clusters_left:
            density = first_density / first_density.max()
            bearing = np.stack([moved[u] for u in range(n)]) - points
        for u in rows:
            c = alive[u]
            c.shift = moved[u] - c.position
            c.position = moved[u]
            c.rho = density_at(c.position, points, density, domains)
            count = masses[u] if not clusters_left else 1.0
            c.trajectory.append(c.position)
            c.weights.append(c.rho * count)
            c.counts.append(count)
            c.changed = True

        # Phase two: the densest cluster first, its candidates densest first, ties by index.
        for u in sorted(rows, key=lambda u: (-alive[u].rho, u)):
            if u not in alive:
                continue
            c = alive[u]
            inside = np.flatnonzero(in_vicinity(c.position, points, domains))
            for y in sorted(inside, key=lambda y: (-density[y], y)):
                g = owner[y]
                if g == u or not check(c.position, points[y], c.shift, bearing[y], domains):
                    continue
                winner, loser = (u, g) if c.rho > alive[g].rho else (g, u)
                lost = alive.pop(loser)
                alive[winner].members += lost.members
                alive[winner].trajectory += lost.trajectory
                alive[winner].weights += lost.weights
                alive[winner].counts += lost.counts
                alive[winner].changed = True
                owner[lost.members] = winner
                if loser == u:
                    break

        for c in alive.values():
            if c.changed:
                _refresh(c, masses, domains, xi, ess_min, min_members)
        clusters_left.append(len(alive))

    order = sorted(alive, key=lambda u: (-alive[u].rho, u))
    labels = np.empty(n, np.int64)
    for number, u in enumerate(order):
        labels[alive[u].members] = number
    return Result(
        labels,
        np.stack([alive[u].position for u in order]),
        np.stack([alive[u].bandwidth for u in order]),
        len(clusters_left),
        clusters_left,
        kinds,
    )


def _refresh(
    c: Cluster,
    masses: Array,
    domains: Sequence[Domain],
    xi: float,
    ess_min: float,
    min_members: int | None,
) -> None:
    """Renew Σ_u where it is significant; otherwise it stays as it was."""
    c.changed = False
    trajectory = np.stack(c.trajectory)
    estimate = trajectory_bandwidth(trajectory, np.array(c.weights), xi, domains)
    if min_members is not None:
        c.adaptive = bool(masses[c.members].sum() >= min_members)
    else:
        size = effective_sample_size(trajectory, np.array(c.counts), estimate, domains)
        c.adaptive = size >= ess_min
    if c.adaptive:
        c.bandwidth = estimate


def fixed_mean_shift(
    points: Array, sigma: float, *, every: int = 1, steps: int = 300
) -> NDArray[np.int64]:
    """Label points by standard mean shift: one fixed isotropic σ, modes joined within σ/2.

    With `every`, only each so many-th point climbs and gets a label; all shape the density.
    """
    positions = points[::every].copy()
    for _ in range(steps):
        dist_sq = ((positions[:, None] - points[None]) ** 2).sum(axis=2) / sigma**2
        weights = weight(dist_sq)
        moved = weights @ points / weights.sum(axis=1, keepdims=True)
        done = np.abs(moved - positions).max() < 1e-3 * sigma
        positions = moved
        if done:
            break
    labels = np.full(len(positions), -1)
    modes: list[Array] = []
    for i, position in enumerate(positions):
        near = [k for k, mode in enumerate(modes) if np.linalg.norm(mode - position) < sigma / 2]
        if not near:
            modes.append(position)
        labels[i] = near[0] if near else len(modes) - 1
    return labels

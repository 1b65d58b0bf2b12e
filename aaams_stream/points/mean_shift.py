"""Alg. 1: clusters climb the density, merge, and learn their bandwidths on the way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import ConfigError
from aaams_stream.kernels import points as kernels
from aaams_stream.points.plan import CHECKS, Floats, Ints, Plan

HISTORY = np.dtype(
    [("clusters", "i8"), ("merges", "i8"), ("largest_shift", "f8"), ("mean_shift", "f8")]
)
LEAF = 16  # points in a leaf of the tree
BLOCK = 64  # clusters a thread takes at a time


class Climb:
    """The state of Alg. 1. Row u is the cluster whose principal member is point u.

    Points stand in tree order; `original` leads back to the caller's. Arrays are renewed in place.
    """

    def __init__(self, points: Floats, weights: Floats, plan: Plan, offset: Floats) -> None:
        n, dims = points.shape
        self.plan = plan
        self.offset = offset  # what was taken off the caller's points before scaling
        self.original, self.tree = _plant(points)
        self.points = np.ascontiguousarray(points[self.original])
        self.weights = np.ascontiguousarray(weights[self.original])
        self.positions = self.points.copy()
        self.shifts = np.full((n, dims), np.inf)
        self.parent = np.arange(n)
        self.members = self.weights.copy()
        self.active = np.ones(n, np.bool_)
        self.nudges = np.zeros(n, np.int64)
        # Bandwidths: whitening matrices and what goes with them, valid where `shaped`.
        self.confident = np.zeros(n, np.bool_)  # significant now
        self.shaped = np.zeros(n, np.bool_)  # significant once: Σ stays as it was
        self.whitenings = np.zeros((n, dims, dims))
        self.log_dets = np.zeros(n)
        self.reaches = np.zeros((n, dims))
        self.radii_sq = np.zeros((n, dims))
        # Trajectory sets T_u.
        self.mass = np.zeros(n)
        self.mean = np.zeros((n, dims))
        self.scatter = np.zeros((n, dims, dims))
        self.size = np.zeros(n)
        self.centre = np.zeros((n, dims))
        self.head = np.full(n, -1)
        self.tail = np.full(n, -1)
        self.pool = np.empty((2 * n, dims))
        self.pool_count = np.empty(2 * n)
        self.pool_next = np.empty(2 * n, np.int64)
        self.used = 0
        # What the first iteration stores for the whole run.
        self.point_densities = np.zeros(n)
        self.bearings = np.zeros((n, dims))
        self.rank = np.arange(n)
        self.nearest = np.arange(n)
        self.densities = np.zeros(n)
        self.history: list[tuple[int, int, float, float]] = []

    def run(self) -> bool:
        """Iterate to convergence; return whether it was reached before `max_iter`."""
        plan = self.plan
        quiet = 0
        while self.active.any():
            if len(self.history) == plan.max_iter or quiet == plan.patience:
                return False
            rows = np.flatnonzero(self.active)
            self.update(rows)
            changed = np.zeros(len(self.points), np.bool_)
            merges = self.merge(rows, changed)
            self.refresh(np.flatnonzero(changed & (self.parent == np.arange(len(self.parent)))))
            quiet = 0 if merges else quiet + 1
            lengths = np.linalg.norm(self.shifts[rows], axis=1)
            self.settle(rows)
            left = int(np.count_nonzero(self.parent == np.arange(len(self.parent))))
            self.history.append((left, merges, float(lengths.max()), float(lengths.mean())))
        return True

    def update(self, rows: Ints) -> None:
        """Phase one: move every cluster of `rows` from the same state and extend its T_u."""
        shift = np.empty((len(rows), self.points.shape[1]))
        mass = np.empty(len(rows))
        self.kinds = np.empty(len(rows), np.int64)
        nearest = np.empty(len(rows), np.int64)
        state = (
            self.points, self.weights, *self.tree, self.plan.first, self.plan.last, rows,
            self.positions, self.owners(), self.confident, self.whitenings, self.log_dets,
            self.reaches, self.radii_sq, self.plan.truncation**2, self.original, self.nearest,
            shift, mass, self.kinds, nearest,
        )  # fmt: skip
        if len(rows) <= BLOCK:  # waking other threads would cost more than the work
            kernels.shift_block(0, len(rows), *state)
        else:
            kernels.shift_clusters(BLOCK, *state)
        start = not self.history
        if start:
            self.point_densities = mass / mass.max()
            self.bearings = shift.copy()
            order = np.lexsort((self.original, -self.point_densities))
            self.rank[order] = np.arange(len(order))
        self.shifts[rows] = shift
        self.positions[rows] += shift
        self.nearest[rows] = nearest
        self.densities[rows] = self.point_densities[nearest]
        while self.used + len(rows) > len(self.pool):
            self.pool = np.concatenate([self.pool, np.empty_like(self.pool)])
            self.pool_count = np.concatenate([self.pool_count, np.empty_like(self.pool_count)])
            self.pool_next = np.concatenate([self.pool_next, np.empty_like(self.pool_next)])
        # A point of weight 2 is two points, which would have met in the first iteration.
        counts = self.weights[rows] if start else np.ones(len(rows))
        self.used = kernels.extend_trajectories(
            rows, self.positions, self.densities, counts, self.plan.first, self.plan.last,
            self.mass, self.mean, self.scatter, self.size, self.centre, self.head, self.tail,
            self.pool, self.pool_count, self.pool_next, self.used,
        )  # fmt: skip

    def merge(self, rows: Ints, changed: NDArray[np.bool_]) -> int:
        """Phase two: merge one by one, densest first; mark what moved or grew in `changed`."""
        changed[rows] = True
        order = rows[np.lexsort((self.original[rows], -self.densities[rows]))]
        check, epsilon = self.plan.merge_check, self.plan.epsilon
        space = (self.points, *self.tree, self.plan.first, self.plan.last)
        sets = (self.mass, self.mean, self.scatter, self.size, self.centre, self.head, self.tail)
        if not callable(check):
            merges: int = kernels.merge_clusters(
                *space, order, self.positions, self.shifts, self.bearings, CHECKS[check],
                epsilon, epsilon**2, self.rank, self.densities, changed, self.parent,
                self.members, *sets, self.pool_next,
            )  # fmt: skip
            return merges
        index, dist_sq = np.empty(len(self.points), np.int64), np.empty(len(self.points))
        scale = self.plan.scale
        merges = 0
        for u in order:
            if self.parent[u] != u:
                continue
            count = kernels.find_neighbours(
                *space, self.positions[u], self.whitenings[u], True, epsilon, epsilon**2,
                epsilon**2, index, dist_sq,
            )  # fmt: skip
            near = index[:count]
            owners = np.array([kernels.find_root(self.parent, y) for y in near], np.int64)
            near, owners = near[owners != u], owners[owners != u]
            if len(near) == 0:
                continue
            widths = self.bandwidths(np.append(owners, u)) * np.outer(scale, scale)
            agreed = np.asarray(
                check(
                    self.positions[u] * scale + self.offset,
                    self.points[near] * scale + self.offset,
                    self.shifts[u] * scale,
                    self.bearings[near] * scale,
                    widths[-1],
                    widths[:-1],
                )
            )
            if agreed.shape != near.shape or agreed.dtype != np.bool_:
                raise ConfigError(
                    f"merge_check must return {len(near)} booleans, one for each point, got "
                    f"an array of shape {agreed.shape} and type {agreed.dtype}"
                )
            merges += kernels.join_candidates(
                u, near[agreed], self.rank, self.densities, changed, self.parent, self.members,
                self.plan.first, self.plan.last, *sets, self.pool_next,
            )  # fmt: skip
        return merges

    def refresh(self, rows: Ints) -> None:
        """Renew Σ_u where it is significant: Eq. band, eigenvalues clamped to ξ."""
        plan = self.plan
        gathered = self.members if plan.by_members else self.size
        rows = rows[gathered[rows] >= plan.enough]  # no weight exceeds 1, so ESS ≤ |T_u|
        if len(rows) == 0:
            return
        variances = self.scatter[rows] / self.mass[rows, None, None]
        values, vectors = _eigen(variances, plan.first, plan.last, plan.xi)
        # Rows with small eigenvalues come first and rule out distant points at once.
        whitenings = np.ascontiguousarray(np.swapaxes(vectors, 1, 2) / np.sqrt(values)[:, :, None])
        if not plan.by_members:
            sizes = np.empty(len(rows))
            kernels.effective_sizes(
                rows, self.centre, whitenings, plan.first, plan.last, plan.enough,
                self.head, self.pool, self.pool_count, self.pool_next, sizes,
            )  # fmt: skip
            sure = sizes >= plan.enough
            self.confident[rows] = sure
            rows, values = rows[sure], values[sure]
            vectors, whitenings = vectors[sure], whitenings[sure]
        self.confident[rows] = self.shaped[rows] = True
        self.whitenings[rows] = whitenings
        self.log_dets[rows] = np.log(values).sum(axis=1)
        spread = np.einsum("kab,kb->ka", vectors**2, values)
        self.reaches[rows] = plan.truncation * np.sqrt(spread)
        begins, ends = np.unique(plan.first), np.unique(plan.last)
        widest = np.maximum.reduceat(values, begins, axis=1).repeat(ends - begins, axis=1)
        self.radii_sq[rows] = plan.truncation**2 * widest

    def settle(self, rows: Ints) -> None:
        """Retire clusters that merged or converged; nudge the converged while nudges are left."""
        self.active[rows] = self.parent[rows] == rows
        lengths = np.linalg.norm(self.shifts[rows], axis=1)
        still = rows[self.active[rows] & (lengths <= self.plan.delta)]
        self.active[still] = False
        for u in still[self.nudges[still] < self.plan.perturbations]:
            self.positions[u] += self.nudge(u)
            self.nudges[u] += 1
            self.active[u] = True

    def nudge(self, u: int) -> Floats:
        """Return the next nudge of cluster u: its axes in turn from the longest, ever shorter."""
        turn = int(self.nudges[u])
        values, vectors = np.linalg.eigh(self.bandwidths(np.array([u]))[0])
        axis = len(values) - 1 - turn % len(values)
        length = np.sqrt(values[axis]) * 0.5 ** (turn + 1) * (-1.0) ** turn
        away: Floats = vectors[:, axis] * length
        # An eigenvector has no sign of its own; this one makes the nudge repeatable.
        return away if vectors[np.argmax(np.abs(away)), axis] > 0 else -away

    def owners(self) -> Ints:
        """Return the cluster of every point, Π."""
        while not np.array_equal(self.parent, self.parent[self.parent]):
            self.parent = self.parent[self.parent]
        return self.parent

    def bandwidths(self, clusters: Ints) -> Floats:
        """Return Σ (k, d, d) of some clusters, in scaled coordinates."""
        out = np.broadcast_to(
            np.eye(self.points.shape[1]), (len(clusters), *self.scatter.shape[1:])
        )
        out = out.copy()
        sure = self.shaped[clusters]
        whitenings = self.whitenings[clusters[sure]]
        out[sure] = np.linalg.inv(np.swapaxes(whitenings, 1, 2) @ whitenings)
        return out

    def nearest_original(self, points: Floats) -> Ints:
        """Return, in the caller's order, the point nearest to each of `points`."""
        out = [
            kernels.find_nearest(self.points, *self.tree, self.original, point, 0)
            for point in points
        ]
        return self.original[out]


def _eigen(variances: Floats, first: Ints, last: Ints, xi: float) -> tuple[Floats, Floats]:
    """Return eigenvalues (k, d) and vectors (k, d, d) of Σ = variance + ξI, block by block."""
    values = np.empty(variances.shape[:2])
    vectors = np.zeros_like(variances)
    for begin, end in zip(np.unique(first), np.unique(last), strict=True):
        part = slice(begin, end)
        sums, axes = np.linalg.eigh(variances[:, part, part])
        values[:, part] = np.maximum(sums + xi, xi)
        vectors[:, part, part] = axes
    return values, vectors


def _plant(points: Floats) -> tuple[Ints, tuple[Ints, Ints, Floats, Floats]]:
    """Build the k-d tree; return the tree order and (starts, stops, lows, highs) of its nodes."""
    n, dims = points.shape
    levels = max(0, int(np.ceil(np.log2(n / LEAF))))
    nodes = 2 ** (levels + 1) - 1
    order = np.arange(n)
    starts, stops = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    lows, highs = np.empty((nodes, dims)), np.empty((nodes, dims))
    kernels.build_tree(points, levels, order, starts, stops, lows, highs)
    return order, (starts, stops, lows, highs)

"""Alg. 1: clusters climb the density, merge, and learn their bandwidths on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aaams_stream.errors import ConfigError
from aaams_stream.kernels import points as kernels
from aaams_stream.kernels.points import Bandwidths, Clusters, Moves, Trajectories, Tree
from aaams_stream.points.plan import CHECKS

if TYPE_CHECKING:
    from aaams_stream.kernels.points import Flags, Floats, Ints
    from aaams_stream.points.plan import MergeCheck, Plan

HISTORY = np.dtype(
    [("clusters", "i8"), ("merges", "i8"), ("largest_shift", "f8"), ("mean_shift", "f8")]
)
LEAF = 16  # points in a leaf of the tree
BLOCK = 64  # clusters a thread takes at a time


class MeanShift:
    """The state of Alg. 1. Row u is the cluster whose principal member is point u.

    Points stand in tree order; `tree.original` leads back to the caller's. Arrays are renewed in
    place.
    """

    def __init__(self, points: Floats, weights: Floats, plan: Plan, offset: Floats) -> None:
        n, dims = points.shape
        self.plan = plan
        self.offset = offset  # what was taken off the caller's points before scaling
        self.tree = _plant(points, weights)
        self.clusters = Clusters(
            position=self.tree.points.copy(),
            shift=np.full((n, dims), np.inf),
            nearest=np.arange(n),
            rho=np.zeros(n),
            parent=np.arange(n),
            members=self.tree.weights.copy(),
            changed=np.zeros(n, np.bool_),
        )
        self.bandwidths = Bandwidths(
            adaptive=np.zeros(n, np.bool_),
            whitening=np.zeros((n, dims, dims)),
            log_det=np.zeros(n),
            reach=np.zeros((n, dims)),
            radius_sq=np.zeros((n, dims)),
        )
        self.shaped = np.zeros(n, np.bool_)  # was adaptive once: Σ stays as it was
        self.trajectories = Trajectories(
            mass=np.zeros(n),
            mean=np.zeros((n, dims)),
            scatter=np.zeros((n, dims, dims)),
            size=np.zeros(n),
            centre=np.zeros((n, dims)),
            head=np.full(n, -1),
            tail=np.full(n, -1),
            pool=np.empty((2 * n, dims)),
            pool_count=np.empty(2 * n),
            pool_next=np.empty(2 * n, np.int64),
        )
        self.used = 0  # of the pool
        self.active = np.ones(n, np.bool_)
        self.nudges = np.zeros(n, np.int64)
        # What the first iteration stores for the whole run.
        self.density = np.zeros(n)
        self.bearing = np.zeros((n, dims))
        self.rank = np.arange(n)  # of the points by density
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
            merges = self.merge(rows)
            self.refresh_bandwidths()
            quiet = 0 if merges else quiet + 1
            lengths = np.linalg.norm(self.clusters.shift[rows], axis=1)
            self.settle(rows)
            left = int(np.count_nonzero(self.alive()))
            self.history.append((left, merges, float(lengths.max()), float(lengths.mean())))
        return True

    def update(self, rows: Ints) -> Ints:
        """Phase one: move every cluster of `rows` from the same state and extend its T_u.

        Returns the kind (r,) of each update: 0 scalar, 1 partial, 2 full.
        """
        clusters = self.clusters
        self.owner()  # the loops want the parents flat
        moves = Moves(
            shift=np.empty((len(rows), self.tree.points.shape[1])),
            mass=np.empty(len(rows)),
            kind=np.empty(len(rows), np.int64),
            nearest=np.empty(len(rows), np.int64),
        )
        state = (self.tree, self.plan.domains, clusters, self.bandwidths)
        cutoff_sq = self.plan.truncation**2
        if len(rows) <= BLOCK:  # waking other threads would cost more than the work
            kernels.shift_block(0, len(rows), rows, *state, cutoff_sq, moves)
        else:
            kernels.shift_clusters(BLOCK, rows, *state, cutoff_sq, moves)
        start = not self.history
        if start:
            self.density = moves.mass / moves.mass.max()
            self.bearing = moves.shift
            order = np.lexsort((self.tree.original, -self.density))
            self.rank[order] = np.arange(len(order))
        clusters.shift[rows] = moves.shift
        clusters.position[rows] += moves.shift
        clusters.nearest[rows] = moves.nearest
        clusters.rho[rows] = self.density[moves.nearest]
        clusters.changed[rows] = True
        # A point of weight 2 is two points, which would have met in the first iteration.
        counts = self.tree.weights[rows] if start else np.ones(len(rows))
        self._make_room(len(rows))
        self.used = kernels.extend_trajectories(
            rows, counts, self.plan.domains, clusters, self.trajectories, self.used
        )
        return moves.kind

    def merge(self, rows: Ints) -> int:
        """Phase two: merge one by one, densest first; return the number of merges."""
        order = rows[np.lexsort((self.tree.original[rows], -self.clusters.rho[rows]))]
        plan = self.plan
        if callable(plan.merge_check):
            return self._merge_where(plan.merge_check, order)
        merges: int = kernels.merge_clusters(
            order, self.tree, plan.domains, self.bearing, self.rank, CHECKS[plan.merge_check],
            plan.epsilon, self.clusters, self.trajectories,
        )  # fmt: skip
        return merges

    def _merge_where(self, check: MergeCheck, order: Ints) -> int:
        """Do what `merge` does with a check of the user's own, in his units."""
        plan, clusters, points = self.plan, self.clusters, self.tree.points
        scale, epsilon = plan.scale, plan.epsilon
        index, dist_sq = np.empty(len(points), np.int64), np.empty(len(points))
        merges = 0
        for u in order:
            if clusters.parent[u] != u:
                continue
            found = kernels.find_neighbours(
                self.tree, plan.domains, clusters.position[u], self.bandwidths.whitening[u], True,
                epsilon, epsilon**2, epsilon**2, index, dist_sq,
            )  # fmt: skip
            near = index[:found]
            owner = self.owner()[near]
            near, owner = near[owner != u], owner[owner != u]
            if len(near) == 0:
                continue
            widths = self.bandwidth_of(np.append(owner, u)) * np.outer(scale, scale)
            agreed = np.asarray(
                check(
                    clusters.position[u] * scale + self.offset,
                    points[near] * scale + self.offset,
                    clusters.shift[u] * scale,
                    self.bearing[near] * scale,
                    widths[-1],
                    widths[:-1],
                )
            )
            if agreed.shape != near.shape or agreed.dtype != np.bool_:
                raise ConfigError(
                    f"merge_check must return {len(near)} booleans, one for each point, got "
                    f"an array of shape {agreed.shape} and type {agreed.dtype}"
                )
            merges += kernels.merge_candidates(
                u, near[agreed], self.rank, plan.domains, clusters, self.trajectories
            )
        return merges

    def absorb(self, winner: int, loser: int) -> None:
        """Let one cluster take over another."""
        kernels.absorb(winner, loser, self.plan.domains, self.clusters, self.trajectories)

    def refresh_bandwidths(self) -> None:
        """Renew Σ_u of what changed, where significant: Eq. band, eigenvalues clamped to ξ."""
        plan, clusters = self.plan, self.clusters
        sets, bandwidths = self.trajectories, self.bandwidths
        rows = np.flatnonzero(clusters.changed & self.alive())
        clusters.changed[:] = False
        gathered = clusters.members if plan.by_members else sets.size
        rows = rows[gathered[rows] >= plan.enough]  # no weight exceeds 1, so ESS ≤ |T_u|
        if len(rows) == 0:
            return
        variances = sets.scatter[rows] / sets.mass[rows, None, None]
        values, vectors = _eigen(variances, plan.runs, plan.xi)
        # Rows with small eigenvalues come first and rule out distant points at once.
        whitening = np.ascontiguousarray(np.swapaxes(vectors, 1, 2) / np.sqrt(values)[:, :, None])
        if not plan.by_members:
            sizes = np.empty(len(rows))
            kernels.effective_sizes(rows, whitening, plan.domains, plan.enough, sets, sizes)
            sure = sizes >= plan.enough
            bandwidths.adaptive[rows] = sure
            rows, values = rows[sure], values[sure]
            vectors, whitening = vectors[sure], whitening[sure]
        bandwidths.adaptive[rows] = self.shaped[rows] = True
        bandwidths.whitening[rows] = whitening
        bandwidths.log_det[rows] = np.log(values).sum(axis=1)
        spread = np.einsum("kab,kb->ka", vectors**2, values)
        bandwidths.reach[rows] = plan.truncation * np.sqrt(spread)
        for run in plan.runs:
            widest = values[:, run].max(axis=1, keepdims=True)
            bandwidths.radius_sq[rows, run] = plan.truncation**2 * widest

    def settle(self, rows: Ints) -> None:
        """Retire clusters that merged or converged; nudge the converged while nudges are left."""
        clusters = self.clusters
        self.active[rows] = clusters.parent[rows] == rows
        lengths = np.linalg.norm(clusters.shift[rows], axis=1)
        still = rows[self.active[rows] & (lengths <= self.plan.delta)]
        self.active[still] = False
        for u in still[self.nudges[still] < self.plan.perturbations]:
            clusters.position[u] += self.nudge(u)
            self.nudges[u] += 1
            self.active[u] = True

    def nudge(self, u: int) -> Floats:
        """Return the next nudge of cluster u: its axes in turn from the longest, ever shorter."""
        turn = int(self.nudges[u])
        values, vectors = np.linalg.eigh(self.bandwidth_of(np.array([u]))[0])
        axis = len(values) - 1 - turn % len(values)
        length = np.sqrt(values[axis]) * 0.5 ** (turn + 1) * (-1.0) ** turn
        away: Floats = vectors[:, axis] * length
        # An eigenvector has no sign of its own; this one makes the nudge repeatable.
        return away if vectors[np.argmax(np.abs(away)), axis] > 0 else -away

    def alive(self) -> Flags:
        """Return which clusters (n,) no other has absorbed."""
        alive: Flags = self.clusters.parent == np.arange(len(self.clusters.parent))
        return alive

    def owner(self) -> Ints:
        """Return the cluster of every point, Π."""
        parent = self.clusters.parent
        while not np.array_equal(parent, parent[parent]):
            parent[:] = parent[parent]
        return parent

    def bandwidth_of(self, clusters: Ints) -> Floats:
        """Return Σ (k, d, d) of some clusters, in scaled coordinates."""
        dims = self.tree.points.shape[1]
        out = np.broadcast_to(np.eye(dims), (len(clusters), dims, dims)).copy()
        sure = self.shaped[clusters]
        whitening = self.bandwidths.whitening[clusters[sure]]
        out[sure] = np.linalg.inv(np.swapaxes(whitening, 1, 2) @ whitening)
        return out

    def nearest_original(self, points: Floats) -> Ints:
        """Return, in the caller's order, the point nearest to each of `points`."""
        return self.tree.original[[kernels.find_nearest(self.tree, point, 0) for point in points]]

    def _make_room(self, rows: int) -> None:
        """Double the pool of the trajectories until it takes so many more."""
        sets = self.trajectories
        while self.used + rows > len(sets.pool):
            sets = sets._replace(
                pool=np.concatenate([sets.pool, np.empty_like(sets.pool)]),
                pool_count=np.concatenate([sets.pool_count, np.empty_like(sets.pool_count)]),
                pool_next=np.concatenate([sets.pool_next, np.empty_like(sets.pool_next)]),
            )
        self.trajectories = sets


def _eigen(variances: Floats, runs: tuple[slice, ...], xi: float) -> tuple[Floats, Floats]:
    """Return eigenvalues (k, d) and vectors (k, d, d) of Σ = variance + ξI, block by block."""
    values = np.empty(variances.shape[:2])
    vectors = np.zeros_like(variances)
    for run in runs:
        sums, axes = np.linalg.eigh(variances[:, run, run])
        values[:, run] = np.maximum(sums + xi, xi)
        vectors[:, run, run] = axes
    return values, vectors


def _plant(points: Floats, weights: Floats) -> Tree:
    """Build the k-d tree of the points and bring them into its order."""
    n, dims = points.shape
    levels = max(0, int(np.ceil(np.log2(n / LEAF))))
    nodes = 2 ** (levels + 1) - 1
    order = np.arange(n)
    starts, stops = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    lows, highs = np.empty((nodes, dims)), np.empty((nodes, dims))
    kernels.build_tree(points, levels, order, starts, stops, lows, highs)
    points, weights = np.ascontiguousarray(points[order]), np.ascontiguousarray(weights[order])
    return Tree(points, weights, order, starts, stops, lows, highs)

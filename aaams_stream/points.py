"""AAAMS over points of any dimension: Alg. 1 and Alg. 2, written to be read beside the paper.

Where the paper leaves a choice open, this is ours:

- the work is done in scaled coordinates, each domain divided by its σ_base; σ is then 1, and
  `delta`, `xi` and the merge check mean the same whatever the units of the data;
- Ne_x(u), the neighbourhood of an update, is every point within `truncation` Mahalanobis units
  of u in each domain, measured with Σ_u (σ_base while ESS(u) < λ), also for Eq. full;
- an iteration has two phases: all updates from one state, then merges one by one, the densest
  cluster first, its candidates densest first, ties by index;
- ESS divides by one K'(0), as in Duong et al.; the printed sum could never reach λ;
- a cluster that converged stays, but renews its Σ when it assimilates another.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.errors import ConfigError
from aaams_stream.kernels import points as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MergeCheck = Callable[[Floats, Floats, Floats, Floats, Floats, Floats], NDArray[np.bool_]]

CHECKS = {"bearing": 0, "proximity": 1}
HISTORY = np.dtype(
    [("clusters", "i8"), ("merges", "i8"), ("largest_shift", "f8"), ("mean_shift", "f8")]
)
LEAF = 16  # points in a leaf of the tree


class AAAMS:
    """Anisotropic agglomerative adaptive mean shift, after scikit-learn's conventions.

    bandwidth: σ_base, the least detail wanted, in the units of the data. Not squared.
    epsilon: ε, the vicinity within which clusters may merge. Not squared.
    domains: sizes of independent feature domains, for example (3, 2) for colour and flow; then
        `bandwidth` and `epsilon` hold one value each per domain. None: one domain.
    truncation: the kernel ends this many Mahalanobis units from its centre.
    xi: ξ, the regulariser of Eq. band and the least eigenvalue, as a share of σ² of its domain.
    switch: when a cluster trusts its own bandwidth: "ess" (ESS ≥ `ess_min`) or "members" (as many
        members as the square of the largest domain's dimension, the paper's rule for images).
    ess_min: λ.
    merge_check: "bearing" (the paper's inner products), "proximity" (ε alone), or a function
        check(position, points, shift, bearings, bandwidth, bandwidths) -> mask (k,) of bool, for
        a cluster's position (d,), shift (d,) and bandwidth (d, d), the k points inside ε (k, d),
        their first shifts (k, d) and the bandwidths of the clusters owning them (k, d, d).
    delta: δ in units of σ: a cluster whose shift is no longer has converged.
    max_iter: the end in any case.
    patience: end after this many iterations in a row without a merge, where the partition alone
        is wanted; None runs every cluster to convergence.
    perturbations: how often a converged cluster is nudged along its longest axes, each time half
        as far as before and from half a standard deviation on.
    min_size: Alg. 2: smaller clusters (by weight) join the one with the nearest mode.
    bhattacharyya: Alg. 2: adjacent clusters with d_B below this join, closest first; 0 is off.
    connect: Alg. 2: clusters are adjacent when their modes lie within this distance (in σ);
        None is the least that leaves no cluster apart.
    n_clusters: go on joining by d_B until so many are left; fewer may come out of Alg. 1.

    After fit: labels_ (n,) from 0, the densest mode first; modes_ (k, d); bandwidths_ (k, d, d),
    the trajectory's Σ, or σ²I where it never grew significant; densities_ (k,) in (0, 1];
    n_iter_; converged_; history_, a record array with clusters, merges, largest_shift and
    mean_shift (in σ) of each iteration; n_features_in_.

    The result does not depend on the number of threads. Memory grows with n·d² plus one row for
    each update made.
    """

    labels_: Ints
    modes_: Floats
    bandwidths_: Floats
    densities_: Floats
    history_: NDArray[np.void]
    n_iter_: int
    converged_: bool
    n_features_in_: int

    def __init__(
        self,
        bandwidth: float | Sequence[float],
        epsilon: float | Sequence[float],
        *,
        domains: Sequence[int] | None = None,
        truncation: float = 3.0,
        xi: float = 0.25,
        switch: str = "ess",
        ess_min: float = 5.0,
        merge_check: str | MergeCheck = "bearing",
        delta: float = 0.01,
        max_iter: int = 300,
        patience: int | None = None,
        perturbations: int = 0,
        min_size: float = 1,
        bhattacharyya: float = 0.0,
        connect: float | None = None,
        n_clusters: int | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.epsilon = epsilon
        self.domains = domains
        self.truncation = truncation
        self.xi = xi
        self.switch = switch
        self.ess_min = ess_min
        self.merge_check = merge_check
        self.delta = delta
        self.max_iter = max_iter
        self.patience = patience
        self.perturbations = perturbations
        self.min_size = min_size
        self.bhattacharyya = bhattacharyya
        self.connect = connect
        self.n_clusters = n_clusters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in _parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change arguments by name; they are checked by `fit`."""
        for name, value in params.items():
            if name not in _parameter_names():
                raise ConfigError(
                    f"AAAMS has no parameter {name!r}; known: {', '.join(_parameter_names())}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Show the arguments that differ from their defaults."""
        defaults = inspect.signature(type(self).__init__).parameters
        shown = [f"{k}={v!r}" for k, v in self.get_params().items() if v is not defaults[k].default]
        return f"AAAMS({', '.join(shown)})"

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether `fit` has run."""
        return hasattr(self, "labels_")

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, the only caller; it is then installed."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type="clusterer", target_tags=TargetTags(required=False))

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Cluster the points X (n, d).

        sample_weight (n,) scales each point's share of the density; a point of weight 2 counts
        as two. A point of weight 0 takes no part and gets the label of its nearest neighbour.
        """
        points = _check_points(X)
        plan = _Plan.of(self, points.shape[1])
        weights = _check_weights(sample_weight, len(points))
        offset = (points.min(axis=0) + points.max(axis=0)) / 2
        scaled = np.ascontiguousarray((points - offset) / plan.scale)
        taking = weights > 0
        climb = _Climb(scaled[taking], weights[taking], plan)
        self.converged_ = climb.run()
        labels, clusters = _post_process(climb, plan)
        self.n_features_in_ = points.shape[1]
        self.labels_ = np.empty(len(points), np.int64)
        self.labels_[taking] = labels
        if not taking.all():
            self.labels_[~taking] = labels[climb.nearest_original(scaled[~taking])]
        self.modes_ = climb.positions[clusters] * plan.scale + offset
        self.bandwidths_ = climb.bandwidths(clusters) * np.outer(plan.scale, plan.scale)
        self.densities_ = climb.densities[clusters]
        self.history_ = np.array(climb.history, HISTORY)
        self.n_iter_ = len(climb.history)
        return self

    def fit_predict(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Ints:
        """Cluster the points X (n, d) and return labels_."""
        return self.fit(X, y, sample_weight).labels_


@dataclass(frozen=True, slots=True)
class _Plan:
    """The checked arguments of one fit, per axis where a domain has its own."""

    scale: Floats  # (d,) σ_base
    epsilon: Floats  # (d,) in σ
    first: Ints  # (d,) where the axis's domain begins
    last: Ints  # (d,) where it ends, exclusive
    truncation: float
    xi: float
    by_members: bool
    enough: float  # ESS or members
    merge_check: str | MergeCheck
    delta: float
    max_iter: int
    patience: int | None
    perturbations: int
    min_size: float
    bhattacharyya: float
    connect: float | None
    n_clusters: int | None

    @classmethod
    def of(cls, model: AAAMS, dims: int) -> _Plan:
        """Check every argument of `model` against data of `dims` columns."""
        sizes = _check_domains(model.domains, dims)
        scale = _per_axis("bandwidth", model.bandwidth, sizes, above=0.0, strict=True)
        epsilon = _per_axis("epsilon", model.epsilon, sizes, above=0.0, strict=False)
        stops = np.cumsum(sizes)
        if model.switch not in ("ess", "members"):
            raise ConfigError(f'switch must be "ess" or "members", got {model.switch!r}')
        if not callable(model.merge_check) and model.merge_check not in CHECKS:
            raise ConfigError(
                f'merge_check must be "bearing", "proximity" or a function, got {model.merge_check!r}'
            )
        ess_min = _number("ess_min", model.ess_min, above=0.0)
        connect, wanted, patience = model.connect, model.n_clusters, model.patience
        return cls(
            scale=scale,
            epsilon=epsilon / scale,
            first=np.repeat(stops - sizes, sizes),
            last=np.repeat(stops, sizes),
            truncation=_number("truncation", model.truncation, above=0.0),
            xi=_number("xi", model.xi, above=0.0),
            by_members=model.switch == "members",
            enough=float(sizes.max() ** 2) if model.switch == "members" else ess_min,
            merge_check=model.merge_check,
            delta=_number("delta", model.delta, above=0.0),
            max_iter=_count("max_iter", model.max_iter, 1),
            patience=None if patience is None else _count("patience", patience, 1),
            perturbations=_count("perturbations", model.perturbations, 0),
            min_size=_number("min_size", model.min_size, above=0.0),
            bhattacharyya=_number("bhattacharyya", model.bhattacharyya, above=0.0, strict=False),
            connect=None if connect is None else _number("connect", connect, above=0.0),
            n_clusters=None if wanted is None else _count("n_clusters", wanted, 1),
        )


class _Climb:
    """The state of Alg. 1. Row u is the cluster whose principal member is point u.

    Points stand in tree order; `original` leads back to the caller's. Arrays are renewed in place.
    """

    def __init__(self, points: Floats, weights: Floats, plan: _Plan) -> None:
        n, dims = points.shape
        self.plan = plan
        self.original, self.tree = _plant(points)
        self.points = np.ascontiguousarray(points[self.original])
        self.weights = np.ascontiguousarray(weights[self.original])
        self.positions = self.points.copy()
        self.shifts = np.full((n, dims), np.inf)
        self.parent = np.arange(n)
        self.members = self.weights.copy()
        self.active = np.ones(n, np.bool_)
        self.nudges = np.zeros(n, np.int64)
        # Bandwidths: whitening matrices and what goes with them, valid where `confident`.
        self.confident = np.zeros(n, np.bool_)
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
        kernels.shift_clusters(
            self.points, self.weights, *self.tree, self.plan.first, self.plan.last, rows,
            self.positions, self.owners(), self.confident, self.whitenings, self.log_dets,
            self.reaches, self.radii_sq, self.plan.truncation**2, shift, mass, self.kinds,
        )  # fmt: skip
        start = not self.history
        if start:
            self.point_densities = mass / mass.max()
            self.bearings = shift.copy()
            order = np.lexsort((self.original, -self.point_densities))
            self.rank[order] = np.arange(len(order))
        self.shifts[rows] = shift
        self.positions[rows] += shift
        nearest = np.empty(len(rows), np.int64)
        kernels.find_nearest(
            self.points, *self.tree, self.rank, rows, self.positions, self.nearest[rows], nearest
        )
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
            # The caller's units, but for the offset, which a check of differences never sees.
            agreed = np.asarray(
                check(
                    self.positions[u] * scale, self.points[near] * scale, self.shifts[u] * scale,
                    self.bearings[near] * scale, widths[-1], widths[:-1],
                )
            )  # fmt: skip
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
            self.confident[rows] = sizes >= plan.enough
            sure = sizes >= plan.enough
            rows, values, vectors, whitenings = (
                rows[sure],
                values[sure],
                vectors[sure],
                whitenings[sure],
            )
        self.confident[rows] = True
        self.whitenings[rows] = whitenings
        self.log_dets[rows] = np.log(values).sum(axis=1)
        spread = np.einsum("kab,kb->ka", vectors**2, values)
        self.reaches[rows] = plan.truncation * np.sqrt(spread)
        self.radii_sq[rows] = plan.truncation**2 * np.maximum.reduceat(
            values, np.unique(plan.first), axis=1
        ).repeat(np.unique(plan.last) - np.unique(plan.first), axis=1)

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
        direction: Floats = vectors[:, axis]
        direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
        return direction * (np.sqrt(values[axis]) * 0.5 ** (turn + 1) * (-1.0) ** turn)

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
        sure = self.confident[clusters]
        whitenings = self.whitenings[clusters[sure]]
        out[sure] = np.linalg.inv(np.swapaxes(whitenings, 1, 2) @ whitenings)
        return out

    def nearest_original(self, points: Floats) -> Ints:
        """Return, in the caller's order, the point nearest to each of `points`."""
        out = np.empty(len(points), np.int64)
        rows = np.arange(len(points))
        guess = np.zeros(len(points), np.int64)
        kernels.find_nearest(self.points, *self.tree, self.rank, rows, points, guess, out)
        return self.original[out]


def _post_process(climb: _Climb, plan: _Plan) -> tuple[Ints, Ints]:
    """Run Alg. 2 where it is asked for; return labels in the caller's order and the clusters.

    Structure is unknown for points, so the step that splits disconnected clusters does not apply.
    """
    owners = climb.owners()
    clusters = np.unique(owners)
    climb_row = np.searchsorted(clusters, owners)
    if plan.min_size > 1 or plan.bhattacharyya > 0 or plan.n_clusters is not None:
        final = clusters[_reduce(climb, clusters, climb_row, plan)]
        gathered = np.zeros(len(climb.points), np.bool_)
        for loser, winner in zip(
            clusters[final != clusters], final[final != clusters], strict=True
        ):
            kernels.absorb(
                winner, loser, climb.parent, climb.members, plan.first, plan.last, climb.mass,
                climb.mean, climb.scatter, climb.size, climb.centre, climb.head, climb.tail,
                climb.pool_next,
            )  # fmt: skip
            gathered[winner] = True
        climb.refresh(np.flatnonzero(gathered))
        owners = climb.owners()
        clusters = np.unique(owners)
    clusters = clusters[np.lexsort((climb.original[clusters], -climb.densities[clusters]))]
    number = np.empty(len(owners), np.int64)
    number[clusters] = np.arange(len(clusters))
    labels = np.empty(len(owners), np.int64)
    labels[climb.original] = number[owners]
    return labels, clusters


def _reduce(climb: _Climb, clusters: Ints, row: Ints, plan: _Plan) -> Ints:
    """Return the row each cluster ends in: small ones first, then d_B, then the count wanted."""
    dims = climb.points.shape[1]
    block = plan.first[:, None] == plan.first[None, :]
    ridge = plan.xi * np.eye(dims)
    modes = climb.positions[clusters]
    densities = climb.densities[clusters]
    # "Density weighted variances" of the members, as Eq. band weighs the trajectory.
    rho = climb.point_densities * climb.weights
    sizes = np.bincount(row, climb.weights, len(clusters))
    mass = np.bincount(row, rho, len(clusters))
    mean = np.stack([np.bincount(row, rho * x, len(clusters)) for x in climb.points.T], axis=1)
    mean /= mass[:, None]
    scatter = np.zeros((len(clusters), dims, dims))
    away = climb.points - mean[row]
    for a, b in zip(*np.nonzero(block), strict=True):
        scatter[:, a, b] = np.bincount(row, rho * away[:, a] * away[:, b], len(clusters))

    def join(alive: Ints, by_distance: bool, reach: float, threshold: float, wanted: int) -> Ints:
        """Reduce the rows of `alive`; return the row each ends in. Statistics are carried on."""
        parent = np.empty(len(alive), np.int64)
        table = [np.ascontiguousarray(t[alive]) for t in (modes, densities, sizes, mass)]
        moments = [np.ascontiguousarray(t[alive]) for t in (mean, scatter)]
        kernels.reduce_clusters(
            by_distance, reach**2, threshold, plan.min_size, wanted, ridge, *table, *moments, parent
        )
        sizes[alive], mass[alive] = table[2], table[3]
        mean[alive], scatter[alive] = moments
        return alive[parent]

    final = np.arange(len(clusters))
    final = join(final, True, np.inf, 0.0, 1)
    if plan.bhattacharyya > 0:
        alive = np.unique(final)
        reach = plan.connect
        if reach is None:
            reach = float(np.sqrt(kernels.longest_link_sq(np.ascontiguousarray(modes[alive]))))
            reach *= 1 + 1e-9  # the longest link itself must count as inside
        final = join(alive, False, reach, plan.bhattacharyya, len(alive))[
            np.searchsorted(alive, final)
        ]
    if plan.n_clusters is not None:
        alive = np.unique(final)
        final = join(alive, False, np.inf, 0.0, plan.n_clusters)[np.searchsorted(alive, final)]
    return final


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


def _parameter_names() -> list[str]:
    return [name for name in inspect.signature(AAAMS.__init__).parameters if name != "self"]


def _check_points(X: Any) -> Floats:
    """Return X as float64 (n, d), or say what is wrong with it."""
    if hasattr(X, "toarray") and not isinstance(X, np.ndarray):
        raise ConfigError(f"X is sparse ({type(X).__name__}); pass a dense array, X.toarray()")
    array = np.asarray(X)
    if array.dtype.kind == "c":
        raise ConfigError(f"X: Complex data not supported, got {array.dtype}; pass real columns")
    try:
        points = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"X must hold numbers, got {array.dtype} ({error})") from error
    if points.ndim != 2:
        raise ConfigError(
            f"X must be 2-D (points, features), got shape {points.shape}. Reshape your data: "
            "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one point"
        )
    if points.shape[0] == 0:
        raise ConfigError(
            f"X has 0 sample(s) (shape={points.shape}) while a minimum of 1 is required."
        )
    if points.shape[1] == 0:
        raise ConfigError(
            f"X has 0 feature(s) (shape={points.shape}) while a minimum of 1 is required."
        )
    if not np.isfinite(points).all():
        i, a = np.argwhere(~np.isfinite(points))[0]
        raise ConfigError(
            f"X must be finite, got {'NaN' if np.isnan(points[i, a]) else 'inf'} at row {i}, "
            f"column {a}; drop or fill such points"
        )
    return points


def _check_weights(sample_weight: Any, n: int) -> Floats:
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.asarray(sample_weight).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"sample_weight must hold numbers ({error})") from error
    if weights.shape != (n,):
        raise ConfigError(f"sample_weight must have shape ({n},), got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ConfigError("sample_weight must be finite, >= 0 and not all zero")
    return weights


def _check_domains(domains: Any, dims: int) -> Ints:
    if domains is None:
        return np.array([dims])
    sizes = list(domains)
    if not all(isinstance(size, Integral) and size >= 1 for size in sizes) or sum(sizes) != dims:
        raise ConfigError(
            f"domains must be sizes >= 1 that sum to the {dims} columns of X, got {domains!r}"
        )
    return np.array(sizes, np.int64)


def _per_axis(name: str, value: Any, sizes: Ints, above: float, strict: bool) -> Floats:
    if isinstance(value, Real) or np.ndim(value) == 0:
        given = [value] * len(sizes) if len(sizes) == 1 else None
    else:
        given = list(value)
    if given is None or len(given) != len(sizes):
        raise ConfigError(
            f"{name} must hold one value for each of {len(sizes)} domains, got {value!r}"
        )
    numbers = [_number(name, item, above=above, strict=strict) for item in given]
    return np.repeat(np.array(numbers), sizes)


def _number(name: str, value: Any, *, above: float, strict: bool = True) -> float:
    real = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value))
    if not real or float(value) < above or (strict and float(value) == above):
        raise ConfigError(
            f"{name} must be a number {'>' if strict else '>='} {above:g}, got {value!r}"
        )
    return float(value)


def _count(name: str, value: Any, least: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)

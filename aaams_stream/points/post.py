"""Alg. 2 for points: small clusters, then close ones, join in pairs."""

from __future__ import annotations

import numpy as np

from aaams_stream.kernels import points_post as kernels
from aaams_stream.kernels.points import absorb
from aaams_stream.points.mean_shift import Climb
from aaams_stream.points.plan import Floats, Ints, Plan


def post_process(climb: Climb, plan: Plan) -> tuple[Ints, Ints]:
    """Run Alg. 2 where it is asked for; return labels in the caller's order and the clusters.

    Structure is unknown for points, so the step that splits disconnected clusters does not apply.
    """
    owners = climb.owners()
    clusters = np.unique(owners)
    if plan.min_size > 1 or plan.bhattacharyya > 0 or plan.n_clusters is not None:
        clusters = _by_density(climb, clusters)
        final = clusters[_reduce(climb, clusters, _row_of(clusters, owners), plan)]
        gathered = np.zeros(len(climb.points), np.bool_)
        for loser, winner in zip(
            clusters[final != clusters], final[final != clusters], strict=True
        ):
            absorb(
                winner, loser, climb.parent, climb.members, plan.first, plan.last, climb.mass,
                climb.mean, climb.scatter, climb.size, climb.centre, climb.head, climb.tail,
                climb.pool_next,
            )  # fmt: skip
            gathered[winner] = True
        climb.refresh(np.flatnonzero(gathered))
        owners = climb.owners()
        clusters = np.unique(owners)
    clusters = _by_density(climb, clusters)
    labels = np.empty(len(owners), np.int64)
    labels[climb.original] = _row_of(clusters, owners)
    return labels, clusters


def _by_density(climb: Climb, clusters: Ints) -> Ints:
    """Return the clusters densest first, ties by the caller's order."""
    return clusters[np.lexsort((climb.original[clusters], -climb.densities[clusters]))]


def _row_of(clusters: Ints, owners: Ints) -> Ints:
    """Return where in `clusters` each point's owner stands."""
    rows = np.empty(len(owners), np.int64)
    rows[clusters] = np.arange(len(clusters))
    return rows[owners]


def _reduce(climb: Climb, clusters: Ints, row: Ints, plan: Plan) -> Ints:
    """Return the row each cluster ends in: small ones first, then d_B, then the count wanted."""

    def total(values: Floats) -> Floats:
        return np.bincount(row, values, len(clusters)).astype(np.float64)

    dims = climb.points.shape[1]
    block = plan.first[:, None] == plan.first[None, :]
    ridge = plan.xi * np.eye(dims)
    modes = climb.positions[clusters]
    densities = climb.densities[clusters]
    # "Density weighted variances" of the members, as Eq. band weighs the trajectory.
    rho = climb.point_densities * climb.weights
    sizes, mass = total(climb.weights), total(rho)
    mean = np.stack([total(rho * x) for x in climb.points.T], axis=1) / mass[:, None]
    scatter = np.zeros((len(clusters), dims, dims))
    away = climb.points - mean[row]
    for a, b in zip(*np.nonzero(block), strict=True):
        scatter[:, a, b] = total(rho * away[:, a] * away[:, b])

    def join(alive: Ints, by_distance: bool, reach: float, threshold: float, wanted: int) -> Ints:
        """Reduce the rows of `alive`; return the row each ends in. Statistics are carried on."""
        parent = np.empty(len(alive), np.int64)
        table = (sizes[alive], mass[alive], mean[alive], scatter[alive])
        kernels.reduce_clusters(
            by_distance, reach**2, threshold, plan.min_size, wanted, ridge, modes[alive],
            densities[alive], table[0], table[1], table[2], table[3], parent,
        )  # fmt: skip
        sizes[alive], mass[alive], mean[alive], scatter[alive] = table
        return alive[parent]

    final = np.arange(len(clusters))
    final = join(final, True, np.inf, 0.0, 1)
    if plan.bhattacharyya > 0:
        alive = np.unique(final)
        reach = plan.connect
        if reach is None:
            reach = float(np.sqrt(kernels.longest_link_sq(modes[alive])))
            reach *= 1 + 1e-9  # the longest link itself must count as inside
        final = join(alive, False, reach, plan.bhattacharyya, len(alive))[
            np.searchsorted(alive, final)
        ]
    if plan.n_clusters is not None:
        alive = np.unique(final)
        final = join(alive, False, np.inf, 0.0, plan.n_clusters)[np.searchsorted(alive, final)]
    return final

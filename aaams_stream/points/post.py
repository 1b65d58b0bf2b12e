"""Alg. 2 for points: small clusters, then close ones, join in pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aaams_stream.kernels import points_post as kernels
from aaams_stream.kernels.points_post import Members

if TYPE_CHECKING:
    from aaams_stream.kernels.points import Floats, Ints
    from aaams_stream.points.mean_shift import MeanShift


def post_process(state: MeanShift) -> tuple[Ints, Ints]:
    """Run Alg. 2 where it is asked for; return labels in the caller's order and the clusters.

    Structure is unknown for points, so the step that splits disconnected clusters does not apply.
    """
    plan = state.plan
    rows = np.unique(state.owner())
    if plan.min_size > 1 or plan.bhattacharyya > 0 or plan.n_clusters is not None:
        rows = _by_density(state, rows)
        final = rows[_reduce(state, rows)]
        for loser, winner in zip(rows[final != rows], final[final != rows], strict=True):
            state.absorb(winner, loser)
        state.refresh_bandwidths()
        rows = np.unique(state.owner())
    rows = _by_density(state, rows)
    labels = np.empty(len(state.tree.points), np.int64)
    labels[state.tree.original] = _row_of(rows, state.owner())
    return labels, rows


def _by_density(state: MeanShift, rows: Ints) -> Ints:
    """Return the clusters densest first, ties by the caller's order."""
    return rows[np.lexsort((state.tree.original[rows], -state.clusters.rho[rows]))]


def _row_of(rows: Ints, owner: Ints) -> Ints:
    """Return where in `rows` each point's owner stands."""
    where = np.empty(len(owner), np.int64)
    where[rows] = np.arange(len(rows))
    return where[owner]


def _reduce(state: MeanShift, rows: Ints) -> Ints:
    """Return which of the clusters each ends in: small ones first, then d_B, then the count."""
    plan = state.plan
    members = _gather(state, rows)
    ridge = plan.xi * np.eye(members.mode.shape[1])
    final = np.empty(len(rows), np.int64)
    kernels.join_small(members, plan.min_size, final)

    def join_close(reach: float, threshold: float, wanted: int) -> None:
        """Join what is left by d_B."""
        alive = np.unique(final)
        left = Members(*(column[alive] for column in members))
        parent = np.empty(len(alive), np.int64)
        kernels.join_close(left, ridge, reach**2, threshold, wanted, parent)
        for column, renewed in zip(members, left, strict=True):
            column[alive] = renewed
        final[:] = alive[parent][np.searchsorted(alive, final)]

    if plan.bhattacharyya > 0:
        reach = plan.connect
        if reach is None:
            reach = float(np.sqrt(kernels.longest_link_sq(members.mode[np.unique(final)])))
            reach *= 1 + 1e-9  # the longest link itself must count as inside
        join_close(reach, plan.bhattacharyya, len(rows))
    if plan.n_clusters is not None:
        join_close(np.inf, 0.0, plan.n_clusters)
    return final


def _gather(state: MeanShift, rows: Ints) -> Members:
    """Add up the members of each cluster of `rows`."""
    points, weights = state.tree.points, state.tree.weights
    row = _row_of(rows, state.owner())

    def total(values: Floats) -> Floats:
        return np.bincount(row, values, len(rows)).astype(np.float64)

    # "Density weighted variances" of the members, as Eq. band weighs the trajectory.
    rho = state.density * weights
    mass = total(rho)
    mean = np.stack([total(rho * x) for x in points.T], axis=1) / mass[:, None]
    scatter = np.zeros((len(rows), points.shape[1], points.shape[1]))
    away = points - mean[row]
    first = state.plan.domains.first
    for a, b in zip(*np.nonzero(first[:, None] == first[None, :]), strict=True):
        scatter[:, a, b] = total(rho * away[:, a] * away[:, b])
    return Members(
        mode=state.clusters.position[rows],
        rho=state.clusters.rho[rows],
        count=total(weights),
        mass=mass,
        mean=mean,
        scatter=scatter,
    )

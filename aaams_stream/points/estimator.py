"""The estimator: scikit-learn's conventions around Alg. 1 and Alg. 2."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aaams_stream.errors import ConfigError
from aaams_stream.points.mean_shift import HISTORY, MeanShift
from aaams_stream.points.plan import Plan, check_points, check_weights
from aaams_stream.points.post import post_process

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from aaams_stream.kernels.points import Floats, Ints
    from aaams_stream.points.plan import MergeCheck


class AAAMS:
    """Anisotropic agglomerative adaptive mean shift, after scikit-learn's conventions.

    The result does not depend on the number of threads. Memory grows with n·d² plus one row for
    each update made.

    Args:
        bandwidth: σ_base, the least detail wanted, in the units of the data. Not squared.
        epsilon: ε, the vicinity within which clusters may merge. Not squared.
        domains: sizes of independent feature domains, for example (3, 2) for colour and flow; then
            `bandwidth` and `epsilon` hold one value each per domain. None: one domain.
        truncation: the kernel ends this many Mahalanobis units from its centre.
        xi: ξ, the regulariser of Eq. band and the least eigenvalue, as a share of σ² of its
            domain.
        switch: when a cluster trusts its own bandwidth: "ess" (ESS ≥ `ess_min`) or "members" (as
            many members as the square of the largest domain's dimension, the paper's rule for
            images).
        ess_min: λ.
        merge_check: "bearing" (the paper's inner products), "proximity" (ε alone), or a function
            check(position, points, shift, bearings, bandwidth, bandwidths) -> mask (k,) of bool,
            for a cluster's position (d,), shift (d,) and bandwidth (d, d), the k points inside ε
            (k, d), their first shifts (k, d) and the bandwidths of the clusters owning them
            (k, d, d).
        delta: δ in units of σ: a cluster whose shift is no longer has converged.
        max_iter: the end in any case.
        patience: end after this many iterations in a row without a merge, where the partition
            alone is wanted; None runs every cluster to convergence.
        perturbations: how often a converged cluster is nudged along its longest axes, each time
            half as far as before and from half a standard deviation on.
        min_size: Alg. 2: smaller clusters (by weight) join the one with the nearest mode.
        bhattacharyya: Alg. 2: adjacent clusters with d_B below this join, closest first; 0 is off.
        connect: Alg. 2: clusters are adjacent when their modes lie within this distance (in σ);
            None is the least that leaves no cluster apart.
        n_clusters: go on joining the closest by d_B, adjacent or not, until so many are left;
            Alg. 1 may leave fewer.

    Attributes:
        labels_: (n,) from 0, the densest mode first.
        modes_: (k, d).
        bandwidths_: (k, d, d), the trajectory's Σ, or σ²I where it never grew significant.
        densities_: (k,) in (0, 1].
        n_iter_: how many iterations it took.
        converged_: whether all clusters came to rest.
        history_: a record array with clusters, merges, largest_shift and mean_shift (in σ) of each
            iteration.
        n_features_in_: d.
        feature_names_in_: the names of columns, where X is a table that has them.

    Example:
        >>> import numpy as np
        >>> from aaams_stream import AAAMS
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(9, 1, (50, 2))])
        >>> model = AAAMS(bandwidth=1.5, epsilon=2.5).fit(X)
        >>> len(model.modes_), sorted(np.bincount(model.labels_).tolist())
        (2, [50, 50])
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

    def set_params(self, **params: object) -> Self:
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

    def __sklearn_tags__(self) -> Tags:
        """Describe the estimator to scikit-learn, the only caller; it is then installed."""
        sklearn = importlib.import_module("sklearn.utils")
        target = sklearn.TargetTags(required=False)
        return sklearn.Tags(estimator_type="clusterer", target_tags=target)

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Cluster the points X (n, d).

        Args:
            X: the points (n, d), any number type, or a table of columns.
            y: ignored; scikit-learn's pipelines pass it.
            sample_weight: (n,) scales each point's share of the density; a point of weight 2
                counts as two. One of weight 0 takes no part and gets the label of its nearest
                neighbour.

        Returns:
            The estimator itself, with labels, modes and bandwidths.

        Raises:
            ConfigError: a parameter is out of range, or does not fit the number of columns.
        """
        points = check_points(X)
        plan = Plan.of(self, points.shape[1])
        weights = check_weights(sample_weight, len(points))
        offset = (points.min(axis=0) + points.max(axis=0)) / 2
        scaled = np.ascontiguousarray((points - offset) / plan.scale)
        taking = weights > 0
        state = MeanShift(scaled[taking], weights[taking], plan, offset)
        self.converged_ = state.run()
        labels, rows = post_process(state)
        self.n_features_in_ = points.shape[1]
        names = list(getattr(X, "columns", []))
        vars(self).pop("feature_names_in_", None)
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        self.labels_ = np.empty(len(points), np.int64)
        self.labels_[taking] = labels
        if not taking.all():
            self.labels_[~taking] = labels[state.nearest_original(scaled[~taking])]
        self.modes_ = state.clusters.position[rows] * plan.scale + offset
        self.bandwidths_ = state.bandwidth_of(rows) * np.outer(plan.scale, plan.scale)
        self.densities_ = state.clusters.rho[rows]
        self.history_ = np.array(state.history, HISTORY)
        self.n_iter_ = len(state.history)
        return self

    def fit_predict(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Ints:
        """Cluster the points X (n, d) and return `labels_`, (n,) from 0."""
        return self.fit(X, y, sample_weight).labels_


def _parameter_names() -> list[str]:
    return [name for name in inspect.signature(AAAMS.__init__).parameters if name != "self"]

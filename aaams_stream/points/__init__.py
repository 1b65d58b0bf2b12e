"""AAAMS over points of any dimension: Alg. 1 and Alg. 2, written to be read beside the paper.

Where the paper leaves a choice open, this is ours:

- the work is done in scaled coordinates, each domain divided by its σ_base; σ is then 1, and
  `delta`, `xi` and the merge check mean the same whatever the units of the data;
- Ne_x(u), the neighbourhood of an update, is every point within `truncation` Mahalanobis units
  of u in each domain, measured with Σ_u (σ_base while ESS(u) < λ), also for Eq. full;
- a merge candidate is every point within ε, also where ε reaches past the neighbourhood;
- an iteration has two phases: all updates from one state, then merges one by one, the densest
  cluster first, its candidates densest first, ties by index;
- ESS divides by one K'(0), as in Duong et al.; the printed sum could never reach λ;
- a cluster that converged stays, but renews its Σ when it assimilates another.
"""

from __future__ import annotations

from aaams_stream.points.estimator import AAAMS

__all__ = ["AAAMS"]

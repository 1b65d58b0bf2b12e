"""Boundaries of the propagated labels, and the fringe that moving edges leave."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.features import Picture
from aaams_stream.core.propagate import UNLABELLED, Propagated
from aaams_stream.core.roi import keep_apart
from aaams_stream.core.threads import side_by_side
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import refine as kernels
from aaams_stream.params import Params

_WORTH = 0.02  # of a pixel, as `side_by_side` counts: few lie on boundaries


def refine_boundaries(
    seen: Propagated,
    picture: Picture,
    params: Params,
    tuning: Tuning,
    outside: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """Return the labels (h, w) with boundary pixels re-estimated, and the fringe taken in.

    A fast path past Alg. 1 for pixels that look like the segment beside them: such a pixel lies
    within ε of points that have found their mode. outside (h, w): of the region of interest.
    """
    poll = kernels.Poll(
        seen.pixels.warped,
        picture.planes,
        np.float32(1 / (64 * params.colour.sigma2)),
        np.float32(tuning.vote_stay),
    )
    labels = np.empty_like(seen.pixels.kept)
    h, w = labels.shape
    places = np.empty(labels.size, np.int32)
    listed: dict[int, NDArray[np.int32]] = {}

    def relabel(first: int, last: int) -> None:
        mine = places[first * w : last * w]
        count = kernels.relabel_boundary(
            first, last, seen.pixels.kept, poll, UNLABELLED, labels, mine
        )
        listed[first] = mine[:count]

    side_by_side(relabel, h, worth=w * _WORTH)
    fringe = np.concatenate([listed[first] for first in sorted(listed)])
    kernels.grow_labels(fringe, labels, poll, np.float32(tuning.vote_join), tuning.vote_rounds)
    if outside is not None:
        keep_apart(labels, outside, UNLABELLED)
    return labels

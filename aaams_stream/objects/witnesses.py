"""What speaks for and against each segment near an object, in log odds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import tracker as kernels
from aaams_stream.objects.motion import affine, came_from

if TYPE_CHECKING:
    from aaams_stream.objects.memory import Followed
    from aaams_stream.objects.motion import Prediction
    from aaams_stream.objects.tuning import TrackerTuning
    from aaams_stream.objects.view import View

Array = NDArray[np.float64]

_UNHEARD = 1e-6  # of weight: where nothing is of the object, or all


@dataclass(frozen=True, slots=True)
class Near:
    """The segments in the window of an object, and means over their pixels in it."""

    rows: NDArray[np.intp]  # (n,) of the frame's table
    area: Array  # (n,) pixels in the window
    colour: Array  # (n, 2) log odds by the colours of first and of late
    place: Array  # (n, 2) belief along the flow, and by the shift
    change: Array  # (n,) of colour along the flow
    motion: Array  # (n, 2) since the frame before
    known: NDArray[np.bool_]  # (n,) whether its id was seen before
    share: Array  # (n,) how much of the object it was then; 0.5 if not known
    along: Array  # (n,) log odds, of late, that it moves with the object and not with the ground


def logit(p: Array, margin: float) -> Array:
    """Return log odds of beliefs kept `margin` away from 0 and 1."""
    p = np.clip(p, margin, 1 - margin)
    return np.asarray(np.log(p / (1 - p)))


def look_near(known: Followed, view: View, guess: Prediction, odds: Array) -> Near:
    """Sum up the pixels of each segment in the window; odds (2, n): of colours."""
    rows = view.frame.segments
    sums = np.empty((len(rows), 8))
    kernels.sum_evidence(view.labels, view.bins, odds, guess.warped, guess.flow, guess.box, sums)
    near = np.flatnonzero(sums[:, 0] > 0)
    area = sums[near, 0]
    means = sums[near, 1:] / area[:, None]
    seen, share, along = known.recall(rows["id"][near])
    return Near(
        rows=near,
        area=area,
        colour=means[:, :2],
        place=means[:, 2:4],
        change=means[:, 4],
        motion=-means[:, 5:],
        known=seen,
        share=share,
        along=along,
    )


def compare_layers(
    known: Followed, view: View, guess: Prediction, near: Near, tuning: TrackerTuning
) -> tuple[NDArray[np.float32], Array]:
    """Ask of each pixel whether it came along with the object or with the ground.

    Object and ground move as affine models say, fitted to what is believed to be of each. A pixel
    is compared with where it would have been, by both; where flow guesses at flat ground beside the
    object, both fit, and nothing is said. Returns log odds (h', w') with where each was, and
    means over segments (n, 2): by colour alone, and with that.
    """
    centre = view.centre[near.rows]
    place = near.place.mean(axis=1)
    belief = np.where(near.known, near.share, place)
    away = (centre - known.centre - guess.shift) / (2 * known.size)
    around = near.area * (1 - belief) * np.exp(-0.5 * (away**2).sum(axis=1)) + _UNHEARD
    trusted = np.exp(tuning.along_trust * np.minimum(near.along, 0))
    inside = near.area * belief * trusted * (place > 0.05) + _UNHEARD
    spread = tuning.motion_spread * float(np.hypot(*view.shape))
    models = np.stack(
        [came_from(affine(centre, near.motion, weight, spread)) for weight in (inside, around)]
    )
    soft = known.belief.copy()
    kernels.blur(soft, max(1, int(tuning.layer_blur * known.size)), np.empty_like(soft))
    layers = np.empty(guess.warped.shape[1:], np.float32)
    sums = np.empty((len(view.area), 2))
    kernels.compare_layers(
        soft, view.planes, known.view.planes, view.labels, guess.box, models, guess.flow,
        guess.warped[2], tuning.layer_pace, layers, sums,
    )  # fmt: skip
    return layers, sums[near.rows] / near.area[:, None]


def weigh(
    known: Followed, view: View, guess: Prediction, near: Near, layers: Array, tuning: TrackerTuning
) -> Array:
    """Return the log odds (n,) of each segment: the sum of what the witnesses say."""
    margin = tuning.belief_margin
    opinion = tuning.bias + tuning.colour_first * near.colour[:, 0]
    opinion += tuning.colour_late * near.colour[:, 1]
    opinion += tuning.identity * np.where(near.known, logit(near.share, margin), 0)
    opinion += tuning.place * logit(near.place, margin).sum(axis=1)
    parts = _like_parts(known, view, guess, near, tuning)
    opinion += tuning.parts * parts + tuning.along * parted(near, parts, tuning)
    opinion += tuning.change * np.minimum(near.change / 10, 3)
    return np.asarray(opinion + layers @ (tuning.layer_colour, tuning.layer_place))


def parted(near: Near, parts: Array, tuning: TrackerTuning) -> Array:
    """Return log odds (n,), none above 0, against what has moved with the ground for some frames.

    What looks like a part of the first frame is forgiven more, and all is where little is doubted:
    a foot stands on the ground while it bears the rest. parts (n,): log odds by parts.
    """
    against = np.minimum(near.along + tuning.along_slack, 0)
    held = near.area * near.share
    doubted = held[against < 0].sum() / max(held.sum(), 1.0)
    return np.asarray(min(doubted / tuning.along_share, 1.0) * against / (1 + np.exp(parts)))


def _like_parts(
    known: Followed, view: View, guess: Prediction, near: Near, tuning: TrackerTuning
) -> Array:
    """Return log odds (n,) by parts of the first frame of similar colour at a similar place."""
    parts = known.parts
    centre = view.centre[near.rows] - known.centre - guess.shift
    centre *= known.first_size / known.size
    colour = view.frame.segments["colour"][near.rows].astype(np.float64)
    table = np.column_stack([parts.centre, parts.colour, parts.area, parts.share])
    found = np.empty((len(centre), 2))
    reach = tuning.parts_reach * known.first_size
    kernels.compare_parts(
        centre, colour, table, 0.5 / reach**2, 0.5 / tuning.parts_colour**2, found
    )
    rare = tuning.parts_rare * (parts.area @ parts.share)
    odds = np.log((found[:, 0] + rare) / (found[:, 1] + rare))
    return np.asarray(np.clip(odds, -tuning.parts_limit, tuning.parts_limit))

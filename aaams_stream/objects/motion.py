"""Where an object should be now: matched as a whole, and pixel by pixel along the flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.flow import backward_flow
from aaams_stream.kernels import tracker as kernels
from aaams_stream.objects.memory import box_of

if TYPE_CHECKING:
    from aaams_stream.objects.memory import Followed
    from aaams_stream.objects.tuning import TrackerTuning
    from aaams_stream.objects.view import View

Array = NDArray[np.float64]

_LEAST_REST = 0.1  # of the object: what must be left to be matched


@dataclass(frozen=True, slots=True)
class Prediction:
    """What motion says, in a window around the object; lengths at half the frame's size."""

    shift: Array  # (2,) x, y of the object as a whole since the frame before
    box: NDArray[np.int64]  # (4,) of the window: x0, y0, x1, y1
    flow: NDArray[np.float32]  # (h', w', 2) from each pixel of the window to where it was
    # (3, h', w') belief along the flow, belief by the shift, change of colour along the flow
    warped: NDArray[np.float32]


def predict(known: Followed, view: View, tuning: TrackerTuning) -> Prediction:
    """Look where the object went."""
    shift = _match(known, view, tuning)
    box = _window(known, shift, tuning)
    flow = _flow(known, view, box, shift)
    warped = np.empty((3, *flow.shape[:2]), np.float32)
    kernels.warp_belief(
        known.belief,
        view.planes,
        known.view.planes,
        flow,
        box,
        shift,
        tuning.outside_belief,
        warped,
    )
    spare = np.empty_like(warped[0])
    reach = max(1, int(tuning.warp_blur * known.size))  # motion is never exact
    for layer in warped[:2]:
        for _ in range(2):
            kernels.blur(layer, reach, spare)
    return Prediction(shift, box, flow, warped)


def staying(known: Followed, shift: Array) -> float:
    """Return how many pixels of the object do not leave the picture with its motion."""
    h, w = known.belief.shape
    dx, dy = np.rint(shift).astype(int)
    rows = slice(max(0, -dy), min(h, h - dy))
    columns = slice(max(0, -dx), min(w, w - dx))
    return float(np.count_nonzero(known.belief[rows, columns] > 0.5))


def affine(centre: Array, motion: Array, weight: Array, spread: float) -> Array:
    """Return the affine model (3, 2) of motion (k, 2) at places (k, 2), robust to outliers.

    A place x, y moves by (1, x, y) @ model. spread: how unlike motions within one thing are.
    """
    middle = _median(motion, weight)
    total = weight.sum()
    origin = weight @ centre / total
    scale = np.sqrt(weight @ ((centre - origin) ** 2).sum(axis=1) / total) + 1.0
    terms = np.column_stack([np.ones(len(centre)), (centre - origin) / scale])
    model = np.zeros((3, 2))
    model[0] = middle
    for _ in range(4):
        gap = ((motion - terms @ model) ** 2).sum(axis=1)
        trust = weight / (1 + gap / spread**2) ** 2
        weighed = terms * trust[:, None]
        # a few segments do not tell a slope: it is held towards none
        square = weighed.T @ terms + np.diag([1e-6, 0.05, 0.05]) * trust.sum() + 1e-9 * np.eye(3)
        model = np.linalg.solve(square, weighed.T @ (motion - middle))
        model[0] += middle
    model[1:] /= scale
    model[0] -= origin @ model[1:]
    return model


def came_from(model: Array) -> Array:
    """Return where a place was, for the kernels: u = m0 + m1 x + m2 y, v = m3 + m4 x + m5 y."""
    (dx, dy), (dxx, dyx), (dxy, dyy) = model
    return np.array([-dx, 1 - dxx, -dxy, -dy, -dyx, 1 - dyy])


def _match(known: Followed, view: View, tuning: TrackerTuning) -> Array:
    """Match the picture of the object as a whole; return x, y by which it moved.

    It finds motion that is too fast for optical flow.
    """
    small, cell = view.small, view.cell
    weight = np.empty((1, *small.shape[1:]), np.float32)
    belief = _without_doubted(known, tuning)
    kernels.shrink(belief[None], cell, weight)
    weight = np.where(weight > 0.5, weight, np.float32(0))[0]
    inside = weight > 0
    count = np.count_nonzero(inside)
    if count < tuning.match_cells:
        return known.shift
    reach = int(np.clip(known.size / cell, 4, tuning.match_reach))
    step = max(1, int(np.sqrt(count / tuning.match_samples)))
    pull = tuning.match_pull * float(weight.sum()) * tuning.match_limit / reach / step**2
    guess = np.rint(known.shift / cell).astype(np.int64)
    x, y = kernels.find_shift(
        known.view.small,
        weight,
        small,
        box_of(inside),
        guess,
        reach,
        step,
        tuning.match_limit,
        pull,
    )
    return np.asarray(cell * np.array([x, y], np.float64))


def _without_doubted(known: Followed, tuning: TrackerTuning) -> NDArray[np.float32]:
    """Return the belief of the frame before, without what moves with the ground.

    The ground would be found where it is, and taken for the object. Where next to nothing else is
    left, all stays.
    """
    doubted = known.recall(known.view.names)[2] < -tuning.along_slack
    rest = np.where(doubted[known.view.labels], np.float32(0), known.belief)
    enough = _LEAST_REST * np.count_nonzero(known.belief > 0.5)
    return rest if np.count_nonzero(rest > 0.5) >= enough else known.belief


def _window(known: Followed, shift: Array, tuning: TrackerTuning) -> NDArray[np.int64]:
    """Return the box in which the object is looked for: where it was and where it should be."""
    h, w = known.belief.shape
    reach = int(tuning.window_reach * known.size) + 8
    old = box_of(known.belief > 0.5, reach)
    new = old + np.rint(np.tile(shift, 2)).astype(np.int64)
    low, high = np.minimum(old[:2], new[:2]), np.maximum(old[2:], new[2:])
    return np.asarray(np.clip(np.concatenate([low, high]), 0, [w, h, w, h]))


def _flow(known: Followed, view: View, box: NDArray[np.int64], shift: Array) -> NDArray[np.float32]:
    """Return the flow (h', w', 2) in a window: from each pixel to where it was.

    What the object did as a whole is taken off before flow is sought, and added again: then only
    what is left must be found.
    """
    x0, y0, x1, y1 = box
    dx, dy = np.rint(shift).astype(int)
    h, w = view.luma.shape
    now = np.ascontiguousarray(view.luma[y0:y1, x0:x1])
    rows = np.clip(np.arange(y0, y1) - dy, 0, h - 1)
    columns = np.clip(np.arange(x0, x1) - dx, 0, w - 1)
    before = np.ascontiguousarray(known.view.luma[rows][:, columns])
    found = backward_flow(now, before, (now.shape[0], now.shape[1]))
    found[..., 0] -= np.float32(dx)
    found[..., 1] -= np.float32(dy)
    return found


def _median(values: Array, weight: Array) -> Array:
    """Return the weighted median of each column."""
    middle = []
    for column in values.T:
        order = np.argsort(column, kind="stable")
        sums = np.cumsum(weight[order])
        middle.append(column[order[np.searchsorted(sums, 0.5 * sums[-1])]])
    return np.array(middle)

"""A tracker on supervoxels: one mask in, the object's mask in every later frame out.

What is known of a frame comes from its tables and its picture. Each segment gets log odds of
belonging to the object, the sum of what five witnesses say:

    identity   how much of the object it was in the frame before
    place      how much of the object motion carries to where it is; the object also moves as a
               whole, found by matching its picture, which holds where optical flow gives up
    colour     histograms of the object and its surroundings, of the first frame and of late
    motion     whether it moves with the object or with its surroundings
    contacts   neighbours without an edge between them agree

An object changes its size slowly: where the witnesses would have it grow or shrink at once, the
threshold gives way a little. A segment that straddles the outline is cut by place and colour of
its pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.pool import rows_of
from aaams_stream.errors import ConfigError
from aaams_stream.kernels import tracker as kernels
from aaams_stream.objects.tuning import TrackerTuning

if TYPE_CHECKING:
    from aaams_stream.model import FrameSegmentation

_DEFAULT = TrackerTuning()


@dataclass(frozen=True, slots=True)
class Colours:
    """Histograms of colour; each sums to 1."""

    object: NDArray[np.float64]  # (n,)
    around: NDArray[np.float64]  # (n,)


@dataclass(frozen=True, slots=True)
class Followed:
    """An object in one frame, and all there is to remember of it."""

    mask: NDArray[np.bool_]  # (h, w)
    belief: NDArray[np.float32]  # (h, w) from 0 to 1
    ids: NDArray[np.uint32]  # (k,) of segments seen so far, in order
    share: NDArray[np.float64]  # (k,) how much of each is believed to be of the object
    small: NDArray[np.float32]  # (3, h', w') the picture in cells
    shift: NDArray[np.float64]  # (2,) pixels a frame, of late
    size: float  # pixels: root of the area
    first_size: float
    first: Colours
    late: Colours


@dataclass(frozen=True, slots=True)
class _View:
    """A frame as the witnesses look at it."""

    labels: NDArray[np.int32]  # (h, w) row of each pixel's segment
    area: NDArray[np.float64]  # (k,)
    bins: NDArray[np.int32]  # (h, w) of colour
    small: NDArray[np.float32]  # (3, h', w') the picture in cells


def follow(
    frames: Iterable[FrameSegmentation],
    mask: NDArray[np.bool_],
    tuning: TrackerTuning = _DEFAULT,
) -> Iterator[NDArray[np.bool_]]:
    """Yield the mask (h, w) of an object in each frame, given the one in the first.

    frames: with their pictures, from `stream` or `replay`. Never looks ahead.
    """
    known: Followed | None = None
    for frame in frames:
        if known is None:
            known = begin_following(frame, mask, tuning)
        else:
            known = keep_following(known, frame, tuning)
        yield known.mask


def mask_at(frame: FrameSegmentation, clicks: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return the mask of the segments under clicks x, y."""
    mask = np.zeros(frame.ids.shape, np.bool_)
    h, w = frame.ids.shape
    for click in clicks:
        if np.shape(click) != (2,):
            raise ConfigError(f"clicks are pairs of x and y, as in [(30, 3)]; got {click!r} as one")
        x, y = click
        if not (0 <= x < w and 0 <= y < h):
            raise ConfigError(f"a click at {x},{y} lies outside the picture of {w}x{h}")
        mask |= frame.ids == frame.ids[y, x]
    return mask


def begin_following(
    frame: FrameSegmentation, mask: NDArray[np.bool_], tuning: TrackerTuning = _DEFAULT
) -> Followed:
    """Take an object's mask (h, w) in a frame as the truth."""
    if mask.shape != frame.ids.shape:
        given = "x".join(map(str, mask.shape[::-1]))
        wanted = "x".join(map(str, frame.ids.shape[::-1]))
        raise ConfigError(f"the mask is {given}, expected {wanted} as the frames are")
    if not mask.any():
        raise ConfigError("the mask is empty; mark the object with values above 0")
    view = _look(frame, tuning)
    belief = np.asarray(mask, np.float32)
    inside = np.bincount(view.labels.reshape(-1), belief.reshape(-1), len(view.area))
    size = float(np.sqrt(np.count_nonzero(mask)))
    colours = _colours(belief, view.bins, size, tuning)
    return Followed(
        mask=np.asarray(mask, np.bool_),
        belief=belief,
        ids=frame.segments["id"].copy(),
        share=inside / view.area,
        small=view.small,
        shift=np.zeros(2),
        size=size,
        first_size=size,
        first=colours,
        late=colours,
    )


def keep_following(
    known: Followed, frame: FrameSegmentation, tuning: TrackerTuning = _DEFAULT
) -> Followed:
    """Find the object in the next frame."""
    rows = frame.segments
    view = _look(frame, tuning)
    shift, found = _match(known, view.small, tuning)
    warped = _warped(known, view.labels, rows["motion"].copy(), found, tuning)
    odds = _colour_odds(known, tuning)
    colour, place = np.empty(len(rows)), np.empty(len(rows))
    kernels.sum_evidence(view.labels, view.bins, odds, warped, colour, place)
    colour /= view.area
    place /= view.area

    old, before = _recalled(known, rows["id"])
    opinion = tuning.bias + tuning.identity * _logit(before, tuning.belief_margin)
    opinion = opinion + tuning.place * _logit(place, tuning.belief_margin) + tuning.colour * colour
    moving = _motion_odds(known, rows, np.where(old, before, place), place, tuning)
    opinion += tuning.motion * moving
    opinion = _balanced(opinion, view.area, known.size**2, tuning)
    verdict = _logit(_agreed(opinion, frame, tuning), tuning.verdict_margin)

    margin = tuning.pixel_margin
    mean = np.stack([_logit(place, margin), colour], axis=1)
    trust = np.array([tuning.pixel_place, tuning.pixel_colour])
    belief, share = np.empty_like(warped), np.empty(len(rows))
    kernels.decide_pixels(
        view.labels, view.bins, odds, warped, verdict, mean, trust, margin, tuning.pixel_limit,
        belief, share,
    )  # fmt: skip
    share /= view.area
    inertia = tuning.identity_inertia
    share = np.where(old, inertia * before + (1 - inertia) * share, share)
    ids, share = _remembered(known, rows["id"], share, tuning.identity_memory)
    mask = belief > 0.5
    size = max(float(np.sqrt(np.count_nonzero(mask))), tuning.least_size * known.first_size)
    late = known.late
    if mask.any():
        late = _followed(late, _colours(belief, view.bins, size, tuning), tuning.colour_rate)
    return Followed(
        mask=mask,
        belief=belief,
        ids=ids,
        share=share,
        small=view.small,
        shift=shift,
        size=size,
        first_size=known.first_size,
        first=known.first,
        late=late,
    )


def _recalled(
    known: Followed, ids: NDArray[np.uint32]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which of the ids are known, and how much of the object they were; 0.5 if not."""
    at = np.searchsorted(known.ids, ids)
    at[at == len(known.ids)] = 0
    found = known.ids[at] == ids
    return found, np.where(found, known.share[at], 0.5)


def _remembered(
    known: Followed, ids: NDArray[np.uint32], share: NDArray[np.float64], most: int
) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Add the ids of the frame to those that may come back; the oldest are forgotten."""
    hidden = ~np.isin(known.ids, ids)
    ids = np.concatenate([known.ids[hidden], ids])
    share = np.concatenate([known.share[hidden], share])
    order = np.argsort(ids)[-most:]
    return ids[order], share[order]


def _logit(p: NDArray[np.float64], margin: float) -> NDArray[np.float64]:
    p = np.clip(p, margin, 1 - margin)
    return np.asarray(np.log(p / (1 - p)))


def _look(frame: FrameSegmentation, tuning: TrackerTuning) -> _View:
    if frame.rgb is None:
        raise ValueError("the frame must bring its picture; take it from stream or replay")
    planes = features.lab_planes(frame.rgb)
    h, w = frame.ids.shape
    bins = np.empty((h, w), np.int32)
    kernels.colour_bins(planes, bins)
    cell = _cell((h, w), tuning)
    small = np.empty((len(planes), h // cell, w // cell), np.float32)
    kernels.shrink(planes, cell, small)
    return _View(
        labels=rows_of(frame.ids, frame.segments["id"]),
        area=frame.segments["area"].astype(np.float64),
        bins=bins,
        small=small,
    )


def _cell(shape: tuple[int, ...], tuning: TrackerTuning) -> int:
    return max(1, round(tuning.match_cell * float(np.hypot(shape[0], shape[1]))))


def _match(
    known: Followed, small: NDArray[np.float32], tuning: TrackerTuning
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Match the object as a whole; return how it moves of late, and now."""
    cell = _cell(known.belief.shape, tuning)
    weight = np.empty((1, *small.shape[1:]), np.float32)
    kernels.shrink(known.belief[None], cell, weight)
    weight = np.where(weight > 0.5, weight, np.float32(0))[0]
    inside = weight > 0
    if np.count_nonzero(inside) < tuning.match_cells:
        return known.shift, known.shift
    reach = int(np.clip(known.size / cell, 4, tuning.match_reach))
    pull = tuning.match_pull * float(weight.sum()) * tuning.match_limit / reach
    guess = np.rint(known.shift / cell).astype(np.int64)
    found = kernels.find_shift(
        known.small, weight, small, _box(inside), guess, reach, tuning.match_limit, pull
    )
    now = cell * np.array(found, np.float64)
    return 0.5 * (known.shift + now), now


def _warped(
    known: Followed,
    labels: NDArray[np.int32],
    motion: NDArray[np.float32],
    shift: NDArray[np.float64],
    tuning: TrackerTuning,
) -> NDArray[np.float32]:
    """Return the belief (h, w) where motion takes it, blurred: motion is never exact."""
    warped = np.empty_like(known.belief)
    kernels.warp_belief(known.belief, labels, motion, shift, tuning.outside_belief, warped)
    spare = np.empty_like(warped)
    for _ in range(2):
        kernels.blur(warped, max(1, int(tuning.warp_blur * known.size)), spare)
    return warped


def _box(mask: NDArray[np.bool_], margin: int = 0) -> NDArray[np.int64]:
    """Return x0, y0, x1, y1 of a mask that is not empty."""
    y, x = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return np.array([x[0] - margin, y[0] - margin, x[-1] + 1 + margin, y[-1] + 1 + margin])


def _colours(
    belief: NDArray[np.float32], bins: NDArray[np.int32], size: float, tuning: TrackerTuning
) -> Colours:
    """Return the colours of the object and of what is around it."""
    inside, outside = np.zeros((2, kernels.BINS_L * kernels.BINS_AB**2))
    box = _box(belief > 0.5, int(tuning.around_reach * size))
    kernels.count_colours(belief, bins, box, tuning.far_weight, inside, outside)
    return Colours(*(_smoothed(part, tuning.colour_blur) for part in (inside, outside)))


def _followed(late: Colours, seen: Colours, rate: float) -> Colours:
    """Return colours of late, moved towards those that are seen now."""
    return Colours(
        late.object + rate * (seen.object - late.object),
        late.around + rate * (seen.around - late.around),
    )


def _smoothed(histogram: NDArray[np.float64], bins: float) -> NDArray[np.float64]:
    """Return a histogram blurred, so that near colours count too, and with a sum of 1."""
    values = histogram.reshape(kernels.BINS_L, kernels.BINS_AB, kernels.BINS_AB)
    for axis in range(3):
        steps = np.arange(values.shape[axis])
        mix = np.exp(-0.5 * ((steps[:, None] - steps) / bins) ** 2)
        values = np.moveaxis(np.tensordot(mix / mix.sum(axis=0), values, (1, axis)), 0, axis)
    return np.asarray(values.reshape(-1) / max(values.sum(), 1e-12))


def _colour_odds(known: Followed, tuning: TrackerTuning) -> NDArray[np.float64]:
    """Return the log odds (n,) of each colour bin."""
    first, late = known.first, known.late
    kept, kept_around = tuning.first_object, tuning.first_around
    inside = kept * first.object + (1 - kept) * late.object
    around = kept_around * first.around + (1 - kept_around) * late.around
    odds = np.log((inside + tuning.rare_object) / (around + tuning.rare_around))
    return np.asarray(np.clip(odds, -tuning.colour_limit, tuning.colour_limit))


def _motion_odds(
    known: Followed,
    rows: NDArray[np.void],
    belief: NDArray[np.float64],
    place: NDArray[np.float64],
    tuning: TrackerTuning,
) -> NDArray[np.float64]:
    """Return the log odds (k,) by motion: with the object, or with what is around it."""
    motion = rows["motion"].astype(np.float64)
    area = rows["area"].astype(np.float64)
    inside = area * belief * (place > 0.05)
    total = max(float(known.belief.sum()), 1e-6)
    h, w = known.belief.shape
    centre = np.array([known.belief.sum(0) @ np.arange(w), known.belief.sum(1) @ np.arange(h)])
    away = ((rows["centroid"] - centre / total) / (2 * known.size)) ** 2
    around = area * (1 - belief) * np.exp(-0.5 * away.sum(axis=1))
    if not (inside.sum() > 0 and around.sum() > 0):
        return np.zeros(len(rows))
    spread = (tuning.motion_spread * float(np.hypot(h, w))) ** 2
    gaps = [
        np.minimum(((motion - _median(motion, weight)) ** 2).sum(axis=1), 9 * spread)
        for weight in (around, inside)
    ]
    odds = (gaps[0] - gaps[1]) / (2 * spread)
    return np.asarray(np.clip(odds, -tuning.motion_limit, tuning.motion_limit))


def _median(values: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted median of each column."""
    middle = []
    for column in values.T:
        order = np.argsort(column, kind="stable")
        sums = np.cumsum(weight[order])
        middle.append(column[order[np.searchsorted(sums, 0.5 * sums[-1])]])
    return np.array(middle)


def _balanced(
    opinion: NDArray[np.float64],
    area: NDArray[np.float64],
    before: float,
    tuning: TrackerTuning,
) -> NDArray[np.float64]:
    """Move the threshold so that the area changes less, if little is enough for that."""
    now = float(area[opinion > 0].sum())
    wanted = float(np.clip(now, before * (1 - tuning.growth), before * (1 + tuning.growth)))
    if wanted == now:
        return opinion
    order = np.argsort(-opinion, kind="stable")
    last = min(int(np.searchsorted(np.cumsum(area[order]), wanted)), len(order) - 1)
    most = tuning.growth_yield
    return opinion - float(np.clip(opinion[order[last]], -most, most))


def _agreed(
    opinion: NDArray[np.float64], frame: FrameSegmentation, tuning: TrackerTuning
) -> NDArray[np.float64]:
    """Let neighbours talk, the more the longer and fainter the edge between them is."""
    rows, pairs = frame.segments, frame.adjacency
    first = np.searchsorted(rows["id"], pairs["first"])
    second = np.searchsorted(rows["id"], pairs["second"])
    weight = pairs["length"] * np.exp(-pairs["contrast"] / tuning.edge_contrast)
    belief = 1 / (1 + np.exp(-opinion))
    for _ in range(tuning.contact_rounds):
        lean = 2 * belief - 1
        said = np.bincount(first, weight * lean[second], len(rows))
        said += np.bincount(second, weight * lean[first], len(rows))
        belief = 1 / (1 + np.exp(-opinion - tuning.contact * said / rows["perimeter"]))
    return np.asarray(belief)

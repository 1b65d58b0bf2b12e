"""A tracker on supervoxels: one mask in, the object's mask in every later frame out.

What is known of a frame comes from its tables: identity, contacts, colours and motion. Each segment
gets log odds of belonging to the object, the sum of what five witnesses say:

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.pool import rows_of
from aaams_stream.errors import ConfigError
from aaams_stream.kernels import tracker as kernels
from aaams_stream.model import FrameSegmentation

# Weights of the witnesses.
_IDENTITY = 1.0
_PLACE = 1.0
_COLOUR = 1.6
_MOTION = 1.25
_CONTACT = 2.0
_DOUBT = -0.3  # log odds before any witness has spoken

_SURE = 0.02  # beliefs are kept this far from 0 and 1
_EDGE = 10.0  # L*a*b* units: contacts with more contrast than this hardly count
_ROUNDS = 10  # of asking the neighbours
_FADE = 0.1  # of the object's size: how blurred a carried mask is
_OUTSIDE = 0.2  # belief in what was out of the picture
_INERTIA = 0.65  # of what an identity was believed to be
_MEMORY = 4096  # identities
_PIXEL_PLACE, _PIXEL_COLOUR = 1.2, 0.3  # weights of a pixel's own place and colour
_PIXEL_SURE = 0.05
_PIXEL_MOST = 3.0  # log odds by which a pixel may differ from its segment

_COLOUR_MOST = 3.0  # log odds of a colour
_COLOUR_BLUR = 0.6  # bins
_COLOUR_RATE = 0.05  # at which colours of late follow
_FIRST_OBJECT, _FIRST_AROUND = 0.6, 0.3  # share of the first frame's colours
_AROUND = 0.6  # of the object's size: how far its surroundings reach
_FAR = 0.1  # weight of colours beyond them
_RARE = 1e-5  # share below which a colour says nothing of the object ...
_RARE_AROUND = 5e-5  # ... or of its surroundings: what is new more likely came from there

_MOTION_SPREAD = 0.003  # of the diagonal: how unlike motions within one thing are
_MOTION_MOST = 2.25
_CELL = 0.004  # of the diagonal: pixels in which the object is matched as a whole
_MATCH_MOST = 12.0  # L*a*b* units, over three channels
_MATCH_REACH = 20  # cells
_MATCH_LEAST = 6  # cells an object must have to be matched
_GROWTH = 0.1  # from frame to frame, before the threshold gives way
_GIVE_WAY = 1.0  # log odds


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


def follow(
    frames: Iterable[FrameSegmentation], mask: NDArray[np.bool_]
) -> Iterator[NDArray[np.bool_]]:
    """Yield the mask (h, w) of an object in each frame, given the one in the first.

    frames: with their pictures, from `stream` or `replay`. Never looks ahead.
    """
    known: Followed | None = None
    for frame in frames:
        known = begin_following(frame, mask) if known is None else keep_following(known, frame)
        yield known.mask


def mask_at(frame: FrameSegmentation, clicks: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return the mask of the segments under clicks x, y."""
    mask = np.zeros(frame.ids.shape, np.bool_)
    h, w = frame.ids.shape
    for x, y in clicks:
        if not (0 <= x < w and 0 <= y < h):
            raise ConfigError(f"a click at {x},{y} lies outside the picture of {w}x{h}")
        mask |= frame.ids == frame.ids[y, x]
    return mask


def begin_following(frame: FrameSegmentation, mask: NDArray[np.bool_]) -> Followed:
    """Take an object's mask (h, w) in a frame as the truth."""
    if mask.shape != frame.ids.shape:
        given = "x".join(map(str, mask.shape[::-1]))
        wanted = "x".join(map(str, frame.ids.shape[::-1]))
        raise ConfigError(f"the mask is {given}, expected {wanted} as the frames are")
    if not mask.any():
        raise ConfigError("the mask is empty; mark the object with values above 0")
    labels = _labels(frame)
    planes = _planes(frame)
    belief = np.asarray(mask, np.float32)
    area = frame.segments["area"].astype(np.float64)
    share = np.bincount(labels.reshape(-1), belief.reshape(-1), len(area)) / area
    size = float(np.sqrt(np.count_nonzero(mask)))
    colours = _colours(belief, _bins(planes, mask.shape), size)
    return Followed(
        mask=np.asarray(mask, np.bool_),
        belief=belief,
        ids=frame.segments["id"].copy(),
        share=share,
        small=_small(planes, mask.shape),
        shift=np.zeros(2),
        size=size,
        first_size=size,
        first=colours,
        late=colours,
    )


def keep_following(known: Followed, frame: FrameSegmentation) -> Followed:
    """Find the object in the next frame."""
    rows = frame.segments
    area = rows["area"].astype(np.float64)
    count = len(rows)
    labels, planes = _labels(frame), _planes(frame)
    bins = _bins(planes, labels.shape)
    small = _small(planes, labels.shape)
    shift, found = _shift(known, small, labels.shape)

    prior = np.empty_like(known.belief)
    kernels.carry_belief(known.belief, labels, rows["motion"].copy(), found, _OUTSIDE, prior)
    spare = np.empty_like(prior)
    for _ in range(2):
        kernels.blur(prior, max(1, int(_FADE * known.size)), spare)
    odds = _colour_odds(known)
    colour, place = np.empty(count), np.empty(count)
    kernels.sum_evidence(labels, bins, odds, prior, colour, place)
    colour /= area
    place /= area

    old, before = _recalled(known, rows["id"])
    opinion = _DOUBT + _IDENTITY * _logit(before) + _PLACE * _logit(place) + _COLOUR * colour
    opinion += _MOTION * _motion_odds(known, rows, np.where(old, before, place), place)
    opinion = _balanced(opinion, area, known.size**2)
    verdict = _logit(_agreed(opinion, frame), 0.01)

    mean = np.stack([_logit(place, _PIXEL_SURE), colour], axis=1)
    trust = np.array([_PIXEL_PLACE, _PIXEL_COLOUR])
    belief = np.empty_like(prior)
    share = np.empty(count)
    kernels.decide_pixels(
        labels, bins, odds, prior, verdict, mean, trust, _PIXEL_SURE, _PIXEL_MOST, belief, share
    )
    share /= area
    mask = belief > 0.5
    size = max(float(np.sqrt(np.count_nonzero(mask))), 0.3 * known.first_size)
    late = known.late
    if mask.any():
        seen = _colours(belief, bins, size)
        late = Colours(
            late.object + _COLOUR_RATE * (seen.object - late.object),
            late.around + _COLOUR_RATE * (seen.around - late.around),
        )
    share = np.where(old, _INERTIA * before + (1 - _INERTIA) * share, share)
    ids, share = _remembered(known, rows["id"], share)
    return Followed(
        mask=mask,
        belief=belief,
        ids=ids,
        share=share,
        small=small,
        shift=shift,
        size=size,
        first_size=known.first_size,
        first=known.first,
        late=late,
    )


def _recalled(
    known: Followed, names: NDArray[np.uint32]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which of the ids are known, and how much of the object they were; 0.5 if not."""
    at = np.searchsorted(known.ids, names)
    at[at == len(known.ids)] = 0
    found = known.ids[at] == names
    return found, np.where(found, known.share[at], 0.5)


def _remembered(
    known: Followed, ids: NDArray[np.uint32], share: NDArray[np.float64]
) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Add the ids of the frame to those that may come back; the oldest are forgotten."""
    hidden = ~np.isin(known.ids, ids)
    names = np.concatenate([known.ids[hidden], ids])
    shares = np.concatenate([known.share[hidden], share])
    order = np.argsort(names)[-_MEMORY:]
    return names[order], shares[order]


def _logit(p: NDArray[np.float64], least: float = _SURE) -> NDArray[np.float64]:
    p = np.clip(p, least, 1 - least)
    return np.asarray(np.log(p / (1 - p)))


def _labels(frame: FrameSegmentation) -> NDArray[np.int32]:
    return rows_of(frame.ids, frame.segments["id"])


def _planes(frame: FrameSegmentation) -> NDArray[np.float32]:
    if frame.rgb is None:
        raise ValueError("the frame must bring its picture; take it from stream or replay")
    return features.lab_planes(frame.rgb)


def _bins(planes: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.int32]:
    bins = np.empty(shape, np.int32)
    kernels.colour_bins(planes, bins)
    return bins


def _cell(shape: tuple[int, ...]) -> int:
    return max(1, round(_CELL * float(np.hypot(shape[0], shape[1]))))


def _small(planes: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    cell = _cell(shape)
    small = np.empty((len(planes), shape[0] // cell, shape[1] // cell), np.float32)
    kernels.shrink(planes, cell, small)
    return small


def _shift(
    known: Followed, small: NDArray[np.float32], shape: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Match the object as a whole; return how it moves of late, and now."""
    cell = _cell(shape)
    weight = np.empty((1, *small.shape[1:]), np.float32)
    kernels.shrink(known.belief[None], cell, weight)
    weight = np.where(weight > 0.5, weight, np.float32(0))[0]
    inside = weight > 0
    if np.count_nonzero(inside) < _MATCH_LEAST:
        return known.shift, known.shift
    reach = int(np.clip(known.size / cell, 4, _MATCH_REACH))
    pull = 0.003 * float(weight.sum()) * _MATCH_MOST / reach
    guess = np.rint(known.shift / cell).astype(np.int64)
    found = kernels.find_shift(
        known.small, weight, small, _box(inside), guess, reach, _MATCH_MOST, pull
    )
    now = cell * np.array(found, np.float64)
    return 0.5 * (known.shift + now), now


def _box(mask: NDArray[np.bool_], margin: int = 0) -> NDArray[np.int64]:
    """Return x0, y0, x1, y1 of a mask that is not empty."""
    y, x = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return np.array([x[0] - margin, y[0] - margin, x[-1] + 1 + margin, y[-1] + 1 + margin])


def _colours(belief: NDArray[np.float32], bins: NDArray[np.int32], size: float) -> Colours:
    """Return the colours of the object and of what is around it."""
    inside, outside = np.zeros((2, kernels.BINS_L * kernels.BINS_AB**2))
    box = _box(belief > 0.5, int(_AROUND * size))
    kernels.count_colours(belief, bins, box, _FAR, inside, outside)
    return Colours(_smoothed(inside), _smoothed(outside))


def _smoothed(histogram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a histogram blurred, so that near colours count too, and with a sum of 1."""
    values = histogram.reshape(kernels.BINS_L, kernels.BINS_AB, kernels.BINS_AB)
    for axis in range(3):
        steps = np.arange(values.shape[axis])
        mix = np.exp(-0.5 * ((steps[:, None] - steps) / _COLOUR_BLUR) ** 2)
        values = np.moveaxis(np.tensordot(mix / mix.sum(axis=0), values, (1, axis)), 0, axis)
    return np.asarray(values.reshape(-1) / max(values.sum(), 1e-12))


def _colour_odds(known: Followed) -> NDArray[np.float64]:
    """Return the log odds (n,) of each colour bin."""
    first, late = known.first, known.late
    inside = _FIRST_OBJECT * first.object + (1 - _FIRST_OBJECT) * late.object
    around = _FIRST_AROUND * first.around + (1 - _FIRST_AROUND) * late.around
    odds = np.log((inside + _RARE) / (around + _RARE_AROUND))
    return np.asarray(np.clip(odds, -_COLOUR_MOST, _COLOUR_MOST))


def _motion_odds(
    known: Followed, rows: NDArray[Any], belief: NDArray[np.float64], place: NDArray[np.float64]
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
    spread = (_MOTION_SPREAD * float(np.hypot(h, w))) ** 2
    gaps = [
        np.minimum(((motion - _median(motion, weight)) ** 2).sum(axis=1), 9 * spread)
        for weight in (around, inside)
    ]
    return np.asarray(np.clip((gaps[0] - gaps[1]) / (2 * spread), -_MOTION_MOST, _MOTION_MOST))


def _median(values: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted median of each column."""
    middle = []
    for column in values.T:
        order = np.argsort(column, kind="stable")
        sums = np.cumsum(weight[order])
        middle.append(column[order[np.searchsorted(sums, 0.5 * sums[-1])]])
    return np.array(middle)


def _balanced(
    opinion: NDArray[np.float64], area: NDArray[np.float64], before: float
) -> NDArray[np.float64]:
    """Move the threshold so that the area changes less, if little is enough for that."""
    now = float(area[opinion > 0].sum())
    wanted = float(np.clip(now, before * (1 - _GROWTH), before * (1 + _GROWTH)))
    if wanted == now:
        return opinion
    order = np.argsort(-opinion, kind="stable")
    last = min(int(np.searchsorted(np.cumsum(area[order]), wanted)), len(order) - 1)
    return opinion - float(np.clip(opinion[order[last]], -_GIVE_WAY, _GIVE_WAY))


def _agreed(opinion: NDArray[np.float64], frame: FrameSegmentation) -> NDArray[np.float64]:
    """Let neighbours talk, the more the longer and fainter the edge between them is."""
    rows, pairs = frame.segments, frame.adjacency
    first = np.searchsorted(rows["id"], pairs["first"])
    second = np.searchsorted(rows["id"], pairs["second"])
    weight = pairs["length"] * np.exp(-pairs["contrast"] / _EDGE)
    belief = 1 / (1 + np.exp(-opinion))
    for _ in range(_ROUNDS):
        lean = 2 * belief - 1
        said = np.bincount(first, weight * lean[second], len(rows))
        said += np.bincount(second, weight * lean[first], len(rows))
        belief = 1 / (1 + np.exp(-opinion - _CONTACT * said / rows["perimeter"]))
    return np.asarray(belief)

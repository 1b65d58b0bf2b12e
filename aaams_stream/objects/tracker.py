"""A tracker on supervoxels: one mask in, the object's mask in every later frame out.

Works at half the frame's size, in a window around the object. Each segment gets log odds of
belonging to the object, the sum of what witnesses say:

    identity   how much of the object it was in the frame before
    place      how much of the object motion carries to where it is: along the flow, and with the
               object as a whole, found by matching its picture, which holds where flow gives up
    layers     whether its pixels are found again where the object's motion would have them come
               from, or where the ground's would
    parting    what went with the ground for some frames is no part of it
    colour     histograms of the object and its surroundings, of the first frame and of late
    parts      parts of the first frame with this colour at this place of the object
    contacts   neighbours without an edge between them agree

An object changes its size slowly, but for what leaves the picture: where the witnesses would have
it grow or shrink at once, the threshold gives way a little. What hangs together with no place where
the object should be is refused. A segment that straddles the outline is cut by place, layers and
colour of its pixels. An object of which next to nothing is left is lost, and sought (`seek.py`).

`Follower` (follower.py) follows several objects, and takes clicks on the way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import ConfigError
from aaams_stream.kernels import tracker as kernels
from aaams_stream.model import EventKind
from aaams_stream.objects.colours import colour_odds
from aaams_stream.objects.contacts import contacts_of
from aaams_stream.objects.memory import Followed, begin, lose, remember
from aaams_stream.objects.motion import Prediction, predict, staying
from aaams_stream.objects.seek import seek
from aaams_stream.objects.tuning import TrackerTuning
from aaams_stream.objects.view import View, look
from aaams_stream.objects.witnesses import Near, compare_layers, logit, look_near, weigh

if TYPE_CHECKING:
    from aaams_stream.model import FrameSegmentation

_DEFAULT = TrackerTuning()
_AWAY = -5.0  # log odds of segments outside the window


def follow(
    frames: Iterable[FrameSegmentation],
    mask: NDArray[np.bool_],
    tuning: TrackerTuning = _DEFAULT,
) -> Iterator[NDArray[np.bool_]]:
    """Yield the mask (h, w) of an object in each frame, given the one in the first.

    Never looks ahead. Several objects, clicks and states: `Follower`.

    Args:
        frames: with their pictures, from `stream` or `replay`.
        mask: where the object is in the first frame, (h, w) of bool.
        tuning: constants of the method.

    Yields:
        The mask (h, w) of each frame; an empty one says that the object is lost.

    Raises:
        ConfigError: the mask is empty, or of another size than the frames.

    Example:
        >>> import aaams_stream as aaams
        >>> from aaams_stream.source.demo import SURFACES, demo_frame
        >>> balloon = demo_frame(0).truth == SURFACES.index("balloon")
        >>> masks = list(aaams.follow(aaams.stream("demo", duration=0.25), balloon))
        >>> len(masks), bool(0.8 < masks[-1].sum() / masks[0].sum() < 1.2)
        (6, True)
    """
    known: Followed | None = None
    for frame in frames:
        if known is None:
            known = begin_following(frame, mask, tuning)
        else:
            known = keep_following(known, frame, tuning)
        yield known.mask


def mask_at(
    frame: FrameSegmentation,
    clicks: Iterable[tuple[int, int]],
    without: Iterable[tuple[int, int]] = (),
) -> NDArray[np.bool_]:
    """Return the mask (h, w) of the segments under clicks x, y, without those under others.

    Args:
        frame: of `stream`, `replay` or a `Segmenter`.
        clicks: pixels x, y of the object.
        without: pixels x, y that are not of it.

    Returns:
        The mask (h, w) of bool.

    Raises:
        ConfigError: a click lies outside the picture, or where nothing is segmented.

    Example:
        >>> import aaams_stream as aaams
        >>> frame = next(aaams.stream("demo", duration=0.25))
        >>> mask = aaams.mask_at(frame, [(88, 150)])
        >>> mask.shape, bool(mask[150, 88])
        ((240, 320), True)
    """
    mask = np.zeros(frame.ids.shape, np.bool_)
    h, w = frame.ids.shape
    for places, value in ((clicks, True), (without, False)):
        for click in places:
            if np.shape(click) != (2,):
                raise ConfigError(
                    f"clicks are pairs of x and y, as in [(30, 3)]; got {click!r} as one"
                )
            x, y = click
            if not (0 <= x < w and 0 <= y < h):
                raise ConfigError(f"a click at {x},{y} lies outside the picture of {w}x{h}")
            if not frame.ids[y, x]:
                raise ConfigError(f"a click at {x},{y} lies where nothing is segmented")
            mask[frame.ids == frame.ids[y, x]] = value
    return mask


def begin_following(
    frame: FrameSegmentation, mask: NDArray[np.bool_], tuning: TrackerTuning = _DEFAULT
) -> Followed:
    """Take an object's mask (h, w) in a frame as the truth.

    Args:
        frame: of `stream`, `replay` or a `Segmenter`, with its picture.
        mask: where the object is, (h, w) of bool.
        tuning: constants of the method.

    Returns:
        What is to be remembered of the object, for `keep_following`.

    Raises:
        ConfigError: the mask is empty, or of another size than the frame.

    Example:
        >>> import aaams_stream as aaams
        >>> frame = next(aaams.stream("demo", duration=0.25))
        >>> aaams.begin_following(frame, aaams.mask_at(frame, [(88, 150)])).state
        'seen'
    """
    check_mask(frame, mask)
    return begin(look(frame, tuning), mask, tuning)


def keep_following(
    known: Followed, frame: FrameSegmentation, tuning: TrackerTuning = _DEFAULT
) -> Followed:
    """Find the object in the next frame.

    Args:
        known: of the frame before, from `begin_following` or this function.
        frame: the next one, with its picture.
        tuning: constants of the method.

    Returns:
        What is to be remembered of the object, with its mask in this frame.

    Example:
        >>> import aaams_stream as aaams
        >>> frames = aaams.stream("demo", duration=0.25)
        >>> frame = next(frames)
        >>> known = aaams.begin_following(frame, aaams.mask_at(frame, [(88, 150)]))
        >>> for frame in frames:
        ...     known = aaams.keep_following(known, frame)
        >>> frame.index, known.state
        (5, 'seen')
    """
    return find(known, look(frame, tuning), tuning)


def check_mask(frame: FrameSegmentation, mask: NDArray[np.bool_]) -> None:
    """Refuse a mask of another size, or without a pixel."""
    if not isinstance(mask, np.ndarray):
        raise ConfigError(f"a mask is an array (h, w), got {type(mask).__name__}")
    if mask.shape != frame.ids.shape:
        given = "x".join(map(str, mask.shape[::-1]))
        wanted = "x".join(map(str, frame.ids.shape[::-1]))
        raise ConfigError(f"the mask is {given}, expected {wanted} as the frames are")
    if not mask.any():
        raise ConfigError("the mask is empty; mark the object with values above 0")
    if not mask[frame.ids > 0].any():
        raise ConfigError("the mask lies where nothing is segmented; mark what has an id")


def find(known: Followed, view: View, tuning: TrackerTuning) -> Followed:
    """Find the object in the next frame."""
    cut = (view.frame.events["kind"] == EventKind.CUT).any()
    if known.state == "lost" or cut or view.shape != known.view.shape:
        return seek(known, view, tuning)
    guess = predict(known, view, tuning)
    odds = colour_odds(known.first, known.late, tuning)
    near = look_near(known, view, guess, odds)
    layers, by_layers = compare_layers(known, view, guess, near, tuning)
    opinion = weigh(known, view, guess, near, by_layers, tuning)
    opinion = _balanced(opinion, near.area, staying(known, guess.shift), tuning)
    contacts = contacts_of(view.frame, near.rows, tuning)
    belief = contacts.agree(opinion, tuning)
    belief = contacts.without_strays(belief, near.place.max(axis=1), tuning)
    gap = np.where(near.along < -tuning.along_slack, tuning.parted_gap, tuning.runaway_gap)
    reach = np.maximum(gap, known.gap) * known.size
    votes = near.area * belief
    belief = contacts.without_runaways(belief, votes, view.boxes[near.rows], reach)
    verdict = np.full(len(view.area), _AWAY)
    verdict[near.rows] = logit(belief, tuning.verdict_margin)
    if view.outside:
        verdict[0] = _AWAY
    pixels, share = _decide(view, guess, near, odds.mean(axis=0), layers, verdict, tuning)
    if view.outside:
        pixels[view.labels == 0] = 0
        share[0] = 0
    if np.count_nonzero(pixels > 0.5) < max(tuning.lost_share * known.usual**2, 1):
        return lose(known, view)
    inertia = tuning.identity_inertia
    late = inertia * near.share + (1 - inertia) * share[near.rows]
    share[near.rows] = np.where(near.known, late, share[near.rows])
    mask = np.empty(view.frame.ids.shape, np.bool_)
    kernels.enlarge_belief(pixels, view.labels, view.frame.ids, view.names, guess.box, mask)
    if view.outside:
        mask &= view.frame.ids > 0
    along, most = np.zeros(len(share)), tuning.along_limit
    along[near.rows] = np.clip(tuning.along_memory * near.along + by_layers[:, 0], -most, most)
    shift = 0.5 * (known.shift + guess.shift)
    moved = dataclasses.replace(known, shift=shift)
    return remember(moved, view, pixels, mask, share, along, tuning)


def share_out(found: list[Followed]) -> list[Followed]:
    """Give each pixel that several objects claim to the one that is surest of it."""
    found = list(found)
    for i in range(len(found)):
        for j in range(i):
            both = found[i].mask & found[j].mask
            if not both.any():
                continue
            y, x = np.nonzero(both)
            mine = found[i].belief[y // 2, x // 2] > found[j].belief[y // 2, x // 2]
            for k, lost in ((i, ~mine), (j, mine)):
                mask, belief = found[k].mask.copy(), found[k].belief.copy()
                mask[y[lost], x[lost]] = False
                belief[y[lost] // 2, x[lost] // 2] = 0
                found[k] = dataclasses.replace(found[k], mask=mask, belief=belief)
                if not mask.any():
                    found[k] = lose(found[k], found[k].view)
    return found


def _decide(
    view: View,
    guess: Prediction,
    near: Near,
    odds: NDArray[np.float64],
    layers: NDArray[np.float32],
    verdict: NDArray[np.float64],
    tuning: TrackerTuning,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the belief (h', w') in each pixel, and how much of each segment it makes up (k,).

    A pixel has the log odds of its segment, and differs from it as far as place, layers and colour
    of the pixel differ from those of its segment.
    """
    own = np.empty_like(layers)
    trust = np.array([tuning.pixel_place, tuning.pixel_layers, tuning.pixel_colour])
    kernels.weigh_pixels(
        view.bins, odds, guess.warped, layers, guess.box, trust, tuning.pixel_margin, own
    )
    belief, share = np.empty(view.shape, np.float32), np.empty(len(verdict))
    kernels.decide_pixels(own, view.labels, guess.box, verdict, tuning.pixel_limit, belief, share)
    return belief, share / np.maximum(view.area, 1)


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

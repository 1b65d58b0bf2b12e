"""What is remembered of an object from frame to frame."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.objects.colours import Colours, count_colours
from aaams_stream.objects.contacts import contacts_of, gaps

if TYPE_CHECKING:
    from aaams_stream.objects.tuning import TrackerTuning
    from aaams_stream.objects.view import View

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Parts:
    """The segments of the first frame; places relative to the object's centre."""

    centre: Array  # (k, 2) x, y
    colour: Array  # (k, 3)
    area: Array  # (k,)
    share: Array  # (k,) how much of each is of the object


@dataclass(frozen=True, slots=True)
class Followed:
    """An object in one frame, and all there is to remember of it.

    Lengths are at half the frame's size, but for the mask and its box.
    """

    mask: NDArray[np.bool_]  # (h, w) in the frame's own pixels
    state: str  # "seen", "lost" or "back"
    sure: float  # from 0 to 1
    belief: NDArray[np.float32]  # (h', w') from 0 to 1
    view: View  # the frame
    ids: NDArray[np.uint32]  # (k,) of segments seen so far, in order
    share: Array  # (k,) how much of each is believed to be of the object
    along: Array  # (k,) log odds, faded, that each moves with the object and not with the ground
    shift: Array  # (2,) x, y a frame, of late
    centre: Array  # (2,) x, y
    size: float  # root of the area
    usual: float  # the same of late
    first_size: float
    gap: float  # between its parts in the first frame, as a share of its size
    first: Colours
    late: Colours
    parts: Parts

    @property
    def box(self) -> tuple[int, int, int, int] | None:
        """x0, y0, x1, y1 of the mask, or None where it is empty."""
        if not self.mask.any():
            return None
        x0, y0, x1, y1 = box_of(self.mask).tolist()
        return x0, y0, x1, y1

    def recall(self, ids: NDArray[np.uint32]) -> tuple[NDArray[np.bool_], Array, Array]:
        """Return which of the ids are known, how much of the object they were, and `along`.

        What is not known was 0.5 of the object, and nothing is said of its motion.
        """
        at = np.searchsorted(self.ids, ids)
        at[at == len(self.ids)] = 0
        found = self.ids[at] == ids
        return found, np.where(found, self.share[at], 0.5), np.where(found, self.along[at], 0.0)


def begin(view: View, mask: NDArray[np.bool_], tuning: TrackerTuning) -> Followed:
    """Take an object's mask (h, w) in a frame as the truth."""
    mask = np.asarray(mask, np.bool_) & (view.frame.ids > 0)
    belief = features.resized(np.asarray(mask, np.float32), view.shape)
    inside = belief > 0.5
    if not inside.any():  # a few pixels alone, or thin lines
        belief = np.asarray(belief > 0, np.float32)
        inside = belief > 0.5
    sums = np.bincount(view.labels.reshape(-1), belief.reshape(-1), len(view.area))
    share = sums / np.maximum(view.area, 1)
    size = float(np.sqrt(np.count_nonzero(inside)))
    colours = count_colours(belief, view.bins, _surroundings(inside, size, tuning), tuning)
    centre = _centre(inside)
    rows = view.frame.segments
    everything = np.arange(len(share))
    name = contacts_of(view.frame, everything, tuning).components(share > 0.5)
    parts = Parts(view.centre - centre, rows["colour"].astype(np.float64), view.area, share)
    return Followed(
        mask=mask,
        state="seen",
        sure=1.0,
        belief=belief,
        view=view,
        ids=rows["id"].copy(),
        share=share,
        along=np.zeros(len(share)),
        shift=np.zeros(2),
        centre=centre,
        size=size,
        usual=size,
        first_size=size,
        gap=float(gaps(name, view.area, view.boxes).max()) / size,
        first=colours,
        late=colours,
        parts=parts,
    )


def correct(
    known: Followed, part: NDArray[np.bool_], inside: bool, tuning: TrackerTuning
) -> Followed:
    """Say of a part (h, w) of the frame that it belongs to the object, or that it does not.

    What is learned from that counts half, beside what was known from the first frame.
    """
    mask = known.mask | part if inside else known.mask & ~part
    if not mask.any():
        return lose(known, known.view)
    fresh = begin(known.view, mask, tuning)
    ids, share, along = _joined(known, fresh.ids, fresh.share, fresh.along, tuning.identity_memory)
    return dataclasses.replace(
        fresh,
        ids=ids,
        share=share,
        along=along,
        shift=known.shift,
        first=known.first.moved(fresh.first, 0.5),
        late=known.late.moved(fresh.late, 0.5),
    )


def remember(
    known: Followed,
    view: View,
    belief: NDArray[np.float32],
    mask: NDArray[np.bool_],
    share: Array,
    along: Array,
    tuning: TrackerTuning,
) -> Followed:
    """Return the object as it was found, with what is learned from that.

    belief (h', w') is above a half somewhere; share (k,): how much of each segment of the frame is
    of the object; along (k,): whether each moves with it, as log odds.
    """
    inside = belief > 0.5
    count = np.count_nonzero(inside)
    names = view.frame.segments["id"]
    ids, share, along = _joined(known, names, share, along, tuning.identity_memory)
    now = float(np.sqrt(count))
    size = max(now, tuning.least_size * known.usual)
    seen = count_colours(belief, view.bins, _surroundings(inside, size, tuning), tuning)
    return dataclasses.replace(
        known,
        mask=mask,
        state="seen",
        sure=float(belief[inside].mean()),
        belief=belief,
        view=view,
        ids=ids,
        share=share,
        along=along,
        centre=_centre(inside),
        size=size,
        usual=known.usual + tuning.usual_rate * (now - known.usual),
        late=known.late.moved(seen, tuning.colour_rate),
    )


def lose(known: Followed, view: View) -> Followed:
    """Return the object where it is not to be found: no pixels, and all that is remembered."""
    return dataclasses.replace(
        known,
        mask=np.zeros(view.frame.ids.shape, np.bool_),
        state="lost",
        sure=0.0,
        belief=np.zeros(view.shape, np.float32),
        view=view,
        shift=np.zeros(2),
    )


def box_of(mask: NDArray[np.bool_], margin: int = 0) -> NDArray[np.int64]:
    """Return x0, y0, x1, y1 of a mask that is not empty, with a margin."""
    y, x = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return np.array([x[0] - margin, y[0] - margin, x[-1] + 1 + margin, y[-1] + 1 + margin])


def _joined(
    known: Followed, ids: NDArray[np.uint32], share: Array, along: Array, most: int
) -> tuple[NDArray[np.uint32], Array, Array]:
    """Add the ids of the frame to those that may come back; the oldest are forgotten."""
    hidden = ~np.isin(known.ids, ids)
    ids = np.concatenate([known.ids[hidden], ids])
    share = np.concatenate([known.share[hidden], share])
    along = np.concatenate([known.along[hidden], along])
    order = np.argsort(ids)[-most:]
    return ids[order], share[order], along[order]


def _surroundings(
    inside: NDArray[np.bool_], size: float, tuning: TrackerTuning
) -> NDArray[np.int64]:
    """Return the box x0, y0, x1, y1 whose colours speak against the object."""
    h, w = inside.shape
    return np.clip(box_of(inside, int(tuning.around_reach * size)), 0, [w, h, w, h])


def _centre(inside: NDArray[np.bool_]) -> Array:
    """Return the mean x, y of a mask that is not empty."""
    h, w = inside.shape
    sums = np.array([inside.sum(axis=0) @ np.arange(w), inside.sum(axis=1) @ np.arange(h)])
    return sums / np.count_nonzero(inside)

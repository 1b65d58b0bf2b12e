"""Segments beside each other: what they say of each other, and what hangs together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from aaams_stream.model import FrameSegmentation
    from aaams_stream.objects.tuning import TrackerTuning

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Contacts:
    """Which of some segments touch, and how much that says."""

    first: NDArray[np.intp]  # (n,) row among them
    second: NDArray[np.intp]  # (n,)
    weight: Array  # (n,) the larger, the longer and fainter the edge between them
    perimeter: Array  # (k,) of each segment

    def agree(self, opinion: Array, tuning: TrackerTuning) -> Array:
        """Let neighbours talk; return beliefs (k,) from log odds (k,)."""
        belief = 1 / (1 + np.exp(-opinion))
        for _ in range(tuning.contact_rounds):
            lean = 2 * belief - 1
            said = np.bincount(self.first, self.weight * lean[self.second], len(opinion))
            said += np.bincount(self.second, self.weight * lean[self.first], len(opinion))
            belief = 1 / (1 + np.exp(-opinion - tuning.contact * said / self.perimeter))
        return np.asarray(belief)

    def without_strays(self, belief: Array, place: Array, tuning: TrackerTuning) -> Array:
        """Refuse what hangs together with no place where the object should be.

        belief, place (k,): how much a segment is of the object, and lies where it should be.
        """
        chosen = belief > 0.5
        name = self.components(chosen)
        support = np.zeros(len(belief))
        np.maximum.at(support, name[chosen], place[chosen])
        stray = chosen & (support[np.maximum(name, 0)] < tuning.stray_place)
        return np.where(stray, np.minimum(belief, 0.1), belief)

    def without_runaways(
        self, belief: Array, votes: Array, boxes: Array, reach: Array | float
    ) -> Array:
        """Refuse what hangs together far from the main part of the object.

        What an object touches may be taken for a part of it; then the two go apart. belief, votes
        (k,): how much a segment is of the object, and how much speaks for it in all; boxes (k, 4);
        reach: pixels, or (k,) of them, that may lie up to the main part, for which most speaks.
        """
        chosen = belief > 0.5
        name = self.components(chosen)
        far = chosen & (gaps(name, np.maximum(votes, 0), boxes) > reach)
        return np.where(far, np.minimum(belief, 0.1), belief)

    def components(self, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return for each segment (k,) the lowest row of those it hangs together with.

        -1 where it is not chosen.
        """
        name = np.where(chosen, np.arange(len(chosen)), -1)
        inner = chosen[self.first] & chosen[self.second]
        first, second = self.first[inner], self.second[inner]
        while True:
            low = np.minimum(name[first], name[second])
            new = name.copy()
            np.minimum.at(new, first, low)
            np.minimum.at(new, second, low)
            new = np.where(new >= 0, new[new], -1)
            if (new == name).all():
                return name
            name = new


def gaps(name: NDArray[np.intp], votes: Array, boxes: Array) -> Array:
    """Return how far the part of each segment (k,) lies from the main part; 0 if not chosen.

    name (k,): as `components` names parts; votes (k,): the main part has most of them; boxes (k, 4)
    x0, y0, x1, y1. The distance is that between the boxes of parts.
    """
    chosen = name >= 0
    count = len(name)
    if not chosen.any():
        return np.zeros(count)
    low, high = np.full((count, 2), np.inf), np.full((count, 2), -np.inf)
    np.minimum.at(low, name[chosen], boxes[chosen, :2])
    np.maximum.at(high, name[chosen], boxes[chosen, 2:])
    main = int(np.argmax(np.bincount(name[chosen], votes[chosen], count)))
    away = np.maximum(np.maximum(low - high[main], low[main] - high), 0)
    return np.where(chosen, np.hypot(*away[np.maximum(name, 0)].T), 0)


def contacts_of(
    frame: FrameSegmentation, near: NDArray[np.intp], tuning: TrackerTuning
) -> Contacts:
    """Return the contacts among the segments in rows `near` of a frame."""
    rows, pairs = frame.segments, frame.adjacency
    row = np.full(len(rows), -1)
    row[near] = np.arange(len(near))
    first = row[np.searchsorted(rows["id"], pairs["first"])]
    second = row[np.searchsorted(rows["id"], pairs["second"])]
    both = (first >= 0) & (second >= 0)
    weight = pairs["length"] * np.exp(-pairs["contrast"] / tuning.edge_contrast)
    perimeter = rows["perimeter"][near].astype(np.float64)
    return Contacts(first[both], second[both], weight[both], perimeter)

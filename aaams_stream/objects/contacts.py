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

"""Two parts that overlap by some frames: which of their ids are the same.

Ids are joined one to one, those that share most of the overlap first, as long as that is a
twentieth of both. What goes on in neither part under its own name has an event in the frame of the
seam, so that no identity begins or ends in silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import EventKind
from aaams_stream.store.join import PartTables, Piece
from aaams_stream.store.tracks import EVENT_ROW_DTYPE
from aaams_stream.store.volume import Volume, open_volume

# Of both, that two ids have in common which are the same. A part begins as a single image does, and
# cuts large areas otherwise than what has been under way for long, however long both overlap. Of a
# street in eight stretches (192x144, 795 frames) a mean id lives for .19 of the film if each must
# be the best of the other and share a fifth, for .21 without the first, for .22 with a twentieth,
# and in one pass for .26. What objects are made of suffers from none of it (j_prop of DAVIS in
# stretches of a second: .49, .49, .49).
_SHARE = 0.05
_MOST = 0.5  # of an id that ends at a seam, in the one that it is said to have merged into


@dataclass(frozen=True, slots=True)
class Overlaps:
    """How many pixels ids of two parts have in common, over the frames that both have."""

    first: NDArray[np.uint32]  # (n,) ids of the earlier part,
    second: NDArray[np.uint32]  # (n,) of the later one,
    pixels: NDArray[np.int64]  # (n,) that bear both
    leaving: NDArray[np.uint32]  # ids of the earlier part in its last frame
    arriving: NDArray[np.uint32]  # ids of the later part in the frame behind that
    known: bool = True

    @classmethod
    def unknown(cls) -> Overlaps:
        """Return a stand-in for what is still being found out."""
        none = np.zeros(0, np.uint32)
        return cls(none, none, np.zeros(0, np.int64), none, none, known=False)


@dataclass(frozen=True, slots=True)
class Seam:
    """What a later part is to be called in the whole."""

    lookup: NDArray[np.uint32]  # (n,) by its own ids; 0: it is not in the whole
    ages: NDArray[np.uint32]  # (n,) to be added to the age; wraps where that is less
    events: NDArray[Any]  # EVENT_ROW_DTYPE, all of the part that count
    identities: int  # there are now


def find_overlaps(before: Path, after: Path, lead: int) -> Overlaps:
    """Compare the last `lead` frames of a part with the first of the one that follows."""
    one, other = open_volume(before), open_volume(after)
    start = one.frame_count - lead
    mine, my_row = _rows_of(one, start, one.frame_count)
    theirs, their_row = _rows_of(other, 0, lead)
    counts = np.zeros(len(mine) * len(theirs), np.int64)
    for t in range(lead):
        here, there = one.ids[start + t], other.ids[t]
        inside = (here > 0) & (there > 0)  # of the region of interest
        pair = my_row[here[inside]] * len(theirs) + their_row[there[inside]]
        counts += np.bincount(pair.ravel(), minlength=len(counts))
    both = np.flatnonzero(counts)
    return Overlaps(
        mine[both // len(theirs)],
        theirs[both % len(theirs)],
        counts[both],
        leaving=np.ascontiguousarray(one.segments(one.frame_count - 1)["id"]),
        arriving=np.ascontiguousarray(other.segments(lead)["id"]),
    )


def _rows_of(volume: Volume, start: int, stop: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the ids of some frames in order, and of each id its place among them."""
    ids = np.unique(np.concatenate([volume.segments(t)["id"] for t in range(start, stop)]))
    row = np.zeros(int(ids.max(initial=0)) + 1, np.int64)
    row[ids] = np.arange(len(ids))
    return ids.astype(np.uint32), row


def match(overlaps: Overlaps) -> dict[int, int]:
    """Return which id of the later part is which of the earlier one.

    Those that share most are joined first; ties go to the lowest ids.
    """
    _, my_row = np.unique(overlaps.first, return_inverse=True)
    _, their_row = np.unique(overlaps.second, return_inverse=True)
    my_area = np.bincount(my_row, overlaps.pixels)
    their_area = np.bincount(their_row, overlaps.pixels)
    least = _SHARE * np.maximum(my_area[my_row], their_area[their_row])
    order = np.lexsort((overlaps.second, overlaps.first, -overlaps.pixels))
    order = order[overlaps.pixels[order] >= least[order]]
    same: dict[int, int] = {}
    taken: set[int] = set()
    for k in order.tolist():
        first, second = int(overlaps.first[k]), int(overlaps.second[k])
        if first not in taken and second not in same:
            same[second] = first
            taken.add(first)
    return same


def stitch(
    before: PartTables,
    piece: Piece,
    part: PartTables,
    lead: int,
    overlaps: Overlaps,
    identities: int,
) -> Seam:
    """Return what the ids of `part` are called, which follows `before`, of which `piece` counts.

    lead: frames of the part that `before` has too; identities: how many there are so far.
    """
    same = match(overlaps)
    tracks = part.final["tracks"]
    own = part.events[part.events["frame"] >= lead].copy()
    lookup = np.zeros(part.identities + 1, np.uint32)
    for second, first in same.items():
        lookup[second] = piece.lookup[first]
    new = tracks["id"][(tracks["last"] >= lead) & (lookup[tracks["id"]] == 0)]
    lookup[new] = np.arange(identities + 1, identities + 1 + len(new), dtype=np.uint32)
    events = _Events(own, overlaps, same, lookup, piece.lookup)
    events.begin_at_seam(tracks, lead)
    events.end_at_seam(lead)
    events.mend(lead)
    at_seam = np.array(events.seam, EVENT_ROW_DTYPE)
    joined = np.concatenate([at_seam, events.own])
    joined["frame"] += np.uint32(piece.end - lead)
    ages = _ages(before, piece, part, same, events.born, lead)
    return Seam(lookup, ages, joined, identities + len(new))


class _Events:
    """The events of a part as the whole has them, and those that the seam brings about."""

    def __init__(
        self,
        own: NDArray[Any],
        overlaps: Overlaps,
        same: dict[int, int],
        lookup: NDArray[np.uint32],
        lookup_before: NDArray[np.uint32],
    ) -> None:
        self.own = own
        self.seam: list[tuple[int, int, int, int]] = []
        self.born: dict[int, int] = {}  # own frame in which an id that is new here begins
        self._overlaps = overlaps
        self._same = same
        self._lookup = lookup
        self._lookup_before = lookup_before
        self._changes: set[int] = set(own["frame"][own["kind"] == EventKind.CUT].tolist())

    def begin_at_seam(self, tracks: NDArray[Any], lead: int) -> None:
        """Note ids that are in the first frame of the part and were not in the one before."""
        if lead in self._changes:
            return
        told = {
            int(row["id"]) for row in self.own if row["frame"] == lead and row["kind"] in _BEGINS
        }
        parents = dict(zip(tracks["id"].tolist(), tracks["parent"].tolist(), strict=True))
        leaving = set(self._overlaps.leaving.tolist())
        for i in self._overlaps.arriving.tolist():
            if i in told:
                continue
            name = int(self._lookup[i])
            if i in self._same:
                if self._same[i] not in leaving:
                    self.seam.append((lead, EventKind.RETURN, name, 0))
                continue
            self.born[i] = lead
            parent = int(self._lookup[parents.get(i, 0)])
            kind = EventKind.SPLIT if parent else EventKind.BIRTH
            self.seam.append((lead, kind, name, parent))

    def end_at_seam(self, lead: int) -> None:
        """Note ids that were in the last frame before the part and are not in its first."""
        if lead in self._changes:
            return
        told = {int(row["id"]) for row in self.own if row["frame"] == lead and row["kind"] in _ENDS}
        arriving = set(self._overlaps.arriving.tolist())
        known_as = {first: second for second, first in self._same.items()}
        for i in self._overlaps.leaving.tolist():
            here = known_as.get(i)
            if here is not None and (here in arriving or here in told):
                continue
            heir = self._heir(i) if here is None else 0
            kind = EventKind.MERGE if heir else EventKind.DEATH
            self.seam.append((lead, kind, int(self._lookup_before[i]), heir))

    def _heir(self, track_id: int) -> int:
        """Return what took over half of an id of the earlier part, as the whole calls it, or 0."""
        found = self._overlaps
        rows = np.flatnonzero(found.first == track_id)
        if not len(rows):
            return 0
        best = rows[np.argmax(found.pixels[rows])]
        heir = int(found.second[best])
        enough = found.pixels[best] >= _MOST * found.pixels[rows].sum()
        return int(self._lookup[heir]) if enough and heir in found.arriving else 0

    def mend(self, lead: int) -> None:
        """Give the part's own events the names of the whole.

        What is told of an id that the whole does not have is left out, and what comes back without
        ever having been there is born.
        """
        own, there = self.own, set(self._overlaps.arriving.tolist())
        keep = np.ones(len(own), np.bool_)
        seen = there | set(self._same)
        for k, (frame, kind, i, other) in enumerate(own.tolist()):
            if kind == EventKind.CUT:
                continue
            if not self._lookup[i]:
                keep[k] = False
            elif kind == EventKind.RETURN and i not in seen:
                own[k]["kind"] = EventKind.BIRTH
                self.born[i] = frame
            elif kind == EventKind.SPLIT and not self._lookup[other]:
                own[k]["kind"] = EventKind.BIRTH
            seen.add(i)
        for name in ("id", "other"):
            own[name] = self._lookup[own[name]]
        self.own = own[keep]


_BEGINS = (EventKind.BIRTH, EventKind.SPLIT, EventKind.RETURN)
_ENDS = (EventKind.DEATH, EventKind.MERGE)


def _ages(
    before: PartTables,
    piece: Piece,
    part: PartTables,
    same: dict[int, int],
    born: dict[int, int],
    lead: int,
) -> NDArray[np.uint32]:
    """Return how many frames longer than in its own part each id has been there in the whole."""
    ages = np.zeros(part.identities + 1, np.int64)
    first = np.zeros(part.identities + 1, np.int64)
    tracks, tracks_before = part.final["tracks"], before.final["tracks"]
    first[tracks["id"]] = tracks["first"]
    first_before = np.zeros(before.identities + 1, np.int64)
    first_before[tracks_before["id"]] = tracks_before["first"]
    shift = piece.skip + piece.frames - lead  # from frames of this part to those of the other
    for second, one in same.items():
        earlier = 0 if piece.ages is None else int(piece.ages[one].astype(np.int32))
        ages[second] = first[second] + shift - first_before[one] + earlier
    for i, frame in born.items():
        ages[i] = first[i] - frame
    return ages.astype(np.uint32)

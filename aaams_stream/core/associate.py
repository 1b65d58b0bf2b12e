"""Identities over time: who goes on, who is born, who is gone, and how it happened."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import propagate
from aaams_stream.model import EVENT_DTYPE, EventKind
from aaams_stream.params import Params

_SHARE = 0.5  # of its pixels: what makes one segment the heir of another
_MOST_LOST = 512  # lost identities remembered at a time
_FADE = 0.9  # a frame: how fast the largest area of a segment is forgotten
# How far a returning segment may lie off: so many σ in colour and place, a factor in size.
_RETURN_COLOUR = 1.2
_RETURN_PLACE = 2.0
_RETURN_AREA = 3.0
# The variance of its place: a share of its area, and for each frame it was away one of so many
# squared pixels, more where it moved.
_PLACE_AREA = 0.1
_PLACE_FRAME = 16.0
_PLACE_MOTION = 0.1
# A part that comes out from behind something: so many σ off in colour, within so many radii of
# where the whole would be, of a segment of which so large a share is hidden.
_PART_COLOUR = 1.0
_PART_PLACE = 2.5
_PART_HIDDEN = 0.1
_WHOLE = 0.85  # of its largest area: a segment that shows less is partly hidden
_SWALLOWED = 0.5  # of that: one that showed less was being hidden, and is not part of what hides it
_NEW_MOTION = 0.5  # how much of a segment's motion is that of the last frame
_PROBATION = 5  # frames in which a new segment may turn out to be an earlier one
_MEMORY = 0.8  # how much of its earlier colours a segment keeps: it must not drift onto another


@dataclass(frozen=True, slots=True)
class Table:
    """Segments of the last frame; row i is label i."""

    ids: NDArray[np.uint32]  # (k,) unique, ascending, never reused
    born: NDArray[np.int64]  # (k,) frame of the first appearance
    area: NDArray[np.int64]  # (k,)
    location: NDArray[np.float32]  # (k, 5) mode: L, a, b, x, y
    precision: NDArray[np.float32]  # (k, 10) as in kernels.window
    moments: NDArray[np.float32]  # (k, 15)
    density: NDArray[np.float32]  # (k,)
    colours: NDArray[np.float32]  # (k, 9) mean colour and inverse variance of the pixels, of late
    spread: NDArray[np.float64]  # (k,) squared colour deviation summed over the pixels
    checked: NDArray[np.int64]  # (k,) frame in which it was last decided afresh
    peak: NDArray[np.float64]  # (k,) the largest area of late
    motion: NDArray[np.float64]  # (k, 2) of late, pixels a frame
    anchor: NDArray[np.float64]  # (k, 2) where its centre is or, while partly hidden, would be

    def after(
        self, before: Table, row: NDArray[np.int64], moved: NDArray[np.float64], index: int
    ) -> Table:
        """Return this table, of frame `index`, with what is remembered of the frame before.

        row (k,): of each segment in `before`, or -1; moved: how far those of `before` have moved.
        What is partly hidden is thought to move on as it did: at the edge of what hides it, the
        motion found is half that of the other.
        """
        known = np.flatnonzero(row >= 0)
        row = row[known]
        peak, motion, anchor = self.peak.copy(), self.motion.copy(), self.anchor.copy()
        peak[known] = np.maximum(peak[known], _FADE * before.peak[row])
        whole = self.area[known] >= _WHOLE * peak[known]
        trust = np.where(whole, _NEW_MOTION, 0.0)
        trust[before.born[row] == index - 1] = 1.0
        motion[known] = before.motion[row] + trust[:, None] * (moved[row] - before.motion[row])
        hidden = known[~whole]
        anchor[hidden] = before.anchor[row[~whole]] + motion[hidden]
        colours = self.colours.copy()
        colours[known] += np.float32(_MEMORY) * (before.colours[row] - colours[known])
        return dataclasses.replace(self, peak=peak, motion=motion, anchor=anchor, colours=colours)


@dataclass(frozen=True, slots=True)
class Lost:
    """Identities that may come back after an occlusion."""

    ids: NDArray[np.uint32]  # (k,)
    born: NDArray[np.int64]  # (k,)
    seen: NDArray[np.int64]  # (k,) last frame with a pixel
    area: NDArray[np.int64]  # (k,) the largest before they were lost: what vanishes shrinks first
    anchor: NDArray[np.float64]  # (k, 2)
    colours: NDArray[np.float32]  # (k, 9)
    motion: NDArray[np.float64]  # (k, 2)

    @classmethod
    def empty(cls) -> Lost:
        """Return an empty memory."""
        return cls(
            np.empty(0, np.uint32),
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.empty((0, 2), np.float64),
            np.empty((0, 9), np.float32),
            np.empty((0, 2), np.float64),
        )

    def where(self, keep: NDArray[Any] | slice) -> Lost:
        """Return the rows that `keep` selects."""
        return Lost(
            self.ids[keep],
            self.born[keep],
            self.seen[keep],
            self.area[keep],
            self.anchor[keep],
            self.colours[keep],
            self.motion[keep],
        )


@dataclass(frozen=True, slots=True)
class Settlement:
    """Who the pieces of a frame are."""

    ids: NDArray[np.uint32]  # (m,) of each piece; pieces of one segment share theirs
    born: NDArray[np.int64]  # (m,)
    old: NDArray[np.int64]  # (m,) row of the earlier table, or -1
    events: NDArray[Any]  # EVENT_DTYPE
    lost: Lost
    next_id: int


def settle(
    pieces: NDArray[np.int32],
    prior: NDArray[np.int32],
    labels: NDArray[np.int32],
    centres: NDArray[np.float64],
    colours: NDArray[np.float32],
    areas: NDArray[np.int64],
    table: Table,
    lost: Lost,
    index: int,
    next_id: int,
    params: Params,
) -> Settlement:
    """Give every piece of frame `index` an identity.

    pieces (h, w) dense from 0, with `centres` (m, 2), `areas` and `colours` (as in Table); prior
    (h, w): the label of `table` predicted for each pixel, or -1; labels (h, w): those it kept, or
    -1. A piece with kept pixels is the segment most of them bear. A segment without any lives on in
    the piece that covers most of where it should be, or merges into it if it did not shrink before:
    what hides a segment takes over its last pixels, too. Other pieces are split off, come back,
    come out from behind something, or are new. A new segment may turn out to be an earlier one for
    some frames: what comes into view is a sliver first. Ties go to the lowest label and piece.
    """
    lost = lost.where((index - lost.seen) ** 2 <= params.time.epsilon2)
    count = len(areas)
    piece, label, overlap, kept = _overlaps(pieces, prior, labels, count + len(table.ids))
    old = np.full(count, -1, np.int64)
    order = np.lexsort((-label, kept))  # most kept last, so that it stays
    order = order[kept[order] > 0]
    old[piece[order]] = label[order]

    alive = np.zeros(len(table.ids), np.bool_)
    alive[old[old >= 0]] = True
    orphans = np.flatnonzero(~alive[label] & (old[piece] < 0))
    for k in orphans[np.lexsort((piece[orphans], label[orphans], -overlap[orphans]))]:
        a, b = piece[k], label[k]
        if not alive[b] and old[a] < 0 and overlap[k] >= _SHARE * min(areas[a], table.area[b]):
            old[a] = b
            alive[b] = True

    ids = np.zeros(count, np.uint32)
    born = np.full(count, index, np.int64)
    known = old >= 0
    ids[known] = table.ids[old[known]]
    born[known] = table.born[old[known]]
    events: list[tuple[int, int, int]] = []
    order = np.lexsort((-label, -piece, overlap))
    parent = np.full(count, -1, np.int64)
    share = np.zeros(count, np.int64)
    parent[piece[order]] = label[order]
    share[piece[order]] = overlap[order]
    heir = np.full(len(table.ids), -1, np.int64)
    most = np.zeros(len(table.ids), np.int64)
    heir[label[order]] = piece[order]
    most[label[order]] = overlap[order]

    gone = np.flatnonzero(~alive)
    merged = (heir[gone] >= 0) & (most[gone] >= _SHARE * table.area[gone])
    merged &= table.area[gone] >= _SWALLOWED * table.peak[gone]
    merged[merged] = known[heir[gone[merged]]]
    lost = _remember(lost, table, gone[~merged], index)

    seekers = _seekers(old, centres, colours, areas, table, index)
    back = _returning(seekers, lost, index)
    part = _emerging(seekers, set(back), old, areas, table)
    became = table.ids.copy()  # what the segments of the table are called now
    into = np.full(len(table.ids), -1, np.int64)  # the piece in which one that ends goes on
    into[gone[merged]] = heir[gone[merged]]
    came_back: set[int] = set()
    for s in back | part:
        row, main = int(seekers.row[s]), int(seekers.piece[s])
        mine = np.flatnonzero(old == row) if row >= 0 else np.array([main])
        if s in part:
            ids[mine], born[mine], old[mine] = table.ids[part[s]], table.born[part[s]], part[s]
        else:
            ids[mine], born[mine] = lost.ids[back[s]], lost.born[back[s]]
            if lost.seen[back[s]] < index - 1:
                came_back.add(main)
            elif row < 0:  # it was only mislaid: the motion found was wrong
                old[mine] = np.searchsorted(table.ids, ids[main])
        if row >= 0:
            became[row], into[row] = ids[main], main
    for a in sorted(came_back.union(np.flatnonzero(ids == 0).tolist())):
        if a in came_back:
            events.append((EventKind.RETURN, int(ids[a]), 0))
            continue
        ids[a] = next_id
        next_id += 1
        b = parent[a]
        if b >= 0 and share[a] >= _SHARE * areas[a]:  # b is alive, or it would live on in a
            events.append((EventKind.SPLIT, int(ids[a]), int(became[b])))
        else:
            events.append((EventKind.BIRTH, int(ids[a]), 0))
    returned = set(lost.ids[list(back.values())].tolist())
    for b in np.flatnonzero(~alive | (into >= 0)).tolist():
        if into[b] >= 0:
            events.append((EventKind.MERGE, int(table.ids[b]), int(ids[into[b]])))
        elif int(table.ids[b]) not in returned:
            events.append((EventKind.DEATH, int(table.ids[b]), 0))
    stay = np.ones(len(lost.ids), np.bool_)
    stay[list(back.values())] = False
    lost = lost.where(stay)
    return Settlement(ids, born, old, np.array(events, EVENT_DTYPE), lost, next_id)


@dataclass(frozen=True, slots=True)
class _Seekers:
    """Pieces without an identity, and segments young enough to turn out to be another."""

    row: NDArray[np.int64]  # (n,) of the earlier table, or -1
    piece: NDArray[np.int64]  # (n,) the largest of its pieces
    born: NDArray[np.int64]  # (n,)
    area: NDArray[np.int64]  # (n,) of all its pieces
    centre: NDArray[np.float64]  # (n, 2) of the largest
    colours: NDArray[np.float32]  # (n, 9) of the largest


def _seekers(
    old: NDArray[np.int64],
    centres: NDArray[np.float64],
    colours: NDArray[np.float32],
    areas: NDArray[np.int64],
    table: Table,
    index: int,
) -> _Seekers:
    new = np.flatnonzero(old < 0)
    known = np.flatnonzero(old >= 0)
    total = np.bincount(old[known], areas[known], len(table.ids)).astype(np.int64)
    largest = np.zeros(len(table.ids), np.int64)
    order = known[np.argsort(areas[known], kind="stable")]
    largest[old[order]] = order
    young = np.flatnonzero((total > 0) & (index - table.born <= _PROBATION))
    piece = np.concatenate([new, largest[young]])
    return _Seekers(
        np.concatenate([np.full(new.size, -1), young]),
        piece,
        np.concatenate([np.full(new.size, index), table.born[young]]),
        np.concatenate([areas[new], total[young]]),
        centres[piece],
        colours[piece],
    )


def _overlaps(
    pieces: NDArray[np.int32], prior: NDArray[np.int32], labels: NDArray[np.int32], size: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    capacity = 1 << max(10, int(16 * size).bit_length())
    while True:
        piece, label, overlap, kept = propagate.count_overlaps(pieces, prior, labels, capacity)
        if piece.size or not ((prior >= 0) | (labels >= 0)).any():
            return piece, label, overlap, kept
        capacity *= 4


def _returning(seekers: _Seekers, lost: Lost, index: int) -> dict[int, int]:
    """Match seekers with lost identities of like colour, size and place; nearest first.

    Returns seeker → row of `lost`. Colour is gated by the lost segment's own colours. The place is
    where its motion would have brought it, the less certain the longer it was away.
    """
    missed = index - lost.seen
    step = _PLACE_FRAME + _PLACE_MOTION * (lost.motion**2).sum(axis=1)
    place = _distance_sq(seekers.centre, lost.anchor + missed[:, None] * lost.motion)
    place /= _PLACE_AREA * lost.area + missed**2 * step
    s, r = np.nonzero((place <= _RETURN_PLACE**2) & (lost.born < seekers.born[:, None]))
    size = (np.log(seekers.area[s] / lost.area[r]) / np.log(_RETURN_AREA)) ** 2
    near = size <= 1
    s, r, size = s[near], r[near], size[near]
    colour = _colour_gap(seekers.colours[s], lost.colours[r])
    alike = colour <= _RETURN_COLOUR**2
    s, r = s[alike], r[alike]
    order = np.argsort(colour[alike] + place[s, r] + size[alike], kind="stable")
    back: dict[int, int] = {}
    taken: set[int] = set()
    for a, row in zip(s[order].tolist(), r[order].tolist(), strict=True):
        if a not in back and row not in taken:
            back[a] = row
            taken.add(row)
    return back


def _emerging(
    seekers: _Seekers,
    settled: set[int],
    old: NDArray[np.int64],
    areas: NDArray[np.int64],
    table: Table,
) -> dict[int, int]:
    """Match seekers with older segments that are partly hidden: a part comes out elsewhere.

    Returns seeker → row of `table`, for seekers that are not `settled`. So an identity can have
    several components that no pixels join: they hung together in the frames before. What comes out
    can be no larger than what is hidden, and the place is sought where the whole would be.
    """
    area = np.bincount(old[old >= 0], areas[old >= 0], len(table.ids))
    hidden = table.peak - area
    rows = np.flatnonzero((area > 0) & (hidden >= _PART_HIDDEN * table.peak))
    place = _distance_sq(seekers.centre, table.anchor[rows] + table.motion[rows])
    place *= np.pi / table.peak[rows]  # in squared radii of a disc of that area
    older = table.born[rows] < seekers.born[:, None]
    s, r = np.nonzero((place <= _PART_PLACE**2) & older)
    colour = _colour_gap(seekers.colours[s], table.colours[rows[r]])
    alike = colour <= _PART_COLOUR**2
    s, r, colour = s[alike], r[alike], colour[alike]
    order = np.argsort(colour + place[s, r], kind="stable")
    part: dict[int, int] = {}
    gone = {int(seekers.row[a]) for a in settled}
    hosts: set[int] = set()
    for a, host in zip(s[order].tolist(), rows[r[order]].tolist(), strict=True):
        row = int(seekers.row[a])
        free = a not in part and a not in settled and row not in hosts
        if free and host not in gone and seekers.area[a] <= hidden[host]:
            part[a] = host
            hidden[host] -= seekers.area[a]
            hosts.add(host)
            gone.add(row)
    return part


def _distance_sq(mine: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared distances (n, m) between places (n, 2) and (m, 2)."""
    across = np.subtract.outer(mine[:, 0], theirs[:, 0])
    down = np.subtract.outer(mine[:, 1], theirs[:, 1])
    return np.asarray(across * across + down * down)


def _colour_gap(mine: NDArray[np.float32], theirs: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return how many squared σ (n,) of their own lie between their mean colours and mine."""
    x, y, z = (mine[:, :3] - theirs[:, :3].astype(np.float64)).T
    xx, xy, xz, yy, yz, zz = theirs[:, 3:].astype(np.float64).T
    return np.asarray((xx * x + 2 * (xy * y + xz * z)) * x + (yy * y + 2 * yz * z) * y + zz * z * z)


def _remember(lost: Lost, table: Table, gone: NDArray[np.int64], index: int) -> Lost:
    """Add the rows `gone` of the table; beyond the room there is, the longest lost go first."""
    joined = Lost(
        np.concatenate([lost.ids, table.ids[gone]]),
        np.concatenate([lost.born, table.born[gone]]),
        np.concatenate([lost.seen, np.full(len(gone), index - 1)]),
        np.concatenate([lost.area, np.rint(table.peak[gone]).astype(np.int64)]),
        np.concatenate([lost.anchor, table.anchor[gone]]),
        np.concatenate([lost.colours, table.colours[gone]]),
        np.concatenate([lost.motion, table.motion[gone]]),
    )
    return joined.where(slice(max(len(joined.ids) - _MOST_LOST, 0), None))

"""Identities over time: who goes on, who is born, who is gone, and how it happened."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.climb import FULL, Modes
from aaams_stream.kernels import carry
from aaams_stream.model import EVENT_DTYPE, EventKind
from aaams_stream.params import Params

_SHARE = 0.5  # of its pixels: what makes one segment the heir of another
_MOST_LOST = 512  # lost identities remembered at a time
_FADE = 0.9  # a frame: how fast the largest area of a segment is forgotten
# How far a returning segment may lie off: so many σ in colour and place, a factor in size.
_RETURN_COLOUR = 1.5
_RETURN_PLACE = 2.0
_RETURN_AREA = 3.0
# The variance of its place: a share of its area, and for each frame it was away one of so many
# squared pixels, more where it moved.
_PLACE_AREA = 0.1
_PLACE_FRAME = 16.0
_PLACE_MOTION = 0.1


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
    colours: NDArray[np.float32]  # (k, 9) mean colour and inverse variance of the pixels
    spread: NDArray[np.float64]  # (k,) squared colour deviation summed over the pixels
    checked: NDArray[np.int64]  # (k,) frame in which it was last decided afresh
    peak: NDArray[np.float64]  # (k,) the largest area of late
    motion: NDArray[np.float64]  # (k, 2) of late, pixels a frame

    def after(self, before: Table, row: NDArray[np.int64], moved: NDArray[np.float64]) -> Table:
        """Return this table with what is remembered of the frame before.

        row (k,): of each segment in `before`, or -1; moved: how far those of `before` have moved.
        """
        known = np.flatnonzero(row >= 0)
        peak, motion = self.peak.copy(), self.motion.copy()
        peak[known] = np.maximum(peak[known], _FADE * before.peak[row[known]])
        motion[known] = 0.5 * (before.motion[row[known]] + moved[row[known]])
        return dataclasses.replace(self, peak=peak, motion=motion)


@dataclass(frozen=True, slots=True)
class Lost:
    """Identities that may come back after an occlusion."""

    ids: NDArray[np.uint32]  # (k,)
    born: NDArray[np.int64]  # (k,)
    seen: NDArray[np.int64]  # (k,) last frame with a pixel
    area: NDArray[np.int64]  # (k,) the largest before they were lost: what vanishes shrinks first
    location: NDArray[np.float32]  # (k, 5)
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
            np.empty((0, 5), np.float32),
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
            self.location[keep],
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
    modes: Modes,
    colours: NDArray[np.float32],
    areas: NDArray[np.int64],
    table: Table,
    lost: Lost,
    index: int,
    next_id: int,
    params: Params,
) -> Settlement:
    """Give every piece of frame `index` an identity.

    pieces (h, w) dense from 0, with `modes`, `areas` and `colours` (as in Table); prior (h, w): the
    label of `table` predicted for each pixel, or -1; labels (h, w): those it kept, or -1. A piece
    with kept pixels is the segment most of them bear. A segment without any lives on in the piece
    that covers most of where it should be. Other pieces are split off, come back, or are new. Ties
    go to the lowest label and piece.
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
    merged[merged] = known[heir[gone[merged]]]
    absent = gone[~merged]
    lost = _remember(lost, table, absent, index)
    back = _returning(np.flatnonzero(~known), modes, colours, areas, lost, index)
    returned = lost.ids[list(back.values())]
    for a in np.flatnonzero(~known).tolist():
        if a in back:
            r = back[a]
            ids[a] = lost.ids[r]
            born[a] = lost.born[r]
            if lost.seen[r] == index - 1:  # it was only mislaid: the motion found was wrong
                old[a] = np.searchsorted(table.ids, ids[a])
            else:
                events.append((EventKind.RETURN, int(ids[a]), 0))
            continue
        ids[a] = next_id
        next_id += 1
        b = parent[a]
        if b >= 0 and share[a] >= _SHARE * areas[a]:  # b is alive, or it would live on in a
            events.append((EventKind.SPLIT, int(ids[a]), int(table.ids[b])))
        else:
            events.append((EventKind.BIRTH, int(ids[a]), 0))
    for b, into in zip(gone.tolist(), merged.tolist(), strict=True):
        if into:
            events.append((EventKind.MERGE, int(table.ids[b]), int(ids[heir[b]])))
        elif table.ids[b] not in returned:
            events.append((EventKind.DEATH, int(table.ids[b]), 0))
    stay = np.ones(len(lost.ids), np.bool_)
    stay[list(back.values())] = False
    lost = lost.where(stay)
    return Settlement(ids, born, old, np.array(events, EVENT_DTYPE), lost, next_id)


def _overlaps(
    pieces: NDArray[np.int32], prior: NDArray[np.int32], labels: NDArray[np.int32], size: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    capacity = 1 << max(10, int(16 * size).bit_length())
    while True:
        piece, label, overlap, kept = carry.count_overlaps(pieces, prior, labels, capacity)
        if piece.size or not ((prior >= 0) | (labels >= 0)).any():
            return piece, label, overlap, kept
        capacity *= 4


def _returning(
    new: NDArray[np.int64],
    modes: Modes,
    colours: NDArray[np.float32],
    areas: NDArray[np.int64],
    lost: Lost,
    index: int,
) -> dict[int, int]:
    """Match new pieces with lost identities of like colour, size and place; nearest first.

    Returns piece → row of `lost`. Colour is gated by the lost segment's own colours. The place is
    where its motion would have brought it, the less certain the longer it was away.
    """
    if not len(lost.ids) or not new.size:
        return {}
    d = colours[new, None, :3] - lost.colours[:, :3].astype(np.float64)
    precision = lost.colours[:, 3:].astype(np.float64)[:, FULL]
    colour = np.einsum("nli,lij,nlj->nl", d, precision, d)
    missed = (index - lost.seen)[:, None]
    gap = modes.location[new, None, 3:] - (lost.location[:, 3:] + missed * lost.motion)
    step = _PLACE_FRAME + _PLACE_MOTION * (lost.motion**2).sum(axis=1)
    place = (gap**2).sum(axis=2) / (_PLACE_AREA * lost.area + missed[:, 0] ** 2 * step)
    size = (np.log(areas[new, None] / lost.area) / np.log(_RETURN_AREA)) ** 2
    fits = (colour <= _RETURN_COLOUR**2) & (place <= _RETURN_PLACE**2) & (size <= 1)
    n, r = np.nonzero(fits)
    order = np.argsort((colour + place + size)[n, r], kind="stable")
    back: dict[int, int] = {}
    taken: set[int] = set()
    for a, row in zip(new[n[order]].tolist(), r[order].tolist(), strict=True):
        if a not in back and row not in taken:
            back[a] = row
            taken.add(row)
    return back


def _remember(lost: Lost, table: Table, gone: NDArray[np.int64], index: int) -> Lost:
    """Add the rows `gone` of the table; beyond the room there is, the longest lost go first."""
    joined = Lost(
        np.concatenate([lost.ids, table.ids[gone]]),
        np.concatenate([lost.born, table.born[gone]]),
        np.concatenate([lost.seen, np.full(len(gone), index - 1)]),
        np.concatenate([lost.area, np.rint(table.peak[gone]).astype(np.int64)]),
        np.concatenate([lost.location, table.location[gone]]),
        np.concatenate([lost.colours, table.colours[gone]]),
        np.concatenate([lost.motion, table.motion[gone]]),
    )
    return joined.where(slice(max(len(joined.ids) - _MOST_LOST, 0), None))

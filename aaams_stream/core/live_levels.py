"""The tree over tracks while a stream runs: causal, from sums that fade.

What `core/levels.py` knows of a whole scene is known here of its last seconds. The tree is over
the tracks of the frame at hand, and is built anew every few frames; names of groups last.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.level_sums import moments_of
from aaams_stream.core.levels import DEFAULT, LevelTuning, nearness_of
from aaams_stream.kernels import level_sums as sums_kernels
from aaams_stream.kernels import levels as kernels
from aaams_stream.kernels.level_sums import Rows, Series
from aaams_stream.kernels.levels import Groups, Links
from aaams_stream.model import EventKind, FrameSegmentation
from aaams_stream.params import Params

FADE = 0.98  # of the sums, a frame: half is forgotten after a second and a half of film
TIMES = 12  # moments of time that are remembered, of STRIDE frames each
STRIDE = 6
MEMORY = 32  # frames for which a track that is gone is remembered: it may tie others together
# Frames between trees, later on; what comes in between joins a neighbour, which is a guess. At 25
# groups the live tree keeps .955 of the final one's j_prop with 3, .950 with 4, .942 with 5.
EVERY = 3
KEPT = 8  # numbers of segments whose names are remembered
_GROWTH = 2.0  # live: see LevelTuning.growth; the same figures in a sixth less time than with 1.3
_ROUNDS = 8  # in which tracks born since join others
_ALIKE = 3.0  # L*a*b* units: a neighbour that differs by as much counts half of one that does not
_FAITH = 10  # frames by which a track may be bound to a name: what parts for less gets it back
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class _Tree(NamedTuple):
    """A tree over the tracks of a frame, by their ids."""

    ids: NDArray[np.uint32]  # (k,)
    survivor: NDArray[np.int32]  # (k - 1,) rows
    absorbed: NDArray[np.int32]


class _Named(NamedTuple):
    """To which name of a group each track belongs, by ids of tracks, which are in order."""

    ids: NDArray[np.uint32]
    names: NDArray[np.uint32]
    bound: NDArray[np.int64]  # frames for which it bore the name less those for which it did not


class LiveLevels:
    """Groups of the tracks of a running stream, at any number of segments.

    `update` takes each frame, `groups` tells of the last. A group keeps its name while most of it
    stays; names are asked for by number of segments, and last for those asked for of late.

    Args:
        shape: height and width of the frames.
        params: settings of the segmenter.
        tuning: constants of the method.

    Example:
        >>> import aaams_stream as aaams
        >>> from aaams_stream.source.demo import demo_frame
        >>> segmenter = aaams.Segmenter()
        >>> levels = aaams.LiveLevels((120, 160), segmenter.params)
        >>> for t in range(4):
        ...     levels.update(segmenter.step(demo_frame(t).rgb[::2, ::2]))
        >>> ids, groups = levels.groups(10)
        >>> len(ids) == len(groups), len(set(groups.tolist())) <= 10
        (True, True)
    """

    def __init__(
        self, shape: tuple[int, int], params: Params, tuning: LevelTuning = DEFAULT
    ) -> None:
        self._shape = shape
        self._params = params
        self._tuning = tuning
        self._named: OrderedDict[int, _Named] = OrderedDict()
        self.newest: int | None = None  # index of the frame taken last
        self._restart()

    def _restart(self) -> None:
        """Forget all but names: a new scene has new ids."""
        self._ids = np.zeros(0, np.uint32)  # that are remembered, in order; rows of what follows
        self._last = np.zeros(0, np.int64)  # frame in which each was seen last
        self._sums = np.zeros((0, 12))
        self._series = np.zeros((0, TIMES, 3))
        self._pairs = np.zeros(0, np.uint64)  # ids of both, in order
        self._contacts = np.zeros((0, 2))
        self._frames = 0
        self._weight = 0.0  # frames, faded
        self._tree: _Tree | None = None

    def update(self, frame: FrameSegmentation) -> None:
        """Take the next frame."""
        if (frame.events["kind"] == EventKind.CUT).any():
            self._restart()
        build = self._tree is None or self._frames % EVERY == 0 or self._frames in (1, 2, 4)
        if build:
            self._forget()
        self._remember(np.ascontiguousarray(frame.segments["id"]))
        self._add_segments(frame.segments)
        self._add_contacts(frame.adjacency)
        if build:
            self._tree = self._build()
        self._frames += 1
        self.newest = frame.index

    def _forget(self) -> None:
        """Drop the tracks that have been gone for long, and their pairs."""
        recent = self._last + MEMORY >= self._frames
        self._ids, self._last = self._ids[recent], self._last[recent]
        self._sums, self._series = self._sums[recent], self._series[recent]
        here = _contains(self._ids, self._pairs >> _HALF)
        here &= _contains(self._ids, self._pairs & _LOW)
        self._pairs, self._contacts = self._pairs[here], self._contacts[here]

    def _remember(self, ids: NDArray[np.uint32]) -> None:
        """Let rows be the tracks of the new frame and those gone of late; what was known fades."""
        old, sums, series, last = self._ids, self._sums, self._series, self._last
        self._ids = np.union1d(old, ids)
        known = np.searchsorted(self._ids, old)
        self._sums = np.zeros((len(self._ids), 12))
        self._series = np.zeros((len(self._ids), TIMES, 3))
        self._last = np.full(len(self._ids), self._frames)
        self._sums[known] = FADE * sums
        self._series[known] = series
        self._last[known] = last
        self._last[np.searchsorted(self._ids, ids)] = self._frames
        self._weight = FADE * self._weight + 1.0

    def _add_segments(self, segments: NDArray[Any]) -> None:
        n = len(segments)
        track = np.searchsorted(self._ids, np.ascontiguousarray(segments["id"]))
        rows = Rows(
            frame=np.zeros(n, np.int64),
            track=track,
            area=np.ascontiguousarray(segments["area"]),
            centroid=np.ascontiguousarray(segments["centroid"]),
            colour=np.ascontiguousarray(segments["colour"]),
            spread=np.ascontiguousarray(segments["colour_spread"]),
            perimeter=np.ascontiguousarray(segments["perimeter"]),
            motion=np.ascontiguousarray(segments["motion"]),
        )
        moved = np.empty((n, 2))
        if n:
            unit_sq = self._tuning.motion_unit**2 * self._shape[0] * self._shape[1]
            sums_kernels.fit_scene(rows, 0, n, 0.5 * max(self._shape), unit_sq, moved)
        sums_kernels.add_colours(rows, self._sums)
        slot = self._frames // STRIDE % TIMES
        if self._frames % STRIDE == 0:
            self._series[:, slot] = 0.0
        area = rows.area.astype(np.float64)
        self._series[track, slot, 0] += area
        self._series[track, slot, 1:] += area[:, None] * moved

    def _add_contacts(self, adjacency: NDArray[Any]) -> None:
        """Fade the sums of pairs and add those of the frame."""
        first, second = adjacency["first"].astype(np.uint64), adjacency["second"].astype(np.uint64)
        new = (first << _HALF) | second
        length = adjacency["length"].astype(np.float64)
        fresh = np.stack([length, length * adjacency["contrast"]], axis=1)
        room = len(self._pairs) + len(new)
        pairs, contacts = np.empty(room, np.uint64), np.empty((room, 2))
        count = sums_kernels.fade_contacts(
            *(self._pairs, self._contacts, FADE, new, fresh, pairs, contacts)
        )
        self._pairs, self._contacts = pairs[:count], contacts[:count]

    def _ends(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the rows of both tracks of each pair."""
        first = np.searchsorted(self._ids, (self._pairs >> _HALF).astype(np.uint32))
        second = np.searchsorted(self._ids, (self._pairs & _LOW).astype(np.uint32))
        return first.astype(np.int32), second.astype(np.int32)

    def _build(self) -> _Tree:
        """Return the tree over the tracks that are remembered."""
        k = len(self._ids)
        if k < 2:
            none = np.zeros(0, np.int32)
            return _Tree(self._ids, none, none)
        sums = self._sums
        zeros = np.zeros(k)
        groups = Groups(
            moments_of(sums),
            np.stack([sums[:, 10], sums[:, 11], zeros, zeros, zeros], axis=1),
            zeros,
            zeros.copy(),
        )
        links = Links(*self._ends(), self._contacts[:, 0].copy(), self._contacts[:, 1].copy())
        pixels = self._shape[0] * self._shape[1]
        times = min(self._frames // STRIDE + 1, TIMES)
        nearness = nearness_of(self._params, self._tuning, pixels, times, 1)._replace(
            pixels=self._weight * pixels,
            sure_area=self._tuning.motion_area * pixels * min(self._frames + 1, STRIDE),
            growth=_GROWTH,
        )
        nodes = np.empty((2 * k - 1, kernels.NODE_COLUMNS))
        survivor, absorbed, _ = kernels.merge_groups(
            groups, links, _as_lists(self._series), nearness, nodes
        )
        return _Tree(self._ids, survivor, absorbed)

    def groups(self, segments: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the ids of the frame in their order, and the name of the group of each.

        Args:
            segments: how many groups the frame may have at most.

        Returns:
            Ids (k,) in order, and the name of the group of each (k,).

        Raises:
            ValueError: `segments` is below 1.
        """
        ids, names = self.all_groups(segments)
        here = self._last == self._frames - 1
        return ids[here], names[here]

    def all_groups(self, segments: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the same of all ids that are remembered, seen in the frame or gone of late."""
        if segments < 1:
            raise ValueError(f"segments must be >= 1, got {segments}")
        if self._tree is None:
            return self._ids, self._ids
        known = _looked_up(self._named.pop(segments, None), self._ids)
        group = self._cut(self._tree, segments)
        names = _names(self._ids, group, self._sums[:, 0] * (1 + known.bound), known.names)
        self._named[segments] = _rebound(known, names)
        while len(self._named) > KEPT:
            self._named.popitem(last=False)
        return self._ids, names

    def _cut(self, tree: _Tree, segments: int) -> NDArray[np.int32]:
        """Return a number of the group of each track that is remembered."""
        here = self._last == self._frames - 1
        group = np.arange(len(self._ids), dtype=np.int32)
        if np.count_nonzero(here) > segments:
            kernels.cut_shown(*self._all_merges(tree), here, segments, group)
        return group

    def merges(self) -> NDArray[np.int32]:
        """Return the whole tree of the last frame: pairs of rows of its segments (n, 2), in order.

        The first of a pair stands for both from then on: the first n merges leave n groups less.
        For those who cut it elsewhere; names that last are told by `groups`.
        """
        tree = self._tree
        here = np.flatnonzero(self._last == self._frames - 1)
        if tree is None or len(here) < 2:
            return np.zeros((0, 2), np.int32)
        shown = np.full(len(self._ids), -1, np.int32)
        shown[here] = np.arange(len(here))
        survivor, absorbed = self._all_merges(tree)
        pairs = np.empty((len(survivor), 2), np.int32)
        count = kernels.list_shown(survivor, absorbed, shown, pairs)
        return pairs[:count]

    def _all_merges(self, tree: _Tree) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the merges of all rows, in order, the row that stands for both first.

        What was born since the tree was built joins others before it; what touches nothing that is
        known joins the rest after it.
        """
        known, _ = self._in_tree(tree)
        rounds = self._hosts(known)
        alone = ~known
        for born, _ in rounds:
            alone[born] = False
        lone = np.flatnonzero(alone)
        place = np.searchsorted(self._ids, tree.ids)  # what a tree knows is remembered
        root = np.full(len(lone), place[0])  # the lowest stands for all
        survivor = np.concatenate([*(host for _, host in rounds), place[tree.survivor], root])
        absorbed = np.concatenate([*(born for born, _ in rounds), place[tree.absorbed], lone])
        return survivor.astype(np.int32), absorbed.astype(np.int32)

    def _in_tree(self, tree: _Tree) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return which tracks that are remembered the tree knows, and their rows in it."""
        at = np.minimum(np.searchsorted(tree.ids, self._ids), len(tree.ids) - 1)
        return tree.ids[at] == self._ids, at

    def _hosts(self, known: NDArray[np.bool_]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return what tracks born since the tree was built join: whom they touch much and resemble.

        Rows of both, in rounds: what touches only such tracks follows in a later one, and joins
        what they joined.
        """
        if known.all():
            return []
        first, second = self._ends()
        new, other = np.concatenate([first, second]), np.concatenate([second, first])
        pairs = np.flatnonzero(~known[new])
        new, other = new[pairs], other[pairs]
        colour = self._sums[:, 1:4] / np.maximum(self._sums[:, :1], 1.0)
        apart = np.sqrt(np.square(colour[new] - colour[other]).sum(axis=1))
        bond = np.tile(self._contacts[:, 0], 2)[pairs] / (_ALIKE + apart)
        order = np.argsort(bond, kind="stable")
        new, other = new[order], other[order]
        settled, rounds, stands = known.copy(), [], np.arange(len(known))
        for _ in range(_ROUNDS):
            joins = ~settled[new] & settled[other]
            if not joins.any():
                break
            host = np.full(len(known), -1, np.int64)
            host[new[joins]] = stands[other[joins]]  # the strongest bond is last, and stays
            born = np.flatnonzero(host >= 0)
            settled[born], stands[born] = True, host[born]
            rounds.append((born, host[born]))
        return rounds


def cut_merges(merges: NDArray[np.int32], segments: int, groups: int) -> NDArray[np.int64]:
    """Return for each of so many segments the row that stands for its group, of `groups` at most.

    merges: as from `LiveLevels.merges`; what they leave apart stays apart.
    """
    stands = np.arange(segments)
    survivor, absorbed = merges[: max(0, segments - groups)].T
    stands[absorbed] = survivor
    while (further := stands[stands] != stands).any():  # ways halve with every round
        stands = np.where(further, stands[stands], stands)
    return stands


def _as_lists(dense: NDArray[np.float64]) -> Series:
    """Return series (k, t, 3) as lists of the moments in which tracks are seen."""
    track, time = np.nonzero(dense[:, :, 0] > 0)
    entries = len(track)
    begin = np.searchsorted(track, np.arange(len(dense)))
    end = np.searchsorted(track, np.arange(len(dense)), side="right")
    following = np.arange(1, entries + 1, dtype=np.int32)
    following[end[end > begin] - 1] = -1
    head = np.where(end > begin, begin, -1).astype(np.int32)
    tail = np.where(end > begin, end - 1, -1).astype(np.int32)
    return Series(head, tail, following, time.astype(np.int32), dense[track, time])


def _contains(ids: NDArray[np.uint32], wanted: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which of the wanted are among the ids, which are in order."""
    if not len(ids):
        return np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    found: NDArray[np.bool_] = ids[at] == wanted
    return found


def _looked_up(known: _Named | None, ids: NDArray[np.uint32]) -> _Named:
    """Return what is known of names, of these tracks; 0 where nothing is."""
    names, bound = np.zeros(len(ids), np.uint32), np.zeros(len(ids), np.int64)
    if known is not None and len(known.ids):
        at = np.minimum(np.searchsorted(known.ids, ids), len(known.ids) - 1)
        same = known.ids[at] == ids
        names[same], bound[same] = known.names[at[same]], known.bound[at[same]]
    return _Named(ids, names, bound)


def _rebound(known: _Named, names: NDArray[np.uint32]) -> _Named:
    """Return which names tracks belong to, now that they bear these."""
    bound = np.where(known.names == names, np.minimum(known.bound + 1, _FAITH), known.bound - 1)
    leaves = (bound < 0) | (known.names == 0)
    return _Named(
        known.ids, np.where(leaves, names, known.names), np.where(leaves, 0, np.maximum(bound, 0))
    )


def _names(
    ids: NDArray[np.uint32],
    group: NDArray[np.int32],
    weight: NDArray[np.float64],
    old: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    """Return the name of the group of each track, from the name each belongs to, or 0.

    A name stays with the group that has most of what belongs to it, and a group takes the name of
    the largest such part; another one is named by its lowest id that is no name yet.
    """
    numbers, row = np.unique(group, return_inverse=True)
    name_of = np.zeros(len(numbers), np.uint32)
    bore = old > 0
    if bore.any():
        cells, cell = np.unique(
            old[bore].astype(np.int64) * len(numbers) + row[bore], return_inverse=True
        )
        shared = np.bincount(cell, weight[bore], len(cells))
        taken: set[int] = set()
        for c in np.lexsort((cells, -shared)).tolist():
            name, g = divmod(int(cells[c]), len(numbers))
            if name not in taken:  # the largest part of what bore it decides, also where it fails
                taken.add(name)
                if name_of[g] == 0:
                    name_of[g] = name
    used = set(name_of[name_of > 0].tolist())
    spare = int(ids.max(initial=0))
    for g in np.flatnonzero(name_of == 0).tolist():
        own = (int(i) for i in ids[row == g] if int(i) not in used)
        name = next(own, 0)
        while name == 0 or name in used:
            spare += 1
            name = spare
        name_of[g] = name
        used.add(name)
    return name_of[row]

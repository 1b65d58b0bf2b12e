"""Regions to tracks: who goes on, who is born, who is gone, and how it happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.pairs import Found, find_pairs
from aaams_stream.core.propagate import Propagated
from aaams_stream.core.region_graph import Partition, Regions
from aaams_stream.core.reidentify import Candidates, find_candidates, match_disoccluded, reidentify
from aaams_stream.core.state import LostTracks, SegmenterState, TrackTable
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import associate as kernels
from aaams_stream.model import EVENT_DTYPE, EventKind
from aaams_stream.params import Params


@dataclass(frozen=True, slots=True)
class Association:
    """Who the regions of a frame are."""

    ids: NDArray[np.uint32]  # (m,) of each region; regions of one segment share theirs
    first_frame: NDArray[np.int64]  # (m,)
    track_of: NDArray[np.int64]  # (m,) row of the earlier tracks, or -1
    events: NDArray[Any]  # EVENT_DTYPE
    lost: LostTracks
    next_id: int


def associate(
    partition: Partition,
    regions: Regions,
    refined: NDArray[np.int32],
    seen: Propagated,
    state: SegmenterState,
    params: Params,
    tuning: Tuning,
) -> Association:
    """Give every region of the next frame an identity.

    regions: of the parts of the partition; refined (h, w): rows of the tracks that pixels kept, or
    negative. A region with kept pixels is the track most of them bear. A track without any lives on
    in the region that covers most of where it should be, or merges into it if it did not shrink
    before: what hides a segment takes over its last pixels, too. Other regions are split off, come
    back, come out from behind something, or are new. A new track may turn out to be an earlier one
    for some frames: what comes into view is a sliver first. Ties go to the lowest track and region.
    """
    tracks, index = state.tracks, state.index
    lost = state.lost.where((index - state.lost.last_seen) ** 2 <= params.time.epsilon2)
    expected = len(regions.area) + len(tracks.ids)
    graph = partition.graph
    maps = graph.regions, partition.part_of_region, seen.pixels.warped, refined
    found = find_pairs(kernels.count_overlaps, *maps, expected=4 * expected, sums=3)
    overlaps = _Overlaps.of(found)
    descent = _find_descent(overlaps, len(regions.area), len(tracks.ids))
    track_of = _tracks_by_claims(overlaps, descent)
    alive = _adopt_orphans(track_of, overlaps, regions, tracks, tuning)
    heirs = _find_heirs(alive, track_of, descent, tracks, tuning)
    gone = np.flatnonzero(~alive & (heirs < 0))
    lost = lost.with_gone(tracks, gone, index, tuning.max_lost)

    candidates = find_candidates(track_of, regions, tracks, index, tuning)
    reidentified = reidentify(candidates, lost, tracks, index, tuning)
    disoccluded = match_disoccluded(
        candidates, set(reidentified), track_of, regions, tracks, tuning
    )
    naming = _Naming(track_of, heirs, tracks, index)
    for candidate in reidentified | disoccluded:
        if candidate in disoccluded:
            naming.join(candidates, candidate, disoccluded[candidate])
        else:
            naming.bring_back(candidates, candidate, lost, reidentified[candidate])
    next_id = naming.name_the_rest(state.next_id, descent, regions, tuning)
    naming.note_ends(alive, set(lost.ids[list(reidentified.values())].tolist()))
    stay = np.ones(len(lost.ids), np.bool_)
    stay[list(reidentified.values())] = False
    return Association(
        naming.ids,
        naming.first_frame,
        naming.track_of,
        np.array(naming.events, EVENT_DTYPE),
        lost.where(stay),
        next_id,
    )


@dataclass(frozen=True, slots=True)
class _Overlaps:
    """Pairs of a region and a track that was predicted where it is."""

    region: NDArray[np.int32]  # (n,)
    track: NDArray[np.int32]  # (n,)
    overlap: NDArray[np.int64]  # (n,) pixels for which the track was predicted
    kept: NDArray[np.int64]  # (n,) those that also bear it
    presumed: NDArray[np.int64]  # (n,) those that are re-estimated in its turn

    @classmethod
    def of(cls, found: Found) -> _Overlaps:
        return cls(found.first, found.second, *np.ascontiguousarray(found.sums.T, np.int64))


def _tracks_by_claims(overlaps: _Overlaps, descent: _Descent) -> NDArray[np.int64]:
    """Return the track (m,) with the largest claim to each region, -1 where there are none.

    A claim is the pixels kept. A track that is re-estimated in its turn has none, yet it is there:
    where most of it is, the pixels for which it is presumed count as well.
    """
    claim = overlaps.kept.copy()
    main = descent.heir[overlaps.track] == overlaps.region
    claim[main] += overlaps.presumed[main]
    track_of = np.empty(len(descent.parent), np.int64)
    kernels.claim_kept(overlaps.region, overlaps.track, claim, track_of)
    return track_of


def _adopt_orphans(
    track_of: NDArray[np.int64],
    overlaps: _Overlaps,
    regions: Regions,
    tracks: TrackTable,
    tuning: Tuning,
) -> NDArray[np.bool_]:
    """Let tracks without a kept pixel live on in the region that covers most of their place.

    Changes track_of; returns which tracks (k,) are alive.
    """
    alive = np.empty(len(tracks.ids), np.bool_)
    pairs = overlaps.region, overlaps.track, overlaps.overlap
    share = tuning.heir_share
    kernels.adopt_orphans(*pairs, regions.area, tracks.area, share, track_of, alive)
    return alive


@dataclass(frozen=True, slots=True)
class _Descent:
    """Of each region the track it overlaps most, and of each track the region; -1: none."""

    parent: NDArray[np.int64]  # (m,)
    parent_overlap: NDArray[np.int64]  # (m,)
    heir: NDArray[np.int64]  # (k,)
    heir_overlap: NDArray[np.int64]  # (k,)


def _find_descent(overlaps: _Overlaps, regions: int, tracks: int) -> _Descent:
    parent, parent_overlap = np.empty((2, regions), np.int64)
    heir, heir_overlap = np.empty((2, tracks), np.int64)
    descent = _Descent(parent, parent_overlap, heir, heir_overlap)
    pairs = overlaps.region, overlaps.track, overlaps.overlap
    kernels.find_descent(*pairs, parent, parent_overlap, heir, heir_overlap)
    return descent


def _find_heirs(
    alive: NDArray[np.bool_],
    track_of: NDArray[np.int64],
    descent: _Descent,
    tracks: TrackTable,
    tuning: Tuning,
) -> NDArray[np.int64]:
    """Return for each track (k,) that ends the region it merges into, -1 where it does not."""
    heirs = np.full(len(tracks.ids), -1, np.int64)
    gone = np.flatnonzero(~alive)
    heir = descent.heir[gone]
    merged = (heir >= 0) & (descent.heir_overlap[gone] >= tuning.heir_share * tracks.area[gone])
    merged &= tracks.area[gone] >= tuning.swallowed * tracks.max_area[gone]
    merged[merged] = track_of[heir[merged]] >= 0
    heirs[gone[merged]] = heir[merged]
    return heirs


class _Naming:
    """Hands out identities region by region, and notes what happened."""

    def __init__(
        self,
        track_of: NDArray[np.int64],
        heirs: NDArray[np.int64],
        tracks: TrackTable,
        index: int,
    ) -> None:
        self.track_of = track_of
        self.ids = np.zeros(len(track_of), np.uint32)
        self.first_frame = np.full(len(track_of), index, np.int64)
        known = track_of >= 0
        self.ids[known] = tracks.ids[track_of[known]]
        self.first_frame[known] = tracks.first_frame[track_of[known]]
        self.events: list[tuple[int, int, int]] = []
        self._tracks = tracks
        self._index = index
        self._now_called = tracks.ids.copy()  # what the tracks of the frame before are called now
        self._goes_on_in = heirs.copy()  # the region in which a track that ends goes on, or -1
        self._came_back: set[int] = set()

    def join(self, candidates: Candidates, candidate: int, host: int) -> None:
        """Make a candidate part of the track in row `host`."""
        mine, row, main = self._members(candidates, candidate)
        self.ids[mine] = self._tracks.ids[host]
        self.first_frame[mine] = self._tracks.first_frame[host]
        self.track_of[mine] = host
        self._note_renaming(row, main)

    def bring_back(
        self, candidates: Candidates, candidate: int, lost: LostTracks, found: int
    ) -> None:
        """Make a candidate the lost track in row `found`."""
        mine, row, main = self._members(candidates, candidate)
        self.ids[mine], self.first_frame[mine] = lost.ids[found], lost.first_frame[found]
        if lost.last_seen[found] < self._index - 1:
            self._came_back.add(main)
        elif row < 0:  # the flow had lost it: it was here all the time
            self.track_of[mine] = np.searchsorted(self._tracks.ids, self.ids[main])
        self._note_renaming(row, main)

    def name_the_rest(
        self, next_id: int, descent: _Descent, regions: Regions, tuning: Tuning
    ) -> int:
        """Give new ids to regions without one; note births, splits and returns."""
        nameless = (self.ids == 0) & (self.track_of < 0)
        for a in sorted(self._came_back.union(np.flatnonzero(nameless).tolist())):
            if a in self._came_back:
                self.events.append((EventKind.RETURN, int(self.ids[a]), 0))
                continue
            self.ids[a] = next_id
            next_id += 1
            parent = descent.parent[a]
            # the parent is alive, or it would live on in this region
            if parent >= 0 and descent.parent_overlap[a] >= tuning.heir_share * regions.area[a]:
                origin = int(self._now_called[parent])
                self.events.append((EventKind.SPLIT, int(self.ids[a]), origin))
            else:
                self.events.append((EventKind.BIRTH, int(self.ids[a]), 0))
        return next_id

    def note_ends(self, alive: NDArray[np.bool_], returned: set[int]) -> None:
        """Note merges and deaths of tracks of the frame before."""
        for b in np.flatnonzero(~alive | (self._goes_on_in >= 0)).tolist():
            track_id, region = int(self._tracks.ids[b]), self._goes_on_in[b]
            if region >= 0:
                self.events.append((EventKind.MERGE, track_id, int(self.ids[region])))
            elif track_id not in returned:
                self.events.append((EventKind.DEATH, track_id, 0))

    def _members(
        self, candidates: Candidates, candidate: int
    ) -> tuple[NDArray[np.int64], int, int]:
        """Return the regions of a candidate, its row among the tracks or -1, and the largest."""
        row, main = int(candidates.row[candidate]), int(candidates.region[candidate])
        mine = np.flatnonzero(self.track_of == row) if row >= 0 else np.array([main])
        return mine, row, main

    def _note_renaming(self, row: int, main: int) -> None:
        if row >= 0:
            self._now_called[row], self._goes_on_in[row] = self.ids[main], main

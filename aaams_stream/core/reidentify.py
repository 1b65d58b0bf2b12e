"""Re-identification: regions that turn out to be tracks which were lost, or are partly hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.packed import colour_gap_sq
from aaams_stream.core.region_graph import Regions
from aaams_stream.core.state import LostTracks, TrackTable
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import associate as kernels


@dataclass(frozen=True, slots=True)
class Candidates:
    """Regions without an identity, and tracks young enough to turn out to be another."""

    row: NDArray[np.int64]  # (n,) of the earlier tracks, or -1
    region: NDArray[np.int64]  # (n,) the largest of its regions
    first_frame: NDArray[np.int64]  # (n,)
    area: NDArray[np.int64]  # (n,) of all its regions
    centre: NDArray[np.float64]  # (n, 2) of the largest
    colours: NDArray[np.float32]  # (n, 9) of the largest


def find_candidates(
    track_of: NDArray[np.int64], regions: Regions, tracks: TrackTable, index: int, tuning: Tuning
) -> Candidates:
    """Return who may turn out to be an earlier track; track_of (m,): row of each region, or -1."""
    new = np.flatnonzero(track_of < 0)
    known = np.flatnonzero(track_of >= 0)
    areas = regions.area
    total = np.bincount(track_of[known], areas[known], len(tracks.ids)).astype(np.int64)
    largest = np.zeros(len(tracks.ids), np.int64)
    order = known[np.argsort(areas[known], kind="stable")]
    largest[track_of[order]] = order
    young = np.flatnonzero((total > 0) & (index - tracks.first_frame <= tuning.probation))
    region = np.concatenate([new, largest[young]])
    return Candidates(
        np.concatenate([np.full(new.size, -1), young]),
        region,
        np.concatenate([np.full(new.size, index), tracks.first_frame[young]]),
        np.concatenate([areas[new], total[young]]),
        regions.centre[region],
        regions.colours[region],
    )


def reidentify(
    candidates: Candidates, lost: LostTracks, tracks: TrackTable, index: int, tuning: Tuning
) -> dict[int, int]:
    """Match candidates with lost tracks of like colour, size and place; nearest first.

    Returns candidate → row of `lost`. Colour is gated by the lost track's own colours. The place is
    where its motion would have brought it, the less certain the longer it was away.
    """
    missed = index - lost.last_seen
    step = tuning.place_frame + tuning.place_motion * (lost.motion**2).sum(axis=1)
    expected = lost.predicted_centre + missed[:, None] * lost.motion
    units = tuning.place_area * lost.area + missed**2 * step
    s, r, place = _near(candidates, expected, units, lost.first_frame, tuning.return_place)
    size = (np.log(candidates.area[s] / lost.area[r]) / np.log(tuning.return_area)) ** 2
    near = size <= 1
    s, r, size, place = s[near], r[near], size[near], place[near]
    colour = colour_gap_sq(candidates.colours[s], lost.colours[r])
    alike = colour <= tuning.return_colour**2
    last = np.zeros(len(lost.ids), np.int64)  # area in the frame before, of those that were there
    here = np.isin(lost.ids, tracks.ids)
    last[here] = tracks.area[np.searchsorted(tracks.ids, lost.ids[here])]
    alike &= ~here[r] | (_last_areas(candidates, tracks)[s] <= tuning.outgrown * last[r])
    s, r = s[alike], r[alike]
    order = np.argsort(colour[alike] + place[alike] + size[alike], kind="stable")
    reidentified: dict[int, int] = {}
    taken: set[int] = set()
    for candidate, row in zip(s[order].tolist(), r[order].tolist(), strict=True):
        if candidate not in reidentified and row not in taken:
            reidentified[candidate] = row
            taken.add(row)
    return reidentified


def match_disoccluded(
    candidates: Candidates,
    settled: set[int],
    track_of: NDArray[np.int64],
    regions: Regions,
    tracks: TrackTable,
    tuning: Tuning,
) -> dict[int, int]:
    """Match candidates with older tracks that are partly hidden: a part comes out elsewhere.

    Returns candidate → row of `tracks`, for candidates that are not `settled`. So an identity can
    have several components that no pixels join: they hung together in the frames before. What comes
    out can be no larger than what is hidden, and the place is where the whole would be.
    """
    known = track_of >= 0
    area = np.bincount(track_of[known], regions.area[known], len(tracks.ids))
    hidden = tracks.max_area - area
    rows = np.flatnonzero((area > 0) & (hidden >= tuning.part_hidden * tracks.max_area))
    expected = tracks.predicted_centre[rows] + tracks.motion[rows]
    units = tracks.max_area[rows] / np.pi  # squared radius of a disc of that area
    s, r, place = _near(candidates, expected, units, tracks.first_frame[rows], tuning.part_place)
    colour = colour_gap_sq(candidates.colours[s], tracks.colours[rows[r]])
    alike = colour <= tuning.part_colour**2
    alike &= _last_areas(candidates, tracks)[s] <= tuning.outgrown * tracks.area[rows[r]]
    s, r = s[alike], r[alike]
    order = np.argsort(colour[alike] + place[alike], kind="stable")
    disoccluded: dict[int, int] = {}
    gone = {int(candidates.row[candidate]) for candidate in settled}
    hosts: set[int] = set()
    for candidate, host in zip(s[order].tolist(), rows[r[order]].tolist(), strict=True):
        row = int(candidates.row[candidate])
        free = candidate not in disoccluded and candidate not in settled and row not in hosts
        if free and host not in gone and candidates.area[candidate] <= hidden[host]:
            disoccluded[candidate] = host
            hidden[host] -= candidates.area[candidate]
            hosts.add(host)
            gone.add(row)
    return disoccluded


def _last_areas(candidates: Candidates, tracks: TrackTable) -> NDArray[np.int64]:
    """Return the area (n,) of candidates in the frame before, 0 of those that are new."""
    areas = np.zeros(len(candidates.row), np.int64)
    young = candidates.row >= 0
    areas[young] = tracks.area[candidates.row[young]]
    return areas


def _near(
    candidates: Candidates,
    expected: NDArray[np.float64],
    units: NDArray[np.float64],
    first_frame: NDArray[np.int64],
    most: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return pairs of a candidate and an older track that would be near it, and how near.

    Of each track where it would be (m, 2), the squared pixels that count as 1, and its first frame.
    """
    room = len(candidates.row) * len(units)
    mine, theirs = np.empty((2, room), np.int64)
    gap = np.empty(room)
    count = kernels.find_near(
        candidates.centre,
        candidates.first_frame,
        expected,
        units,
        first_frame,
        most**2,
        mine,
        theirs,
        gap,
    )
    return mine[:count], theirs[:count], gap[:count]

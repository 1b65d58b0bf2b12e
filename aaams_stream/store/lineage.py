"""History through splits and merges."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import RELATIVE_DTYPE, EventKind, Lineage

if TYPE_CHECKING:
    from aaams_stream.store.volume import Volume


def lineage(events: NDArray[Any], track_id: int) -> Lineage:
    """Walk the splits and merges around identity `track_id`, back and forth in time.

    events: rows with frame, kind, id and other, in the order of frames. What joined a parent after
    the split, or left an heir before the merge, is no relation. The areas of relatives are left 0.
    """
    links = events[np.isin(events["kind"], (EventKind.SPLIT, EventKind.MERGE))]
    split = links["kind"] == EventKind.SPLIT
    origin = np.where(split, links["other"], links["id"])  # pixels go from origin to target
    target = np.where(split, links["id"], links["other"])
    frames = links["frame"].astype(np.int64)
    back, used_back = _walk(target, origin, -frames, track_id)
    forth, used_forth = _walk(origin, target, frames, track_id)
    relatives = np.zeros(len(back) + len(forth), RELATIVE_DTYPE)
    walked = [(-1, found) for found in back.items()] + [(1, found) for found in forth.items()]
    for row, (way, (name, (steps, k))) in zip(relatives, walked, strict=True):
        row["id"], row["steps"] = name, way * steps
        row["frame"], row["kind"] = links["frame"][k], links["kind"][k]
    order = np.lexsort((relatives["frame"], np.abs(relatives["steps"])))
    events = links[used_back | used_forth]
    return Lineage(track_id, tuple(back), tuple(forth), events, relatives[order])


def with_areas(found: Lineage, volume: Volume) -> Lineage:
    """Return a lineage with the area each relative had when last seen, up to the event."""
    relatives = found.relatives.copy()
    for row in relatives:
        name, frame = int(row["id"]), int(row["frame"])
        back = range(frame, -1, -1)
        seen = next((t for t in back if name in volume.segments(t)["id"]), None)
        if seen is not None:
            row["area"] = volume.segment(name, seen)["area"]
    return dataclasses.replace(found, relatives=relatives)


def _walk(
    near: NDArray[Any], far: NDArray[Any], time: NDArray[np.int64], track_id: int
) -> tuple[dict[int, tuple[int, int]], NDArray[np.bool_]]:
    """Follow links from near to far, never back in `time`.

    Returns who is met, nearest first, with the steps it takes and the link that leads there, and
    all links on the way.
    """
    used = np.zeros(len(near), np.bool_)
    since = {track_id: np.iinfo(np.int64).min}
    met: dict[int, tuple[int, int]] = {}
    queue = [(track_id, 0)]
    for here, steps in queue:  # grows while it is walked: nearest first
        for k in np.flatnonzero((near == here) & (time >= since[here])):
            used[k] = True
            other = int(far[k])
            if other not in since or time[k] < since[other]:
                since[other] = int(time[k])
                queue.append((other, steps + 1))
                met.setdefault(other, (steps + 1, int(k)))
    return met, used

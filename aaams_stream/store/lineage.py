"""History through splits and merges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import EventKind, Lineage


def lineage(events: NDArray[Any], track_id: int) -> Lineage:
    """Walk the splits and merges around identity `track_id`, back and forth in time.

    events: rows with frame, kind, id and other, in the order of frames. What joined a parent after
    the split, or left an heir before the merge, is no relation.
    """
    links = events[np.isin(events["kind"], (EventKind.SPLIT, EventKind.MERGE))]
    split = links["kind"] == EventKind.SPLIT
    origin = np.where(split, links["other"], links["id"])  # pixels go from origin to target
    target = np.where(split, links["id"], links["other"])
    frames = links["frame"].astype(np.int64)
    back, used_back = _walk(target, origin, -frames, track_id)
    forth, used_forth = _walk(origin, target, frames, track_id)
    return Lineage(track_id, back, forth, links[used_back | used_forth])


def _walk(
    near: NDArray[Any], far: NDArray[Any], time: NDArray[np.int64], track_id: int
) -> tuple[tuple[int, ...], NDArray[np.bool_]]:
    """Follow links from near to far, never back in `time`; return who is met, and the links."""
    used = np.zeros(len(near), np.bool_)
    since = {track_id: np.iinfo(np.int64).min}
    queue = [track_id]
    for here in queue:  # grows while it is walked: nearest first
        for k in np.flatnonzero((near == here) & (time >= since[here])):
            used[k] = True
            other = int(far[k])
            if other not in since or time[k] < since[other]:
                since[other] = int(time[k])
                queue.append(other)
    return tuple(dict.fromkeys(queue))[1:], used

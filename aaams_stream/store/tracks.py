"""One row per identity, derived from the rows of its frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from aaams_stream.model import EVENT_DTYPE, SEGMENT_DTYPE, TRACK_DTYPE, EventKind
from aaams_stream.store.layout import AT_ONCE, read_rows

_NEEDED = ("id", "area", "centroid", "colour", "parent")
SEEN_DTYPE = np.dtype([("frame", np.uint32), *((name, SEGMENT_DTYPE[name]) for name in _NEEDED)])
# Colours are sums until the end, and those and paths want more digits than a result shows.
_SUMS = {"colour": np.dtype((np.float64, (3,))), "path": np.dtype(np.float64)}
_WORK_DTYPE = np.dtype([(n, _SUMS.get(n, TRACK_DTYPE[n])) for n in TRACK_DTYPE.names or ()])
EVENT_ROW_DTYPE = np.dtype([("frame", np.uint32), *EVENT_DTYPE.descr])


def build_tracks(
    root: zarr.Group, segments: int, events: int, at_once: int = AT_ONCE
) -> NDArray[Any]:
    """Return the tracks (TRACK_DTYPE), in order of id, of the first rows of both tables.

    Reads the segments in stretches of `at_once` rows: memory grows with the number of identities,
    not of frames.
    """
    stretches = (
        read_rows(root, "segments", start, min(start + at_once, segments), SEEN_DTYPE)
        for start in range(0, segments, at_once)
    )
    return sum_up(stretches, read_rows(root, "events", 0, events, EVENT_ROW_DTYPE))


def sum_up(stretches: Iterable[NDArray[Any]], events: NDArray[Any]) -> NDArray[Any]:
    """Return the tracks of rows (SEEN_DTYPE) that come in stretches, in the order of frames."""
    tracks = np.zeros(0, _WORK_DTYPE)
    for rows in stretches:
        tracks = _extended(tracks, rows)
    tracks["colour"] /= np.maximum(tracks["volume"], 1)[:, None]
    tracks = tracks[tracks["frames"] > 0].astype(TRACK_DTYPE)
    _note_ends(tracks, events)
    return tracks


def _extended(tracks: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Add rows to the tracks; row i of the tracks is id i, its colour still a sum."""
    most = int(rows["id"].max(initial=0)) + 1
    if most > len(tracks):  # twice as many at least, or copying would grow with the square
        more = max(most, 2 * len(tracks)) - len(tracks)
        tracks = np.concatenate([tracks, np.zeros(more, _WORK_DTYPE)])
    rows = rows[np.argsort(rows["id"], kind="stable")]  # of one id in the order of frames
    ids, begin, counts = np.unique(rows["id"], return_index=True, return_counts=True)
    end = begin + counts - 1
    new = ids[tracks["frames"][ids] == 0]
    at = begin[tracks["frames"][ids] == 0]
    tracks["id"][new] = new
    tracks["first"][new] = rows["frame"][at]
    tracks["start"][new] = rows["centroid"][at]
    tracks["stop"][new] = rows["centroid"][at]
    tracks["parent"][new] = rows["parent"][at]
    before = np.roll(rows["centroid"], 1, axis=0)
    before[begin] = tracks["stop"][ids]
    steps = np.hypot(*(rows["centroid"] - before).astype(np.float64).T)
    # one row after the other, not in blocks: sums that do not depend on where stretches end
    np.add.at(tracks["path"], rows["id"], steps)
    tracks["last"][ids] = rows["frame"][end]
    tracks["stop"][ids] = rows["centroid"][end]
    tracks["frames"][ids] += counts.astype(np.uint32)
    tracks["volume"][ids] += np.add.reduceat(rows["area"], begin, dtype=np.uint64)
    colours = rows["colour"] * rows["area"][:, None].astype(np.float64)
    for channel in range(colours.shape[1]):
        np.add.at(tracks["colour"][:, channel], rows["id"], colours[:, channel])
    return tracks


def _note_ends(tracks: NDArray[Any], events: NDArray[Any]) -> None:
    """Fill in how tracks ended: by the last word on each, unless it was seen again after it."""
    ends = events[np.isin(events["kind"], (EventKind.DEATH, EventKind.MERGE))]
    ids = tracks["id"].copy()  # contiguous: a search in a column of records copies it each time
    ends = ends[np.isin(ends["id"], ids)]
    row = np.searchsorted(ids, ends["id"])
    last_word = ends["frame"] > tracks["last"][row]
    row, ends = row[last_word], ends[last_word]
    tracks["end"][row] = ends["kind"]  # of several for one track the last stays
    tracks["heir"][row] = ends["other"]
    scene_changes = events["frame"][events["kind"] == EventKind.CUT]
    latest = scene_changes.max(initial=0)
    tracks["end"][(tracks["last"] < latest) & (tracks["end"] == 0)] = EventKind.CUT

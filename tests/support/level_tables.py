"""Tables of made-up scenes, for the tree over tracks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import ADJACENCY_DTYPE, EVENT_DTYPE, SEGMENT_DTYPE, EventKind

SHAPE = (60, 80)
SEGMENT_ROWS = np.dtype([("frame", np.uint32), *SEGMENT_DTYPE.descr])
ADJACENCY_ROWS = np.dtype([("frame", np.uint32), *ADJACENCY_DTYPE.descr])
EVENT_ROWS = np.dtype([("frame", np.uint32), *EVENT_DTYPE.descr])
Tables = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def things(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Return things with what they do not say filled in."""
    usual = {"area": 100, "colour": (50, 0, 0), "motion": (0, 0), "frames": range(10)}
    return [{**usual, **row} for row in rows]


def tables(
    segments: list[dict[str, Any]],
    touching: list[tuple[int, int]],
    contrast: float = 5.0,
    cuts: tuple[int, ...] = (),
) -> Tables:
    """Return the tables of things that touch in all frames in which both are seen."""
    seen: list[tuple[Any, ...]] = []
    for t in sorted({t for one in segments for t in one["frames"]}):
        for one in sorted(segments, key=lambda one: one["id"]):
            if t in one["frames"]:
                seen.append((t, one))
    rows = np.zeros(len(seen), SEGMENT_ROWS)
    for row, (t, one) in zip(rows, seen, strict=True):
        row["frame"] = t
        for name in ("id", "area", "colour", "motion"):
            row[name] = one[name]
        row["colour_spread"] = 2
        row["bbox"] = one.get("bbox", (10, 10, 20, 20))
        row["centroid"] = (row["bbox"][:2] + row["bbox"][2:]) / 2
        row["perimeter"] = 40
    frames = {one["id"]: set(one["frames"]) for one in segments}
    met = sorted((t, *sorted(p)) for p in touching for t in frames[p[0]] & frames[p[1]])
    contacts = np.array([(*row, 10, contrast) for row in met], ADJACENCY_ROWS)
    events = np.array([(t, EventKind.CUT, 0, 0) for t in cuts], EVENT_ROWS)
    return rows, contacts, events


def random_tables(seed: int, tracks: int = 12, frames: int = 9, scenes: int = 1) -> Tables:
    """Return tables of tracks that come and go, of any colours and motions, touching by luck."""
    rng = np.random.default_rng(seed)
    parts: list[Tables] = []
    for scene in range(scenes):
        begin, base = scene * frames, scene * tracks + 1
        made = []
        for k in range(tracks):
            first, last = sorted(rng.integers(0, frames, 2)) if k else (0, frames - 1)
            made.append(
                {
                    "id": base + k,
                    "area": int(rng.integers(5, 400)),
                    "colour": rng.uniform((20, -20, -20), (80, 20, 20)),
                    "motion": rng.normal(0, 2, 2),
                    "frames": range(begin + int(first), begin + int(last) + 1),
                    "bbox": (*rng.integers(0, 30, 2), *rng.integers(31, 60, 2)),
                }
            )
        pairs = [
            (base + a, base + b)
            for a in range(tracks)
            for b in range(a + 1, tracks)
            if rng.random() < 0.4
        ]
        cuts = (begin,) if scene else ()
        parts.append(tables(made, pairs, contrast=float(rng.uniform(1, 9)), cuts=cuts))
    return tuple(np.concatenate([part[i] for part in parts]) for i in range(3))  # type: ignore[return-value]

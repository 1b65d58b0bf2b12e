"""The frozen records the rooms hand each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


class EventKind(IntEnum):
    """What happened to an identity; stored as uint8, so numbers never change meaning."""

    BIRTH = 1  # id appears; other is 0
    DEATH = 2  # id is gone; other is 0
    SPLIT = 3  # id is new and came out of other, which lives on
    MERGE = 4  # id is gone and went into other
    RETURN = 5  # id is back after frames without it; other is 0
    CUT = 6  # the scene changed: every earlier id ends here; id and other are 0


# One row per segment and frame. Matrices are upper triangles: LL, La, Lb, aa, ab, bb; xx, xy, yy.
SEGMENT_DTYPE = np.dtype(
    [
        ("id", np.uint32),
        ("area", np.uint32),
        ("mode", np.float32, (5,)),  # L, a, b, x, y
        ("bandwidth_colour", np.float32, (6,)),
        ("bandwidth_space", np.float32, (3,)),
        ("bbox", np.int32, (4,)),  # x0, y0, x1, y1: x1 and y1 lie one past the last pixel
        ("density", np.float32),
        ("centroid", np.float32, (2,)),  # x, y
        ("colour", np.float32, (3,)),  # mean L, a, b
        ("colour_spread", np.float32, (3,)),  # standard deviation of L, a, b
        ("perimeter", np.uint32),  # sides of its pixels that face another segment or the rim
        ("motion", np.float32, (2,)),  # x, y: pixels since the frame before, mean of its flow
        ("age", np.uint32),  # frames since it was first seen, 0 in that one
        ("parent", np.uint32),  # id it was split off, or 0
    ]
)
# One row per pair of segments that touch, first < second.
ADJACENCY_DTYPE = np.dtype(
    [
        ("first", np.uint32),
        ("second", np.uint32),
        ("length", np.uint32),  # pixel sides they share
        ("contrast", np.float32),  # mean colour distance across those sides, in L*a*b* units
    ]
)
# One row per identity over its life.
TRACK_DTYPE = np.dtype(
    [
        ("id", np.uint32),
        ("first", np.uint32),  # frame
        ("last", np.uint32),  # frame: the last one it is seen in
        ("frames", np.uint32),  # in which it is seen; fewer than last - first + 1 if it was hidden
        ("volume", np.uint64),  # pixels over its life
        ("parent", np.uint32),  # id it was split off, or 0
        ("end", np.uint8),  # EventKind that ended it: DEATH, MERGE or CUT; 0 while it lives
        ("heir", np.uint32),  # id it merged into, or 0
        ("start", np.float32, (2,)),  # centroid when first seen, x, y
        ("stop", np.float32, (2,)),  # centroid when last seen
        ("path", np.float32),  # pixels its centroid travelled
        ("colour", np.float32, (3,)),  # mean L, a, b over its volume
    ]
)
# One row per merge of the tree over tracks, in order: two groups, named by their lowest ids.
HIERARCHY_DTYPE = np.dtype(
    [("survivor", np.uint32), ("absorbed", np.uint32), ("level", np.float32)]
)
# One row per group of that tree that looks like a thing.
OBJECT_DTYPE = np.dtype(
    [
        ("id", np.uint32),  # the lowest of its tracks
        ("level", np.float32),  # of a cut that shows it: that at which it formed
        ("score", np.float32),
        ("first", np.uint32),  # frame
        ("last", np.uint32),  # frame
        ("frames", np.uint32),  # in which it is seen
    ]
)
EVENT_DTYPE = np.dtype([("kind", np.uint8), ("id", np.uint32), ("other", np.uint32)])


@dataclass(frozen=True, slots=True)
class Crop:
    """One segment in one frame, cut out along its box."""

    frame: int
    bbox: tuple[int, int, int, int]  # x0, y0, x1, y1
    mask: NDArray[np.bool_]  # (y1 - y0, x1 - x0)
    rgb: NDArray[np.uint8] | None  # (y1 - y0, x1 - x0, 3); None where no picture is at hand


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where the pixels of an identity came from and went to, through splits and merges."""

    id: int
    ancestors: tuple[int, ...]  # it was split off these or took them in, nearest first
    descendants: tuple[int, ...]  # were split off it or took it in, nearest first
    events: NDArray[Any]  # all splits and merges on the way, in the order of frames


@dataclass(frozen=True, slots=True)
class Clip:
    """Which part of an input is wanted, and how large; by default all of it, as it is."""

    start: float | Fraction | None = None  # seconds from the first frame
    duration: float | Fraction | None = None  # seconds
    every: int = 1  # keep each n-th frame
    size: tuple[int, int] | None = None  # width and height to scale to

    def to_record(self) -> dict[str, Any]:
        """Return the clip as plain values, for metadata."""
        return {
            "start": None if self.start is None else float(self.start),
            "duration": None if self.duration is None else float(self.duration),
            "every": self.every,
            "size": list(self.size) if self.size else None,
        }


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture of a stream, upright, with square pixels."""

    index: int  # counts the frames handed out, from 0
    time: Fraction  # presentation time in seconds, exact
    rgb: NDArray[np.uint8]  # (h, w, 3)

    def __post_init__(self) -> None:
        if self.rgb.dtype != np.uint8 or self.rgb.ndim != 3 or self.rgb.shape[2] != 3:
            raise ValueError(f"rgb must be (h, w, 3) uint8, got {self.rgb.shape} {self.rgb.dtype}")


@dataclass(frozen=True, slots=True)
class FrameSegmentation:
    """What the segmenter makes of one frame; final once handed out.

    Attributes:
        index: number of the frame, from 0.
        time: presentation time in seconds, where it is known.
        ids: (h, w) uint32, track ids from 1.
        segments: a row per segment, in order of id; the columns of the table `segments`.
        adjacency: a row per pair of segments that touch; the columns of the table `adjacency`.
        events: what happened to ids, in order; see `EventKind`.
        stats: segments, share of pixels taken over from the frame before, seconds per stage.
        rgb: (h, w, 3) uint8, the picture, where a stream brings it along.
        grouping: what `groups` asks, where a tree over tracks is kept.

    Example:
        >>> import aaams_stream as aaams
        >>> frame = next(aaams.stream("demo", duration=0.1, size=(160, 120)))
        >>> int(frame.segments["area"].sum()) == frame.ids.size
        True
        >>> frame.groups(segments=10)[frame.ids].shape
        (120, 160)
    """

    index: int
    time: float | None  # presentation time in seconds
    ids: NDArray[np.uint32]  # (h, w) track ids from 1
    segments: NDArray[Any]  # (k,) SEGMENT_DTYPE, rows in order of id
    adjacency: NDArray[Any]  # (n,) ADJACENCY_DTYPE, rows in order of both ids
    events: NDArray[Any]  # (e,) EVENT_DTYPE, in the order they happened
    stats: Mapping[str, float]  # segments, warm (share of pixels taken over), seconds per stage
    rgb: NDArray[np.uint8] | None = None  # (h, w, 3) the picture, where a stream brings it along
    # What `groups` asks, where a tree over tracks is kept.
    grouping: Callable[[int], NDArray[np.uint32]] | None = field(
        default=None, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.ids.dtype != np.uint32 or self.ids.ndim != 2:
            raise ValueError(f"ids must be (h, w) uint32, got {self.ids.shape} {self.ids.dtype}")
        tables = (self.segments.dtype, self.adjacency.dtype, self.events.dtype)
        if tables != (SEGMENT_DTYPE, ADJACENCY_DTYPE, EVENT_DTYPE):
            raise ValueError("segments, adjacency and events must have the dtypes of this module")

    def groups(self, *, segments: int) -> NDArray[np.uint32]:
        """Return the group of each id (n + 1,), about so many in the frame; 0 stays 0.

        `frame.groups(segments=25)[frame.ids]` is the frame in groups. In a stream, groups are known
        from the frames so far, keep their names while most of them stays, and can be asked of the
        newest frame; those of a volume are known from all its frames.
        """
        if self.grouping is None:
            raise ValueError(
                "groups are known of frames that `stream` and `replay` yield; for those of a "
                "Segmenter, keep a LiveLevels"
            )
        return self.grouping(segments)


def same_source(kept: str | None, found: str | None) -> bool:
    """Tell whether a volume's fingerprint of its input is that of one found now.

    None is nobody's. Older volumes keep only the first of its two parts: the ends of a file.
    """
    if kept is None or found is None:
        return False
    ends, _, between = found.partition(" ")
    return kept == found or (kept == ends and kept.startswith("sha256:") and bool(between))

"""The frozen records the rooms hand each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
# One row per relative of an identity.
RELATIVE_DTYPE = np.dtype(
    [
        ("id", np.uint32),
        ("steps", np.int32),  # splits and merges on the way; negative for ancestors, 1 is direct
        ("frame", np.uint32),  # of the split or merge that is the last on the way to it
        ("kind", np.uint8),  # EventKind of that: SPLIT or MERGE
        ("area", np.uint32),  # pixels it had there, or when it was last seen before
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
    # RELATIVE_DTYPE, one row for each of both, direct relatives first, then in the order of frames
    relatives: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Timecode:
    """A time told by frames: `Timecode(120)` is frame 120, counted from 0.

    With seconds, as in hh:mm:ss:ff, it is so many frames later, where a second has a whole number
    of frames (30 at 29.97 a second, as timecodes without dropped numbers count).
    """

    frames: int
    seconds: int = 0

    def number(self, rate: Fraction) -> int:
        """Return the number of the frame."""
        return self.seconds * max(1, round(rate)) + self.frames


@dataclass(frozen=True, slots=True)
class Clip:
    """Which part of an input is wanted, and how large; by default all of it, as it is."""

    start: float | Fraction | Timecode | None = None  # seconds from the first frame, or by frames
    duration: float | Fraction | Timecode | None = None  # seconds, or so many frames
    every: int = 1  # keep each n-th frame
    size: tuple[int, int] | None = None  # width and height to scale to

    def at_rate(self, rate: Fraction) -> Clip:
        """Return the clip with all times in seconds, for a video of so many frames a second."""
        start, duration = self.start, self.duration
        # it begins and ends half a frame early: times in files are rounded, up or down
        early = Fraction(1, 2) / rate
        if isinstance(duration, Timecode):
            begins_early = isinstance(start, Timecode) and start.number(rate) > 0
            duration = duration.number(rate) / rate - (0 if begins_early else early)
        if isinstance(start, Timecode):
            start = max(Fraction(0), start.number(rate) / rate - early)
        return replace(self, start=start, duration=duration)

    def to_record(self) -> dict[str, Any]:
        """Return the clip as plain values, for metadata; its times must be in seconds."""
        if isinstance(self.start, Timecode) or isinstance(self.duration, Timecode):
            raise ValueError("a clip told by frames is in seconds only at a rate; see at_rate")
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


# Columns of the nodes of a SegmentGraph, from the segment table, and of its edges.
_NODE_COLUMNS = {
    "area": ("area",),
    "colour": ("L", "a", "b"),
    "colour_spread": ("L_spread", "a_spread", "b_spread"),
    "perimeter": ("perimeter",),
    "motion": ("motion_x", "motion_y"),
    "age": ("age",),
}
NODE_FEATURES = tuple(name for names in _NODE_COLUMNS.values() for name in names)
EDGE_FEATURES = ("touch", "same", "split", "merge", "length", "contrast")


@dataclass(frozen=True, slots=True)
class SegmentGraph:
    """Segments of one or several frames as a graph, in arrays as PyTorch Geometric takes them.

    Node i is a segment in a frame, in the order of frames and ids. Two that touch have an edge each
    way. Edges in time go forwards: from where an identity was seen last to where it is seen next
    (same), from the one that a new one was split off to that one (split), and from one that is gone
    to the one it went into (merge). An edge is there where both of its ends are::

        Data(**{name: torch.from_numpy(values) for name, values in graph.arrays().items()})
    """

    x: NDArray[np.float32]  # (n, f) NODE_FEATURES: units as in the segment table
    edge_index: NDArray[np.int64]  # (2, e) from node, to node
    edge_attr: NDArray[
        np.float32
    ]  # (e, 6) EDGE_FEATURES: four kinds, 0 or 1; then, of touch alone,
    # the pixel sides they share and the mean colour distance across those, in L*a*b* units
    pos: NDArray[np.float32]  # (n, 2) centroid, x and y in pixels
    id: NDArray[np.int64]  # (n,)
    frame: NDArray[np.int64]  # (n,)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by their names."""
        return {name: getattr(self, name) for name in self.__slots__}


def build_graph(
    frames: Sequence[int],
    segments: Sequence[NDArray[Any]],
    adjacency: Sequence[NDArray[Any]],
    events: Sequence[NDArray[Any]],
) -> SegmentGraph:
    """Return the graph of some frames, in order, from the tables of each."""

    def joined(
        tables: Sequence[NDArray[Any]], dtype: Any
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        counts = np.array([len(table) for table in tables], np.int64)
        table = np.concatenate([np.zeros(0, dtype), *tables])
        return table, np.repeat(np.asarray(frames, np.int64), counts)

    rows, frame = joined(segments, SEGMENT_DTYPE)
    name = rows["id"].astype(np.int64)
    lives = np.lexsort((frame, name))  # nodes by identity, then in time
    keys = name[lives] << 32 | frame[lives]

    def node(ids: NDArray[Any], t: NDArray[Any], before: bool) -> NDArray[np.int64]:
        """Return the node of each id in frame t, or the last before it; -1 where there is none."""
        if not len(keys):
            return np.full(len(ids), -1, np.int64)
        wanted = ids.astype(np.int64)
        at = np.searchsorted(keys, wanted << 32 | t) - int(before)
        found = lives[np.clip(at, 0, len(keys) - 1)]
        fits = (at >= 0) & (name[found] == wanted) & (before | (frame[found] == t))
        return np.where(fits, found, -1)

    pairs, when = joined(adjacency, ADJACENCY_DTYPE)
    first, second = (node(pairs[end], when, before=False) for end in ("first", "second"))
    again = np.flatnonzero(name[lives][1:] == name[lives][:-1])
    happened, when = joined(events, EVENT_DTYPE)
    kinds: list[tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[Any] | None]] = [
        (0, first, second, pairs),
        (0, second, first, pairs),
        (1, lives[again], lives[again + 1], None),
    ]
    for column, kind in ((2, EventKind.SPLIT), (3, EventKind.MERGE)):
        chosen = happened["kind"] == kind
        ids, others, t = happened["id"][chosen], happened["other"][chosen], when[chosen]
        origin, target = (others, ids) if kind == EventKind.SPLIT else (ids, others)
        kinds.append((column, node(origin, t, before=True), node(target, t, before=False), None))
    index, attributes = [], []
    for column, origin, target, table in kinds:
        there = (origin >= 0) & (target >= 0)
        index.append(np.stack([origin, target])[:, there])
        values = np.zeros((np.count_nonzero(there), len(EDGE_FEATURES)), np.float32)
        values[:, column] = 1
        if table is not None:
            values[:, 4], values[:, 5] = table["length"][there], table["contrast"][there]
        attributes.append(values)
    columns = [rows[key].reshape(len(rows), len(names)) for key, names in _NODE_COLUMNS.items()]
    return SegmentGraph(
        x=np.concatenate(columns, axis=1).astype(np.float32),
        edge_index=np.concatenate(index, axis=1),
        edge_attr=np.concatenate(attributes),
        pos=rows["centroid"].copy(),
        id=name,
        frame=frame,
    )


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

    def graph(self) -> SegmentGraph:
        """Return the segments as a graph of who touches whom; `volume.graph` spans frames."""
        return build_graph([self.index], [self.segments], [self.adjacency], [self.events])


def same_source(kept: str | None, found: str | None) -> bool:
    """Tell whether a volume's fingerprint of its input is that of one found now.

    None is nobody's. Older volumes keep only the first of its two parts: the ends of a file.
    """
    if kept is None or found is None:
        return False
    ends, _, between = found.partition(" ")
    return kept == found or (kept == ends and kept.startswith("sha256:") and bool(between))

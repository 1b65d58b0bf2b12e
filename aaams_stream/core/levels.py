"""The tree over tracks: which of them belong together, by all that a scene tells of them.

A frame's decision is local and final, so that segments are many and short-lived. Evidence gathers
over a clip: what never parts belongs together. The tree holds it as merges of groups of tracks,
closest first; a coarser view of a volume is a prefix of the merges, nested in every finer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.level_sums import ADJACENCY_NEEDED, SEGMENTS_NEEDED, SceneSums
from aaams_stream.core.proposals import Nodes, rank_objects
from aaams_stream.core.tuning import DEFAULT as METHOD
from aaams_stream.kernels import levels as kernels
from aaams_stream.kernels.levels import Nearness
from aaams_stream.model import HIERARCHY_DTYPE, OBJECT_DTYPE, EventKind, FrameSegmentation
from aaams_stream.params import Params

__all__ = [
    "ADJACENCY_NEEDED",
    "DEFAULT",
    "MOST_OBJECTS",
    "SEGMENTS_NEEDED",
    "LevelBuilder",
    "LevelTuning",
    "levels_of_frame",
    "nearness_of",
    "with_frame",
]

MOST_OBJECTS = 100  # of a scene that are kept, so that memory does not grow with scenes


@dataclass(frozen=True, slots=True)
class LevelTuning:
    """The constants of the tree over tracks; figures are those of `benchmarks/levels.py`.

    The level of two groups is a product of powers, one for each way in which they differ. Units
    put each at about 1; powers say how much it tells. They were found by a search that judged each
    setting together with its neighbourhood, so that no clip decides by luck; what one half of
    twenty DAVIS sequences preferred was better on the other half, too.
    """

    # Power of d_B, the difference of colours. Larger: colour decides, and what is motley falls
    # apart into its colours; smaller: things join what lies beside them.
    colour_power: float = 0.48
    # Share of the picture at which a group weighs 1, and the power of the share. Larger power: the
    # large stay apart, and small groups join them early; 0: groups of any size.
    size_unit: float = 0.0046
    size_power: float = 0.25
    # Contrast along the contact at which it weighs 1, in L*a*b* units, and its power. Larger power:
    # soft passages join what differs; 0: only what is inside counts.
    edge_unit: float = 9.0
    edge_power: float = 0.42
    # Motion a frame, as a share of the root of the picture's pixels, that errors of the flow cause
    # in any clip: motion is measured in it, or in what the scene's own motion leaves of half the
    # picture, if that is more. Smaller: noise parts what belongs together; larger: slow things are
    # one with the ground.
    motion_unit: float = 0.0022
    # Squared units between two motions at which they count, and the power. Larger power: motion
    # decides, and limbs come off.
    motion_sq: float = 1.7
    motion_power: float = 0.49
    # Share of the picture from which the motion of a segment is half believed. Smaller: flow that
    # errs on small segments keeps them apart, and lives are shorter; larger: small things that move
    # are glued to the ground.
    motion_area: float = 0.0034
    # Power of the share of the smaller one's outline that two groups have in common, and what is
    # added to it. Larger power: what is surrounded joins, what barely touches does not.
    contact_power: float = 0.26
    contact_floor: float = 0.03
    # Power of one plus how many times (ln) more textured one is than the other, and the squared
    # L*a*b* units below which texture is noise.
    texture_power: float = 0.36
    texture_floor: float = 3.0
    # Power of one plus how many times (ln) more one moves against the scene than the other.
    # Larger: what moves stays one, and apart from what does not, and lives are shorter.
    unrest_power: float = 0.46
    # Power of the share of the scene in which the one that is seen less is seen. Larger: what is
    # seen for a moment joins something sooner, and lives are longer; 0: time does not count.
    seen_power: float = 0.22
    # Moments of time at which motions are compared; a longer scene has longer moments. More: turns
    # are told apart in long scenes, at more time for each comparison.
    moments: int = 128
    # By what factor a group grows before all its links are scored anew. Larger: faster where one
    # ground touches everything, and levels are less exact; 1: always.
    growth: float = 1.02


DEFAULT = LevelTuning()


class LevelBuilder:
    """Gathers the tables of a volume, block by block, and builds one tree per scene.

    Memory grows with the tracks of a scene and the pairs of them that touch, not with frames. What
    comes out does not depend on how the rows are cut into blocks.
    """

    def __init__(
        self, shape: tuple[int, int], params: Params, tuning: LevelTuning = DEFAULT
    ) -> None:
        self._shape = shape
        self._params = params
        self._tuning = tuning
        self._scene = self._new_scene()
        self._trees: list[NDArray[Any]] = []
        self._objects: list[NDArray[Any]] = []

    def add(self, segments: NDArray[Any], adjacency: NDArray[Any], events: NDArray[Any]) -> None:
        """Take the next rows of the three tables: whole frames, each row with its `frame`."""
        changes = np.unique(events["frame"][events["kind"] == EventKind.CUT])
        rows = np.searchsorted(np.ascontiguousarray(segments["frame"]), changes)
        contacts = np.searchsorted(np.ascontiguousarray(adjacency["frame"]), changes)
        begin = (0, 0)
        for end in [*zip(rows.tolist(), contacts.tolist(), strict=True), None]:
            row, contact = end or (len(segments), len(adjacency))
            self._scene.add(segments[begin[0] : row], adjacency[begin[1] : contact])
            if end is not None:
                self._end_scene()
                begin = end

    def finish(self) -> NDArray[Any]:
        """Return all merges (HIERARCHY_DTYPE), scene after scene, in their order.

        Levels lie above 0 and never fall within a scene; every scene ends as one group.
        """
        self._end_scene()
        return np.concatenate([np.zeros(0, HIERARCHY_DTYPE), *self._trees])

    def objects(self, count: int = 10) -> NDArray[Any]:
        """Return the groups that look most like things (OBJECT_DTYPE), best first; after `finish`.

        `proposals.members_of` tells their tracks. Of each scene so many are known as
        MOST_OBJECTS.
        """
        found = np.concatenate([np.zeros(0, OBJECT_DTYPE), *self._objects])
        return found[np.lexsort((found["id"], -found["score"]))][:count]

    def _new_scene(self) -> SceneSums:
        return SceneSums(self._shape, self._tuning.moments, self._tuning.motion_unit)

    def _end_scene(self) -> None:
        scene, self._scene = self._scene, self._new_scene()
        if scene.tracks:
            self._trees.append(self._tree(scene))

    def _tree(self, scene: SceneSums) -> NDArray[Any]:
        """Return the merges of a scene; keep what looks like things in it."""
        there, groups, links, series = scene.graph()
        pixels = self._shape[0] * self._shape[1]
        nearness = nearness_of(
            self._params, self._tuning, pixels, scene.end - scene.begin, scene.stride
        )
        table = np.empty((2 * len(there) - 1, kernels.NODE_COLUMNS))
        survivor, absorbed, level = kernels.merge_groups(groups, links, series, nearness, table)
        span = scene.span[there] + scene.begin
        kernels.resolve_nodes(survivor, absorbed, span, rows := np.empty((len(table), 4), np.int64))
        ids = (there + scene.base).astype(np.uint32)
        merges = np.empty(len(level), HIERARCHY_DTYPE)
        merges["survivor"] = ids[survivor]
        merges["absorbed"] = ids[absorbed]
        merges["level"] = np.maximum(level, np.finfo(np.float32).tiny)
        nodes = Nodes(
            id=ids[rows[:, 0]],
            parent=rows[:, 1],
            formed=np.append(np.zeros(len(ids), np.float32), merges["level"]),
            absorbed=np.append(merges["level"], np.float32(np.inf))[rows[:, 1] - len(ids)],
            first=rows[:, 2].astype(np.uint32),
            last=rows[:, 3].astype(np.uint32),
            frames=np.minimum(
                table[:, kernels.ENTRIES] * scene.stride, rows[:, 3] + 1 - rows[:, 2]
            ).astype(np.uint32),
            volume=table[:, kernels.VOLUME],
            motion=table[:, kernels.MOTION],
            rim=table[:, kernels.NODE_RIM] / np.maximum(table[:, kernels.NODE_OUTLINE], 1.0),
        )
        self._objects.append(rank_objects(nodes, pixels, MOST_OBJECTS))
        return merges


def nearness_of(
    params: Params, tuning: LevelTuning, pixels: int, frames: int, stride: int
) -> Nearness:
    """Return the constants as merging takes them, for a scene of so many frames."""
    return Nearness(
        floor=METHOD.variance_floor * params.colour.sigma2,
        pixels=float(pixels * frames),
        colour_power=tuning.colour_power,
        size_unit=tuning.size_unit,
        size_power=tuning.size_power,
        edge_unit=tuning.edge_unit,
        edge_power=tuning.edge_power,
        motion_sq=tuning.motion_sq,
        motion_power=tuning.motion_power,
        sure_area=tuning.motion_area * pixels * stride,
        contact_floor=tuning.contact_floor,
        contact_power=tuning.contact_power,
        texture_floor=tuning.texture_floor,
        texture_power=tuning.texture_power,
        unrest_power=tuning.unrest_power,
        times=float(-(-frames // stride)),
        seen_power=tuning.seen_power,
        growth=tuning.growth,
    )


def levels_of_frame(frame: FrameSegmentation, params: Params | None = None) -> NDArray[Any]:
    """Return the tree (HIERARCHY_DTYPE) that a frame by itself tells of."""
    height, width = frame.ids.shape
    builder = LevelBuilder((height, width), params or Params())
    tables = (frame.segments, frame.adjacency, frame.events)
    builder.add(*(with_frame(table, frame.index) for table in tables))
    return builder.finish()


def with_frame(table: NDArray[Any], index: int) -> NDArray[Any]:
    """Return the rows of a frame with its number in front, as a volume keeps them."""
    rows = np.empty(len(table), [("frame", np.uint32), *table.dtype.descr])
    rows["frame"] = index
    for name in table.dtype.names or ():
        rows[name] = table[name]
    return rows

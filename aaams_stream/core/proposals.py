"""Objects without being told: which groups of the tree over tracks look like things.

Every group that some cut of the tree shows is a candidate. Things move against the scene, are seen
all along, do not lie along the rim, and stay what they are while the level rises; and the whole
comes before its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import OBJECT_DTYPE


class Nodes(NamedTuple):
    """The groups of one scene: tracks in the order of their ids, then what each merge made."""

    id: NDArray[np.uint32]  # (n,) the lowest of the group
    parent: NDArray[np.int64]  # (n,) row of the group it was absorbed into, n for the last
    formed: NDArray[np.float32]  # (n,) level; 0 for a track
    absorbed: NDArray[np.float32]  # (n,) level; infinite for the last
    first: NDArray[np.uint32]  # (n,) frame
    last: NDArray[np.uint32]  # (n,) frame
    frames: NDArray[np.uint32]  # (n,) in which it is seen, as far as moments of time tell
    volume: NDArray[np.float64]  # (n,) pixels over its life
    motion: NDArray[np.float64]  # (n,) against the scene, over how sure motion is
    rim: NDArray[np.float64]  # (n,) share of its outline that lies on the rim of the picture


@dataclass(frozen=True, slots=True)
class ObjectTuning:
    """The constants of ranking; a score is a product of powers.

    Powers lie between what a search preferred on either half of twenty DAVIS sequences; those of
    one half gave a J of .63 for the first proposal on the other half, both ways, where the best
    group of the tree had .68 and .70. Contrast to the surroundings told the halves opposite things,
    and is left out.
    """

    # Power of the motion against the scene, and the motion that is added to it: noise. Larger:
    # limbs and specks that move fastest come first; smaller: large still things do.
    motion_power: float = 1.5
    motion_floor: float = 0.5
    # Power of the share of the scene's frames in which it is seen. Larger: what leaves the picture
    # is no object; smaller: what flashes by is.
    seen_power: float = 1.0
    # Share of the outline on the rim at which a group is ground, and the power of what is left.
    # Larger share: ground that moves otherwise comes first; smaller: things cut by the rim do not.
    rim_share: float = 0.125
    rim_power: float = 1.0
    # Power of the share of the picture. Smaller: parts come before the whole; larger: the whole
    # brings its surroundings along.
    size_power: float = 0.9
    # Power of the level at which it is absorbed over the level at which it formed, and their most.
    # Larger: what stays itself comes first, if it is but a part.
    stay_power: float = 0.25
    stay_most: float = 10.0
    # Shares of the picture between which it is a candidate: below it is a part, above the ground.
    smallest: float = 0.002
    largest: float = 0.5
    # Share of the larger one that two groups, one inside the other, may have in common. Larger: the
    # first ten are one thing over and over.
    overlap: float = 0.5


DEFAULT = ObjectTuning()


def rank_objects(
    nodes: Nodes, pixels: int, count: int, constants: ObjectTuning = DEFAULT
) -> NDArray[Any]:
    """Return the groups of a scene (OBJECT_DTYPE, `count` at most) that look most like things.

    Best first, ties by id. Of two, one inside the other, that share much the better one stays.
    pixels: of a frame.
    """
    score = object_scores(nodes, pixels, constants)
    order = np.lexsort((nodes.formed, nodes.id, -score))
    kept: list[int] = []
    for row in order[: np.count_nonzero(score)].tolist():
        if len(kept) == count:
            break
        if not any(_overlap(row, other, nodes) > constants.overlap for other in kept):
            kept.append(row)
    objects = np.empty(len(kept), OBJECT_DTYPE)
    objects["level"] = nodes.formed[kept]
    objects["score"] = score[kept]
    for name in ("id", "first", "last", "frames"):
        objects[name] = getattr(nodes, name)[kept]
    return objects


def object_scores(
    nodes: Nodes, pixels: int, constants: ObjectTuning = DEFAULT
) -> NDArray[np.float64]:
    """Return how much each group looks like a thing; 0 for those that are no candidates."""
    scene = int(nodes.last.max()) + 1 - int(nodes.first.min())
    share = nodes.volume / (np.maximum(nodes.frames, 1) * float(pixels))
    inner = 1.0 - np.minimum(nodes.rim / constants.rim_share, 0.98)
    merges = nodes.formed[nodes.formed > 0]
    usual = float(np.median(merges)) if len(merges) else 1.0  # tracks form at 0: compare with this
    highest = 1.5 * max(float(merges.max(initial=0.0)), usual)
    stay = np.minimum(nodes.absorbed, highest) / np.maximum(nodes.formed, usual)
    score = (
        (nodes.motion + constants.motion_floor) ** constants.motion_power
        * (nodes.frames / scene) ** constants.seen_power
        * inner**constants.rim_power
        * share**constants.size_power
        * np.minimum(stay, constants.stay_most) ** constants.stay_power
    )
    # A group that is absorbed at the level at which it formed is in no cut.
    shown = nodes.absorbed > nodes.formed
    return np.where(shown & (share > constants.smallest) & (share < constants.largest), score, 0.0)


def members_of(hierarchy: NDArray[Any], objects: NDArray[Any]) -> list[NDArray[np.uint32]]:
    """Return for each object the ids of its tracks, in their order."""
    found = []
    for wanted in objects:
        below = hierarchy[hierarchy["level"] <= wanted["level"]]
        # Merges come in the order of levels within a scene: whoever joins the group is in it when
        # its own come to be, so they are read backwards.
        group = {int(wanted["id"])}
        for survivor, absorbed in zip(
            below["survivor"][::-1].tolist(), below["absorbed"][::-1].tolist(), strict=True
        ):
            if survivor in group:
                group.add(absorbed)
        found.append(np.array(sorted(group), np.uint32))
    return found


def _overlap(one: int, other: int, nodes: Nodes) -> float:
    """Return what share of the larger group the smaller is, 0 if it does not lie inside."""
    inner, outer = min(one, other), max(one, other)  # a group comes before what it is absorbed into
    row = inner
    while row < outer:
        row = int(nodes.parent[row])
    return float(nodes.volume[inner] / nodes.volume[outer]) if row == outer else 0.0

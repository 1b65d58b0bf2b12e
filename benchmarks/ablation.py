"""Our segmenter with one ingredient left out at a time, to see what each earns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from peers import Frames, Labels, Method

from aaams_stream.core.tuning import Tuning
from aaams_stream.params import Params


@dataclass(frozen=True, slots=True)
class Ingredient:
    """Something that can be left out, by constants of the method or by settings."""

    name: str
    tuning: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


INGREDIENTS = (
    Ingredient("size-aware merging", settings={"post": {"criterion": "bhattacharyya"}}),
    Ingredient("motion in merging", {"motion_in_merging": False}),
    Ingredient("regions of one track held together", {"one_origin": 1.0}),
    Ingredient("old tracks kept apart", {"two_tracks": 1.0}),
    Ingredient("parts that move along held together", {"along": 1e9}),
    Ingredient("faint edges left out", {"faint": 0.0}),
    Ingredient("names that are not outgrown", {"outgrown": 1e9}),
    Ingredient("refresh in turns", settings={"stream": {"refresh": 10**6}}),
    Ingredient("coarse segments first", {"refresh_rest": 10**9}),
    Ingredient("boundary votes", {"vote_stay": 1e9}),
    Ingredient("joins at the fringe", {"vote_rounds": 0}),
    Ingredient("outliers re-estimated", {"outlier": 1e3}),
    Ingredient("inliers that stay", {"inlier": 0.0}),
    Ingredient("memory of colours", {"colour_memory": 0.0}),
    Ingredient("lost segments recovered", {"recover_lost": False}),
    Ingredient("second motions dropped", {"split_motions": False}),
    Ingredient("returns after being lost", settings={"time": {"epsilon2": 0.0}}),
    Ingredient("parts from behind something", {"part_place": 0.0}),
    Ingredient("probation", {"probation": -1}),
    Ingredient("motion at half resolution", settings={"stream": {"flow": "fast"}}),
)


def ablations(params: Params) -> list[Method]:
    """Return our segmenter at its default number of segments, each time without one ingredient."""
    return [Method(f"without {one.name}", None, _runner(params, one)) for one in INGREDIENTS]


def _runner(params: Params, without: Ingredient) -> Any:
    def run(frames: Frames) -> Iterator[Labels]:
        from aaams_stream import Segmenter

        tuning = dataclasses.replace(Tuning(), **without.tuning)
        segmenter = Segmenter(params.updated(without.settings), tuning=tuning)
        for frame in frames:
            yield segmenter.step(frame).ids

    return run

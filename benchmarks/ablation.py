"""Our segmenter with one ingredient left out at a time, to see what each earns."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from peers import Frames, Labels, Method

from aaams_stream.params import Params


def _still(*graph: Any) -> Any:
    """Connect regions as if nothing moved."""
    from aaams_stream.core.region_graph import connect_regions

    return connect_regions(*graph[:4])


@dataclass(frozen=True, slots=True)
class Ingredient:
    """Something that can be left out, by attributes of the package's modules or by settings."""

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


INGREDIENTS = (
    Ingredient("size-aware merging", settings={"post": {"criterion": "bhattacharyya"}}),
    Ingredient("motion in merging", {"segmenter.connect_regions": _still}),
    Ingredient("pieces of one segment held together", {"segmenter._SAME_HOME": 1.0}),
    Ingredient("old segments kept apart", {"segmenter._OLD_PAIR": 1.0}),
    Ingredient("turns of being decided afresh", settings={"stream": {"refresh": 10**6}}),
    Ingredient("coarse segments first", {"segmenter._REST": 10**9}),
    Ingredient("boundary votes", {"segmenter._VOTE_STAY": np.float32(1e9)}),
    Ingredient("joins at the fringe", {"segmenter._VOTE_ROUNDS": 0}),
    Ingredient("outliers decided afresh", {"segmenter._OUTLIER": 1e3}),
    Ingredient("inliers that stay", {"segmenter._INLIER": 0.0}),
    Ingredient("memory of colours", {"identity._MEMORY": 0.0}),
    Ingredient("segments sought as a whole", {"segmenter.seek_mislaid": lambda *_: 0}),
    Ingredient("second motions dropped", {"segmenter.drop_strays": lambda *_: None}),
    Ingredient("returns after being lost", settings={"time": {"epsilon2": 0.0}}),
    Ingredient("parts from behind something", {"identity._PART_PLACE": 0.0}),
    Ingredient("probation", {"identity._PROBATION": -1}),
    Ingredient("motion at half resolution", settings={"stream": {"flow": "fast"}}),
)


def ablations(params: Params) -> list[Method]:
    """Return our segmenter at its default number of segments, each time without one ingredient."""
    return [Method(f"without {one.name}", None, _runner(params, one)) for one in INGREDIENTS]


def _runner(params: Params, without: Ingredient) -> Any:
    def run(frames: Frames) -> Iterator[Labels]:
        from aaams_stream.core.segmenter import Segmenter

        with _changed(without.attributes):
            segmenter = Segmenter(params.updated(without.settings))
            for frame in frames:
                yield segmenter.step(frame).ids

    return run


@contextlib.contextmanager
def _changed(attributes: Mapping[str, Any]) -> Iterator[None]:
    """Change attributes of the package's modules, for a while."""
    before = {}
    for place, value in attributes.items():
        room, _, name = place.partition(".")
        module = importlib.import_module(f"aaams_stream.{room}")
        before[module, name] = getattr(module, name)
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)

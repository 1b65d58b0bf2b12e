"""A tiny segmenter with the stages of the real one, for tests of what lies around it.

Its ids depend on every frame it has seen: a resume that lost anything would show.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from aaams_stream.core.features import lab_colours
from aaams_stream.model import (
    ADJACENCY_DTYPE,
    EVENT_DTYPE,
    SEGMENT_DTYPE,
    EventKind,
    FrameSegmentation,
)
from aaams_stream.params import resolve


@dataclass(frozen=True)
class SegmenterState:
    index: int
    average: Any  # (h, w) float64
    alive: Any  # (k,) ids of the last frame

    def to_arrays(self):
        return {
            "index": np.asarray(self.index),
            "average": self.average,
            "alive": self.alive,
        }

    @classmethod
    def from_arrays(cls, arrays):
        return cls(int(arrays["index"]), arrays["average"], arrays["alive"])


@dataclass(frozen=True)
class Prepared:
    grey: Any  # (h, w) float64
    time: float | None
    rgb: Any


class Preparer:
    def __init__(self, params=None, *, roi=None):
        self.params = params

    def prepare(self, rgb, time=None):
        return Prepared(rgb.mean(axis=2), time, rgb)


@dataclass(frozen=True)
class Labelled:
    time: float | None
    state: SegmenterState
    ids: Any
    events: Any
    rgb: Any
    explained: float = 0.5

    @property
    def count(self):
        return len(self.state.alive)


class Segmenter:
    def __init__(self, params=None, *, segments=None, state=None, roi=None):
        self.params = resolve(params)
        self.roi = roi  # not looked at
        self.state = state

    def step(self, rgb, time=None):
        return describe(self.label(Preparer(self.params).prepare(rgb, time)))

    def sees_scene_change(self, prepared):
        return False

    def label(self, prepared):
        grey, before = prepared.grey, self.state
        if before is not None and before.average.shape != grey.shape:
            raise ValueError("frames must keep their size")
        index = 0 if before is None else before.index
        average = grey if before is None else 0.75 * before.average + 0.25 * grey
        ids = (1 + average // 16 + 100 * (index // 10)).astype(np.uint32)
        present = np.unique(ids)
        earlier = np.zeros(0, np.uint32) if before is None else before.alive
        births, deaths = np.setdiff1d(present, earlier), np.setdiff1d(earlier, present)
        events = np.zeros(len(births) + len(deaths), EVENT_DTYPE)
        events["id"] = np.concatenate([births, deaths])
        events["kind"] = [EventKind.BIRTH] * len(births) + [EventKind.DEATH] * len(deaths)
        self.state = SegmenterState(index + 1, average, present)
        return Labelled(prepared.time, self.state, ids, events, prepared.rgb)


def describe(labelled):
    state, ids = labelled.state, labelled.ids
    present, inverse, areas = np.unique(ids, return_inverse=True, return_counts=True)
    segments = np.zeros(len(present), SEGMENT_DTYPE)
    segments["id"], segments["area"] = present, areas
    segments["mode"][:, 0] = np.bincount(inverse.ravel(), state.average.ravel()) / areas
    colours = [np.bincount(inverse.ravel(), plane) for plane in labelled.rgb.reshape(-1, 3).T]
    segments["colour"] = lab_colours(np.stack(colours, axis=1) / areas[:, None])
    segments["density"] = areas / ids.size
    for row, track_id in enumerate(present):
        y, x = np.nonzero(ids == track_id)
        segments["bbox"][row] = x.min(), y.min(), x.max() + 1, y.max() + 1
        segments["centroid"][row] = x.mean(), y.mean()
    stats = {"segments": float(len(present)), "warm": labelled.explained}
    tables = segments, touching(ids), labelled.events
    return FrameSegmentation(state.index - 1, labelled.time, ids, *tables, stats)


def compile_ahead():
    """Compile nothing: there are no kernels here."""


def stream_is_compiled():
    return True


def tell_progress(listener):
    """Tell nobody: nothing is compiled."""


def processor_knows(feature):
    """As the real one: films are drawn here, too, and shall be the same each time."""
    import llvmlite.binding

    return bool(llvmlite.binding.get_host_cpu_features().get(feature, False))


def touching(ids):
    """Return which segments lie side by side."""
    sides = np.sort(np.stack([ids[:, 1:].ravel(), ids[:, :-1].ravel()], axis=1), axis=1)
    pairs, lengths = np.unique(sides[sides[:, 0] != sides[:, 1]], axis=0, return_counts=True)
    rows = np.zeros(len(pairs), ADJACENCY_DTYPE)
    rows["first"], rows["second"], rows["length"] = *pairs.T, lengths
    return rows


def modules() -> dict[str, ModuleType]:
    """Return what to put into sys.modules, so that this stands in for the real segmenter."""
    core = ("prepare", "segmenter", "describe", "state")
    names = (*(f"aaams_stream.core.{name}" for name in core), "aaams_stream.jit")
    return dict.fromkeys(names, sys.modules[__name__])


def take_over(monkeypatch):
    """Stand in for the real segmenter until the test ends."""
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)

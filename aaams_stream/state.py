"""What a segmenter remembers between frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.identity import Lost, Table


@dataclass(frozen=True, slots=True)
class SegmenterState:
    """All the memory a segmenter has: saving it is enough to go on later, bit for bit."""

    index: int  # frames seen
    next_id: int
    level: float  # merge level that holds the wanted number of segments
    unit: float  # turns a sum of weights into a density
    labels: NDArray[np.int32]  # (h, w) rows of the table
    smooth: NDArray[np.float32]  # (3, h, w) L*a*b*, less noisy
    density: NDArray[np.float32]  # (h, w)
    grey: NDArray[np.uint8]  # (h, w)
    table: Table
    lost: Lost
    parents: NDArray[np.uint32] = field(  # (n, 2) id and the one it was split off
        default_factory=lambda: np.zeros((0, 2), np.uint32)
    )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays, ready for np.savez."""
        arrays: dict[str, NDArray[Any]] = {}
        for entry in dataclasses.fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Table | Lost):
                for column in dataclasses.fields(value):
                    arrays[f"{entry.name}.{column.name}"] = getattr(value, column.name)
            else:
                arrays[entry.name] = np.asarray(value)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> SegmenterState:
        """Return the state that `to_arrays` took apart."""

        def record(name: str, kind: type[Any]) -> Any:
            return kind(**{c.name: arrays[f"{name}.{c.name}"] for c in dataclasses.fields(kind)})

        return cls(
            index=int(arrays["index"]),
            next_id=int(arrays["next_id"]),
            level=float(arrays["level"]),
            unit=float(arrays["unit"]),
            labels=arrays["labels"],
            smooth=arrays["smooth"],
            density=arrays["density"],
            grey=arrays["grey"],
            table=record("table", Table),
            lost=record("lost", Lost),
            parents=arrays["parents"],
        )

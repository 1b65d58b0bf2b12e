"""What a segmenter remembers between frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.associate import Lost, Table


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
    grey: NDArray[np.uint8]  # brightness at half the resolution of the frame, whatever (h, w) is
    table: Table
    lost: Lost
    parents: NDArray[np.uint32] = field(  # (n, 2) id and the one it was split off
        default_factory=lambda: np.zeros((0, 2), np.uint32)
    )

    def resized(self, shape: tuple[int, int]) -> SegmenterState:
        """Return the state for frames of another size, `shape` (h, w), of the same scene.

        Every identity lives on: labels are the nearest, places, bandwidths and areas are scaled.
        A segment too thin for the new size is left without a pixel, and may come back.
        """
        h, w = self.labels.shape
        scale = np.array([shape[1] / w, shape[0] / h])
        row = np.minimum((np.arange(shape[0]) + 0.5) / scale[1], h - 1).astype(np.intp)
        column = np.minimum((np.arange(shape[1]) + 0.5) / scale[0], w - 1).astype(np.intp)
        smooth = np.stack([features.scaled(plane, shape) for plane in self.smooth])
        location = self.table.location.copy()
        location[:, 3:] = _moved(location[:, 3:], scale)
        table = dataclasses.replace(
            self.table,
            **_rescaled(self.table, scale),
            location=location,
            precision=_rescaled_precision(self.table.precision, scale),
            moments=_rescaled_moments(self.table.moments, scale),
            peak=self.table.peak * scale.prod(),
            spread=self.table.spread * scale.prod(),
        )
        return dataclasses.replace(
            self,
            labels=self.labels[row[:, None], column],
            smooth=smooth,
            density=features.scaled(self.density, shape),
            table=table,
            lost=dataclasses.replace(self.lost, **_rescaled(self.lost, scale)),
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
        """Return the state that `to_arrays` took apart; ValueError if another version did."""

        def record(name: str, kind: type[Any]) -> Any:
            return kind(**{c.name: arrays[f"{name}.{c.name}"] for c in dataclasses.fields(kind)})

        try:
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
        except KeyError as missing:
            raise ValueError(
                f"the state was saved by another version: it lacks {missing.args[0]}"
            ) from None


def _rescaled(rows: Table | Lost, scale: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """Return area, anchor and motion of segments when x and y are scaled."""
    area = np.maximum(np.rint(rows.area * scale.prod()), 1).astype(np.int64)
    return {"area": area, "anchor": _moved(rows.anchor, scale), "motion": rows.motion * scale}


def _rescaled_precision(
    precision: NDArray[np.float32], scale: NDArray[np.float64]
) -> NDArray[np.float32]:
    precision = precision.copy()
    precision[:, 6:9] /= _products(scale)
    precision[:, 9] /= scale.prod()
    return precision


def _rescaled_moments(
    moments: NDArray[np.float32], scale: NDArray[np.float64]
) -> NDArray[np.float32]:
    moments = moments.copy()
    moments[:, 4:6] = _moved(moments[:, 4:6], scale)
    moments[:, 12:15] *= _products(scale)
    return moments


def _moved(places: NDArray[Any], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where places x, y lie after scaling; a pixel's place is its centre."""
    return np.asarray((places + 0.5) * scale - 0.5)


def _products(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y = scale
    return np.array([x * x, x * y, y * y])

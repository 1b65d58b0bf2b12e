"""What a segmenter remembers between frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features, packed
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels.records import Before


@dataclass(frozen=True, slots=True)
class TrackTable:
    """Identities alive after the last frame; row i is label i."""

    ids: NDArray[np.uint32]  # (k,) unique, ascending, never reused; 0: see `masked`
    first_frame: NDArray[np.int64]  # (k,) of the first appearance
    area: NDArray[np.int64]  # (k,)
    mode: NDArray[np.float32]  # (k, 5) L, a, b, x, y
    precision: NDArray[np.float32]  # (k, 10) as in kernels.records.Clusters
    trajectory: NDArray[np.float32]  # (k, 15) likewise
    density: NDArray[np.float32]  # (k,) at the mode
    colours: NDArray[np.float32]  # (k, 9) mean colour and inverse variance of the pixels, of late
    colour_sse: NDArray[np.float64]  # (k,) squared colour deviation summed over the pixels
    refreshed: NDArray[np.int64]  # (k,) frame in which it was last re-estimated as a whole
    max_area: NDArray[np.float64]  # (k,) of late
    motion: NDArray[np.float64]  # (k, 2) of late, pixels a frame
    predicted_centre: NDArray[np.float64]  # (k, 2) where it is or, while partly hidden, would be

    @property
    def masked(self) -> bool:
        """Whether row 0, of id 0, is what lies outside the region of interest."""
        return len(self.ids) > 0 and bool(self.ids[0] == 0)

    @property
    def count(self) -> int:
        """How many segments there are."""
        return len(self.ids) - self.masked

    def after(
        self,
        before: TrackTable,
        row: NDArray[np.int64],
        moved: NDArray[np.float64],
        index: int,
        tuning: Tuning,
    ) -> TrackTable:
        """Return this table, of frame `index`, with what is remembered of the frame before.

        row (k,): of each track in `before`, or -1; moved: how far those of `before` have moved.
        What is partly hidden is thought to move on as it did: at the edge of what hides it, the
        motion found is half that of the other.
        """
        known = np.flatnonzero(row >= 0)
        row = row[known]
        max_area, motion = self.max_area.copy(), self.motion.copy()
        centre = self.predicted_centre.copy()
        max_area[known] = np.maximum(max_area[known], tuning.area_fade * before.max_area[row])
        whole = self.area[known] >= tuning.whole * max_area[known]
        trust = np.where(whole, tuning.new_motion, 0.0)
        trust[before.first_frame[row] == index - 1] = 1.0
        motion[known] = before.motion[row] + trust[:, None] * (moved[row] - before.motion[row])
        hidden = known[~whole]
        centre[hidden] = before.predicted_centre[row[~whole]] + motion[hidden]
        colours = self.colours.copy()
        memory = np.float32(tuning.colour_memory)
        colours[known] += memory * (before.colours[row] - colours[known])
        return dataclasses.replace(
            self, max_area=max_area, motion=motion, predicted_centre=centre, colours=colours
        )

    def resized(self, scale: NDArray[np.float64]) -> TrackTable:
        """Return the table for pictures whose width and height are multiplied by scale (2,)."""
        mode, precision, trajectory = (
            self.mode.copy(),
            self.precision.copy(),
            self.trajectory.copy(),
        )
        products, growth = packed.scale_products(scale), scale.prod()
        mode[:, packed.PLACE] = packed.scaled_places(mode[:, packed.PLACE], scale)
        precision[:, packed.SPACE_PRECISION] /= products
        precision[:, packed.ROOT_DET] /= growth
        place = trajectory[:, packed.MEAN_PLACE]
        trajectory[:, packed.MEAN_PLACE] = packed.scaled_places(place, scale)
        trajectory[:, packed.SPACE_SCATTER] *= products
        return dataclasses.replace(
            self,
            **_resized_shapes(self, scale),
            mode=mode,
            precision=precision,
            trajectory=trajectory,
            max_area=self.max_area * growth,
            colour_sse=self.colour_sse * growth,
        )


@dataclass(frozen=True, slots=True)
class LostTracks:
    """Identities that may come back after an occlusion."""

    ids: NDArray[np.uint32]  # (k,)
    first_frame: NDArray[np.int64]  # (k,)
    last_seen: NDArray[np.int64]  # (k,) last frame with a pixel
    area: NDArray[np.int64]  # (k,) the largest before they were lost: what vanishes shrinks first
    predicted_centre: NDArray[np.float64]  # (k, 2)
    colours: NDArray[np.float32]  # (k, 9)
    motion: NDArray[np.float64]  # (k, 2)

    @classmethod
    def empty(cls) -> LostTracks:
        """Return an empty memory."""
        return cls(
            np.empty(0, np.uint32),
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.empty((0, 2), np.float64),
            np.empty((0, 9), np.float32),
            np.empty((0, 2), np.float64),
        )

    def where(self, keep: NDArray[Any] | slice) -> LostTracks:
        """Return the rows that `keep` selects."""
        if not isinstance(keep, slice) and keep.dtype == np.bool_ and keep.all():
            return self
        return LostTracks(*(getattr(self, c.name)[keep] for c in dataclasses.fields(self)))

    def with_gone(
        self, table: TrackTable, gone: NDArray[np.int64], index: int, most: int
    ) -> LostTracks:
        """Add the rows `gone` of the table, not seen in frame `index`; the last `most` stay."""
        if not len(gone):
            return self
        joined = LostTracks(
            np.concatenate([self.ids, table.ids[gone]]),
            np.concatenate([self.first_frame, table.first_frame[gone]]),
            np.concatenate([self.last_seen, np.full(len(gone), index - 1)]),
            np.concatenate([self.area, np.rint(table.max_area[gone]).astype(np.int64)]),
            np.concatenate([self.predicted_centre, table.predicted_centre[gone]]),
            np.concatenate([self.colours, table.colours[gone]]),
            np.concatenate([self.motion, table.motion[gone]]),
        )
        return joined.where(slice(max(len(joined.ids) - most, 0), None))

    def resized(self, scale: NDArray[np.float64]) -> LostTracks:
        """Return the tracks for pictures whose width and height are multiplied by scale (2,)."""
        return dataclasses.replace(self, **_resized_shapes(self, scale))


@dataclass(frozen=True, slots=True)
class SegmenterState:
    """All the memory a segmenter has: saving it is enough to go on later, bit for bit."""

    index: int  # frames seen
    next_id: int
    level: float  # merge level that holds the wanted number of segments
    density_scale: float  # turns a sum of weights into a density
    labels: NDArray[np.int32]  # (h, w) rows of the table
    smooth: NDArray[np.float32]  # (3, h, w) L*a*b*, less noisy
    density: NDArray[np.float32]  # (h, w)
    half_luma: NDArray[np.uint8]  # at half the resolution of the frame, whatever (h, w) is
    tracks: TrackTable
    lost: LostTracks
    parents: NDArray[np.uint32] = field(  # (n, 2) id and the one it was split off
        default_factory=lambda: np.zeros((0, 2), np.uint32)
    )
    frame_shape: tuple[int, int] | None = None  # of the last frame, whatever (h, w) is
    first_index: int = 0  # of the scene: its first frame
    first_id: int = 1  # of the scene: the first id given out in it

    @property
    def scene_frame(self) -> int:
        """The number of the next frame within its scene.

        What is done in turns goes by it and by `scene_ids`, so that a scene comes out the same
        wherever it begins.
        """
        return self.index - self.first_index

    @property
    def scene_ids(self) -> NDArray[np.uint32]:
        """The ids of the tracks (k,) as they would be if the scene were the first: from 1."""
        return self.tracks.ids - np.uint32(self.first_id - 1)

    @property
    def masked(self) -> bool:
        """Whether some of the picture lies outside the region of interest."""
        return self.tracks.masked

    @property
    def pixels(self) -> Before:
        """What kernels take of it."""
        return Before(self.labels, self.smooth, self.density)

    def resized(self, shape: tuple[int, int]) -> SegmenterState:
        """Return the state for frames of another size, `shape` (h, w), of the same scene.

        Every identity lives on: labels are the nearest, places, bandwidths and areas are scaled.
        A segment too thin for the new size is left without a pixel, and may come back.
        """
        h, w = self.labels.shape
        scale = np.array([shape[1] / w, shape[0] / h])
        row = np.minimum((np.arange(shape[0]) + 0.5) / scale[1], h - 1).astype(np.intp)
        column = np.minimum((np.arange(shape[1]) + 0.5) / scale[0], w - 1).astype(np.intp)
        return dataclasses.replace(
            self,
            labels=self.labels[row[:, None], column],
            smooth=np.stack([features.resized(plane, shape) for plane in self.smooth]),
            density=features.resized(self.density, shape),
            tracks=self.tracks.resized(scale),
            lost=self.lost.resized(scale),
            # the next frame says for what size it was
            frame_shape=self.frame_shape if shape == (h, w) else None,
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays, ready for np.savez."""
        arrays: dict[str, NDArray[Any]] = {}
        for entry in dataclasses.fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, TrackTable | LostTracks):
                for column in dataclasses.fields(value):
                    arrays[f"{entry.name}.{column.name}"] = getattr(value, column.name)
            elif value is not None:
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
                density_scale=float(arrays["density_scale"]),
                labels=arrays["labels"],
                smooth=arrays["smooth"],
                density=arrays["density"],
                half_luma=arrays["half_luma"],
                tracks=record("tracks", TrackTable),
                lost=record("lost", LostTracks),
                parents=arrays["parents"],
                frame_shape=_shape(arrays.get("frame_shape")),
                first_index=int(arrays["first_index"]),
                first_id=int(arrays["first_id"]),
            )
        except KeyError as missing:
            raise ValueError(
                f"the state was saved by another version: it lacks {missing.args[0]}"
            ) from None


def _shape(sides: NDArray[Any] | None) -> tuple[int, int] | None:
    return None if sides is None else (int(sides[0]), int(sides[1]))


def _resized_shapes(
    rows: TrackTable | LostTracks, scale: NDArray[np.float64]
) -> dict[str, NDArray[Any]]:
    """Return area, centre and motion of tracks when x and y are scaled."""
    return {
        "area": np.maximum(np.rint(rows.area * scale.prod()), 1).astype(np.int64),
        "predicted_centre": packed.scaled_places(rows.predicted_centre, scale),
        "motion": rows.motion * scale,
    }

"""How close a volume of ids is to the truth of a video, and how long its ids last.

A supervoxel is all pixels of one id; a truth segment all pixels of one truth label. Both are names
only, but for the truth label 0, which is background. |x| is a number of pixels over the whole clip.

    ue3d      undersegmentation error: mean over truth segments g of (Σ|s| − |g|)/|g|, s over the
              supervoxels that touch g; from 0, less is better
    sa3d      segmentation accuracy: share of g covered by supervoxels that lie at least half in g,
              mean over g; 0 to 1
    j_oracle  IoU of the objects when every supervoxel takes the truth label most of its pixels
              have; mean over frames; 0 to 1
    j_prop    the same when only frame 0's truth names the supervoxels and ids carry the names on;
              mean over frames 1…
    br, bp    share of the truth's boundary pixels with one of ours nearby, and of ours with one of
              the truth's; mean over the frames whose truth has a boundary
    contour   share of pixels that lie on a boundary of ours
    ev        share of the variance of colour explained by one mean per supervoxel
    life      mean number of frames an id is seen in; life_vol: weighted by volume
    per_frame mean number of ids in a frame; n_sv: ids in the clip

Objects are the truth labels above 0: one in a mask of object and background. Where there are
several, a frame's IoU is the mean over those present in the truth of that frame (for j_prop: those
that frame 0 has too), and frames without any are left out. A tie goes to the lower label; a
supervoxel without a name takes part in no object.

Pixels with an ignored truth label count for nothing that needs the truth; boundaries of the truth
towards them are none. They do count for contour, ev, life and the numbers of ids.

3-D scores rise by themselves when ids fragment: read them together with life and n_sv, and compare
at equal per_frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.core.pairs import find_pairs
from aaams_stream.kernels.metrics import count_near, count_pairs, mark_boundaries

_EXPECTED = 2000  # pairs of a supervoxel and a truth label in a frame
_MOST = 2**32 - 1

_Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ClipScores:
    """All measures of one clip; None where there was nothing to measure."""

    ue3d: float | None
    sa3d: float | None
    j_oracle: float | None
    j_prop: float | None
    br: float | None
    bp: float | None
    contour: float
    ev: float | None
    life: float
    life_vol: float
    per_frame: float
    n_sv: int
    frames: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """The pairs of id and truth label of one frame, or of many."""

    frame: _Counts  # (n,)
    id: _Counts  # (n,)
    label: _Counts  # (n,)
    pixels: _Counts  # (n,)
    colour: _Counts  # (n, 3) sums


class VideoScores:
    """Takes a clip frame by frame and scores it.

    ignore: truth labels that are no truth. Keeps a few numbers per segment and frame, no pixels.
    """

    def __init__(self, ignore: int | Sequence[int] | None = None) -> None:
        labels = () if ignore is None else (ignore,) if isinstance(ignore, int) else ignore
        self._ignore = np.array(sorted(set(labels)), dtype=np.int64)
        self._shape: tuple[int, ...] | None = None
        self._rows: list[_Rows] = []
        self._recalls: list[float] = []
        self._precisions: list[float] = []
        self._contours: list[float] = []
        self._squares = 0  # of all colour values
        self._coloured = 0  # frames that came with their picture

    def add(self, ids: ArrayLike, truth: ArrayLike, rgb: ArrayLike | None = None) -> None:
        """Take the next frame: ids and truth (h, w) integers, rgb (h, w, 3) uint8 for `ev`."""
        frame = len(self._rows)
        ours = _as_names(ids, f"ids of frame {frame}", self._shape)
        theirs = _as_names(truth, f"truth of frame {frame}", ours.shape)
        picture = np.empty((0, 0, 3), dtype=np.uint8)
        if rgb is not None:
            picture = np.ascontiguousarray(rgb)
            if picture.dtype != np.uint8 or picture.shape != (*ours.shape, 3):
                raise ValueError(
                    f"rgb of frame {frame} must be uint8 of shape {(*ours.shape, 3)}, "
                    f"got {picture.dtype} {picture.shape}"
                )
            flat = picture.ravel()
            self._squares += int(np.bincount(flat, minlength=256) @ np.arange(256) ** 2)
            self._coloured += 1
        self._shape = ours.shape
        self._rows.append(self._pairs(frame, ours, theirs, picture))
        self._compare_boundaries(ours, theirs)

    def result(self) -> ClipScores:
        """Return the scores of the frames so far; more may be added later."""
        if not self._rows:
            raise ValueError("no frames were added, so there is nothing to score")
        frames = len(self._rows)
        rows = _joined(self._rows)
        names, owner = np.unique(rows.id, return_inverse=True)
        volumes = _sums(owner, rows.pixels, len(names))
        lives = np.bincount(np.unique(rows.frame * len(names) + owner) % len(names))

        judged = ~np.isin(rows.label, self._ignore)
        labels, label = np.unique(rows.label[judged], return_inverse=True)
        table = _Table(
            rows.frame[judged], owner[judged], label, rows.pixels[judged], labels, len(names)
        )
        return ClipScores(
            ue3d=table.undersegmentation(),
            sa3d=table.accuracy(),
            j_oracle=table.oracle(frames),
            j_prop=table.propagation(frames),
            br=_mean(self._recalls),
            bp=_mean(self._precisions),
            contour=float(np.mean(self._contours)),
            ev=self._explained(rows, owner, volumes) if self._coloured == frames else None,
            life=float(lives.mean()),
            life_vol=float(lives @ volumes / volumes.sum()),
            per_frame=float(lives.sum() / frames),
            n_sv=len(names),
            frames=frames,
        )

    def _pairs(
        self,
        frame: int,
        ids: NDArray[np.uint32],
        truth: NDArray[np.uint32],
        rgb: NDArray[np.uint8],
    ) -> _Rows:
        found = find_pairs(count_pairs, ids, truth, rgb, expected=_EXPECTED, kind=np.uint32, sums=4)
        order = np.lexsort((found.second, found.first))
        sums = found.sums[order].astype(np.int64)
        return _Rows(
            frame=np.full(len(order), frame, dtype=np.int64),
            id=found.first[order].astype(np.int64),
            label=found.second[order].astype(np.int64),
            pixels=sums[:, 0],
            colour=sums[:, 1:],
        )

    def _compare_boundaries(self, ids: NDArray[np.uint32], truth: NDArray[np.uint32]) -> None:
        judged = np.ones(ids.shape, dtype=np.uint8)
        ours, theirs = np.empty_like(judged), np.empty_like(judged)
        mark_boundaries(ids, judged, ours)
        self._contours.append(float(ours.mean()))
        if len(self._ignore):
            judged = (~np.isin(truth, self._ignore)).astype(np.uint8)
            ours &= judged
        mark_boundaries(truth, judged, theirs)
        drawn, true = np.count_nonzero(ours), np.count_nonzero(theirs)
        if true:
            reach = boundary_reach(ids.shape)
            self._recalls.append(count_near(theirs, ours, reach) / true)
            if drawn:
                self._precisions.append(count_near(ours, theirs, reach) / drawn)

    def _explained(self, rows: _Rows, owner: _Counts, volumes: _Counts) -> float:
        # Sums of whole numbers, exact; the differences of large squares are taken in float64.
        sums = np.stack([_sums(owner, rows.colour[:, c], len(volumes)) for c in range(3)], axis=1)
        mean = sums.sum(axis=0) / volumes.sum()
        total = self._squares - float(mean @ mean) * float(volumes.sum())
        between = float((((sums / volumes[:, None] - mean) ** 2).sum(axis=1) * volumes).sum())
        return between / total if total > 0.5 else 1.0  # one colour: nothing to explain


def score_video(
    ids: Iterable[ArrayLike],
    truth: Iterable[ArrayLike],
    rgb: Iterable[ArrayLike] | None = None,
    *,
    ignore: int | Sequence[int] | None = None,
) -> ClipScores:
    """Score a clip given as arrays (t, h, w), or as anything that yields its frames."""
    scores = VideoScores(ignore)
    if rgb is None:
        for ours, theirs in zip(ids, truth, strict=True):
            scores.add(ours, theirs)
    else:
        for ours, theirs, picture in zip(ids, truth, rgb, strict=True):
            scores.add(ours, theirs, picture)
    return scores.result()


def boundary_reach(shape: tuple[int, ...]) -> int:
    """Return how far apart in pixels boundaries may lie to count as the same."""
    return max(2, round(0.004 * float(np.hypot(shape[0], shape[1]))))


class _Table:
    """Pixels by frame, supervoxel and truth label; ignored ones left out."""

    def __init__(
        self,
        frame: _Counts,
        owner: _Counts,
        label: _Counts,
        pixels: _Counts,
        labels: _Counts,
        owners: int,
    ) -> None:
        self.frame, self.owner, self.label, self.pixels = frame, owner, label, pixels
        self.labels = labels  # (k,) what a label of the truth is called
        self.owners = owners
        # The same over all frames: one row per pair of supervoxel and label that meet.
        cells, cell = np.unique(owner * max(len(labels), 1) + label, return_inverse=True)
        self.pair_owner, self.pair_label = np.divmod(cells, max(len(labels), 1))
        self.pair_pixels = _sums(cell, pixels, len(cells))
        self.sizes = _sums(owner, pixels, owners)
        self.truth_sizes = _sums(label, pixels, len(labels))

    def undersegmentation(self) -> float | None:
        if not len(self.labels):
            return None
        touching = _sums(self.pair_label, self.sizes[self.pair_owner], len(self.labels))
        return float(((touching - self.truth_sizes) / self.truth_sizes).mean())

    def accuracy(self) -> float | None:
        if not len(self.labels):
            return None
        mostly = 2 * self.pair_pixels >= self.sizes[self.pair_owner]
        covered = _sums(self.pair_label[mostly], self.pair_pixels[mostly], len(self.labels))
        return float((covered / self.truth_sizes).mean())

    def oracle(self, frames: int) -> float | None:
        painted = _majority(self.pair_owner, self.pair_label, self.pair_pixels, self.owners)
        return _mean(self._overlaps(painted, self.labels > 0, frames))

    def propagation(self, frames: int) -> float | None:
        first = self.frame == 0
        there = np.zeros(len(self.labels), dtype=bool)
        there[self.label[first]] = True
        painted = _majority(self.owner[first], self.label[first], self.pixels[first], self.owners)
        return _mean(self._overlaps(painted, (self.labels > 0) & there, frames)[1:])

    def _overlaps(
        self, painted: _Counts, objects: NDArray[np.bool_], frames: int
    ) -> NDArray[np.float64]:
        """Return each frame's IoU, mean over the objects there; NaN where there are none."""
        count = len(self.labels)
        paint = painted[self.owner]
        named = paint >= 0
        cell = self.frame * count
        true = _sums(cell + self.label, self.pixels, frames * count)
        drawn = _sums((cell + paint)[named], self.pixels[named], frames * count)
        same = paint == self.label
        both = _sums((cell + self.label)[same], self.pixels[same], frames * count)
        overlap = (both / np.maximum(true + drawn - both, 1)).reshape(frames, count)
        present = (true.reshape(frames, count) > 0) & objects
        found = present.sum(axis=1)
        total = np.where(present, overlap, 0.0).sum(axis=1)
        return np.where(found > 0, total / np.maximum(found, 1), np.nan)


def _majority(owner: _Counts, label: _Counts, pixels: _Counts, owners: int) -> _Counts:
    """Return each owner's most frequent label, or -1 where it has none."""
    order = np.lexsort((label, -pixels, owner))
    chosen = np.full(owners, -1, dtype=np.int64)
    firsts, where = np.unique(owner[order], return_index=True)
    chosen[firsts] = label[order][where]
    return chosen


def _joined(parts: Sequence[_Rows]) -> _Rows:
    return _Rows(
        frame=np.concatenate([part.frame for part in parts]),
        id=np.concatenate([part.id for part in parts]),
        label=np.concatenate([part.label for part in parts]),
        pixels=np.concatenate([part.pixels for part in parts]),
        colour=np.concatenate([part.colour for part in parts]),
    )


def _sums(index: _Counts, values: _Counts, length: int) -> _Counts:
    """Return the sum of the values at each index: whole numbers, exact below 2^53."""
    return np.bincount(index, weights=values, minlength=length).astype(np.int64)


def _mean(values: ArrayLike) -> float | None:
    array = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    return float(array.mean()) if len(array) else None


def _as_names(values: ArrayLike, what: str, shape: tuple[int, ...] | None) -> NDArray[np.uint32]:
    """Check labels (h, w) and return them as uint32."""
    array: NDArray[Any] = np.asarray(values)
    if array.dtype.kind not in "iub":
        raise ValueError(f"{what} must hold integers, got {array.dtype}")
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{what} must have shape (h, w), got {array.shape}")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{what} must have shape {shape}, got {array.shape}")
    if array.dtype != np.uint32 and not (int(array.min()) >= 0 and int(array.max()) <= _MOST):
        raise ValueError(f"{what} must lie in 0 to {_MOST}, got {array.min()} to {array.max()}")
    return np.ascontiguousarray(array, dtype=np.uint32)

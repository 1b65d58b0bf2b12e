"""What a user might take instead of ours for supervoxels: every way takes frames and yields ids.

Two kinds of identity. *Matched*: each frame is segmented on its own, and a segment inherits the id
of the earlier one it overlaps most once motion is undone. *Carried*: a SLIC grid whose centres move
with the flow. The two offline ways see the whole clip at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.params import Params

Picture = NDArray[np.uint8]
Labels = NDArray[Any]
Frames = Sequence[Picture]

LEAST_OVERLAP = 0.3  # IoU from which on a segment is the earlier one
SEEDS_ITERATIONS = 10
SEEDS_LEVELS = (4, 3, 5)  # its grid of whole blocks can miss the number by half
SLIC_ITERATIONS = 10
SLIC_RULER = 10.0  # how much a grid step counts, in L*a*b* units
CARRIED_REFINEMENTS = 3


@dataclass(frozen=True, slots=True)
class Method:
    """One way to segment a clip, at one wanted number of segments a frame."""

    name: str
    segments: int | None  # None: its own default
    run: Callable[[Frames], Iterator[Labels]]
    offline: bool = False

    @property
    def title(self) -> str:
        """The name with the number."""
        return f"{self.name}, {self.segments or 'default'}"


def ours(params: Params, segments: int | None) -> Method:
    """Return our segmenter."""

    def run(frames: Frames) -> Iterator[Labels]:
        from aaams_stream import Segmenter

        segmenter = Segmenter(params, segments=segments)
        for frame in frames:
            yield segmenter.step(frame).ids

    return Method("AAAMS", segments, run)


def at_hand(params: Params, segments: int, *, offline: bool = False) -> list[Method]:
    """Return the peers that can run here."""
    import cv2

    cv2.setNumThreads(1)

    def cold(frame: Picture) -> Labels:
        from aaams_stream import Segmenter

        return Segmenter(params, segments=segments).step(frame).ids

    found = [
        Method("AAAMS cold, matched", segments, _matched(lambda: cold)),
        Method("SLIC grid, carried", segments, lambda frames: carried_grid(frames, segments)),
    ]
    if hasattr(cv2, "ximgproc"):
        found += [
            Method("SEEDS, matched", segments, _matched(lambda: Seeds(segments))),
            Method("SLIC, matched", segments, _matched(lambda: lambda f: slic(f, segments))),
            Method("GraphSegmentation, matched", segments, _matched(lambda: Graph(segments))),
        ]
    if offline:
        found += [
            Method("skimage SLIC 3-D", segments, lambda f: slic_volume(f, segments), True),
            Method("skimage watershed 3-D", segments, lambda f: watershed(f, segments), True),
        ]
    return found


class Seeds:
    """OpenCV's SEEDS; its levels are set once, on the first frame, to fit the number best."""

    def __init__(self, segments: int) -> None:
        self.segments = segments
        self._levels: int | None = None

    def __call__(self, frame: Picture) -> Labels:
        """Segment one frame."""
        import cv2

        if self._levels is None:
            self._levels = min(
                SEEDS_LEVELS,
                key=lambda levels: abs(
                    self._grid(frame, levels).getNumberOfSuperpixels() - self.segments
                ),
            )
        found = self._grid(frame, self._levels)
        found.iterate(cv2.cvtColor(frame, cv2.COLOR_RGB2LAB), SEEDS_ITERATIONS)
        return np.asarray(found.getLabels())

    def _grid(self, frame: Picture, levels: int) -> Any:
        height, width = frame.shape[:2]
        return _ximgproc().createSuperpixelSEEDS(width, height, 3, self.segments, levels)


def _ximgproc() -> Any:
    """Return the part of OpenCV that only the contrib wheel has, as its types."""
    import cv2

    contrib: Any = cv2
    return contrib.ximgproc


def slic(frame: Picture, segments: int) -> Labels:
    """Return OpenCV's SLIC superpixels, connected."""
    import cv2

    lab = cv2.cvtColor(frame, cv2.COLOR_RGB2LAB)
    side = _side(frame, segments)
    found = _ximgproc().createSuperpixelSLIC(lab, _ximgproc().SLIC, round(side), SLIC_RULER)
    found.iterate(SLIC_ITERATIONS)
    found.enforceLabelConnectivity(25)
    return np.asarray(found.getLabels())


class Graph:
    """OpenCV's GraphSegmentation; its scale is set once, on the first frame, to fit the number."""

    def __init__(self, segments: int) -> None:
        self.segments = segments
        self._scale: float | None = None

    def __call__(self, frame: Picture) -> Labels:
        """Segment one frame."""
        if self._scale is None:
            low, high = 1.0, 1e5
            for _ in range(10):
                self._scale = float(np.sqrt(low * high))
                if self._segment(frame, self._scale).max() + 1 > self.segments:
                    low = self._scale
                else:
                    high = self._scale
            self._scale = high
        return self._segment(frame, self._scale)

    def _segment(self, frame: Picture, scale: float) -> Labels:
        least = max(10, frame.shape[0] * frame.shape[1] // self.segments // 16)
        graph = _ximgproc().segmentation.createGraphSegmentation(0.5, scale, least)
        return np.asarray(graph.processImage(np.ascontiguousarray(frame[..., ::-1])))


def _matched(
    begin: Callable[[], Callable[[Picture], Labels]],
) -> Callable[[Frames], Iterator[Labels]]:
    """Return a way through a clip: segment each frame, then hand the ids on."""

    def run(frames: Frames) -> Iterator[Labels]:
        segment, matcher = begin(), Matcher()
        for frame in frames:
            yield matcher.step(frame, segment(frame))

    return run


class Matcher:
    """Gives the segments of each frame the ids of those they overlap in the frame before.

    The ids of the frame before are brought along by the flow; pairs are taken in order of their
    IoU, each segment and each id once, and what finds no partner gets a new id.
    """

    def __init__(self) -> None:
        self._next = 1
        self._names = np.empty(0, dtype=np.int64)  # (k,) id of each label of the frame before
        self._labels: NDArray[np.int64] | None = None
        self._luma: Picture | None = None

    def step(self, frame: Picture, labels: Labels) -> NDArray[np.int64]:
        """Return the ids (h, w) of the next frame's labels, which are small numbers from 0."""
        from aaams_stream.core.features import half_luma
        from aaams_stream.core.flow import backward_flow

        luma, labels = half_luma(frame), labels.astype(np.int64)
        names = np.zeros(int(labels.max()) + 1, dtype=np.int64)
        if self._labels is not None and self._luma is not None:
            warped = _warped(self._labels, backward_flow(luma, self._luma, labels.shape))
            for label, earlier in _partners(labels, warped, len(self._names)):
                names[label] = self._names[earlier]
        new = np.flatnonzero((names == 0) & (np.bincount(labels.reshape(-1)) > 0))
        names[new] = np.arange(self._next, self._next + len(new))
        self._next += len(new)
        self._names, self._labels, self._luma = names, labels, luma
        return names[labels]


def _warped(labels: NDArray[np.int64], flow: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the label each pixel had where it came from; -1 if that was outside."""
    height, width = labels.shape
    x = np.rint(flow[..., 0] + np.arange(width, dtype=np.float32)).astype(np.int64)
    y = np.rint(flow[..., 1] + np.arange(height, dtype=np.float32)[:, None]).astype(np.int64)
    inside = (x >= 0) & (y >= 0) & (x < width) & (y < height)
    found: NDArray[np.int64] = np.where(
        inside, labels[np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)], -1
    )
    return found


def _partners(
    labels: NDArray[np.int64], warped: NDArray[np.int64], earlier: int
) -> list[tuple[int, int]]:
    """Return pairs of label and earlier label, best overlap first, each of them once."""
    columns = earlier + 1  # the first for pixels that come from outside
    table = np.bincount((labels * columns + warped + 1).reshape(-1))
    cells = np.flatnonzero(table)
    label, column = np.divmod(cells, columns)
    both = table[cells]
    areas, old_areas = np.bincount(labels.reshape(-1)), np.bincount(warped.reshape(-1) + 1)
    overlap = both / (areas[label] + old_areas[column] - both)
    overlap[column == 0] = 0
    pairs, labels_used, columns_used = [], set(), set()
    for index in np.argsort(-overlap, kind="stable"):
        if overlap[index] < LEAST_OVERLAP:
            break
        if label[index] not in labels_used and column[index] not in columns_used:
            labels_used.add(label[index])
            columns_used.add(column[index])
            pairs.append((int(label[index]), int(column[index]) - 1))
    return pairs


def carried_grid(frames: Frames, segments: int) -> Iterator[NDArray[np.int64]]:
    """Yield a SLIC grid carried by the flow; its segments need not be connected.

    Centres move by the mean flow of their pixels and are refined a few times. A centre that has
    lost nearly all its pixels dies; a hole as large as a grid cell gives birth to one.
    """
    grid = _Grid(_side(frames[0], segments))
    for frame in frames:
        yield grid.step(frame)


class _Grid:
    """The centres (k, 5) of a SLIC grid, as L, a, b, y, x, and their ids."""

    def __init__(self, side: float) -> None:
        self._side = side
        self._centres = np.empty((0, 5))
        self._ids = np.empty(0, dtype=np.int64)
        self._next = 1
        self._labels: NDArray[np.int64] | None = None
        self._luma: Picture | None = None

    def step(self, frame: Picture) -> NDArray[np.int64]:
        import cv2

        from aaams_stream.core.features import half_luma
        from aaams_stream.core.flow import backward_flow

        luma = half_luma(frame)
        scaled = frame.astype(np.float32) / np.float32(255)
        lab = np.asarray(cv2.cvtColor(scaled, cv2.COLOR_RGB2LAB), dtype=np.float32)
        if self._labels is None or self._luma is None:
            self._labels = np.full(frame.shape[:2], -1, dtype=np.int64)
            rounds = SLIC_ITERATIONS
        else:
            self._move(backward_flow(self._luma, luma, frame.shape[:2]))
            self._assign(lab)
            self._bury()
            rounds = CARRIED_REFINEMENTS
        self._found(lab)
        for _ in range(rounds):
            self._assign(lab)
            self._refine(lab)
        self._luma = luma
        return self._ids[self._filled()]

    def _move(self, flow: NDArray[np.float32]) -> None:
        """Move the centres by the mean flow, from the frame before to this one, of their pixels."""
        assert self._labels is not None
        known = self._labels >= 0
        owner, count = self._labels[known], len(self._ids)
        sizes = np.maximum(np.bincount(owner, minlength=count), 1)
        self._centres[:, 3] += np.bincount(owner, flow[..., 1][known], count) / sizes
        self._centres[:, 4] += np.bincount(owner, flow[..., 0][known], count) / sizes

    def _assign(self, lab: NDArray[np.float32]) -> None:
        assert self._labels is not None
        _assigner()(lab, self._centres, self._side, (SLIC_RULER / self._side) ** 2, self._labels)

    def _refine(self, lab: NDArray[np.float32]) -> None:
        """Move each centre to the mean of its pixels."""
        assert self._labels is not None
        known = self._labels >= 0
        owner, count = self._labels[known], len(self._ids)
        sizes = np.bincount(owner, minlength=count)
        y, x = np.nonzero(known)
        planes: list[NDArray[Any]] = [*(lab[..., c][known] for c in range(3)), y, x]
        for column, plane in enumerate(planes):
            sums = np.bincount(owner, plane, count)
            self._centres[sizes > 0, column] = sums[sizes > 0] / sizes[sizes > 0]

    def _bury(self) -> None:
        """Drop the centres that have next to no pixels left."""
        assert self._labels is not None
        sizes = np.bincount(self._labels[self._labels >= 0], minlength=len(self._ids))
        kept = sizes >= self._side**2 / 16
        renamed = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
        self._centres, self._ids = self._centres[kept], self._ids[kept]
        self._labels = renamed[self._labels]

    def _found(self, lab: NDArray[np.float32]) -> None:
        """Put a new centre into each cell of the grid that is mostly a hole."""
        assert self._labels is not None
        height, width = self._labels.shape
        rows, columns = (max(1, round(length / self._side)) for length in (height, width))
        y = (np.arange(height) * rows // height)[:, None]
        x = (np.arange(width) * columns // width)[None, :]
        cell = (y * columns + x).reshape(-1)
        holes = np.bincount(cell, self._labels.reshape(-1) < 0, rows * columns)
        empty = np.flatnonzero(2 * holes > np.bincount(cell))
        middle_y = ((empty // columns + 0.5) * height / rows).astype(np.int64)
        middle_x = ((empty % columns + 0.5) * width / columns).astype(np.int64)
        new = np.column_stack([lab[middle_y, middle_x], middle_y, middle_x])
        self._centres = np.ascontiguousarray(np.concatenate([self._centres, new]))
        self._ids = np.append(self._ids, np.arange(self._next, self._next + len(new)))
        self._next += len(new)

    def _filled(self) -> NDArray[np.int64]:
        """Return the labels with what no centre reached given to the nearest label."""
        import cv2

        assert self._labels is not None
        holes = (self._labels < 0).astype(np.uint8)
        if not holes.any():
            return self._labels
        _, nearest = cv2.distanceTransformWithLabels(
            holes, cv2.DIST_L2, 3, labelType=cv2.DIST_LABEL_PIXEL
        )
        owner = np.zeros(int(nearest.max()) + 1, dtype=np.int64)
        owner[nearest[holes == 0]] = self._labels[holes == 0]
        filled: NDArray[np.int64] = owner[nearest]
        return filled


def _assign_pixels(lab: Any, centres: Any, side: float, weight: float, out: Any) -> None:
    """Write the closest centre within one and a half grid steps of each pixel, or -1."""
    height, width = out.shape
    best = np.full((height, width), np.inf)
    reach = 1.5 * side
    out[:] = -1
    for k in range(centres.shape[0]):
        light, green, blue, row, column = centres[k]
        for y in range(max(0, int(row - reach)), min(height, int(row + reach) + 1)):
            for x in range(max(0, int(column - reach)), min(width, int(column + reach) + 1)):
                distance = weight * ((y - row) ** 2 + (x - column) ** 2)
                distance += (lab[y, x, 0] - light) ** 2
                distance += (lab[y, x, 1] - green) ** 2
                distance += (lab[y, x, 2] - blue) ** 2
                if distance < best[y, x]:
                    best[y, x] = distance
                    out[y, x] = k


_compiled: list[Any] = []


def _assigner() -> Any:
    """Return the compiled `_assign_pixels`."""
    if not _compiled:
        import numba

        _compiled.append(numba.njit(_assign_pixels, cache=True))
    return _compiled[0]


def slic_volume(frames: Frames, segments: int) -> Iterator[Labels]:
    """Yield scikit-image's SLIC over the whole clip, with as many cells as keep them cubes."""
    import skimage.segmentation

    ways: Any = skimage.segmentation
    count = _supervoxels(frames, segments)
    yield from ways.slic(
        np.stack(frames), n_segments=count, compactness=SLIC_RULER, channel_axis=-1, start_label=1
    )


def watershed(frames: Frames, segments: int) -> Iterator[Labels]:
    """Yield scikit-image's watershed over the whole clip, on the slope of brightness."""
    import cv2
    import skimage.filters
    import skimage.segmentation

    filters: Any = skimage.filters
    ways: Any = skimage.segmentation
    grey = [cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) for frame in frames]
    slope = filters.sobel(np.stack(grey).astype(np.float32))
    yield from ways.watershed(slope, markers=_supervoxels(frames, segments))


def _side(frame: Picture, segments: int) -> float:
    """Return the side of a grid cell in pixels."""
    return max(4.0, float(np.sqrt(frame.shape[0] * frame.shape[1] / segments)))


def _supervoxels(frames: Frames, segments: int) -> int:
    """Return how many cubes fill the clip when a frame cuts through so many."""
    return round(segments * max(1.0, len(frames) / _side(frames[0], segments)))

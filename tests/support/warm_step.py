"""The first part of a warm step, slow and obvious: pixel by pixel, in float64, from the texts.

Each function answers for one stage what its docstring in `aaams_stream.core` promises. Where a
decision hangs by a hair, float32 may decide otherwise: such pixels are told apart as unsure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.features import Picture
from aaams_stream.core.flow import trace_pixels
from aaams_stream.core.prepare import Prepared
from aaams_stream.core.state import LostTracks, SegmenterState, TrackTable
from aaams_stream.core.tuning import Tuning
from aaams_stream.params import Params

Array = NDArray[np.float64]
Labels = NDArray[np.int32]
Mask = NDArray[np.bool_]

UNLABELLED, REFRESH = -1, -3
HAIR = 1e-4  # relative: below it a comparison is unsure
VOTE_HAIR = 0.02  # votes: their Gaussian is a polynomial, off by 2e-4 at most, of up to 24 voters
REACH = 2  # pixels around a boundary pixel that vote
LEAST_WEIGHT = 1e-3  # of all pixels in a window: with less, a step is mostly rounding
CUTOFF = 2.0  # windows end at so many σ in space
COLOUR, SPACE = slice(0, 3), slice(3, 5)
UPPER3, UPPER2 = np.triu_indices(3), np.triu_indices(2)


# A drawn scene ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """A state, the frame after it and the flow between them."""

    recipe: tuple[int, tuple[int, int], int, float]  # what it was drawn from
    state: SegmenterState = field(repr=False)
    picture: Picture = field(repr=False)
    flow: NDArray[np.float32] = field(repr=False)
    params: Params
    tuning: Tuning

    @property
    def prepared(self) -> Prepared:
        """The frame, ready to be labelled once."""
        rgb = np.zeros((*self.picture.shape, 3), np.uint8)
        smooth = self.state.smooth
        before = Picture(smooth, smooth, smooth[0], _LUMA)
        motion = trace_pixels(self.flow.copy(), smooth, self.picture.smooth)
        return Prepared(rgb, None, rgb, self.picture, self.params, self.tuning, before, motion, {})


def draw_scene(
    seed: int, shape: tuple[int, int], count: int, change: float, params: Params, tuning: Tuning
) -> Scene:
    """Draw a frame of `count` segments that move; a share `change` of the pixels is new."""
    rng = np.random.default_rng(seed)
    h, w = shape
    labels = _patches(rng, shape, count)
    palette = rng.normal([60, 0, 0], rng.choice([1.0, 4.0, 15.0]), (count, 3))
    before = palette[labels] + rng.normal(0, 0.8, (h, w, 3))
    flow = _flow(rng, labels, count)
    now = palette[_patches(rng, shape, count)] + rng.normal(0, 0.8, (h, w, 3))
    y, x = np.indices(shape)
    v = np.clip(np.rint(y + flow[..., 1]), 0, h - 1).astype(int)
    u = np.clip(np.rint(x + flow[..., 0]), 0, w - 1).astype(int)
    stays = rng.random(shape) >= change
    now[stays] = (before[v, u] + rng.normal(0, 0.6, (h, w, 3)))[stays]
    now[rng.random(shape) < change / 2] += rng.normal(0, 12, 3)
    return Scene(
        (seed, shape, count, change),
        _state(rng, labels, before, count, params),
        _picture(rng, now),
        flow,
        params,
        tuning,
    )


_LUMA = np.zeros((1, 1), np.uint8)


def _patches(rng: np.random.Generator, shape: tuple[int, int], count: int) -> Labels:
    """Return the nearest of `count` random places of each pixel; every label has a pixel."""
    h, w = shape
    places = rng.permutation(h * w)[:count]
    y, x = np.indices(shape)
    far = (y[..., None] - places // w) ** 2 + (x[..., None] - places % w) ** 2
    return far.argmin(axis=2).astype(np.int32)


def _flow(rng: np.random.Generator, labels: Labels, count: int) -> NDArray[np.float32]:
    """Return a flow (h, w, 2) in sixteenths of a pixel; no pixel comes from between two."""
    steps = rng.integers(-40, 41, (count, 2)) if rng.random() < 0.7 else np.zeros((count, 2), int)
    flow = steps[labels] + rng.integers(-3, 4, (*labels.shape, 2))
    flow[flow % 16 == 8] += 1
    return (flow / 16).astype(np.float32)


def _picture(rng: np.random.Generator, lab: Array) -> Picture:
    h, w, _ = lab.shape
    planes = np.full((3, h, -(-w // features.LANES) * features.LANES), features.FAR)
    smooth = np.ascontiguousarray(lab.transpose(2, 0, 1), np.float32)
    planes[:, :, :w] = smooth + rng.normal(0, 0.5, smooth.shape)
    return Picture(planes, smooth, np.ones((h, w), np.float32), np.zeros((1, 1), np.uint8))


def _state(
    rng: np.random.Generator, labels: Labels, lab: Array, count: int, params: Params
) -> SegmenterState:
    area = np.bincount(labels.reshape(-1), minlength=count)
    points = points_of(lab)
    mode = np.stack([points[labels.reshape(-1) == row].mean(axis=0) for row in range(count)])
    mode += rng.normal(0, 0.5, mode.shape)
    index = int(rng.integers(1, 50))
    scatter = np.zeros((count, 5, 5))
    bandwidth = np.zeros((count, 5, 5))
    for part, domain in ((COLOUR, params.colour), (SPACE, params.space)):
        size = part.stop - part.start
        for out in (scatter, bandwidth):
            root = rng.normal(0, np.sqrt(domain.sigma2) / 2, (count, size, size))
            out[:, part, part] = root @ root.transpose(0, 2, 1)
        bandwidth[:, part, part] += 0.25 * domain.sigma2 * np.eye(size)
    weight = rng.uniform(0.5, 20, count)
    trajectory = [weight[:, None], mode + rng.normal(0, 0.5, mode.shape)]
    trajectory += [pack(weight[:, None, None] * scatter)]
    variance = np.stack([root @ root.T for root in rng.normal(0, 2, (count, 3, 3))]) + np.eye(3)
    inverse = np.linalg.inv(variance)[:, UPPER3[0], UPPER3[1]]
    table = TrackTable(
        ids=np.sort(rng.permutation(60)[:count] + 1).astype(np.uint32),
        first_frame=np.zeros(count, np.int64),
        area=area.astype(np.int64),
        mode=mode.astype(np.float32),
        precision=pack_precision(bandwidth).astype(np.float32),
        trajectory=np.hstack(trajectory).astype(np.float32),
        density=rng.uniform(0.1, 1, count).astype(np.float32),
        colours=np.hstack([mode[:, COLOUR], inverse]).astype(np.float32),
        colour_sse=rng.uniform(1, 100, count),
        refreshed=rng.integers(0, index + 1, count),
        max_area=area.astype(np.float64),
        motion=np.zeros((count, 2)),
        predicted_centre=mode[:, SPACE].copy(),
    )
    return SegmenterState(
        index=index,
        next_id=100,
        level=float(rng.choice([0.05, 0.4])),
        density_scale=float(rng.uniform(0.02, 0.1)),
        labels=labels,
        smooth=np.ascontiguousarray(lab.transpose(2, 0, 1), np.float32),
        density=rng.uniform(0.05, 1, labels.shape).astype(np.float32),
        half_luma=_LUMA,
        tracks=table,
        lost=LostTracks.empty(),
    )


# Packed rows as matrices --------------------------------------------------------------------------


def points_of(lab: Array) -> Array:
    """Return the pixels of a picture (h, w, 3) as rows L, a, b, x, y."""
    y, x = np.indices(lab.shape[:2])
    return np.dstack([lab, x, y]).reshape(-1, 5).astype(np.float64)


def pack(matrices: Array) -> Array:
    """Return the upper triangles (n, 9) of both domains of matrices (n, 5, 5)."""
    colour = matrices[:, COLOUR, COLOUR][:, UPPER3[0], UPPER3[1]]
    return np.hstack([colour, matrices[:, SPACE, SPACE][:, UPPER2[0], UPPER2[1]]])


def unpack(rows: NDArray[np.floating]) -> Array:
    """Return matrices (n, 5, 5) of upper triangles (n, 9)."""
    out = np.zeros((len(rows), 5, 5))
    for (row, column), first, begin in ((UPPER3, 0, 0), (UPPER2, 3, 6)):
        for k, (i, j) in enumerate(zip(row, column, strict=True)):
            out[:, first + i, first + j] = out[:, first + j, first + i] = rows[:, begin + k]
    return out


def pack_precision(bandwidths: Array) -> Array:
    """Return rows (n, 10) of bandwidths: both inverses and 1/√det."""
    root = 1 / np.sqrt(np.linalg.det(bandwidths))
    return np.hstack([pack(np.linalg.inv(bandwidths)), root[:, None]])


# Propagation --------------------------------------------------------------------------------------


@dataclass
class Warp:
    """What the frame before says about each pixel."""

    warped: Labels
    kept: Labels
    density: Array
    unsure: Mask
    scene_change: bool


def warp(scene: Scene) -> Warp:
    """Warp the labels along the flow; keep those whose colour agrees."""
    state, tuning, flow = scene.state, scene.tuning, scene.flow.astype(np.float64)
    tracks, smooth = state.tracks, scene.picture.smooth.astype(np.float64)
    h, w = state.labels.shape
    warped, kept = np.full((2, h, w), UNLABELLED, np.int32)
    density, unsure = np.zeros((h, w)), np.zeros((h, w), np.bool_)
    inside = strange = 0
    for y in range(h):
        for x in range(w):
            from_x, from_y = x + flow[y, x, 0], y + flow[y, x, 1]
            column, row = round(from_x), round(from_y)
            if not (0 <= column < w and 0 <= row < h):
                continue
            label = state.labels[row, column]
            warped[y, x] = label
            density[y, x] = state.density[row, column]
            earlier = bilinear(state.smooth, from_x, from_y)
            gap = float(((smooth[:, y, x] - earlier) ** 2).sum())
            inside += 1
            strange += gap > tuning.strange**2
            limits = [(gap, scene.params.stream.tolerance2), (gap, tuning.strange**2)]
            changed = gap > scene.params.stream.tolerance2
            watched = int(tracks.ids[label]) % tuning.watch == state.index % tuning.watch
            stays = True
            if changed or watched:
                sigma = tuning.inlier if changed else tuning.outlier
                off = colour_distance_sq(smooth[:, y, x], tracks.colours[label])
                limits.append((off, sigma**2))
                stays = off <= sigma**2
            kept[y, x] = label if stays else UNLABELLED
            unsure[y, x] = any(abs(value - limit) <= HAIR * limit for value, limit in limits)
    explained = np.count_nonzero(kept >= 0) / kept.size
    change = explained < tuning.scene_change_share and strange >= inside / 2
    return Warp(warped, kept, density, unsure, change)


def bilinear(planes: NDArray[np.float32], x: float, y: float) -> Array:
    """Return the colour of planes (3, h, w) at a place, that of the rim beyond it."""
    _, h, w = planes.shape
    x, y = min(max(x, 0.0), w - 1.0), min(max(y, 0.0), h - 1.0)
    total = np.zeros(3)
    for v in (int(y), int(y) + 1):
        for u in (int(x), int(x) + 1):
            weight = (1 - abs(x - u)) * (1 - abs(y - v))
            if weight > 0:
                total += weight * planes[:, v, u]
    return total


def colour_distance_sq(colour: Array, colours: NDArray[np.float32]) -> float:
    """Return how many squared σ of a segment's colours (9,) a colour lies off their mean."""
    inverse = np.zeros((3, 3))
    inverse[UPPER3] = colours[3:]
    inverse = inverse + inverse.T - np.diag(np.diag(inverse))
    off = colour - colours[:3]
    return float(off @ inverse @ off)


# Refresh ------------------------------------------------------------------------------------------


def refresh(kept: Labels, scene: Scene) -> tuple[Labels, list[int]]:
    """Drop the labels of segments whose turn it is; return also which were dropped as a whole."""
    state, params, tuning = scene.state, scene.params, scene.tuning
    tracks, period = state.tracks, params.stream.refresh
    turn = state.index % period
    budget = tuning.refresh_large * kept.size / period
    large = [row for row, area in enumerate(tracks.area) if area > budget]
    due = {
        row
        for row, track in enumerate(tracks.ids)
        if row not in large and int(track) % period == turn
    }
    if len(tracks.ids) < params.stream.segments and state.level > tuning.noise_level:
        rested = [
            row
            for row, frame in enumerate(tracks.refreshed)
            if row not in large and state.index - frame >= tuning.refresh_rest
        ]
        spent = 0
        for row in sorted(rested, key=lambda row: -tracks.colour_sse[row]):
            spent += tracks.area[row]
            if spent > budget:
                break
            due.add(row)
    out = kept.copy()
    for y in range(kept.shape[0]):
        for x in range(kept.shape[1]):
            tile = 5 * (y // tuning.refresh_tile) + 3 * (x // tuning.refresh_tile)
            if kept[y, x] in due or (kept[y, x] in large and tile % period == turn):
                out[y, x] = REFRESH
    return out, sorted(due)


# Boundaries ---------------------------------------------------------------------------------------


def refine(kept: Labels, warped: Labels, scene: Scene) -> tuple[Labels, Mask]:
    """Re-estimate boundary pixels, then let the fringe join; return also where that is unsure."""
    h, w = kept.shape
    labels, unsure = kept.copy(), np.zeros((h, w), np.bool_)
    for y in range(h):
        for x in range(w):
            own = int(kept[y, x])
            names = _beside(kept, y, x)
            if own < 0 or not names - {own}:
                continue
            votes = _votes(kept, warped, scene, y, x, names | {own})
            ranked = sorted(votes.values(), reverse=True)
            labels[y, x] = max(votes, key=lambda name: votes[name])
            unsure[y, x] = ranked[0] - ranked[1] < VOTE_HAIR
    enough = scene.tuning.vote_join
    for _ in range(scene.tuning.vote_rounds):
        read, doubted = labels.copy(), unsure.copy()
        for y, x in np.argwhere(read == UNLABELLED):
            around = doubted[max(y - REACH, 0) : y + REACH + 1, max(x - REACH, 0) : x + REACH + 1]
            unsure[y, x] |= around.any()
            votes = _votes(read, warped, scene, y, x, _beside(read, y, x))
            if not votes:
                continue
            ranked = sorted([*votes.values(), 0.0], reverse=True)
            best = max(votes, key=lambda name: votes[name])
            if votes[best] >= enough:
                labels[y, x] = best
                unsure[y, x] |= ranked[0] - ranked[1] < VOTE_HAIR
            unsure[y, x] |= abs(votes[best] - enough) < VOTE_HAIR
    return labels, unsure


def _beside(labels: Labels, y: int, x: int) -> set[int]:
    """Return the labels of the four pixels beside one."""
    h, w = labels.shape
    sides = ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1))
    return {int(labels[v, u]) for v, u in sides if 0 <= v < h and 0 <= u < w and labels[v, u] >= 0}


def _votes(
    labels: Labels, warped: Labels, scene: Scene, y: int, x: int, names: set[int]
) -> dict[int, float]:
    """Return what the pixels around one say for each label: those of its colour count 1."""
    h, w = labels.shape
    planes = scene.picture.planes.astype(np.float64)
    votes = {
        name: scene.tuning.vote_stay if name == warped[y, x] else 0.0 for name in sorted(names)
    }
    for v in range(max(y - REACH, 0), min(y + REACH + 1, h)):
        for u in range(max(x - REACH, 0), min(x + REACH + 1, w)):
            if (v, u) != (y, x) and labels[v, u] in votes:
                gap = ((planes[:, v, u] - planes[:, y, x]) ** 2).sum()
                votes[int(labels[v, u])] += np.exp(-0.5 * gap / scene.params.colour.sigma2)
    return votes


# Transport ----------------------------------------------------------------------------------------


@dataclass
class Advance:
    """Clusters of the frame before after they moved on, and newcomers after their first step."""

    transported: list[int]
    sure: list[int]  # those of them that carry enough weight for float32
    motion: Array  # (k, 2)
    position: Array  # (k, 5), and so on: rows of tracks without a pixel mean nothing
    trajectory: Array
    precision: Array
    rho: Array
    newcomers: list[tuple[int, int]]  # y, x in raster order
    bearing: Array  # (m, 5)
    density: Array  # (m,)


def advance(labels: Labels, density: NDArray[np.float32], scene: Scene) -> Advance:
    """Move the clusters of tracks that have a pixel; take the first step of all other pixels."""
    state, params, tuning = scene.state, scene.params, scene.tuning
    tracks, count = state.tracks, len(state.tracks.ids)
    w = labels.shape[1]
    flow = scene.flow.astype(np.float64)
    points = points_of(scene.picture.planes[:, :, :w].transpose(1, 2, 0))
    here = [row for row in range(count) if (labels == row).any()]
    motion = np.zeros((count, 2))
    for row in here:
        motion[row] = -flow[labels == row].mean(axis=0)
    fade = np.exp(-0.5 / params.time.sigma2)
    position, trajectory = np.zeros((count, 5)), np.zeros((count, 15))
    precision, rho = np.zeros((count, 10)), np.zeros(count)
    before = np.linalg.inv(unpack(tracks.precision[:, :9].astype(np.float64)))
    floors = np.repeat([params.colour.sigma2, params.space.sigma2], [3, 2])
    sure = []
    for row in here:
        start = tracks.mode[row].astype(np.float64)
        start[SPACE] += motion[row]
        near = _window(points, start, before[row])
        full = bool((labels.reshape(-1)[near] >= 0).all())
        near = near[_thinned(points[near], start, tuning.warm_thin)]
        if full:
            step, total = _full_step(points[near], start, labels.reshape(-1)[near], before)
        else:
            step, total = _own_step(points[near], start, before[row])
        if total > LEAST_WEIGHT and abs(start[4] % 1 - 0.5) > HAIR:
            sure.append(row)
        position[row] = start + step
        rho[row] = _density_near(position[row], points, density, params)
        weight = fade * tracks.trajectory[row, 0]
        mean = tracks.trajectory[row, 1:6].astype(np.float64)
        mean[SPACE] += motion[row]
        scatter = fade * unpack(tracks.trajectory[row : row + 1, 6:].astype(np.float64))[0]
        total = weight + rho[row]
        apart = position[row] - mean
        scatter = scatter + weight * rho[row] / total * np.outer(apart, apart)
        mean = mean + rho[row] / total * apart
        trajectory[row] = [total, *mean, *pack(scatter[None])[0]]
        bandwidth = unpack(trajectory[row : row + 1, 6:] / total)[0]
        bandwidth += np.diag(tuning.variance_floor * floors)
        precision[row] = pack_precision(bandwidth[None])[0]
    newcomers = [(int(y), int(x)) for y, x in np.argwhere(labels < 0)]
    bearing, densities = np.zeros((len(newcomers), 5)), np.zeros(len(newcomers))
    base = np.diag(floors)
    for i, (y, x) in enumerate(newcomers):
        start = points[y * w + x]
        read = points[_window(points, start, base)]
        read = read[_thinned(read, start, tuning.warm_thin)]
        bearing[i], total = _own_step(read, start, base)
        densities[i] = min(total * tuning.warm_thin * state.density_scale, 1.0)
    return Advance(
        here, sure, motion, position, trajectory, precision, rho, newcomers, bearing, densities
    )


def _weight(distance_sq: Array) -> Array:
    """Return the kernels' Gaussian: within a hundredth of exp(-d²/2) where it counts."""
    s = np.minimum(distance_sq / 64, 1.0)
    return np.asarray((1 - s + s**2 / 2) ** 32 - 2.0**-32)


def _distance_sq(points: Array, centre: Array, bandwidth: Array) -> Array:
    off = points - centre
    return np.einsum("na,ab,nb->n", off, np.linalg.inv(bandwidth), off)


def _window(points: Array, centre: Array, bandwidth: Array) -> NDArray[np.int64]:
    """Return the pixels within the cutoff in space."""
    far = _distance_sq(points[:, SPACE], centre[SPACE], bandwidth[SPACE, SPACE])
    return np.flatnonzero(far <= CUTOFF**2)


def _thinned(points: Array, centre: Array, thin: int) -> Array:
    """Return which points lie in every so many-th row, that of the centre among them."""
    return (points[:, 4].astype(int) - int(centre[4] + 0.5)) % thin == 0


def _own_step(points: Array, centre: Array, bandwidth: Array) -> tuple[Array, float]:
    """Return the shift under one bandwidth (Eq. 3), and the sum of weights."""
    weights = _weight(_distance_sq(points, centre, bandwidth))
    total = float(weights.sum())
    return (weights @ (points - centre) / total if total else np.zeros(5)), total


def _full_step(
    points: Array, centre: Array, owners: NDArray[np.int32], bandwidths: Array
) -> tuple[Array, float]:
    """Return the shift under the bandwidth of each pixel's own cluster (Eq. 2b), and Σw."""
    left, right, total = np.zeros((5, 5)), np.zeros(5), 0.0
    for point, owner in zip(points, owners, strict=True):
        sigma = bandwidths[owner]
        weight = float(_weight(_distance_sq(point[None], centre, sigma))[0])
        total += weight
        term = weight / np.sqrt(np.linalg.det(sigma)) * np.linalg.inv(sigma)
        left += term
        right += term @ (point - centre)
    return (np.linalg.solve(left, right) if total else np.zeros(5)), total


def _density_near(
    place: Array, points: Array, density: NDArray[np.float32], params: Params
) -> float:
    """Return the density of the data point nearest to a place, of the 3x3 pixels around it."""
    h, w = density.shape
    x, y = (
        int(np.clip(np.floor(c + 0.5), 0, n - 1)) for c, n in zip(place[SPACE], (w, h), strict=True)
    )
    near = [
        v * w + u
        for v in range(max(y - 1, 0), min(y + 2, h))
        for u in range(max(x - 1, 0), min(x + 2, w))
    ]
    scale = np.diag(np.repeat([params.colour.sigma2, params.space.sigma2], [3, 2]))
    best = near[int(_distance_sq(points[near], place, scale).argmin())]
    return float(density.reshape(-1)[best])

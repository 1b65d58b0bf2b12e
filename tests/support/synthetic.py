"""Drawn scenes whose labels are known.

Each function returns a `Scene`: rgb (h, w, 3) uint8 and labels (h, w) uint32, dense from 0. A label
is one connected region of one surface. What is random comes from `seed` alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.source.demo import POSTER, demo_frame

# Far apart in L*a*b* (50 and more), so that no two regions ought to merge.
PALETTE = np.array(
    [
        (40, 40, 40),
        (230, 60, 50),
        (50, 170, 70),
        (60, 80, 220),
        (240, 220, 70),
        (180, 70, 190),
        (90, 210, 220),
        (245, 245, 245),
    ],
    dtype=np.uint8,
)


class Scene(NamedTuple):
    """A picture and the labels it was drawn from."""

    rgb: NDArray[np.uint8]
    labels: NDArray[np.uint32]


def painted(labels: NDArray[np.integer]) -> Scene:
    """Return the scene in which label i has the i-th colour of the palette, over and over."""
    return Scene(PALETTE[labels % len(PALETTE)], labels.astype(np.uint32))


def noisy(scene: Scene, sigma: float, seed: int = 0) -> Scene:
    """Return the scene with Gaussian noise of `sigma` grey levels on each channel."""
    noise = np.random.default_rng(seed).normal(0.0, sigma, scene.rgb.shape)
    rgb = np.clip(np.rint(scene.rgb + noise), 0, 255).astype(np.uint8)
    return Scene(rgb, scene.labels)


def flat(height: int = 24, width: int = 32, colour: int = 2) -> Scene:
    """Return one colour, one label."""
    labels = np.zeros((height, width), dtype=np.uint32)
    return Scene(np.broadcast_to(PALETTE[colour], (height, width, 3)).copy(), labels)


def quarters(height: int = 40, width: int = 48) -> Scene:
    """Return four flat rectangles."""
    lower = np.arange(height)[:, None] >= height // 2
    right = np.arange(width)[None, :] >= width // 2
    return painted(2 * lower + right)


def stripes(count: int = 5, height: int = 30, width: int = 60) -> Scene:
    """Return `count` flat vertical stripes of (nearly) one width."""
    columns = np.arange(width) * count // width
    return painted(np.broadcast_to(columns, (height, width)))


def checkerboard(cell: int = 8, rows: int = 4, columns: int = 5) -> Scene:
    """Return a board of two colours in which every cell is its own label."""
    y, x = np.indices((rows * cell, columns * cell)) // cell
    rgb = PALETTE[np.where((y + x) % 2 == 0, 0, 7)]
    return Scene(rgb, (y * columns + x).astype(np.uint32))


def ramp(height: int = 32, width: int = 64, low: int = 60, high: int = 190) -> Scene:
    """Return a grey that rises from left to right: a single surface without an edge."""
    grey = np.rint(np.linspace(low, high, width)).astype(np.uint8)
    rgb = np.repeat(np.broadcast_to(grey, (height, width))[..., None], 3, axis=2)
    return Scene(rgb.copy(), np.zeros((height, width), dtype=np.uint32))


def two_ramps(height: int = 32, width: int = 64) -> Scene:
    """Return two shaded surfaces, one brightening and one darkening, with an edge between."""
    upper, lower = ramp(height // 2, width, 60, 130), ramp(height - height // 2, width, 200, 250)
    rgb = np.concatenate([upper.rgb, lower.rgb[:, ::-1]])
    labels = np.concatenate([upper.labels, lower.labels + 1])
    return Scene(rgb, labels.astype(np.uint32))


def discs(height: int = 64, width: int = 96, sigma: float = 4.0, seed: int = 0) -> Scene:
    """Return three noisy discs, of different sizes and apart, on a noisy ground."""
    y, x = np.indices((height, width), dtype=np.float64)
    labels = np.zeros((height, width), dtype=np.uint32)
    unit = min(height / 64, width / 96)
    for label, (cy, cx, radius) in enumerate([(20, 22, 14), (44, 50, 11), (22, 76, 9)], start=1):
        inside = (y - cy * height / 64) ** 2 + (x - cx * width / 96) ** 2 <= (radius * unit) ** 2
        labels[inside] = label
    return noisy(painted(labels), sigma, seed)


def thin_lines(height: int = 40, width: int = 60, thickness: int = 2) -> Scene:
    """Return a cross of thin lines on a ground that it cuts into four."""
    row, column = height // 3, width // 2
    y, x = np.indices((height, width))
    labels = 2 * (y >= row) + (x >= column)
    line = ((y >= row) & (y < row + thickness)) | ((x >= column) & (x < column + thickness))
    labels = np.where(line, 4, labels)
    rgb = np.where(line[..., None], PALETTE[1], PALETTE[7])
    return Scene(rgb.astype(np.uint8), labels.astype(np.uint32))


def landscape(height: int = 120, width: int = 180, sigma: float = 3.0, seed: int = 0) -> Scene:
    """Return sky, sun, two hills, a house with door and roof: shaded, with a little noise."""
    y, x = np.indices((height, width), dtype=np.float64)
    v, u = y / height, x / width
    labels = np.zeros((height, width), dtype=np.uint32)
    labels[(v - 0.2) ** 2 * (height / width) ** 2 + (u - 0.8) ** 2 <= 0.07**2] = 1
    labels[v >= 0.46 - 0.16 * np.sin(np.pi * (u + 0.05))] = 2
    labels[v >= 0.8 + 0.08 * np.cos(np.pi * u)] = 3
    labels[(u >= 0.22) & (u < 0.44) & (v >= 0.5) & (v < 0.78)] = 4
    labels[(v >= 0.36) & (v < 0.5) & (np.abs(u - 0.33) <= 0.14 * (v - 0.36) / 0.14)] = 5
    labels[(u >= 0.3) & (u < 0.36) & (v >= 0.62) & (v < 0.78)] = 6
    colours = np.array(
        [
            (120, 175, 235),
            (250, 225, 90),
            (70, 130, 75),
            (165, 185, 80),
            (225, 200, 170),
            (170, 60, 50),
            (95, 60, 40),
        ],
        dtype=np.float64,
    )
    shade = 1.0 + 0.12 * (v - 0.5) + 0.06 * (u - 0.5)
    rgb = np.clip(np.rint(colours[labels] * shade[..., None]), 0, 255).astype(np.uint8)
    return noisy(Scene(rgb, labels), sigma, seed)


def draw_scene(height: int, width: int) -> NDArray[np.uint8]:
    """Return the demo as one image (height, width, 3), its pixels taken from a grid."""
    rgb = demo_frame(POSTER).rgb
    rows = np.arange(height) * rgb.shape[0] // height
    columns = np.arange(width) * rgb.shape[1] // width
    return rgb[rows[:, None], columns]

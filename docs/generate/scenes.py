"""Scenes drawn for the settings page: each is a function of the frame's number alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HEIGHT, WIDTH = 144, 192


def _grid() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    y, x = np.indices((HEIGHT, WIDTH)).astype(np.float64)
    return y, x


def _finished(rgb: NDArray[np.float64], seed: int, noise: float) -> NDArray[np.uint8]:
    grain = np.random.default_rng(seed).normal(0.0, noise, rgb.shape)
    return np.clip(np.rint(rgb + grain), 0, 255).astype(np.uint8)


def _meadow() -> NDArray[np.float64]:
    """Draw shaded sky, speckled grass, a path, a fence of thin posts and three discs."""
    y, x = _grid()
    rgb = np.empty((HEIGHT, WIDTH, 3))
    rgb[:] = np.array([120, 170, 225]) + (y / HEIGHT * 70)[..., None]
    grass = y > 70 - 10 * np.sin(x / 30)
    speckle = np.random.default_rng(7).normal(0, 1, (HEIGHT // 3 + 1, WIDTH // 3 + 1))
    speckle = np.kron(speckle, np.ones((3, 3)))[:HEIGHT, :WIDTH]
    rgb[grass] = (np.array([84, 132, 66]) + 9 * speckle[..., None])[grass]
    path = grass & (np.abs(x - 96 - 26 * np.sin(y / 26)) < (y - 55) / 5)
    rgb[path] = (np.array([186, 160, 120]) + 5 * speckle[..., None])[path]
    rgb[(y > 62) & (y < 92) & (x % 16 < 2) & (x < 80)] = (92, 62, 44)
    for cx, cy, radius, colour in (
        (150, 30, 15, (150, 190, 228)),  # a faint moon
        (46, 116, 14, (206, 72, 60)),
        (150, 104, 17, (92, 146, 78)),  # a bush, hardly off the grass
    ):
        rgb[(x - cx) ** 2 + (y - cy) ** 2 < radius**2] = colour
    return rgb


def meadow(t: int = 0) -> NDArray[np.uint8]:
    """Draw the meadow with a little noise."""
    return _finished(_meadow(), t, 2.5)


def passing(t: int) -> NDArray[np.uint8]:
    """Draw a ball that rolls across the meadow and is hidden by a wall for some frames."""
    y, x = _grid()
    rgb = _meadow()
    rgb[(x - (10 + 4.0 * t)) ** 2 + (y - 116) ** 2 < 11**2] = (240, 196, 60)
    rgb[(x > 84) & (x < 132) & (y > 86)] = (150, 110, 98)
    return _finished(rgb, t, 2.5)


def dusk(t: int) -> NDArray[np.uint8]:
    """Draw the meadow as the light goes and flickers."""
    light = 1.0 - 0.016 * t + 0.03 * np.sin(1.3 * t)
    return _finished(_meadow() * light, t, 2.5)


def running(t: int) -> NDArray[np.uint8]:
    """Draw a thin figure that runs fast across the meadow."""
    y, x = _grid()
    rgb = _meadow()
    centre = 8 + 7.0 * t
    rgb[(np.abs(x - centre) < 4) & (y > 84) & (y < 118)] = (214, 60, 120)
    rgb[(x - centre) ** 2 + (y - 78) ** 2 < 6**2] = (236, 200, 170)
    swing = 9 * np.sin(1.1 * t)
    for side in (-1, 1):
        rgb[(np.abs(x - centre - side * swing * (y - 118) / 22) < 2) & (y >= 118) & (y < 138)] = 40
    return _finished(rgb, t, 2.5)

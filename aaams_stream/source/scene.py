"""A scene drawn on the spot, so that everything runs with nothing at hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SMOOTH = 2  # drawn so many times larger, then averaged: soft edges, as a camera has them
_GRAIN = 1.5  # standard deviation of the noise, in grey levels


def draw_scene(height: int = 320, width: int = 480, seed: int = 0) -> NDArray[np.uint8]:
    """Return an evening by the lake (height, width, 3): shaded, textured, a little noisy.

    The same arguments draw the same picture.
    """
    rng = np.random.default_rng(seed)
    h, w = height * _SMOOTH, width * _SMOOTH
    # v runs down from 0 to 1; u to the right, from 0 to 1.5 whatever the shape of the picture.
    v = (np.arange(h)[:, None] + 0.5) / h
    u = (np.arange(w)[None, :] + 0.5) / w * 1.5
    picture = np.empty((h, w, 3))

    def paint(where: NDArray[np.bool_], colour: tuple[int, int, int], light: object = 1.0) -> None:
        mask = np.broadcast_to(where, (h, w))
        shade = np.broadcast_to(np.asarray(light, np.float64), (h, w))[mask]
        picture[mask] = np.array(colour, np.float64) * shade[:, None]

    top, horizon = np.array([70.0, 105.0, 180.0]), np.array([250.0, 205.0, 160.0])
    dusk = np.clip(v / 0.5, 0, 1)[:, :, None] ** 1.3
    picture[:] = top * (1 - dusk) + horizon * dusk
    paint((u - 1.08) ** 2 + (v - 0.27) ** 2 < 0.075**2, (255, 238, 190))

    far = 0.40 - 0.10 * np.sin(2.1 * u + 0.6) - 0.035 * np.sin(7.3 * u) - 0.012 * np.sin(23 * u)
    paint(v > far, (126, 116, 160), 1.06 - 0.5 * (v - far))
    near = 0.50 - 0.24 * np.exp(-(((u - 0.42) / 0.24) ** 2)) + 0.02 * np.sin(17 * u + 1)
    paint(v > near, (78, 88, 112), 1.15 - 0.9 * (v - near) + 0.08 * np.sin(40 * (u - v)))
    ridge = 0.035 * np.abs(((u * 14) % 2) - 1)
    paint((v > near) & (v < 0.335 + ridge), (238, 240, 246), 1.0 - 0.25 * (u > 0.42))

    paint(v > 0.56, (92, 138, 178), 0.8 + 0.45 * (v - 0.56) + 0.03 * np.sin(260 * v))
    path = np.abs(u - 1.08) < 0.05 + 0.10 * (v - 0.56)
    paint(path & (v > 0.57) & (np.sin(200 * v + 6 * np.sin(9 * u)) > -0.1), (246, 206, 150))

    shore = 0.74 - 0.10 * np.exp(-(((u - 0.18) / 0.5) ** 2)) + 0.05 * np.cos(3.2 * u + 2.4)
    paint(v > shore, (104, 148, 66), 1.05 - 0.9 * (v - shore) + 0.05 * _texture(rng, h, w))
    bend = 0.62 + 0.20 * np.sin(4.2 * (v - 0.62)) - 0.25 * (v - 0.72)
    paint((v > shore) & (np.abs(u - bend) < 0.012 + 0.16 * (v - 0.66)), (205, 178, 132))

    paint((np.abs(u - 0.30) < 0.13) & (np.abs(v - 0.685) < 0.085), (232, 216, 190), 1.15 - 0.5 * u)
    paint((v > 0.50) & (v < 0.61) & (np.abs(u - 0.30) < 1.45 * (v - 0.50)), (164, 62, 48))
    paint((np.abs(u - 0.33) < 0.028) & (v > 0.665) & (v < 0.77), (96, 62, 44))
    paint((np.abs(u - 0.235) < 0.03) & (np.abs(v - 0.67) < 0.03), (70, 96, 120))

    paint((np.abs(u - 1.235) < 0.016) & (v > 0.60) & (v < 0.88), (84, 60, 46))
    crown = (u - 1.235) ** 2 / 1.1 + (v - 0.50) ** 2
    rough = 0.012 * np.sin(9 * np.arctan2(v - 0.50, u - 1.235))
    light = 1.0 + 0.9 * (1.2 - u) + 0.10 * _texture(rng, h, w)
    paint(crown < (0.155 + rough) ** 2, (46, 104, 62), light)

    picture = picture.reshape(height, _SMOOTH, width, _SMOOTH, 3).mean(axis=(1, 3))
    picture += rng.normal(0.0, _GRAIN, picture.shape)
    rgb: NDArray[np.uint8] = np.clip(np.rint(picture), 0, 255).astype(np.uint8)
    return rgb


def _texture(rng: np.random.Generator, h: int, w: int) -> NDArray[np.float64]:
    """Return smooth noise (h, w) of mean 0 and standard deviation 1, a few pixels wide."""
    coarse = rng.normal(size=(h // 6 + 2, w // 6 + 2))
    y, x = np.arange(h) / 6, np.arange(w) / 6
    i, j = y.astype(np.int64), x.astype(np.int64)
    fy, fx = (y - i)[:, None], (x - j)[None, :]
    above = coarse[i][:, j] * (1 - fx) + coarse[i][:, j + 1] * fx
    below = coarse[i + 1][:, j] * (1 - fx) + coarse[i + 1][:, j + 1] * fx
    noise: NDArray[np.float64] = above * (1 - fy) + below * fy
    noise -= noise.mean()
    return noise / max(float(noise.std()), 1e-9)

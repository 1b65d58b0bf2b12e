"""A drawn film of several scenes: cuts, a dissolve, and a flash that looks like two cuts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Frames of each scene; none is a whole number of chunks, and one lasts a single frame.
LENGTHS = (21, 13, 26, 1, 19, 18)
DISSOLVE = 2  # the scene that the one before it fades into, over its first frames
DISSOLVED = 9
FLASH = (4, 7)  # the scene, and its frame, that is white


def scene_frame(
    scene: int, frame: int, height: int = 64, width: int = 96, noise: float = 2.0
) -> NDArray[np.uint8]:
    """Return a picture (h, w, 3): discs of a scene's own colours that drift over its own ground."""
    rng = np.random.default_rng((7, scene))
    y, x = np.mgrid[:height, :width].astype(np.float64)
    ground = rng.integers(20, 236, (2, 3)).astype(np.float64)
    share = (x / width if scene % 2 else y / height)[..., None]
    rgb = ground[0] + np.floor(4 * share) / 4 * (ground[1] - ground[0])
    for _ in range(6):
        centre = rng.uniform(0, (height, width))
        speed = rng.uniform(-1.2, 1.2, 2)
        radius = rng.uniform(0.08, 0.2) * min(height, width)
        colour = rng.integers(0, 256, 3)
        at = (centre + frame * speed * height / 64) % (height, width)
        rgb[np.hypot(y - at[0], x - at[1]) < radius] = colour
    rgb = rgb + np.random.default_rng((11, scene, frame)).normal(0, noise, rgb.shape)
    return np.clip(np.rint(rgb), 0, 255).astype(np.uint8)


def drawn_film(
    height: int = 64, width: int = 96, lengths: Sequence[int] = LENGTHS, noise: float = 2.0
) -> list[NDArray[np.uint8]]:
    """Return the frames of a film of scenes of these lengths, with the dissolve and the flash."""
    frames = []
    for scene, length in enumerate(lengths):
        for frame in range(length):
            rgb = scene_frame(scene, frame, height, width, noise)
            if scene == DISSOLVE and frame < DISSOLVED:
                before = scene_frame(scene - 1, lengths[scene - 1] + frame, height, width, noise)
                share = (frame + 1) / (DISSOLVED + 1)
                rgb = np.rint(share * rgb + (1 - share) * before).astype(np.uint8)
            if (scene, frame) == FLASH:
                rgb = np.full_like(rgb, 252)
            frames.append(rgb)
    return frames

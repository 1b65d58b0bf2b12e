"""One image to segments: Alg. 1 jointly over colour and space, then Alg. 2."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core import features, packed
from aaams_stream.core.mean_shift import History, cluster_pixels
from aaams_stream.core.merge_tree import MergeTree, build_tree
from aaams_stream.core.modes import densest_pixels, find_modes
from aaams_stream.core.region_graph import build_rag
from aaams_stream.core.stopwatch import stopwatch
from aaams_stream.core.tuning import DEFAULT, Tuning
from aaams_stream.params import Params, resolve


@dataclass(frozen=True, slots=True)
class ImageSegmentation:
    """A partition of an image with the modes and bandwidths behind it; row i is segment i."""

    labels: NDArray[np.uint32]  # (h, w) dense from 0 in raster order, each 4-connected
    modes: NDArray[np.float32]  # (k, 5) L, a, b, x, y of the densest mode in the segment
    bandwidths: NDArray[np.float32]  # (k, 5, 5) Σ of that mode's cluster, block-diagonal
    densities: NDArray[np.float32]  # (k,) ρ at the mode, 1 at the image's maximum
    n_iter: int
    history: History
    tree: MergeTree
    stats: dict[str, float]  # seconds of wall time per stage

    @property
    def count(self) -> int:
        """How many segments there are."""
        return len(self.modes)


def segment_image(
    rgb: Any,
    params: Params | str | Path | None = None,
    *,
    segments: int | None = None,
    tuning: Tuning = DEFAULT,
) -> ImageSegmentation:
    """Segment one image: (h, w), (h, w, 3) or (h, w, 4), uint8 or uint16, from 1x1 upwards.

    `params` is a Params, a path to a TOML file, or None for the defaults. `segments` asks for
    about that many segments, by cutting the merge tree there instead of at the level of `params`.
    The same image gives the same labels bit for bit, for any number of threads.
    """
    params = resolve(params)
    stats: dict[str, float] = {}
    clock = stopwatch(stats)
    image = features.as_rgb(rgb)
    if segments is not None and segments < 1:
        raise ValueError(f"segments must be >= 1, got {segments}")
    picture = features.picture(image)
    clock("features")
    grid, alive, history = cluster_pixels(picture.planes, image.shape[1], params, tuning, clock)
    density = grid.pixels.density
    graph = build_rag(grid.pixels.owner, picture, density, tuning)
    tree = build_tree(graph, params, tuning, params.post.min_size)
    cut = {"level": params.post.threshold} if segments is None else {"segments": segments}
    labels = tree.cut(**cut)
    densest = densest_pixels(graph.regions, tree.segment_of_region(**cut), density)
    rows = labels.view(np.int32)  # as streams have them: kernels are compiled for one type
    modes = find_modes(rows, densest, grid, alive, params)
    clock("post")
    return ImageSegmentation(
        labels,
        modes.position,
        packed.bandwidths(modes.precision),
        modes.density,
        n_iter=len(history.merges),
        history=history,
        tree=tree,
        stats=stats,
    )

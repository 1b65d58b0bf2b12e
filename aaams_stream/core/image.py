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
    """A partition of an image with the modes and bandwidths behind it; row i is segment i.

    Attributes:
        labels: (h, w) uint32, dense from 0 in raster order, each 4-connected.
        modes: (k, 5) L, a, b, x, y of the densest mode in each segment.
        bandwidths: (k, 5, 5) Σ of that mode's cluster, block-diagonal.
        densities: (k,) at the mode, 1 at the image's maximum.
        n_iter: how many iterations it took.
        history: clusters and merges of each iteration.
        tree: every coarser and finer partition, by `tree.cut(segments=…)` or `tree.cut(level=…)`.
        stats: seconds of wall time per stage.

    Example:
        >>> import aaams_stream as aaams
        >>> from aaams_stream.source.demo import demo_frame
        >>> result = aaams.segment_image(demo_frame(72).rgb[::2, ::2])
        >>> result.count == len(result.modes) == int(result.labels.max()) + 1
        True
        >>> result.tree.cut(segments=5).shape
        (120, 160)
    """

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
    """Segment one image.

    The same image gives the same labels bit for bit, for any number of threads.

    Args:
        rgb: the image (h, w), (h, w, 3) or (h, w, 4), uint8 or uint16, from 1x1 upwards.
        params: settings, a path to a TOML file or the name of a set; None for the defaults.
        segments: about how many segments are wanted: the merge tree is cut there instead of at
            the level of `params`.
        tuning: constants of the method.

    Returns:
        Labels, modes, bandwidths and the tree of merges.

    Raises:
        ValueError: the array is no image, or `segments` is below 1.
        ConfigError: the settings are wrong.

    Example:
        >>> import numpy as np
        >>> import aaams_stream as aaams
        >>> rgb = np.zeros((40, 60, 3), np.uint8)
        >>> rgb[:, 30:] = (250, 120, 20)
        >>> result = aaams.segment_image(rgb)
        >>> result.count, result.labels[0, 0], result.labels[0, 59]
        (2, np.uint32(0), np.uint32(1))
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

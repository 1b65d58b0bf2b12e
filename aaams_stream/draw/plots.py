"""Pictures of clusters: modes with their 1-sigma bandwidths over the data, and convergence.

Drawn as in the paper's Figs. 1 and 5. matplotlib is an extra and is imported only here, when a
picture is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.errors import ConfigError, SinkError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d.axes3d import Axes3D

Floats = NDArray[np.float64]


class Iteration(Protocol):
    """What became of the clusters in one iteration of a fit."""

    clusters: int
    merges: int
    largest_shift: float
    mean_shift: float


History = NDArray[np.void] | Mapping[str, ArrayLike] | Sequence[Iteration]

MOST_POINTS = 20_000  # more only darken the picture and slow it down
INK = "#1b1b1b"


def plot_modes(
    points: ArrayLike,
    labels: ArrayLike,
    modes: ArrayLike,
    bandwidths: ArrayLike,
    path: str | Path,
    *,
    colours: ArrayLike | None = None,
    title: str | None = None,
    axis_names: Sequence[str] | None = None,
) -> None:
    """Draw the points (n, d), and the modes (k, d) with 1-sigma ellipses of bandwidths (k, d, d).

    Two dimensions give one panel; three give a view in space, with ellipsoids as wire frames,
    beside the three planes. Of more dimensions the three along which the modes spread widest are
    drawn. Points take `colours` (n, 3), their own colour in 0..1 or 0..255, or one by their label.
    Past 20,000 points an even share is drawn. The format follows the suffix of `path`.
    """
    x = np.asarray(points, np.float64)
    groups = np.asarray(labels).ravel()
    centres = np.asarray(modes, np.float64)
    widths = np.asarray(bandwidths, np.float64)
    n, dims = x.shape if x.ndim == 2 else (0, 0)
    if dims < 1 or groups.shape != (n,):
        raise ConfigError(
            f"expected points (n, d) and labels (n,), got {x.shape} and {groups.shape}"
        )
    if centres.shape[1:] != (dims,) or widths.shape != (len(centres), dims, dims):
        raise ConfigError(
            f"expected modes (k, {dims}) and bandwidths (k, {dims}, {dims}), "
            f"got {centres.shape} and {widths.shape}"
        )
    shades = _label_colours(groups) if colours is None else _own_colours(colours, n)
    names = list(axis_names) if axis_names is not None else [f"x{a + 1}" for a in range(dims)]
    if dims > 3:
        chosen = np.sort(np.argsort(-(centres if len(centres) > 1 else x).std(axis=0))[:3])
        x, centres, widths = x[:, chosen], centres[:, chosen], widths[:, chosen][:, :, chosen]
        names, dims = [names[a] for a in chosen], 3
    if dims == 1:
        x, centres = np.hstack([x, np.zeros_like(x)]), np.hstack([centres, np.zeros_like(centres)])
        widths = widths * np.array([[1.0, 0.0], [0.0, 0.0]])
        names, dims = [*names, ""], 2
    if n > MOST_POINTS:
        kept = np.linspace(0, n - 1, MOST_POINTS).astype(np.int64)
        x, shades = x[kept], shades[kept]

    # Where many modes stand close, thinner lines keep the data visible.
    line = 1.6 if len(centres) <= 40 else 0.8
    if dims == 2:
        figure = _figure(7, 6)
        _draw_plane(figure.subplots(), x, shades, centres, widths, (0, 1), names, line)
    else:
        figure = _figure(13, 7.2)
        grid = figure.add_gridspec(3, 2, width_ratios=[1.9, 1])
        _draw_space(
            figure.add_subplot(grid[:, 0], projection="3d"), x, shades, centres, widths, names, line
        )
        for row, pair in enumerate([(0, 1), (0, 2), (1, 2)]):
            axis = figure.add_subplot(grid[row, 1])
            _draw_plane(axis, x, shades, centres, widths, pair, names, 0.6 * line)
    figure.suptitle(title if title is not None else f"{len(centres)} modes, 1-sigma bandwidths")
    _save(figure, path)


def plot_history(history: History, path: str | Path) -> None:
    """Draw how clusters, merges and shifts fall over the iterations.

    `history` is what a fit returns: a record array, a mapping of columns or a sequence of records
    with clusters, merges, largest_shift and mean_shift.
    """
    clusters = _column(history, "clusters")
    iterations = np.arange(1, len(clusters) + 1)
    figure = _figure(10, 4)
    left, right = figure.subplots(1, 2)
    left.plot(iterations, clusters, color="#20639b", label="clusters left")
    left.plot(iterations, _column(history, "merges"), color="#ed553b", label="merges")
    left.set_ylabel("count")
    right.plot(
        iterations, _column(history, "largest_shift"), color="#20639b", label="largest shift"
    )
    right.plot(iterations, _column(history, "mean_shift"), color="#ed553b", label="mean shift")
    right.set_ylabel("shift")
    for axis in (left, right):
        # Linear near zero: merges and shifts do reach it, and a plain logarithm would drop them.
        axis.set_yscale("symlog", linthresh=1.0 if axis is left else 1e-3)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("iteration")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    _save(figure, path)


def _draw_plane(
    axis: Axes,
    x: Floats,
    shades: Floats,
    centres: Floats,
    widths: Floats,
    pair: tuple[int, int],
    names: Sequence[str],
    line: float,
) -> None:
    """Scatter two columns and outline each bandwidth's 1-sigma ellipse in their plane."""
    a, b = pair
    size = float(np.clip(4e4 / len(x), 1.0, 14.0))
    axis.scatter(x[:, a], x[:, b], s=size, c=shades, alpha=0.55, linewidths=0, rasterized=True)
    angle = np.linspace(0, 2 * np.pi, 72)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for centre, width in zip(centres, widths, strict=True):
        edge = centre[[a, b], None] + _root(width[np.ix_(pair, pair)]) @ circle
        axis.plot(*edge, color="white", linewidth=2.2 * line, alpha=0.8)
        axis.plot(*edge, color=INK, linewidth=line)
    axis.plot(
        centres[:, a], centres[:, b], "o", color=INK, markeredgecolor="white",
        markersize=3 + 2 * line, markeredgewidth=0.8,
    )  # fmt: skip
    axis.set_xlabel(names[a])
    axis.set_ylabel(names[b])
    axis.set_aspect("equal", adjustable="box")
    axis.grid(alpha=0.2)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_space(
    axis: Axes3D,
    x: Floats,
    shades: Floats,
    centres: Floats,
    widths: Floats,
    names: Sequence[str],
    line: float,
) -> None:
    """Scatter three columns and draw each bandwidth as a wire frame of three great ellipses."""
    size = float(np.clip(2e4 / len(x), 0.6, 10.0))
    axis.scatter(*x.T, s=size, c=shades, alpha=0.35, linewidths=0, depthshade=False)
    angle = np.linspace(0, 2 * np.pi, 48)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)])
    rings = [circle, circle[[0, 2, 1]], circle[[2, 0, 1]]]
    for centre, width in zip(centres, widths, strict=True):
        root = _root(width)
        for ring in rings:
            axis.plot(*(centre[:, None] + root @ ring), color=INK, linewidth=0.7 * line, alpha=0.9)
    axis.scatter(
        *centres.T, s=16 * line, c=INK, edgecolors="white", linewidths=0.7, depthshade=False
    )
    axis.set_xlabel(names[0])
    axis.set_ylabel(names[1])
    axis.set_zlabel(names[2])
    spans = np.ptp(np.vstack([x, centres]), axis=0)
    axis.set_box_aspect(np.maximum(spans, 1e-9 + 0.2 * spans.max()))
    for pane in (axis.xaxis, axis.yaxis, axis.zaxis):
        pane.pane.set_facecolor((0.97, 0.97, 0.97, 1.0))


def _root(width: Floats) -> Floats:
    """Return A with A·Aᵀ = width: it carries the unit circle to the 1-sigma ellipse."""
    values, vectors = np.linalg.eigh(width)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _label_colours(labels: NDArray[Any]) -> Floats:
    """Return one colour per point; labels next to each other get hues far apart."""
    number = np.unique(labels, return_inverse=True)[1]
    hue = (0.58 + number * 0.6180339887) % 1.0
    channels = [np.clip(np.abs((hue * 6 + shift) % 6 - 3) - 1, 0, 1) for shift in (0, 4, 2)]
    dim = np.array([0.85, 0.65, 1.0])[number // 8 % 3][:, None]
    shades: Floats = (0.15 + 0.8 * np.stack(channels, axis=1)) * dim
    return shades


def _own_colours(colours: ArrayLike, n: int) -> Floats:
    own = np.asarray(colours, np.float64)
    if own.shape != (n, 3):
        raise ConfigError(f"expected colours ({n}, 3), got {own.shape}")
    bright = own.max(initial=0.0)
    return np.clip(own / 255.0 if bright > 1.0 else own, 0.0, 1.0)


def _column(history: History, name: str) -> Floats:
    if isinstance(history, Mapping | np.ndarray):
        return np.asarray(history[name], np.float64)
    return np.array([getattr(record, name) for record in history], np.float64)


def _figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches; without pyplot, which would choose a window system."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise ConfigError(
            'pictures need matplotlib; install it with: pip install "aaams-stream[plot]"'
        ) from error
    return matplotlib.figure.Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: str | Path) -> None:
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:  # ValueError: a suffix matplotlib does not know
        raise SinkError(f"{path}: cannot write the picture ({error})") from error

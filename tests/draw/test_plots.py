"""Pictures of modes and of convergence."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from support import mixtures

from aaams_stream.draw.plots import plot_history, plot_modes
from aaams_stream.errors import ConfigError, SinkError

pytest.importorskip("matplotlib")

PNG = b"\x89PNG"


def drawing(dims, count=40):
    """Return arguments for plot_modes: two blobs and their true shapes."""
    centres = [[0.0] * dims, [5.0] * dims]
    mixture = mixtures.blobs(centres, count=count)
    return mixture.points, mixture.labels, np.array(centres), np.stack([0.25 * np.eye(dims)] * 2)


@pytest.mark.parametrize("dims", [1, 2, 3, 5])
def test_plot_modes_draws_in_any_dimension(tmp_path, dims):
    plot_modes(*drawing(dims), tmp_path / "modes.png")
    assert (tmp_path / "modes.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("top", [1.0, 255.0])
def test_plot_modes_lets_points_wear_their_own_colour(tmp_path, top):
    points, *rest = drawing(3)
    colours = np.full((len(points), 3), top)
    plot_modes(points, *rest, tmp_path / "own.png", colours=colours, title="own colours")
    assert (tmp_path / "own.png").exists()


def test_plot_modes_brings_the_colours_of_points_into_the_picture(tmp_path):
    import matplotlib.image

    points, labels, modes, widths = drawing(2, count=200)
    red = np.tile([255, 0, 0], (len(points), 1))
    plot_modes(points, labels, modes, widths, tmp_path / "red.png", colours=red)
    pixels = matplotlib.image.imread(tmp_path / "red.png")[..., :3]
    reddish = (pixels[..., 0] > 0.9) & (pixels[..., 1] < 0.6) & (pixels[..., 2] < 0.6)
    assert reddish.sum() > 500


def test_plot_history_takes_records_columns_and_objects(tmp_path):
    names = ["clusters", "merges", "largest_shift", "mean_shift"]
    rows = [(50, 10, 1.0, 0.5), (5, 45, 0.3, 0.1), (5, 0, 0.0, 0.0)]
    records = np.array(rows, [(name, float) for name in names])
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    objects = [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in rows]
    pictures = []
    for history in (records, columns, objects):
        plot_history(history, tmp_path / "history.png")
        pictures.append((tmp_path / "history.png").read_bytes())
    assert pictures[0].startswith(PNG)
    assert pictures[0] == pictures[1] == pictures[2]


def test_plot_modes_names_the_extra_that_brings_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r'pip install "aaams-stream\[plot\]"'):
        plot_modes(*drawing(2), tmp_path / "modes.png")


@pytest.mark.parametrize("name", ["nowhere/modes.png", "modes.unknown"])
def test_plot_modes_raises_a_sink_error_where_it_cannot_write(tmp_path, name):
    with pytest.raises(SinkError, match="cannot write the picture"):
        plot_modes(*drawing(2), tmp_path / name)


def test_plot_modes_names_shapes_that_do_not_fit(tmp_path):
    points, labels, modes, widths = drawing(2)
    with pytest.raises(ConfigError, match=r"labels \(n,\)"):
        plot_modes(points, labels[1:], modes, widths, tmp_path / "a.png")
    with pytest.raises(ConfigError, match=r"bandwidths \(k, 2, 2\)"):
        plot_modes(points, labels, modes, widths[:1], tmp_path / "a.png")
    with pytest.raises(ConfigError, match="colours"):
        plot_modes(points, labels, modes, widths, tmp_path / "a.png", colours=[[0, 0, 0]])

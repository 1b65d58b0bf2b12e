"""What napari asks when a volume is dragged in; `napari.yaml` beside this tells it so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aaams_stream.store.folders import is_volume

if TYPE_CHECKING:
    from aaams_stream.export.napari import Layer


def get_reader(path: str | Sequence[str]) -> Callable[[str | Sequence[str]], list[Layer]] | None:
    """Return what reads the volumes at `path`, one or several; None where one is none of ours."""
    return read_layers if all(map(is_volume, _paths(path))) else None


def read_layers(path: str | Sequence[str]) -> list[Layer]:
    """Return the layers of volumes: picture, ids, groups of them, and tracks with lineage."""
    from aaams_stream.export.napari import napari_layers
    from aaams_stream.store import open_volume

    return [layer for place in _paths(path) for layer in napari_layers(open_volume(place))]


def _paths(path: str | Sequence[str]) -> list[Path]:
    return [Path(place) for place in ([path] if isinstance(path, str) else path)]

"""Streaming video segmentation by anisotropic agglomerative adaptive mean shift (AAAMS)."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aaams_stream.cluster.door import segment_video
    from aaams_stream.core.image import ImageSegmentation
    from aaams_stream.core.live_levels import LiveLevels
    from aaams_stream.core.pool import pool
    from aaams_stream.errors import AaamsError, ConfigError, SinkError, SourceError
    from aaams_stream.model import EventKind, FrameSegmentation, SegmentGraph
    from aaams_stream.objects.follower import Follower, Scene, Sighting
    from aaams_stream.objects.memory import Followed
    from aaams_stream.objects.tracker import (
        begin_following,
        follow,
        keep_following,
        mask_at,
    )
    from aaams_stream.params import Params
    from aaams_stream.points import AAAMS
    from aaams_stream.run.compiled import Segmenter, segment_image
    from aaams_stream.run.stream import replay, stream
    from aaams_stream.source.images import read_image
    from aaams_stream.store import Volume, open_volume, pack

# What happens is logged under the names of modules; nobody hears of it who does not ask.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__version__ = "0.2.0"

# Where each public name lives. Imported on first use, because numba and OpenCV take seconds.
_HOMES = {
    "AAAMS": "points",
    "AaamsError": "errors",
    "ConfigError": "errors",
    "EventKind": "model",
    "Followed": "objects.memory",
    "Follower": "objects.follower",
    "FrameSegmentation": "model",
    "ImageSegmentation": "core.image",
    "LiveLevels": "core.live_levels",
    "Params": "params",
    "Scene": "objects.follower",
    "SegmentGraph": "model",
    "Segmenter": "run.compiled",
    "Sighting": "objects.follower",
    "SinkError": "errors",
    "SourceError": "errors",
    "Volume": "store",
    "begin_following": "objects.tracker",
    "follow": "objects.tracker",
    "keep_following": "objects.tracker",
    "mask_at": "objects.tracker",
    "open_volume": "store",
    "pack": "store",
    "pool": "core.pool",
    "read_image": "source.images",
    "replay": "run.stream",
    "segment_image": "run.compiled",
    "segment_video": "cluster.door",
    "stream": "run.stream",
}

__all__ = [
    "AAAMS",
    "AaamsError",
    "ConfigError",
    "EventKind",
    "Followed",
    "Follower",
    "FrameSegmentation",
    "ImageSegmentation",
    "LiveLevels",
    "Params",
    "Scene",
    "SegmentGraph",
    "Segmenter",
    "Sighting",
    "SinkError",
    "SourceError",
    "Volume",
    "__version__",
    "begin_following",
    "follow",
    "keep_following",
    "mask_at",
    "open_volume",
    "pack",
    "pool",
    "read_image",
    "replay",
    "segment_image",
    "segment_video",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

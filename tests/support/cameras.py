"""Cameras that are not there: FFmpeg's generated pictures, at the pace of a camera."""

from __future__ import annotations

from aaams_stream.model import Clip
from aaams_stream.source import Source, VideoReader


def fake_camera(width: int = 160, height: int = 120, rate: int = 30) -> Source:
    """Return a live source that never ends: a moving test picture in real time."""
    graph = f"testsrc2=size={width}x{height}:rate={rate},realtime"
    reader = VideoReader(graph, "fake camera", container_format="lavfi")
    return Source(reader, Clip(), live=True)

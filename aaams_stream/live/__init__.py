"""Segmentation as frames come: late ones are dropped, the newest wins, latency never builds up."""

from aaams_stream.live.history import Memory
from aaams_stream.live.loop import LiveFrame, LiveLoop, Status
from aaams_stream.live.quality import LADDER, Governor, Quality, ladder_for
from aaams_stream.live.recorder import Recorder

__all__ = [
    "LADDER",
    "Governor",
    "LiveFrame",
    "LiveLoop",
    "Memory",
    "Quality",
    "Recorder",
    "Status",
    "ladder_for",
]

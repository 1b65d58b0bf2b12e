"""Segmentation as frames come: late ones are dropped, the newest wins, latency never builds up."""

from aaams_stream.live.board import LiveFrame, Status
from aaams_stream.live.history import History
from aaams_stream.live.loop import LiveLoop
from aaams_stream.live.quality import LADDER, Governor, Quality, ladder_for
from aaams_stream.live.recorder import Recorder

__all__ = [
    "LADDER",
    "Governor",
    "History",
    "LiveFrame",
    "LiveLoop",
    "Quality",
    "Recorder",
    "Status",
    "ladder_for",
]

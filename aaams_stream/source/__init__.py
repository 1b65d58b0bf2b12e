"""Frames from files, folders, cameras, addresses and pipes: ordered, upright, exact in time.

What PyAV knows ends here: what leaves are `Frame`s, plain numbers and `SourceError`s.
"""

from aaams_stream.source.open import check_clip, fingerprint, local_file, open_source
from aaams_stream.source.reader import DEFAULT_RATE, VideoReader
from aaams_stream.source.source import COMPLETE, INTERRUPTED, FrameReader, Source

__all__ = [
    "COMPLETE",
    "DEFAULT_RATE",
    "INTERRUPTED",
    "FrameReader",
    "Source",
    "VideoReader",
    "check_clip",
    "fingerprint",
    "local_file",
    "open_source",
]

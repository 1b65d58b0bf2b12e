"""What this machine can read: cameras, and the codecs that FFmpeg was built with."""

from __future__ import annotations

import sys
from pathlib import Path

import av

# What videos mostly are; and what films and stored frames are written with.
_DECODERS = ("h264", "hevc", "av1", "vp9", "mpeg4", "mpeg2video", "prores", "mjpeg", "ffv1")
_ENCODERS = ("libx264", "libopenh264", "mpeg4", "ffv1")


def cameras() -> list[str]:
    """Return the cameras by the names that commands take; on Linux alone they can be listed."""
    if not sys.platform.startswith("linux"):
        return []
    found = Path("/dev").glob("video[0-9]*")
    numbers = (path.name.removeprefix("video") for path in found)
    return [f"camera:{number}" for number in sorted(numbers, key=int)]


def codecs() -> dict[str, list[str]]:
    """Return which of the usual codecs can be read and written."""
    return {
        "decoders": [name for name in _DECODERS if _has(name, "r")],
        "encoders": [name for name in _ENCODERS if _has(name, "w")],
    }


def _has(name: str, mode: str) -> bool:
    try:
        av.Codec(name, mode)  # type: ignore[arg-type]
    except ValueError:  # PyAV's UnknownCodecError
        return False
    return True


def ffmpeg_version() -> str:
    """Return the version of FFmpeg's codec library that PyAV brings."""
    return ".".join(map(str, av.library_versions["libavcodec"]))

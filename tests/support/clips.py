"""Clips encoded on the spot, and frames to fill them with.

FFV1 with bgr0 in Matroska returns RGB exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import Clip, Frame
from aaams_stream.source import Source, open_source

H264 = {"codec": "libx264", "pix_fmt": "yuv420p"}  # for `write_clip`


def moving_frames(
    count: int, height: int = 48, width: int = 64, seed: int = 0
) -> list[NDArray[np.uint8]]:
    """Return a bright square that drifts over four coloured fields, no two frames alike."""
    rng = np.random.default_rng(seed)
    y, x = np.indices((height, width))
    fields = rng.integers(20, 160, (4, 3))[2 * (y >= height // 2) + (x >= width // 2)]
    frames = []
    for index in range(count):
        frame = fields.astype(np.uint8)
        left = (3 * index) % max(1, width - width // 4)
        frame[height // 4 : height // 2, left : left + width // 4] = (250, 240, 30)
        frame[0, index % width] = (index % 256, 255, 0)
        frames.append(frame)
    return frames


def write_clip(
    path: Path,
    frames: Iterable[NDArray[np.uint8]],
    *,
    rate: int | Fraction = 25,
    codec: str = "ffv1",
    pix_fmt: str = "bgr0",
    ticks: Sequence[int] | None = None,
    time_base: Fraction | None = None,
    aspect: Fraction | None = None,
    rotation: int | None = None,
    title: str | None = None,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
) -> Path:
    """Encode `frames` (h, w, 3); `ticks` of `time_base` are their times, else one per frame."""
    frames = list(frames)
    height, width = frames[0].shape[:2]
    with av.open(str(path), "w", options=container_options or {}) as container:
        if title is not None:
            container.metadata["title"] = title
        stream = container.add_stream(codec, rate=rate, options=options or {})
        stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
        base = time_base or 1 / Fraction(rate)
        stream.codec_context.time_base = base
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        if rotation is not None:
            stream.set_display_rotation(rotation)
        for index, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=pix_fmt)
            frame.pts = index if ticks is None else ticks[index]
            frame.time_base = base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_images(folder: Path, frames: Iterable[NDArray[np.uint8]], name: str) -> Path:
    """Write `frames` as PNG files; `name` is a format for their number, `{}.png` or the like."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, pixels in enumerate(frames):
        form = "rgba" if pixels.shape[2] == 4 else "rgb24"
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format=form)
        with av.open(str(folder / name.format(index)), "w", format="image2") as container:
            stream = container.add_stream("png", rate=1, options={"update": "1"})
            stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, form
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    return folder


def decoded_count(path: Path) -> int:
    """Return how many frames PyAV makes of a clip before it ends or fails."""
    count = 0
    with av.open(str(path)) as container:
        try:
            for _ in container.decode(video=0):
                count += 1
        except av.error.FFmpegError:
            pass
    return count


def read_source(spec: str | Path, **clip: object) -> tuple[list[Frame], Source]:
    """Return all frames of a source and the source after its end; `clip` as in `Clip`."""
    with open_source(spec, Clip(**clip)) as opened:
        return list(opened), opened


def film_times(path: Path) -> list[Fraction]:
    """Return when the frames of a clip are shown."""
    with av.open(str(path)) as container:
        return [Fraction(frame.pts * frame.time_base) for frame in container.decode(video=0)]

"""Measure how soon a run that was broken off late in a long film goes on.

For each codec and container: a drawn film of 64x48 is encoded, and a volume begun that holds nine
tenths of it. Its labels are blank, but the state that is saved with it is the segmenter's, after
the last frames before that place. Then `segment_video(…, resume=True)` runs until its first new
frame is done.

    marked    seconds of wall clock and CPU to the first new frame
    unmarked  the same when the volume has no marks, as those of earlier versions: every frame
              before is decoded
    bytes     whether a short film that was broken off and resumed gives the files of an unbroken
              run, each byte

Raw H.264 has no times and cannot be sought in: it shows the way back to decoding everything.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np

from aaams_stream import Segmenter, __version__, open_volume, segment_video, store
from aaams_stream.model import (
    ADJACENCY_DTYPE,
    EVENT_DTYPE,
    SEGMENT_DTYPE,
    FrameSegmentation,
)
from aaams_stream.run.progress import Progress
from aaams_stream.run.segment_video import Interrupted
from aaams_stream.run.sink import MARKS
from aaams_stream.source import open_source

WIDTH, HEIGHT, RATE = 64, 48, 25
SHORT = 2000  # frames of the film that is segmented whole
WARM = 8  # frames before the break that the segmenter sees
BLANK = FrameSegmentation(
    index=0,
    time=None,
    ids=np.ones((HEIGHT, WIDTH), np.uint32),
    segments=np.zeros(0, SEGMENT_DTYPE),
    adjacency=np.zeros(0, ADJACENCY_DTYPE),
    events=np.zeros(0, EVENT_DTYPE),
    stats={},
)


class Kind(NamedTuple):
    """One way to keep a film."""

    name: str  # of the file
    codec: str
    options: dict[str, str]
    pix_fmt: str = "yuv420p"


_X264 = {"preset": "ultrafast", "bf": "3", "g": "250"}
KINDS = (
    Kind("h264.mp4", "libx264", _X264),
    Kind("h264.mkv", "libx264", _X264),
    Kind("h264.ts", "libx264", _X264),
    Kind("mpeg4.avi", "mpeg4", {"bf": "2", "g": "100"}),
    Kind("mjpeg.avi", "mjpeg", {}, "yuvj420p"),
    Kind("vp9.webm", "libvpx-vp9", {"deadline": "realtime", "cpu-used": "8"}),
    Kind("interlaced.ts", "mpeg2video", {"flags": "+ildct+ilme", "bf": "2", "g": "15"}),
    Kind("mpeg2.mpg", "mpeg2video", {"bf": "2", "g": "15"}),
    Kind("raw.h264", "libx264", _X264),
)


class Stopwatch:
    """Notes when the first new frame is done, and presses Ctrl-C."""

    def __init__(self) -> None:
        self.spent: tuple[float, float] | None = None
        self._begun = time.perf_counter(), time.process_time()

    def __call__(self, progress: Progress) -> None:
        """Take the times at the first call."""
        if self.spent is None:
            wall, cpu = self._begun
            self.spent = time.perf_counter() - wall, time.process_time() - cpu
            signal.raise_signal(signal.SIGINT)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--frames", type=int, default=100_000, help="of the film (100000)")
    parser.add_argument("--kinds", nargs="*", help="parts of their names, as in mp4 (all)")
    args = parser.parse_args(argv)
    kinds = [
        kind
        for kind in KINDS
        if kind.codec in av.codecs_available
        and (not args.kinds or any(part in kind.name for part in args.kinds))
    ]
    print(f"{'':14}  frames   at    marked: wall, CPU s   unmarked: wall, CPU s   bytes")
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(kind, args.frames, Path(folder)), flush=True)
    return 0


def measure(kind: Kind, frames: int, folder: Path) -> str:
    """Return one line of the table."""
    print(f"{kind.name} …", file=sys.stderr)
    same = compare(encode(kind, folder / "short", SHORT), folder)  # and everything is loaded
    film, broken = encode(kind, folder / "long", frames), frames * 9 // 10 // 8 * 8
    path = folder / "long.zarr"
    begin(film, path, broken)
    wall, cpu = first_new_frame(film, path)
    forget_marks(path)
    slow_wall, slow_cpu = first_new_frame(film, path)
    return (
        f"{kind.name:14} {frames:7} {broken:6} {wall:12.2f} {cpu:6.2f} {slow_wall:15.2f} "
        f"{slow_cpu:6.2f}         {'same' if same else 'DIFFER'}"
    )


def compare(film: Path, folder: Path) -> bool:
    """Say whether a run that was broken off and resumed gives what an unbroken one gives."""
    whole, torn = folder / "whole.zarr", folder / "torn.zarr"
    segment_video(film, whole)

    def press(progress: Progress) -> None:
        if progress.frames == SHORT * 9 // 10:
            signal.raise_signal(signal.SIGINT)

    try:
        segment_video(film, torn, progress=press)
    except Interrupted:
        segment_video(film, torn, resume=True)
    return contents(whole) == contents(torn)


def begin(film: Path, path: Path, frames: int) -> None:
    """Begin a volume of `frames` blank label images, and break it off."""
    first_new_frame(film, path)  # a volume of a chunk or two, with the right header
    writer, _ = store.resume(path, open_volume(path).header, __version__)
    segmenter = Segmenter()
    with open_source(film) as source:
        for frame in source:
            if frame.index >= frames - WARM:
                segmenter.step(frame.rgb, float(frame.time))
            if frame.index >= writer.frames:
                writer.append(BLANK, float(frame.time))
            if writer.frames == frames:
                break
        assert segmenter.state is not None
        writer.commit({**segmenter.state.to_arrays(), MARKS: source.marks(frames)})
    writer.release()


def forget_marks(path: Path) -> None:
    """Take the marks out of a volume that is not complete."""
    writer, state = store.resume(path, open_volume(path).header, __version__)
    assert state is not None
    del state[MARKS]
    writer.commit(state)
    writer.release()


def first_new_frame(film: Path, path: Path) -> tuple[float, float]:
    """Resume a volume until its first new frame; return seconds of wall clock and CPU."""
    watch = Stopwatch()
    with contextlib.suppress(Interrupted):
        segment_video(film, path, resume=True, progress=watch)
    assert watch.spent is not None
    return watch.spent


def encode(kind: Kind, folder: Path, count: int) -> Path:
    """Write a film of a square that drifts, with its number in black and white."""
    folder.mkdir()
    path = folder / kind.name
    with av.open(str(path), "w") as container:
        stream = container.add_stream(kind.codec, rate=RATE, options=kind.options)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, kind.pix_fmt
        for index, planes in enumerate(draw(count)):
            frame = av.VideoFrame.from_ndarray(planes, format=kind.pix_fmt)
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def draw(count: int) -> Iterator[np.ndarray]:
    """Yield planes of YUV 4:2:0, no two alike."""
    planes = np.full((HEIGHT * 3 // 2, WIDTH), 128, np.uint8)
    ground = np.linspace(60, 120, WIDTH, dtype=np.uint8)
    for index in range(count):
        planes[:HEIGHT] = ground
        left, top = index % (WIDTH - 16), index // 7 % (HEIGHT - 24)
        planes[8 + top : 24 + top, left : left + 16] = 220
        for bit in range(17):
            planes[:3, 3 * bit : 3 * bit + 3] = 230 if index >> bit & 1 else 20
        yield planes


def contents(folder: Path) -> dict[str, bytes]:
    """Return what is in every file below a folder."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


if __name__ == "__main__":
    sys.exit(main())

"""Our optical flow beside OpenCV's dense inverse search, on pairs of frames of real video.

For every pair: the share of pixels that find their colour (within 3 and 5 L*a*b* units) where the
flow says they were, the mean colour difference there, and the CPU of the search on one thread.
Both search luma at half the resolution of the frame ("fine") and at a quarter ("fast").
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import report
from numpy.typing import NDArray

from aaams_stream.core import features
from aaams_stream.core.flow import backward_flow
from aaams_stream.source.images import read_image

Luma = NDArray[np.uint8]
Flow = NDArray[np.float32]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 on a problem the user can fix."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    data = os.environ.get("VIDEO", "data/video")
    parser.add_argument("--data", type=Path, default=Path(data), help=f"folder of clips ({data})")
    parser.add_argument("--pairs", type=int, default=8, help="of each clip (8)")
    args = parser.parse_args(argv)
    clips = sorted(path for path in args.data.glob("*") if (path / "frames").is_dir())
    if not clips:
        print(f"error: {args.data}: holds no clip with a folder `frames`", file=sys.stderr)
        return 2
    cv2.setNumThreads(1)
    found: dict[str, list[tuple[float, ...]]] = {}
    for clip in clips:
        for now, before in pairs(clip, args.pairs):
            for name, seek in SEARCHES.items():
                found.setdefault(name, []).append(judge(now, before, seek))
    header = ("search", "within 3", "within 5", "mean difference", "CPU ms")
    rows = [(name, *np.mean(scores, axis=0)) for name, scores in found.items()]
    print(report.markdown_table(header, rows))
    return 0


def pairs(clip: Path, count: int) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Yield frames of a clip, each with the one before it."""
    before = None
    for path in sorted((clip / "frames").iterdir())[: count + 1]:
        now = np.ascontiguousarray(read_image(path), np.uint8)
        if before is not None:
            yield now, before
        before = now


def ours(quality: str) -> Callable[[Luma, Luma], Flow]:
    """Return our search."""
    return lambda now, before: backward_flow(now, before, now.shape, quality)


def theirs(finest: int) -> Callable[[Luma, Luma], Flow]:
    """Return OpenCV's, with the same patches."""
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
    search.setFinestScale(finest)
    search.setPatchStride(6)
    search.setGradientDescentIterations(8)
    search.setVariationalRefinementIterations(0)
    return lambda now, before: np.asarray(search.calc(now, before, None), np.float32)  # type: ignore[call-overload]


SEARCHES = {
    "ours, fine": ours("fine"),
    "OpenCV, fine": theirs(0),
    "ours, fast": ours("fast"),
    "OpenCV, fast": theirs(1),
}


def judge(
    now: NDArray[np.uint8], before: NDArray[np.uint8], seek: Callable[[Luma, Luma], Flow]
) -> tuple[float, ...]:
    """Return how well the flow between two frames leads to the same colours, and its CPU in ms."""
    luma = features.half_luma(now), features.half_luma(before)
    begun = time.process_time()
    flow = seek(*luma)
    spent = time.process_time() - begun
    h, w = now.shape[:2]
    flow = features.resized(flow, (h, w)) * np.float32(w / luma[0].shape[1])
    place = np.mgrid[:h, :w].astype(np.float32)
    at = (place[1] + flow[..., 0], place[0] + flow[..., 1])
    here, there = (features.smoothed(features.lab_planes(rgb), w) for rgb in (now, before))
    warped = [
        cv2.remap(plane, *at, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE) for plane in there
    ]
    gap = np.sqrt(sum((mine - plane) ** 2 for mine, plane in zip(warped, here, strict=True)))
    return float((gap <= 3).mean()), float((gap <= 5).mean()), float(gap.mean()), 1e3 * spent


if __name__ == "__main__":
    raise SystemExit(main())

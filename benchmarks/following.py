"""Follow objects of real video from their first mask, and measure how close the masks stay.

Every sequence is segmented at its own size with one setting for all, whole; `aaams_stream.Follower`
gets the truth of the first frame, with as many objects as that shows. As DAVIS measures: J is the
overlap of regions, F the agreement of outlines, over the frames without the first and the last;
their mean, recall (share of frames above .5) and decay (mean of the first quarter of the frames
less that of the last), each first over the frames of an object, then over all objects. Beside it:
what the ids of the first frame give when nothing follows (`by id`), in how many frames an object
that is there was said to be lost, and the CPU that following takes on top of segmenting.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import video_quality
from numpy.typing import NDArray

from aaams_stream.errors import AaamsError

if TYPE_CHECKING:
    from aaams_stream import Scene

Mask = NDArray[np.bool_]
HEAD = (
    "sequence                   J recall  decay      F recall  decay   J by id   lost   "
    "CPU ms: segmenting, following"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 on a problem the user can fix."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("data/video"), help="the set")
    parser.add_argument("--sequences", default="davis", help="part of their names (davis)")
    parser.add_argument("--frames", type=int, default=100000, help="at most (all)")
    parser.add_argument(
        "--objects",
        action="store_true",
        help="each value of the truth is an object of its own; by default all above 0 is one",
    )
    parser.add_argument(
        "--mirror", action="store_true", help="clips mirrored: tells luck from gain"
    )
    args = parser.parse_args(argv)
    try:
        clips = video_quality.find_sequences(args.data, [args.sequences], args.frames, 1.0)
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(HEAD)
    rows = []
    for clip in clips:
        found = measure(dataclasses.replace(clip, mirrored=args.mirror), args.objects)
        rows += found
        print(line(clip.name, np.mean(found, axis=0)), flush=True)
    print(line(f"mean of {len(rows)} objects", np.mean(rows, axis=0)))
    return 0


def line(name: str, row: NDArray[np.float64]) -> str:
    """Return one line of the table."""
    scores = "  ".join(" ".join(f"{value:6.3f}" for value in part) for part in (row[:3], row[3:6]))
    rest = f"{row[6]:6.3f} {row[7]:6.3f}"
    return f"{name:<22} {scores}    {rest}   {1e3 * row[8]:.0f}, {1e3 * row[9]:.1f}"


def measure(clip: video_quality.Clip, several: bool) -> list[NDArray[np.float64]]:
    """Return for each object: J and F (mean, recall, decay), J by id, frames lost, CPU seconds."""
    from aaams_stream import Follower, Segmenter
    from aaams_stream.metrics import contour_accuracy, region_similarity

    pictures, truths = clip.load()
    truth = [labels if several else (labels > 0).astype(np.uint8) for labels in truths]
    numbers = [int(n) for n in np.unique(truth[0]) if 0 < n != clip.ignore]
    begun = time.process_time()
    segmenter = Segmenter()
    frames = [dataclasses.replace(segmenter.step(rgb), rgb=rgb) for rgb in pictures]
    between = time.process_time()
    follower = Follower()
    scenes: list[Scene] = []
    for frame in frames:
        scene = follower.step(frame)
        if not scenes:
            for number in numbers:
                follower.begin(truth[0] == number)
            scene = follower.scene
        scenes.append(scene)
    ended = time.process_time()
    cpu = ((between - begun) / len(frames), (ended - between) / len(frames))
    rows = []
    for place, number in enumerate(numbers, start=1):
        judged = slice(1, -1) if len(frames) > 2 else slice(1, None)
        true = [labels == number for labels in truth[judged]]
        masks = [scene.mask(place) for scene in scenes[judged]]
        named = by_id([frame.ids for frame in frames], truth[0] == number)[judged]
        j = np.array([region_similarity(a, b) for a, b in zip(masks, true, strict=True)])
        f = np.array([contour_accuracy(a, b) for a, b in zip(masks, true, strict=True)])
        ids = [region_similarity(a, b) for a, b in zip(named, true, strict=True)]
        lost = [t.any() and not m.any() for m, t in zip(masks, true, strict=True)]
        rows.append(np.array([*told(j), *told(f), np.mean(ids), np.mean(lost), *cpu]))
    return rows


def told(values: NDArray[Any]) -> tuple[float, float, float]:
    """Return mean, recall and decay of the frames of an object."""
    edges = np.rint(np.linspace(0, len(values), 5)).astype(int)
    quarters = [values[a:b] for a, b in itertools.pairwise(edges) if b > a]
    decay = float(quarters[0].mean() - quarters[-1].mean())
    return float(values.mean()), float((values > 0.5).mean()), decay


def by_id(ids: list[NDArray[np.uint32]], mask: Mask) -> list[Mask]:
    """Return the masks of the ids that lie mostly inside the first mask."""
    names, inside = np.unique(ids[0][mask], return_counts=True)
    sizes = np.array([np.count_nonzero(ids[0] == name) for name in names])
    return [np.isin(frame, names[2 * inside > sizes]) for frame in ids]


if __name__ == "__main__":
    sys.exit(main())

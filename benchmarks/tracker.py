"""Follow objects of real video from their first mask, and measure how close the masks stay.

Every sequence is segmented at its own size with one setting for all; `aaams_stream.follow` gets the
truth of the first frame. J is the overlap of regions, F the agreement of outlines, both means over
the later frames. Beside it: what the ids of the first frame give when nothing follows (`by id`),
and the CPU that following takes on top of segmenting.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import video_quality
from numpy.typing import NDArray

from aaams_stream.errors import AaamsError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 on a problem the user can fix."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("data/video"), help="the set")
    parser.add_argument("--sequences", default="davis", help="part of their names (davis)")
    parser.add_argument("--frames", type=int, default=40, help="at most, from the first on (40)")
    args = parser.parse_args(argv)
    try:
        clips = video_quality.find_sequences(args.data, [args.sequences], args.frames, 1.0)
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("sequence                   J      F   J by id   CPU ms: segmenting, following")
    rows = []
    for clip in clips:
        rows.append(measure(clip))
        print(line(clip.name, rows[-1]), flush=True)
    print(line("mean", np.mean(rows, axis=0)))
    return 0


def line(name: str, row: NDArray[np.float64]) -> str:
    """Return one line of the table."""
    scores = f"{row[0]:6.3f} {row[1]:6.3f}    {row[2]:6.3f}"
    return f"{name:<22} {scores}   {1e3 * row[3]:.0f}, {1e3 * row[4]:.0f}"


def measure(clip: video_quality.Clip) -> NDArray[np.float64]:
    """Return J, F, J by id alone, and the CPU seconds a frame of segmenting and of following."""
    from aaams_stream import Segmenter, follow
    from aaams_stream.metrics import contour_accuracy, region_similarity

    pictures, truths = clip.load()
    begun = time.process_time()
    segmenter = Segmenter()
    frames = [dataclasses.replace(segmenter.step(rgb), rgb=rgb) for rgb in pictures]
    between = time.process_time()
    masks = list(follow(frames, truths[0] > 0))
    ended = time.process_time()
    named = list(by_id([frame.ids for frame in frames], truths[0] > 0))
    later = list(zip(masks, named, (truth > 0 for truth in truths), strict=True))[1:]
    return np.array(
        [
            np.mean([region_similarity(mask, truth) for mask, _, truth in later]),
            np.mean([contour_accuracy(mask, truth) for mask, _, truth in later]),
            np.mean([region_similarity(name, truth) for _, name, truth in later]),
            (between - begun) / len(frames),
            (ended - between) / len(frames),
        ]
    )


def by_id(ids: list[NDArray[np.uint32]], mask: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
    """Yield the masks of the ids that lie mostly inside the first mask."""
    names, inside = np.unique(ids[0][mask], return_counts=True)
    sizes = np.array([np.count_nonzero(ids[0] == name) for name in names])
    for frame in ids:
        yield np.isin(frame, names[2 * inside > sizes])


if __name__ == "__main__":
    sys.exit(main())

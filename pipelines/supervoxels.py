"""Follow an object through a clip and tell how close it came: a tracker on supervoxels.

    python pipelines/supervoxels.py INPUT -o FOLDER --mask MASK.png [--frame N] [--truth FOLDER]
    python pipelines/supervoxels.py INPUT -o FOLDER --click X,Y [--click X,Y …] [--not X,Y …]
    python pipelines/supervoxels.py VOLUME -o FOLDER --click X,Y --at 25

Takes what `aaams-stream follow` takes, and does that. With --truth, a folder of masks from frame N
on, it also tells J (overlap) and F (outline): means over the frames after the first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import aaams_stream as aaams
from aaams_stream.cli import main as run_command
from aaams_stream.metrics import contour_accuracy, region_similarity
from aaams_stream.source.images import read_image


def main(argv: Sequence[str] | None = None) -> int:
    """Follow an object; 2 on a problem the user can fix."""
    parser = argparse.ArgumentParser(description="Follow an object through a clip.", add_help=False)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--truth", type=Path)
    words = sys.argv[1:] if argv is None else list(argv)
    if not {"-h", "--help"}.isdisjoint(words):
        return run_command(["follow", "--help"])
    args, rest = parser.parse_known_args(words)
    try:
        truths = sorted(args.truth.glob("*.png")) if args.truth else []
        if args.truth and not truths:
            raise aaams.SourceError(
                f"{args.truth}: no truth images found; expected one .png per frame"
            )
        code = run_command(["follow", *rest, "-o", str(args.output), "--quiet"])
        if code == 0:
            report(sorted((args.output / "masks").glob("*.png")), truths)
    except aaams.AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return code


def report(masks: list[Path], truths: list[Path]) -> None:
    """Count the frames; measure those after the first if there is a truth."""
    line = f"{len(masks)} frames"
    scores = []
    for mask, truth in list(zip(masks, truths, strict=False))[1:]:
        found, true = read_mask(mask), read_mask(truth)
        scores.append((region_similarity(found, true), contour_accuracy(found, true)))
    if scores:
        j, f = np.mean(scores, axis=0)
        line += f", J {j:.3f}, F {f:.3f} over {len(scores)} of them"
    print(line)


def read_mask(path: Path) -> NDArray[np.bool_]:
    """Read a picture: True where it is above 0 in any colour."""
    picture = read_image(path)
    return np.asarray(picture > 0 if picture.ndim == 2 else (picture[..., :3] > 0).any(axis=2))


if __name__ == "__main__":
    sys.exit(main())

"""Follow an object through a clip, given its mask in one frame: a tracker on supervoxels.

    python pipelines/supervoxels.py INPUT -o FOLDER --mask MASK.png [--frame N] [--truth FOLDER]
    python pipelines/supervoxels.py INPUT -o FOLDER --click X,Y [--click X,Y …]
    python pipelines/supervoxels.py VOLUME -o FOLDER --click X,Y --at 25

INPUT is a volume, or anything that can be segmented: then that is done on the way. The mask is a
picture of the frames' size, above 0 where the object is; a click takes the segment under it. With
--at N or --level L a volume is seen at that level: a click takes the group under it, and groups are
what is followed. Writes FOLDER/masks/00000.png and so on, and FOLDER/overlay.mp4. With --truth, a
folder of masks from frame N on, it also tells how close it came: J (overlap) and F (outline).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import aaams_stream as aaams
from aaams_stream.cli import options
from aaams_stream.draw.video import VideoWriter
from aaams_stream.files import encode_mask
from aaams_stream.metrics import contour_accuracy, region_similarity
from aaams_stream.model import FrameSegmentation
from aaams_stream.source.images import read_image

TICK = Fraction(1, 90000)  # of the overlay's clock, in seconds
PAINT = np.array([255, 60, 40])


def main(argv: Sequence[str] | None = None) -> int:
    """Follow an object; 2 on a problem the user can fix."""
    parser = argparse.ArgumentParser(description="Follow an object through a clip.")
    parser.add_argument("input", help="a volume, a video, a folder of pictures, camera:N, demo")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--mask", type=Path, help="picture of the object, above 0 where it is")
    parser.add_argument(
        "--click",
        type=place,
        action="append",
        default=[],
        metavar="X,Y",
        help="a pixel of the object, instead of a mask; may be given several times",
    )
    parser.add_argument("--frame", type=int, default=0, help="number of the mask's frame, from 0")
    parser.add_argument("--truth", type=Path, help="folder of masks to compare with")
    options.add_level(parser)
    args = parser.parse_args(argv)
    if (args.mask is None) == (not args.click):
        parser.error("give either --mask or --click")
    try:
        if args.output.exists() and (not args.output.is_dir() or any(args.output.iterdir())):
            raise aaams.SinkError(f"{args.output}: exists and is not an empty folder")
        with closing(segmented(args)) as frames:
            report(follow(frames, args), args.truth)
    except aaams.AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def segmented(args: argparse.Namespace) -> Iterator[FrameSegmentation]:
    """Yield the frames of a volume, or of a source that is segmented now."""
    source = args.input
    if Path(source, "zarr.json").exists():
        volume = aaams.open_volume(source)
        if not volume.complete:
            raise aaams.SinkError(f"{source}: is not complete; finish it with segment --resume")
        yield from aaams.replay(options.seen_at(volume, args))
    elif args.at is not None or args.level is not None:
        raise aaams.ConfigError(f"{source}: only a volume has levels; segment it first")
    else:
        yield from aaams.stream(source)


def follow(
    frames: Iterator[FrameSegmentation], args: argparse.Namespace
) -> Iterator[NDArray[np.bool_]]:
    """Yield the object's masks as they are written."""
    first = next(islice(frames, args.frame, None), None) if args.frame >= 0 else None
    if first is None:
        raise aaams.ConfigError(f"--frame {args.frame} is out of range of {args.input}")
    mask = read_mask(args.mask) if args.mask else aaams.mask_at(first, args.click)
    known = aaams.begin_following(first, mask)
    (args.output / "masks").mkdir(parents=True, exist_ok=True)
    height, width = mask.shape
    with VideoWriter(
        args.output / "overlay.mp4", (width, height), rate=Fraction(25), time_base=TICK
    ) as film:
        frame: FrameSegmentation | None = first
        while frame is not None:
            if frame is not first:
                known = aaams.keep_following(known, frame)
            path = args.output / "masks" / f"{frame.index:05d}.png"
            path.write_bytes(encode_mask(path, known.mask))
            film.add(painted(frame.rgb, known.mask), Fraction(frame.time))
            yield known.mask
            frame = next(frames, None)


def report(masks: Iterator[NDArray[np.bool_]], truth: Path | None) -> None:
    """Count the frames; measure those after the first if there is a truth."""
    truths = sorted(truth.glob("*.png")) if truth else []
    if truth and not truths:
        raise aaams.SourceError(f"{truth}: no truth images found; expected one .png per frame")
    scores = []
    count = 0
    for mask in masks:
        if 0 < count < len(truths):
            true = read_mask(truths[count])
            scores.append((region_similarity(mask, true), contour_accuracy(mask, true)))
        count += 1
    line = f"{count} frames"
    if scores:
        j, f = np.mean(scores, axis=0)
        line += f", J {j:.3f}, F {f:.3f} over {len(scores)} of them"
    print(line)


def read_mask(path: Path) -> NDArray[np.bool_]:
    """Read a picture: True where it is above 0 in any colour."""
    picture = read_image(path)
    return np.asarray(picture > 0 if picture.ndim == 2 else (picture[..., :3] > 0).any(axis=2))


def painted(rgb: NDArray[np.uint8], mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return the picture with the object tinted."""
    drawn = rgb.copy()
    drawn[mask] = (0.5 * rgb[mask] + 0.5 * PAINT).astype(np.uint8)
    return drawn


def place(text: str) -> tuple[int, int]:
    """Read X,Y."""
    x, comma, y = text.partition(",")
    if not (comma and x.strip().isdecimal() and y.strip().isdecimal()):
        raise argparse.ArgumentTypeError(f"expected X,Y, for example 320,240, got {text!r}")
    return int(x), int(y)


if __name__ == "__main__":
    sys.exit(main())

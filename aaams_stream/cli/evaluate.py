"""The command `evaluate`: a volume against the truth, one image per frame."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaams_stream.cli import options
from aaams_stream.cli.meter import Meter
from aaams_stream.errors import SinkError, SourceError
from aaams_stream.paths import expanded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from aaams_stream.metrics import ClipScores
    from aaams_stream.store import Volume

MEANINGS = {
    "ue3d": "undersegmentation error in 3-D, from 0, less is better",
    "sa3d": "share of the truth covered by supervoxels at least half inside",
    "j_oracle": "IoU of the objects, each supervoxel named by its majority",
    "j_prop": "IoU of the objects, supervoxels named by the first frame alone",
    "br": "boundary recall",
    "bp": "boundary precision",
    "contour": "share of pixels on a boundary",
    "ev": "share of the colours' variance explained",
    "life": "frames an id lives, mean",
    "life_vol": "the same, weighted by volume",
    "per_frame": "segments a frame",
    "n_sv": "supervoxels",
    "frames": "frames",
}


def add_commands(commands: Any) -> None:
    """Add `evaluate` to the parser."""
    evaluate = commands.add_parser(
        "evaluate",
        help="compare a volume with the truth",
        description="Compare a volume with a folder of truth images, one PNG per frame in natural "
        "order. Grey levels are labels; colours count as the number 0xRRGGBB. 0 is background.",
    )
    options.add_volume(evaluate)
    evaluate.add_argument(
        "truth", metavar="GROUND_TRUTH_DIR", help="a folder of truth images, one per frame"
    )
    evaluate.add_argument(
        "--ignore",
        metavar="N",
        type=_label,
        action="append",
        default=[],
        help="a label whose pixels are not judged; may be repeated",
    )
    options.add_level(evaluate)
    options.add_reporting(evaluate)
    evaluate.set_defaults(run=run_evaluate)


def run_evaluate(args: argparse.Namespace) -> int:
    """Print the measures of a volume as a table, or as JSON."""
    from aaams_stream.store import open_volume

    volume = open_volume(args.volume)
    truths = find_truths(expanded(args.truth))
    if not volume.frame_count:
        raise SinkError(f"{args.volume}: holds no frames yet, so there is nothing to evaluate")
    if len(truths) != volume.frame_count:
        raise SourceError(
            f"{args.truth}: holds {len(truths)} truth images, but {args.volume} has "
            f"{volume.frame_count} frames; expected one image per frame"
        )
    scores = score_volume(options.seen_at(volume, args), truths, args.ignore, args.quiet)
    values = dataclasses.asdict(scores)
    if args.json:
        print(json.dumps({"volume": args.volume, "truth": args.truth, **values}))
    elif not args.quiet:
        print("\n".join(f"{k:<9}  {_number(values[k]):>8}  {MEANINGS[k]}" for k in MEANINGS))
    return 0


def find_truths(folder: Path) -> list[Path]:
    """Return the PNG files of a folder in natural order."""
    from aaams_stream.source.folder import natural_key

    if not folder.is_dir():
        what = "is a file, expected a folder" if folder.exists() else "no such folder"
        raise SourceError(f"{folder}: {what} of truth images")
    found = [path for path in folder.iterdir() if path.suffix.lower() == ".png"]
    if not found:
        raise SourceError(f"{folder}: no truth images found; expected one .png per frame")
    return sorted(found, key=natural_key)


def read_truth(path: Path) -> NDArray[np.uint32]:
    """Return the labels (h, w) in a PNG: grey levels, or colours as 0xRRGGBB."""
    import numpy as np

    from aaams_stream.source.images import read_image

    image = read_image(path)
    if image.ndim == 2:
        return image.astype(np.uint32)
    red, green, blue = (image[..., c].astype(np.uint32) for c in range(3))
    if image.dtype != np.uint8:
        raise SourceError(f"{path}: expected grey levels or 8-bit colours, got 16-bit colours")
    if np.array_equal(red, green) and np.array_equal(red, blue):
        return red  # grey, stored as colours
    return red << np.uint32(16) | green << np.uint32(8) | blue


def score_volume(
    volume: Volume, truths: list[Path], ignore: list[int], quiet: bool = True
) -> ClipScores:
    """Score a volume frame by frame; without its pictures `ev` is left out."""
    from aaams_stream.metrics import VideoScores

    scores = VideoScores(ignore)
    meter = Meter(quiet)
    reason = ""
    with closing(pictures_of(volume)) as pictures:
        for t, path in enumerate(truths):
            truth = read_truth(path)
            if truth.shape != (volume.height, volume.width):
                height, width = truth.shape
                raise SourceError(
                    f"{path}: is {width}x{height}, expected {volume.width}x{volume.height} as in "
                    "the volume; scale the truth without mixing labels"
                )
            rgb = None
            if not reason:
                try:
                    rgb = next(pictures)
                except SourceError as error:
                    reason = str(error)
            scores.add(volume.ids[t], truth, rgb)
            meter.count(t + 1, len(truths))
    meter.close()
    if reason and not quiet:
        print(f"note: ev is left out ({reason})", file=sys.stderr)
    return scores.result()


def pictures_of(volume: Volume) -> Generator[NDArray[np.uint8]]:
    """Yield the frames of a volume, its own or from the source it was made from."""
    from aaams_stream.run import stream

    with closing(stream.pictures_of(volume, None)) as frames:
        for frame in frames:
            yield frame.rgb


def _label(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"expected a label, for example 255, got {text!r}")
    return value


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"

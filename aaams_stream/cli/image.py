"""The command `image`: one image to segments."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaams_stream.cli import options
from aaams_stream.errors import ConfigError
from aaams_stream.paths import expanded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from aaams_stream.core.image import ImageSegmentation

    Pixels = NDArray[np.uint8] | NDArray[np.uint16]

DEMO = "demo"
PLOT_SUFFIXES = (".png", ".svg", ".pdf")


def add_commands(commands: Any) -> None:
    """Add `image` to the parser."""
    image = commands.add_parser(
        "image",
        help="segment one image",
        description="Segment one image and write its labels, dense from 0.",
    )
    image.add_argument(
        "input", metavar="INPUT", help="an image file, or `demo`: a frame of the clip `demo`"
    )
    image.add_argument(
        "-o",
        "--output",
        metavar="LABELS",
        required=True,
        help="labels to write: .png (16-bit grey levels) or .npy (uint32); a file of that name is "
        "replaced",
    )
    image.add_argument(
        "--segments",
        metavar="N",
        type=options.whole_number,
        help="cut the merge tree at N segments instead of at the level of the settings; 0: there",
    )
    image.add_argument("--overlay", metavar="PNG", help="draw the boundaries over the image")
    image.add_argument(
        "--plot",
        metavar="PNG",
        help="draw modes and bandwidths over the colours, and beside it NAME-history: how the "
        "iterations converged; needs the extra `plot`",
    )
    options.add_settings(image)
    options.add_reporting(image)
    image.set_defaults(run=run_image)


def run_image(args: argparse.Namespace) -> int:
    """Segment one image; write labels and whatever else was asked for, all or nothing."""
    params = options.read_settings(args)
    if args.segments is not None and args.segments < 0:
        raise ConfigError(f"--segments must be >= 0, got {args.segments}")
    from aaams_stream.core import features
    from aaams_stream.source.images import read_image

    outputs = _check_outputs(args)
    image = _demo() if args.input == DEMO else read_image(args.input)
    options.say_if_cold(args.quiet)
    from aaams_stream.run.compiled import missed_in_image, segment_image

    start = time.perf_counter()
    result = segment_image(image, params, segments=args.segments or None)
    seconds = time.perf_counter() - start
    _write(outputs, features.as_rgb(image), result)
    for warning in () if args.quiet else missed_in_image(args.segments, result.count):
        print(f"warning: {warning}", file=sys.stderr)
    if args.json:
        report = {"labels": result.count, "iterations": result.n_iter, "seconds": round(seconds, 3)}
        print(json.dumps(report))
    elif not args.quiet:
        print(
            f"{outputs['labels']}: {result.count} segments, {result.n_iter} iterations, "
            f"{seconds:.2f} s"
        )
    return 0


def _demo() -> NDArray[np.uint8]:
    """Return the demo as one image."""
    from aaams_stream.source.demo import POSTER, demo_frame

    return demo_frame(POSTER).rgb


def _check_outputs(args: argparse.Namespace) -> dict[str, Path]:
    """Return where to write labels, overlay, plot and history, as far as they are wanted."""
    from aaams_stream import files

    wanted: dict[str, tuple[str | Path, Sequence[str]]] = {}
    wanted["labels"] = (args.output, files.LABEL_SUFFIXES)
    if args.overlay is not None:
        wanted["overlay"] = (args.overlay, files.PICTURE_SUFFIXES)
    if args.plot is not None:
        plot = expanded(args.plot)
        history = plot.parent / f"{plot.stem}-history{plot.suffix}"
        wanted |= {"plot": (plot, PLOT_SUFFIXES), "history": (history, PLOT_SUFFIXES)}
    taken = {"the input": None if args.input == DEMO else expanded(args.input)}
    outputs: dict[str, Path] = {}
    for name, (path, suffixes) in wanted.items():
        outputs[name] = files.check_target(path, suffixes, apart=taken)
        taken[f"the file of the {name}"] = outputs[name]
    return outputs


def _write(outputs: dict[str, Path], rgb: Pixels, result: ImageSegmentation) -> None:
    """Write what was asked for: labels, the picture with boundaries, plots."""
    from aaams_stream import files
    from aaams_stream.draw.plots import plot_history
    from aaams_stream.draw.views import draw_boundaries

    with ExitStack() as stack:  # each draft begins right before its own write: it names its errors

        def draft(name: str) -> Path:
            return stack.enter_context(files.Draft(outputs[name]))

        labels = files.encode_labels(outputs["labels"], result.labels)
        draft("labels").write_bytes(labels)
        if "overlay" in outputs:
            drawn = files.encode_image(outputs["overlay"], draw_boundaries(rgb, result.labels))
            draft("overlay").write_bytes(drawn)
        if "plot" in outputs:
            _plot_modes(rgb, result, draft("plot"))
            names = ("clusters", "merges", "largest_shift", "mean_shift")
            columns = {name: getattr(result.history, name) for name in names}
            plot_history(columns, draft("history"))


def _plot_modes(rgb: Pixels, result: ImageSegmentation, path: Path) -> None:
    """Draw modes and bandwidths over the colours."""
    import numpy as np

    from aaams_stream.core import features
    from aaams_stream.draw.plots import plot_modes

    h, w = result.labels.shape
    plot_modes(
        features.lab_planes(rgb)[:, :, :w].reshape(3, h * w).T,
        result.labels.ravel(),
        result.modes[:, :3],
        result.bandwidths[:, :3, :3],
        path,
        colours=rgb.reshape(h * w, 3) / np.iinfo(rgb.dtype).max,
        axis_names=("L*", "a*", "b*"),
        title=f"{result.count} segments: modes and 1-sigma bandwidths in L*a*b*",
    )

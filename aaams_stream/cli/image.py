"""The command `image`: one image to segments."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaams_stream.cli import options
from aaams_stream.errors import ConfigError

if TYPE_CHECKING:
    from aaams_stream.core.image import ImageSegmentation

DEMO = "demo"


def add_commands(commands: Any) -> None:
    """Add `image` to the parser."""
    image = commands.add_parser(
        "image",
        help="segment one image",
        description="Segment one image and write its labels, dense from 0.",
    )
    image.add_argument(
        "input", metavar="INPUT", help="an image file, or `demo`: a scene drawn on the spot"
    )
    image.add_argument(
        "-o",
        "--output",
        metavar="LABELS",
        required=True,
        help="labels to write: .png (16-bit grey levels) or .npy (uint32)",
    )
    image.add_argument(
        "--segments",
        metavar="N",
        type=int,
        help="cut the merge tree at N segments instead of at the level of the settings",
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
    if args.segments is not None and args.segments < 1:
        raise ConfigError(f"--segments must be >= 1, got {args.segments}")
    from aaams_stream import files
    from aaams_stream.core import features

    outputs = _check_outputs(args)
    if args.input == DEMO:
        from aaams_stream.source.scene import draw_scene

        image: Any = draw_scene()
    else:
        image = files.read_image(args.input)
    options.say_if_cold(args.quiet)
    from aaams_stream.run.doors import segment_image

    start = time.perf_counter()
    result = segment_image(image, params, segments=args.segments)
    seconds = time.perf_counter() - start
    rgb = features.as_rgb(image)
    written = {outputs["labels"]: files.encode_labels(outputs["labels"], result.labels)}
    if "overlay" in outputs:
        drawn = files.draw_boundaries(rgb, result.labels)
        written[outputs["overlay"]] = files.encode_image(outputs["overlay"], drawn)
    if "plot" in outputs:
        written |= _draw_plots(rgb, result, outputs["plot"], outputs["history"])
    files.write_files(written)
    if args.json:
        report = {"labels": result.count, "iterations": result.n_iter, "seconds": round(seconds, 3)}
        print(json.dumps(report))
    elif not args.quiet:
        print(
            f"{outputs['labels']}: {result.count} segments, {result.n_iter} iterations, "
            f"{seconds:.2f} s"
        )
    return 0


def _check_outputs(args: argparse.Namespace) -> dict[str, Path]:
    """Return where to write labels, overlay, plot and history, as far as they are wanted."""
    from aaams_stream import files

    outputs = {"labels": files.check_output(args.output, files.LABEL_SUFFIXES)}
    if args.overlay is not None:
        outputs["overlay"] = files.check_output(args.overlay, files.PICTURE_SUFFIXES)
    if args.plot is not None:
        plot = files.check_output(args.plot, (".png", ".svg", ".pdf"))
        outputs["plot"] = plot
        outputs["history"] = plot.with_name(f"{plot.stem}-history{plot.suffix}")
    taken = {} if args.input == DEMO else {Path(args.input).resolve(): "the input"}
    for name, path in outputs.items():
        if path.resolve() in taken:
            raise ConfigError(f"{path}: would overwrite {taken[path.resolve()]}; use another name")
        taken[path.resolve()] = f"the {name}"
    return outputs


def _draw_plots(
    rgb: Any, result: ImageSegmentation, modes_path: Path, history_path: Path
) -> dict[Path, bytes]:
    """Return the picture of modes and that of convergence as files."""
    import tempfile

    import numpy as np

    from aaams_stream.core import features
    from aaams_stream.draw import plots

    h, w = result.labels.shape
    colours = features.lab_planes(rgb)[:, :, :w].reshape(3, h * w).T
    history = result.history
    columns = {
        "clusters": history.clusters,
        "merges": history.merges,
        "largest_shift": history.largest_shift,
        "mean_shift": history.mean_shift,
    }
    with tempfile.TemporaryDirectory() as folder:
        drafts = {path: Path(folder) / path.name for path in (modes_path, history_path)}
        plots.plot_modes(
            colours,
            result.labels.ravel(),
            result.modes[:, :3],
            result.bandwidths[:, :3, :3],
            drafts[modes_path],
            colours=rgb.reshape(h * w, 3) / np.iinfo(rgb.dtype).max,
            axis_names=("L*", "a*", "b*"),
            title=f"{result.count} segments: modes and 1-sigma bandwidths in L*a*b*",
        )
        plots.plot_history(columns, drafts[history_path])
        return {path: draft.read_bytes() for path, draft in drafts.items()}

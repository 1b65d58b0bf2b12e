"""Commands for video: `segment`, `info` and `render`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from aaams_stream.cli import options
from aaams_stream.cli.meter import Meter, clock_time

if TYPE_CHECKING:
    from aaams_stream.run.segment_video import Summary
    from aaams_stream.store import Volume

VIEWS = ("boundaries", "colours", "ids", "objects")
DEMO = "demo"  # the input whose truth is known


def add_commands(commands: Any) -> None:
    """Add `segment`, `info` and `render` to the parser."""
    _add_segment(commands)
    info = commands.add_parser(
        "info", help="what is in a volume", description="Tell what a volume holds."
    )
    options.add_volume(info)
    options.add_level(info)
    info.add_argument("--json", action="store_true", help="one JSON object on stdout")
    info.set_defaults(run=run_info)

    render = commands.add_parser(
        "render",
        help="draw a volume over its source, as a film",
        description="Draw a volume over its source as H.264 in MP4; the source's times are kept.",
    )
    options.add_volume(render)
    render.add_argument(
        "-o", "--output", metavar="OVERLAY.mp4", required=True, help="the film to write"
    )
    render.add_argument(
        "--view",
        choices=VIEWS,
        default=VIEWS[0],
        help="what is drawn (default: %(default)s); objects: groups in colours, 25 a frame unless "
        "--at or --level say otherwise",
    )
    options.add_level(render)
    render.add_argument(
        "--source",
        metavar="FILE",
        help="the pictures; by default those in the volume, or the source it was made from",
    )
    render.add_argument(
        "--partial", action="store_true", help="draw what is there of an incomplete volume"
    )
    render.add_argument("--overwrite", action="store_true", help="replace an existing film")
    options.add_reporting(render)
    render.set_defaults(run=run_render)


def _add_segment(commands: Any) -> None:
    segment = commands.add_parser(
        "segment",
        help="segment a video into a Zarr volume",
        description="Segment a video, frame by frame, into a Zarr volume of lasting identities.",
    )
    segment.add_argument(
        "input",
        metavar="INPUT",
        help="a file, a folder or quoted pattern of images, camera:N, an address, - (y4m or "
        "MPEG-TS on standard input), or `demo`: a clip drawn on the spot",
    )
    segment.add_argument(
        "-o",
        "--output",
        metavar="OUT.zarr",
        required=True,
        help="the volume to write: a new folder, or an address (s3://bucket/clip.zarr)",
    )
    options.add_clip(segment)
    options.add_writing(
        segment,
        overlay=("OUT.mp4", "a film of the boundaries beside it"),
        resume="continue an incomplete volume where it ends",
        overwrite="replace an existing volume",
    )
    options.add_cluster(segment)
    options.add_settings(segment)
    options.add_reporting(segment)
    segment.set_defaults(run=run_segment)


def run_segment(args: argparse.Namespace) -> int:
    """Segment a video; 130 after Ctrl-C and the like, with the volume valid and resumable."""
    params = options.read_stream_settings(args)
    options.say_if_cold(args.quiet)
    from aaams_stream.cluster.door import segment_video
    from aaams_stream.run.segment_video import Interrupted

    meter = Meter(args.quiet)
    code = 0
    try:
        with options.cluster_of(args) as client:
            summary = segment_video(
                args.input,
                args.output,
                params,
                start=args.start,
                duration=args.duration,
                every=args.every,
                size=args.size,
                with_video=args.with_video,
                resume=args.resume,
                overwrite=args.overwrite,
                overlay=args.overlay,
                at=args.at,
                roi=args.mask,
                stretch=args.stretch,
                client=client,
                progress=meter.frame,
            )
    except Interrupted as stopped:
        summary, code = stopped.summary, stopped.code
    finally:
        meter.close()
    if not args.quiet:
        for warning in summary.warnings:
            print(f"warning: {warning}", file=sys.stderr)
    if code:
        again = "--resume continues" if args.dask is None else "run the same again to go on"
        hint = "" if summary.complete else f"; {again}"
        print(f"interrupted: {summary.store} holds {summary.frames} frames{hint}", file=sys.stderr)
    kept = _kept_things(summary) if args.input == DEMO and not code else {}
    if args.json:
        told = {**dataclasses.asdict(summary), "store": str(summary.store)}
        print(json.dumps({**told, "things_kept": kept} if kept else told))
    elif not args.quiet and not code:
        print(_told(summary))
        if kept:
            print(f"{sum(kept.values())} of the {len(kept)} things drawn kept one id")
    return code


def run_info(args: argparse.Namespace) -> int:
    """Print what a volume holds."""
    from aaams_stream.store import open_volume

    volume = open_volume(args.volume)
    volume.require_chunks()
    facts = gather(options.seen_at(volume, args))
    if args.json:
        print(json.dumps(facts))
        return 0
    if facts["merges"] is None:  # of the tree over its identities
        facts["merges"] = "none yet; " + (
            "aaams-stream levels adds them" if facts["complete"] else "segment --resume finishes it"
        )
    width = max(len(name) for name in facts)
    lines = []
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {item}" for key, item in value.items()) or "none"
        lines.append(f"{name.replace('_', ' '):<{width}}  {value}")
    print("\n".join(lines))
    return 0


def run_render(args: argparse.Namespace) -> int:
    """Draw a volume as a film."""
    from aaams_stream.run.render import render_volume
    from aaams_stream.store import open_volume

    meter = Meter(args.quiet)
    begun = time.monotonic()
    try:
        frames = render_volume(
            options.seen_at(open_volume(args.volume), args),
            args.output,
            view=args.view,
            source=args.source,
            partial=args.partial,
            overwrite=args.overwrite,
            progress=meter.count,
        )
    finally:
        meter.close()
    seconds = time.monotonic() - begun
    if args.json:
        print(json.dumps({"output": args.output, "frames": frames, "seconds": seconds}))
    elif not args.quiet:
        print(f"{args.output}: {frames} frames in {seconds:.1f} s")
    return 0


def gather(volume: Volume) -> dict[str, Any]:
    """Return what there is to say about a volume, ready for JSON.

    Seen at a level, segments, identities and events are those of groups.
    """
    from aaams_stream.params import Params
    from aaams_stream.store import LevelView, size_of

    first, last = volume.time_span or (None, None)
    rows = volume.row_count("segments")
    size = size_of(volume.path)
    pixels = volume.frame_count * volume.width * volume.height
    defaults = Params().to_dict()
    changed = {
        f"{table}.{key}": value
        for table, keys in volume.header.configuration.items()
        for key, value in keys.items()
        if defaults.get(table, {}).get(key) != value
    }
    counts = volume.counts
    at = {}
    if isinstance(volume, LevelView):
        # as many digits as it takes to mean the same again
        at = {"at_level": float(f"{volume.level:.9g}"), "at_merge": volume.merges_done}
    return {
        "volume": str(volume.path),
        "frames": volume.frame_count,
        "width": volume.width,
        "height": volume.height,
        "complete": volume.complete,
        "ended": volume.ended,
        "source": volume.source,
        "first_time": first,
        "last_time": last,
        "segments_per_frame": round(rows / max(volume.frame_count, 1), 1),
        "identities": counts.identities,
        "events": dict(counts.events),
        "merges": volume.merge_count if volume.has_levels else None,
        **at,
        "with_video": volume.video is not None,
        **({} if volume.roi is None else {"masked": round(1 - float(volume.roi.mean()), 3)}),
        "bytes": size,
        "bytes_per_pixel": round(size / pixels, 4) if pixels and size is not None else None,
        "changed_settings": changed,
        "version": volume.version,
    }


def _kept_things(summary: Summary) -> dict[str, bool]:
    """Tell which of the things that the demo draws kept one id: their truth is known."""
    from aaams_stream.source.demo import RATE, kept_things
    from aaams_stream.store import open_volume

    volume = open_volume(summary.store)
    numbers = [round(time * float(RATE)) for time in volume.times.tolist()]
    return kept_things((n, volume.ids[t]) for t, n in enumerate(numbers))


def _told(summary: Summary) -> str:
    if summary.complete and summary.resumed_from == summary.frames:
        return f"{summary.store}: all {summary.frames} frames were there; nothing was to be done"
    ended = "" if summary.ended == "complete" else f" ({summary.ended})"
    resumed = f", {summary.resumed_from} of them from before" if summary.resumed_from else ""
    return (
        f"{summary.store}: {summary.frames} frames{ended}{resumed}, "
        f"{summary.width}x{summary.height}, {summary.segments:.0f} segments a frame, "
        f"{summary.identities} identities, {summary.size / 1e6:.1f} MB, "
        f"{summary.fps:.1f} fps, {clock_time(summary.seconds)} in all"
    )

"""Segment every video of a folder into a volume of its own.

    python pipelines/presegment.py VIDEOS VOLUMES [--config FILE] [--set KEY=VALUE] [--segments N]

Start it in the evening. Volumes that are complete are skipped, others are resumed, and a file that
fails does not stop the rest. Run it again after a crash: it goes on where it stopped. A table at
the end tells what became of each file.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from aaams_stream import AaamsError, Params, open_volume, segment_video

SUFFIXES = {
    *(".avi", ".flv", ".gif", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4"),
    *(".mpeg", ".mpg", ".mts", ".ogv", ".ts", ".webm", ".wmv", ".y4m"),
}


class Outcome(NamedTuple):
    """What became of one video."""

    name: str
    status: str  # done, resumed, skipped, failed
    frames: int
    seconds: float
    note: str


def main(argv: Sequence[str] | None = None) -> int:
    """Segment a folder; 1 if a file failed, 2 if nothing could be tried, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description="Segment every video of a folder.")
    parser.add_argument("videos", type=Path, help="folder with the videos, searched in depth")
    parser.add_argument("volumes", type=Path, help="folder for the volumes")
    parser.add_argument("--config", help="settings as TOML")
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    parser.add_argument("--segments", type=int, help="wanted number per frame")
    args = parser.parse_args(argv)
    outcomes: list[Outcome] = []
    try:
        params = Params.load(args.config) if args.config else Params()
        params = params.overridden(args.assignments)
        if args.segments is not None:
            params = params.updated({"stream": {"segments": args.segments}})
        videos = find_videos(args.videos)
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not videos:
        print(f"error: {args.videos}: no videos found", file=sys.stderr)
        return 2
    try:
        for video in videos:
            name = video.relative_to(args.videos)
            # the whole name, so that a.mp4 and a.avi do not share a volume
            store = args.volumes / name.with_name(f"{name.name}.zarr")
            outcomes.append(presegment(video, store, str(name), params))
            print(" ".join(line(outcomes[-1])).rstrip(), flush=True)
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr)
        return 130
    finally:
        print_table(outcomes)
    return 1 if any(outcome.status == "failed" for outcome in outcomes) else 0


def find_videos(folder: Path) -> list[Path]:
    """Return the videos below a folder, in order of name."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(path for path in found if path.is_file())


def presegment(video: Path, store: Path, name: str, params: Params) -> Outcome:
    """Bring one volume to completion; whatever goes wrong is an outcome, too."""
    begun = time.monotonic()
    try:
        if (store / "zarr.json").exists() and (volume := open_volume(store)).complete:
            return Outcome(name, "skipped", volume.frame_count, 0.0, "already complete")
        summary = segment_video(video, store, params, resume=True)
    except Exception as error:  # whatever it is, the others must not pay for it
        note = str(error) if isinstance(error, AaamsError) else f"{type(error).__name__}: {error}"
        return Outcome(name, "failed", 0, time.monotonic() - begun, note)
    status = "resumed" if summary.resumed_from else "done"
    note = "" if summary.ended == "complete" else summary.ended
    return Outcome(name, status, summary.frames, summary.seconds, note)


def line(outcome: Outcome) -> Iterator[str]:
    """Yield the cells of one row."""
    yield from (outcome.name, outcome.status, str(outcome.frames), f"{outcome.seconds:.1f} s")
    yield outcome.note


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print one row per video, in columns."""
    rows = [["video", "status", "frames", "time", "note"], *(list(line(row)) for row in outcomes)]
    widths = [max(len(row[k]) for row in rows) for k in range(5)]
    print()
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


if __name__ == "__main__":
    sys.exit(main())

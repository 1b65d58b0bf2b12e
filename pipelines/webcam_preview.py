"""Watch a camera being segmented in the browser, and work with every frame as it comes.

    python pipelines/webcam_preview.py [INPUT] [--size WxH] [--seconds N]

The page is what `aaams-stream preview` shows. The loop at the end of `main` is the place for code
of your own: here it names the segment that moves fastest, once a second.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aaams_stream import AaamsError, Params
from aaams_stream.live import LiveLoop
from aaams_stream.live.browser import open_browser
from aaams_stream.live.commands import Commands
from aaams_stream.live.server import PreviewServer
from aaams_stream.model import Clip
from aaams_stream.source import open_source


def main(argv: Sequence[str] | None = None) -> int:
    """Preview a camera until Ctrl-C, its end or the given time; 2 if it cannot be opened."""
    parser = argparse.ArgumentParser(description="Watch a camera being segmented.")
    parser.add_argument("input", nargs="?", default="camera:0", help="default: %(default)s")
    parser.add_argument("--size", metavar="WxH", help="scale the frames")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    args = parser.parse_args(argv)
    size = tuple(map(int, args.size.split("x"))) if args.size else None
    try:
        source = open_source(args.input, Clip(size=size))
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    count = 0
    with LiveLoop(source, Params.load("realtime")) as loop:
        commands = Commands(loop, folder=Path())  # snapshots and recordings go here
        with PreviewServer(loop, commands) as page:
            print(page.url, flush=True)
            if args.seconds == float("inf"):
                open_browser(page.url)
            begun = told = time.monotonic()
            try:
                for shown in loop.frames():
                    count += 1
                    now = time.monotonic()
                    if now - told >= 1:
                        told = now
                        print(fastest(shown.segmentation.segments), flush=True)
                    if now - begun > args.seconds:
                        break
            except KeyboardInterrupt:
                pass
    print(f"{count} frames, {loop.status.dropped} came too late")
    return 0


def fastest(segments: np.ndarray) -> str:
    """Tell which segment moves fastest; the table has a row per segment."""
    speed = np.hypot(segments["motion"][:, 0], segments["motion"][:, 1])
    row = segments[speed.argmax()]
    return f"{len(segments)} segments; {row['id']} moves {speed.max():.1f} pixels a frame"


if __name__ == "__main__":
    sys.exit(main())

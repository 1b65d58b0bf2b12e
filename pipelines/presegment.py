"""Segment every video of a folder into a volume of its own.

    python pipelines/presegment.py VIDEOS VOLUMES [options of `aaams-stream batch`]

Start it in the evening. Volumes that are complete are skipped, others are resumed, and a file that
fails does not stop the rest. Run it again after a crash: it goes on where it stopped. A table at
the end tells what became of each file. It is `aaams-stream batch VIDEOS -o VOLUMES`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from aaams_stream.cli import main as aaams_stream


def main(argv: Sequence[str] | None = None) -> int:
    """Segment a folder; 2 if a file failed or nothing could be tried, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description="Segment every video of a folder.")
    parser.add_argument("videos", help="folder with the videos, searched in depth")
    parser.add_argument("volumes", help="folder for the volumes")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="see aaams-stream batch --help")
    args = parser.parse_args(argv)
    return aaams_stream(["batch", args.videos, "-o", args.volumes, *args.options])


if __name__ == "__main__":
    sys.exit(main())

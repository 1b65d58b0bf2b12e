"""The command `preview`: live segments on a page or in a window."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from aaams_stream.cli import options
from aaams_stream.errors import ConfigError
from aaams_stream.params import Params
from aaams_stream.paths import expanded

if TYPE_CHECKING:
    from aaams_stream.live import LiveLoop
    from aaams_stream.live.commands import Commands
    from aaams_stream.source import Source

    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]

CONFIG = "realtime"
LOOPBACK = "127.0.0.1"
_LEAST_TOKEN = 16  # characters
_GRACE = 3.0  # seconds the last viewer may be gone, as when it loads the page again
_FAREWELL = 1.0  # seconds in which viewers learn why it ends


def add_commands(commands: Parsers) -> None:
    """Add `preview` to the parser."""
    preview = commands.add_parser(
        "preview",
        help="watch a camera or a video being segmented",
        description="Show live segments on a page of this machine, or in a window. Frames that "
        "come too late are dropped, so that the picture never lags behind. Ctrl-C ends it.",
    )
    preview.add_argument(
        "input",
        metavar="INPUT",
        nargs="?",
        default="camera:0",
        help="camera:N (default: %(default)s), a file, a folder or quoted pattern of images, an "
        "address, - (y4m or MPEG-TS on standard input), or `demo`",
    )
    what = preview.add_argument_group("what is shown")
    what.add_argument("--size", metavar="WxH", type=options.size, help="scale the frames")
    options.add_mask(what)
    what.add_argument(
        "--segments", metavar="N", type=options.whole_number, help="wanted number per frame"
    )
    what.add_argument(
        "--fps",
        metavar="N",
        type=float,
        help="frames a second to keep up: quality gives way to it and comes back (default: the "
        "source's rate; 0: never give way)",
    )
    what.add_argument("--start", metavar="TIME", type=options.moment, help="where a file begins")
    what.add_argument("--once", action="store_true", help="do not play a file over and over")
    where = preview.add_argument_group("where it is shown")
    where.add_argument("--window", action="store_true", help="in a window instead of a page")
    where.add_argument("--no-open", action="store_true", help="do not open the browser")
    where.add_argument(
        "--port", metavar="N", type=options.whole_number, default=0, help="default: a free one"
    )
    where.add_argument(
        "--host",
        metavar="ADDRESS",
        default=LOOPBACK,
        help="listen on another address than this machine's own (default: %(default)s)",
    )
    where.add_argument(
        "--token",
        metavar="TEXT",
        help="what a request must carry (default: made up, and part of the address that is "
        "printed)",
    )
    where.add_argument(
        "--no-token",
        action="store_true",
        help="let everybody on this machine see the page and work it; not with --host",
    )
    where.add_argument(
        "--stop-when-left", action="store_true", help="end when the last viewer has left"
    )
    kept = preview.add_argument_group("what is kept")
    kept.add_argument(
        "--folder",
        metavar="DIR",
        default=".",
        help="for snapshots and recordings (default: the current one)",
    )
    kept.add_argument("--with-video", action="store_true", help="record the frames too")
    kept.add_argument(
        "--max-recording",
        metavar="TIME",
        type=options.seconds,
        default=None,
        help="end a recording after so long (default: an hour; 0: never)",
    )
    options.add_settings(preview)
    preview.add_argument("--quiet", action="store_true", help="nothing but errors and the address")
    preview.set_defaults(run=run_preview)


def run_preview(args: argparse.Namespace) -> int:
    """Show a source live until Ctrl-C."""
    _check(args)
    params = options.read_settings(args, CONFIG)
    if args.segments is not None:
        params = params.updated({"stream": {"segments": args.segments}})
    if args.window:
        from aaams_stream.live.window import check_display

        check_display()
    loop = open_loop(args, params)
    from aaams_stream.live.commands import LONGEST_RECORDING, Commands

    longest = LONGEST_RECORDING if args.max_recording is None else float(args.max_recording)
    folder = expanded(args.folder)
    commands = Commands(loop, folder, with_video=args.with_video, max_recording=longest)
    with loop:  # Ctrl-C, and SIGTERM of a service, finish a recording on the way out
        options.say_if_cold(args.quiet)
        if args.window:
            from aaams_stream.live.window import KEYS, run_window

            if not args.quiet:
                print(KEYS, file=sys.stderr)
            run_window(loop, commands)
        else:
            _serve(args, loop, commands)
        if loop.failure is not None:
            raise loop.failure
    return 0


def open_loop(args: argparse.Namespace, params: Params) -> LiveLoop:
    """Open the source and put a loop around it; a file is played over and over."""
    from aaams_stream.model import Clip
    from aaams_stream.source import open_source

    def reopen() -> Source:
        return open_source(args.input, Clip(start=args.start, size=args.size))

    from aaams_stream.run.region import read_roi

    roi = read_roi(args.mask)
    source = reopen()
    if roi is not None:
        roi.require_size((source.height, source.width))
    from aaams_stream.live import LiveLoop

    endless = not source.live and not args.once
    return LiveLoop(source, params, fps=args.fps, reopen=reopen if endless else None, roi=roi)


def _check(args: argparse.Namespace) -> None:
    if args.segments is not None and args.segments < 0:
        raise ConfigError(f"--segments must be >= 0, got {args.segments}")
    if args.fps is not None and not 0 <= args.fps <= 1000:
        raise ConfigError(f"--fps must be in 0..1000, got {args.fps:g}")
    if not 0 <= args.port < 1 << 16:
        raise ConfigError(f"--port must be in 0..65535, got {args.port}")
    if args.token is not None and not (
        len(args.token) >= _LEAST_TOKEN and args.token.isascii() and args.token.isalnum()
    ):
        raise ConfigError(f"--token must be {_LEAST_TOKEN} or more letters and digits")
    if args.token is not None and args.no_token:
        raise ConfigError("--token and --no-token contradict each other; give one of them")
    if args.no_token and args.host not in (LOOPBACK, "localhost", "::1"):
        raise ConfigError(f"--no-token: {args.host} can be reached from elsewhere; leave it out")
    folder = expanded(args.folder)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{args.folder}: is not a folder; choose another --folder")


def _serve(args: argparse.Namespace, loop: LiveLoop, commands: Commands) -> None:
    from aaams_stream.live.access import is_loopback
    from aaams_stream.live.browser import open_browser
    from aaams_stream.live.server import PreviewServer

    token = "" if args.no_token else args.token
    with PreviewServer(loop, commands, host=args.host, port=args.port, token=token) as server:
        print(f"preview: {server.url}", flush=True)
        if not args.no_open and is_loopback(args.host):
            open_browser(server.url)
        while loop.failure is None:
            time.sleep(0.1)
            if args.stop_when_left and server.idle(_GRACE):
                return
        time.sleep(_FAREWELL)

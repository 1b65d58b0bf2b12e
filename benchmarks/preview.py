"""Measure the live preview: from a camera's frame to the browser's screen, and what viewers cost.

    glass     milliseconds from a frame's birth until Chromium shows it; the time of birth is
              painted into the frame's corner and read back from the page's canvas
    viewers   frames a second, and CPU milliseconds a frame of the preview's process, without
              viewers and with some, taking turns; of these, what the threads that serve viewers
              take, and how much more that is than with none, as a share of all the rest. The
              viewers live in a process of their own, and quality never gives way, so that frames
              cost the same in every turn
    follow    milliseconds from a click in Chromium until the mask of what was clicked is on its
              canvas, and frames a second, segmented and shown, while it is followed
    wire      Mbit/s of the stream to the page in each of its qualities, at 25 frames a second
    attacks   frames a second while others send slow headers, floods of requests, of connections
              and of pings, over those undisturbed, taking turns; and the longest time until a new
              viewer had a frame meanwhile; besides, the share of a core that our threads spend
              on it. The attackers live in a process of their own, which takes of the machine, too
    memory    MB of the preview's process, minute by minute, while viewers come and go, look back,
              click things and let them go; only where it is asked for

The camera is not there: it repeats the frames of a clip at the given rate. Each clip is measured
by itself. Prints tables.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import multiprocessing
import os
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from aaams_stream.errors import AaamsError
from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.server import PreviewServer
from aaams_stream.live.wire import PICTURES, Encoder, framed
from aaams_stream.model import Clip, Frame
from aaams_stream.params import Params
from aaams_stream.source import open_source

if TYPE_CHECKING:
    from playwright.sync_api import Page

CELL, BITS = 8, 24  # the stamp: a row of black and white squares, milliseconds modulo 2**24
SETTLE = 6.0  # seconds until kernels are loaded and the governor has found its place
PARTS = ("glass", "viewers", "follow", "wire", "attacks", "memory")
LOADED = 90  # frames of the clip that are kept

# Notes when each stamp is first on the canvas; runs with the page's own painting.
READ_STAMPS = """([cell, bits]) => {
    const video = document.getElementById('video'), pen = video.getContext('2d');
    window.seen = [];
    let last = -1;
    const look = () => {
        // the picture may come smaller than the frame
        const size = cell * video.width / document.getElementById('overlay').width;
        const row = pen.getImageData(0, size / 2, size * bits, 1).data;
        let stamp = 0;
        for (let bit = 0; bit < bits; bit++)
            if (row[4 * Math.floor((bit + 0.5) * size)] > 127) stamp += 2 ** bit;
        if (stamp !== last) window.seen.push([stamp, Date.now() % 2 ** bits]);
        last = stamp;
        requestAnimationFrame(look);
    };
    look();
}"""
# Clicks a place of the page, given in shares of the picture; tells after how many milliseconds the
# mask is there, or null.
CLICK = """([x, y]) => new Promise((done) => {
    const picture = document.getElementById('picture'), marks = document.getElementById('marks');
    const box = picture.getBoundingClientRect(), pen = marks.getContext('2d');
    const at = [Math.round(x * marks.width) - 4, Math.round(y * marks.height) - 4];
    const clientX = box.left + x * box.width, clientY = box.top + y * box.height;
    const begun = performance.now();
    picture.dispatchEvent(new MouseEvent('click', { clientX, clientY, bubbles: true }));
    const look = () => {
        const took = performance.now() - begun;
        if (pen.getImageData(...at, 9, 9).data.some((value) => value)) done(took);
        else if (took > 5000) done(null);
        else requestAnimationFrame(look);
    };
    look();
})"""
COUNT_SHOWN = """() => {
    const picture = document.getElementById('picture');
    window.shown = 0;
    new MutationObserver(() => { window.shown++; })
        .observe(picture, { attributes: true, attributeFilter: ['data-frame'] });
}"""
CLICKS = ((0.5, 0.5), (0.3, 0.6), (0.7, 0.6), (0.5, 0.75), (0.4, 0.4))  # shares of the picture


class StampedCamera:
    """A live source: the frames of a clip at a steady rate, each with its time of birth."""

    description = spec = "stamped camera"
    live, remote, ended = True, False, "complete"

    def __init__(self, frames: list[NDArray[np.uint8]], rate: int) -> None:
        self.height, self.width = frames[0].shape[:2]
        self.rate, self.time_base = Fraction(rate), Fraction(1, rate)
        self._frames = frames
        self._stopped = False

    def __iter__(self) -> Iterator[Frame]:
        begun = time.monotonic()
        index = 0
        # there and back again, so that nothing jumps
        order = [*range(len(self._frames)), *range(len(self._frames) - 2, 0, -1)]
        while not self._stopped:
            time.sleep(max(0.0, begun + index / float(self.rate) - time.monotonic()))
            rgb = self._frames[order[index % len(order)]].copy()
            stamp = round(1000 * time.time()) % (1 << BITS)
            for bit in range(BITS):
                rgb[:CELL, CELL * bit : CELL * (bit + 1)] = 255 * (stamp >> bit & 1)
            yield Frame(index, index / self.rate, rgb)
            index += 1

    def stop(self) -> None:
        """End the iteration."""
        self._stopped = True

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 2 if there is nothing to measure."""
    parser = argparse.ArgumentParser(description="Measure the live preview.")
    parser.add_argument("clips", nargs="+", help="videos; `demo` works everywhere")
    parser.add_argument("--size", default="640x480", metavar="WxH")
    parser.add_argument("--rate", type=int, default=30, help="of the camera")
    parser.add_argument("--config", default="realtime")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--viewers", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=30.0, help="of `memory`")
    parser.add_argument("--stay", type=float, default=2.0, help="of a viewer in `memory`, seconds")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS[:-1])
    parser.add_argument(
        "--hold", action="store_true", help="quality gives way in no case, glass to glass either"
    )
    args = parser.parse_args(argv)
    for clip in args.clips:
        if len(args.clips) > 1:
            print(f"{clip}:", flush=True)
        try:
            measure(clip, args)
        except AaamsError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    return 0


def measure(clip: str, args: argparse.Namespace) -> None:
    """Measure on one clip what is asked for."""
    width, height = map(int, args.size.split("x"))
    with open_source(clip, Clip(size=(width, height))) as source:
        frames = [frame.rgb for frame, _ in zip(source, range(LOADED), strict=False)]
    params = Params.load(args.config)
    for name, part in (("glass", glass), ("follow", follow)):
        browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
        if name in args.only and browser is None:
            print(f"no Chromium found: {name} is not measured", file=sys.stderr)
        elif name in args.only and browser is not None:
            with preview(frames, args.rate, params, 0 if args.hold else None) as (loop, server):
                part(loop, server, browser, args.seconds)
    if {"wire", "viewers", "attacks", "memory"}.intersection(args.only):
        with preview(frames, args.rate, params, fps=0) as (loop, server):
            if "wire" in args.only:
                wire(loop)
            if "viewers" in args.only:
                viewers(loop, server, args.viewers, args.seconds, args.turns)
            if "attacks" in args.only:
                attacks(loop, server, args.seconds, args.turns)
            if "memory" in args.only:
                memory(server, args.viewers, args.minutes, args.stay)


@contextlib.contextmanager
def preview(
    frames: list[NDArray[np.uint8]], rate: int, params: Params, fps: float | None = None
) -> Iterator[tuple[LiveLoop, PreviewServer]]:
    """Run a preview of the stamped camera, settled."""
    loop = LiveLoop(StampedCamera(frames, rate), params, fps=fps)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(loop)
        server = stack.enter_context(PreviewServer(loop, Commands(loop, Path(folder))))
        while loop.status.phase == "starting":
            time.sleep(0.1)
        time.sleep(SETTLE)
        yield loop, server


@contextlib.contextmanager
def opened(server: PreviewServer, browser: str) -> Iterator[Page]:
    """Open the page in Chromium, with frames coming in."""
    from playwright.sync_api import sync_playwright

    flags = ["--disable-gpu", *(["--no-sandbox"] if os.getuid() == 0 else [])]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=flags)
        page = chromium.new_page(viewport={"width": 1200, "height": 800})
        page.goto(server.url)
        page.wait_for_selector("#curtain", state="hidden", timeout=60_000)
        yield page
        chromium.close()


def glass(loop: LiveLoop, server: PreviewServer, browser: str, seconds: float) -> None:
    """Print how long frames take to the canvas of a real browser."""
    with opened(server, browser) as page:
        page.evaluate(READ_STAMPS, [CELL, BITS])
        page.wait_for_timeout(1000 * SETTLE)
        page.evaluate("window.seen.length = 0")
        page.wait_for_timeout(1000 * seconds)
        seen = page.evaluate("window.seen")
    took = np.array([(now - born) % (1 << BITS) for born, now in seen[1:]])
    shown, status = len(took) / seconds, loop.status
    p50, p95 = np.percentile(took, [50, 95])
    print(
        f"glass to glass: median {p50:.0f} ms, p95 {p95:.0f} ms, {shown:.1f} frames a second in "
        f"the browser; pipeline {status.fps:.1f} fps, {1000 * status.latency:.0f} ms, "
        f"{status.quality}"
    )


def follow(loop: LiveLoop, server: PreviewServer, browser: str, seconds: float) -> None:
    """Print how soon what is clicked is marked, and how fast it goes on then."""
    took: list[float] = []
    with opened(server, browser) as page:
        page.evaluate(COUNT_SHOWN)
        page.wait_for_timeout(1000 * SETTLE)
        for place in CLICKS:
            while page.locator("#objects li").count():
                page.click("#objects .away")
                page.wait_for_timeout(500)
            waited = None
            for _ in range(12):  # it may be compiling
                if (waited := page.evaluate(CLICK, list(place))) is not None:
                    break
                print(page.inner_text("#message"), file=sys.stderr)
            took.append(math.inf if waited is None else waited)
            page.wait_for_timeout(500)
        first, begun, shown = _number(loop), time.monotonic(), page.evaluate("window.shown")
        page.wait_for_timeout(1000 * seconds)
        span = time.monotonic() - begun
        rate = (_number(loop) - first) / span
        shown = (page.evaluate("window.shown") - shown) / span
    print(
        f"follow: marked {statistics.median(took):.0f} ms after a click, at most {max(took):.0f}; "
        f"then {rate:.1f} frames a second, {shown:.1f} in the browser, {loop.status.quality}"
    )


def viewers(loop: LiveLoop, server: PreviewServer, count: int, seconds: float, turns: int) -> None:
    """Print what viewers cost the pipeline."""
    counts = (0, 1, count)
    rates: dict[int, list[float]] = {n: [] for n in counts}
    costs: dict[int, list[float]] = {n: [] for n in counts}
    served: dict[int, list[float]] = {n: [] for n in counts}
    spawn = multiprocessing.get_context("spawn")
    for _ in range(turns):
        for n in counts:
            process = spawn.Process(target=watch, args=(server.url, n), daemon=True)
            process.start()
            while server.viewers < n:
                time.sleep(0.05)
            time.sleep(1.0)
            first, begun, used = _number(loop), time.monotonic(), time.process_time()
            serving = _serving()
            time.sleep(seconds)
            frames = _number(loop) - first
            served[n].append(1000 * (_serving() - serving) / max(frames, 1))
            rates[n].append(frames / (time.monotonic() - begun))
            costs[n].append(1000 * (time.process_time() - used) / max(frames, 1))
            process.terminate()
            process.join()
            while server.viewers:
                time.sleep(0.05)
    print("viewers  frames/s  CPU ms a frame  to serve them  than none, of the rest  (medians)")
    none = statistics.median(served[0])  # every frame is encoded, to be looked back at
    for n in counts:
        rate, cost = statistics.median(rates[n]), statistics.median(costs[n])
        serving = statistics.median(served[n])
        share = (serving - none) / (cost - serving)
        print(f"{n:7d}  {rate:8.1f}  {cost:14.1f}  {serving:13.2f}  {share:+22.1%}")


def wire(loop: LiveLoop, count: int = 50) -> None:
    """Print what the stream takes of a line."""
    encoder = Encoder()
    sizes: dict[str, list[int]] = {picture.name: [] for picture in PICTURES}
    for shown, _ in zip(loop.frames(), range(count), strict=False):
        for picture in PICTURES:
            _, head, body = encoder.encode(shown, picture)
            sizes[picture.name].append(len(framed(head)) + 800 + len(body))  # with the status
    for picture in PICTURES:
        rate = min(25.0, 1 / picture.pause) if picture.pause else 25.0
        mbit = 8e-6 * rate * statistics.mean(sizes[picture.name][10:])
        print(f"wire, {picture.name}: {mbit:.1f} Mbit/s at {rate:.0f} frames a second")


def attacks(loop: LiveLoop, server: PreviewServer, seconds: float, turns: int) -> None:
    """Print what attacks cost the pipeline, and newcomers."""
    rates: dict[str, list[float]] = {name: [] for name in ("undisturbed", *ATTACKS)}
    waits: dict[str, list[float]] = {name: [] for name in rates}
    ours: dict[str, list[float]] = {name: [] for name in rates}
    spawn = multiprocessing.get_context("spawn")
    for _ in range(turns):
        for name in rates:
            attacker = spawn.Process(target=attack, args=(name, server.url), daemon=True)
            attacker.start()
            time.sleep(1.5)
            first, begun, serving = _number(loop), time.monotonic(), _serving()
            while time.monotonic() - begun < seconds:
                came = time.monotonic()
                with _stream(server.url) as stream:
                    stream.recv()
                waits[name].append(time.monotonic() - came)
                time.sleep(0.5)
            span = time.monotonic() - begun
            rates[name].append((_number(loop) - first) / span)
            ours[name].append((_serving() - serving) / span)
            attacker.terminate()
            attacker.join()
    quiet = statistics.median(rates["undisturbed"])
    print("attack          frames/s  of undisturbed  CPU of ours  a newcomer waits at most")
    for name in rates:
        rate, cpu = statistics.median(rates[name]), statistics.median(ours[name])
        print(
            f"{name:14s}  {rate:8.1f}  {rate / quiet:14.2f}  {cpu:11.1%}  "
            f"{max(waits[name]):22.2f} s"
        )


def memory(server: PreviewServer, count: int, minutes: float, stay: float) -> None:
    """Print what the process holds while viewers come and go."""
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=_come_and_go, args=(server.url, count, stay), daemon=True)
    process.start()
    held: list[float] = []
    print("minute  MB  threads", flush=True)
    for minute in range(1, math.ceil(minutes) + 1):
        time.sleep(60 * min(1.0, minutes - minute + 1))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        held.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
        print(f"{minute:6d}  {held[-1]:.1f}  {threading.active_count()}", flush=True)
    process.terminate()
    process.join()
    late = held[len(held) // 2 :]
    if len(late) > 1:
        growth = np.polyfit(range(len(late)), late, 1)[0]
        print(f"memory: {growth:+.2f} MB a minute in the second half")


def _come_and_go(url: str, count: int, stay: float) -> None:
    for number in range(count):
        threading.Thread(target=_visit, args=(url, number, stay), daemon=True).start()
        time.sleep(stay / count)
    threading.Event().wait()


def _visit(url: str, number: int, stay: float) -> None:
    """Come, look on, do a thing or two, and leave, for ever; each other one without a word."""
    for visit in itertools.count():
        with contextlib.suppress(OSError, ConnectionClosed, TimeoutError):
            stream = _stream(url)
            until = time.monotonic() + stay
            orders = iter(_wishes(visit + number))
            while time.monotonic() < until:
                message = stream.recv(timeout=5)
                if isinstance(message, str):
                    continue
                stream.send("shown")
                length = int.from_bytes(message[:4], "little")
                head = json.loads(message[4 : 4 + length])
                if "packed" in head and (wish := next(orders, None)) is not None:
                    stream.send(json.dumps(wish(head, message[4 + length :])))
            if visit % 2:
                stream.socket.close()
            else:
                stream.close()


def _wishes(visit: int) -> list[Callable[[dict[str, Any], bytes], dict[str, Any]]]:
    """Return what a visitor asks for, each after a frame."""

    def thing(head: dict[str, Any], body: bytes) -> dict[str, Any]:
        ids = np.cumsum(np.frombuffer(zlib.decompress(body[: head["packed"]]), "<u4", head["rows"]))
        return {"do": "follow", "ids": [int(ids[(17 * visit) % len(ids)])]}

    def let_go(head: dict[str, Any], body: bytes) -> dict[str, Any]:
        objects = head["objects"]
        return {"do": "let go", "number": objects[0]["number"] if objects else 1}

    def back(head: dict[str, Any], body: bytes) -> dict[str, Any]:
        return {"do": "look", "number": head["past"][0]}

    return [
        thing,
        back,
        lambda *_: {"do": "look", "number": None},
        lambda *_: {"do": "about", "id": 1},
        let_go,
    ]


def attack(name: str, url: str) -> None:
    """Do one kind of harm for ever."""
    if name == "undisturbed":
        threading.Event().wait()
    ATTACKS[name](url)


def _slow_headers(url: str) -> None:
    held: list[socket.socket] = []
    while True:
        with contextlib.suppress(OSError):
            held = [*held[-300:], _connect(url)]
            held[-1].sendall(b"GET / HTTP/1.1\r\nX: ")
        time.sleep(0.002)


def _requests(url: str) -> None:
    while True:
        with contextlib.suppress(OSError), _connect(url) as connection:
            connection.sendall(b"GET http://[/x HTTP/1.1\r\n\r\n")
            connection.recv(100)


def _connections(url: str) -> None:
    while True:
        with contextlib.suppress(OSError):
            _connect(url).close()


def _pings(url: str) -> None:
    while True:
        with contextlib.suppress(OSError, ConnectionClosed), _stream(url) as stream:
            while True:
                stream.ping()


ATTACKS: dict[str, Callable[[str], None]] = {
    "slow headers": _slow_headers,
    "requests": _requests,
    "connections": _connections,
    "pings": _pings,
}


def _connect(url: str) -> socket.socket:
    server = urlsplit(url)
    return socket.create_connection((server.hostname, server.port), timeout=5)


def _stream(url: str) -> ClientConnection:
    server = urlsplit(url)
    address = f"ws://{server.netloc}/stream?{server.query}"
    return connect(address, compression=None, max_size=None)


def _serving() -> float:
    """Return the CPU seconds that the threads have used that serve viewers, and the door's."""
    return sum(
        time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        for thread in threading.enumerate()
        if thread.name.startswith("preview-") and thread.ident is not None
    )


def _number(loop: LiveLoop) -> int:
    shown = loop.wait(0, 0)[1]
    return shown.number if shown else 0


def watch(url: str, count: int) -> None:
    """Look at the stream so many times at once, each as fast as frames come."""
    for _ in range(count):
        threading.Thread(target=_watch_once, args=(url,), daemon=True).start()
    threading.Event().wait()


def _watch_once(url: str) -> None:
    with _stream(url) as stream:
        for _ in stream:
            stream.send("shown")


if __name__ == "__main__":
    sys.exit(main())

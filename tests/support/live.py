"""What tests of a running loop share. Waits end with an event; PATIENCE is for what hangs."""

from __future__ import annotations

import contextlib
import threading
import time

from aaams_stream.core.prepare import Preparer
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.server import PreviewServer
from aaams_stream.params import Params
from support.cameras import fake_camera
from support.clocks import PATIENCE

PARAMS = Params().updated({"stream": {"segments": 12}})


def newest(loop):
    """Return the frame published last."""
    return loop.wait(0, 0)[1]


def watch(loop, count, after=0):
    """Return the next `count` frames that a viewer who never waits gets to see."""
    version, shown = 0, []
    deadline = time.monotonic() + PATIENCE
    while len(shown) < count and time.monotonic() < deadline:
        version, frame = loop.wait(version, 0.5)
        if frame is not None and frame.number > (shown[-1].number if shown else after):
            shown.append(frame)
    assert len(shown) == count, loop.status
    return shown


def wait_for_status(loop, condition):
    """Return the first status of which `condition` is true."""
    version = 0
    deadline = time.monotonic() + PATIENCE
    while not condition(status := loop.status):
        assert time.monotonic() < deadline, status
        version, _ = loop.wait(version, 0.5)
    return status


def wait_for_phase(loop, phase):
    return wait_for_status(loop, lambda status: status.phase == phase)


def wait_until(condition):
    """Look again and again until a condition is true."""
    deadline, tick = time.monotonic() + PATIENCE, threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        tick.wait(0.005)


def play(loop, camera, count):
    """Send so many frames, each when the one before is published; return the last of them."""
    for _ in range(count):
        before = newest(loop)
        camera.send()
        (shown,) = watch(loop, 1, after=before.number if before else 0)
    return shown


def catch_up(loop, camera):
    """Hold the camera back; return the last frame it sent, once the loop has published it."""
    camera.hold()
    wait_for_status(loop, lambda _: newest(loop) and newest(loop).frame.index == camera.last.index)
    return newest(loop)


def while_preparing(monkeypatch, hook):
    """Call `hook` whenever a loop begins to prepare a frame."""

    class Hooked(Preparer):
        def prepare(self, rgb, time=None):
            hook()
            return super().prepare(rgb, time)

    monkeypatch.setattr("aaams_stream.live.loop.Preparer", Hooked)


def while_labelling(monkeypatch, hook):
    """Call `hook` whenever a loop decides the labels of a frame."""

    class Hooked(Segmenter):
        def label(self, prepared):
            hook()
            return super().label(prepared)

    monkeypatch.setattr("aaams_stream.live.loop.Segmenter", Hooked)


@contextlib.contextmanager
def preview(folder, camera=None, params=PARAMS, clock=None, **options):
    """Run a preview of a camera that is not there; yield the loop and the server."""
    timing = {} if clock is None else {"clock": clock}
    loop = LiveLoop(camera or fake_camera(), params, **timing)
    with loop, PreviewServer(loop, Commands(loop, folder), **options) as server:
        yield loop, server

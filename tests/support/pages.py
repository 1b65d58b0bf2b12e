"""The preview's page in a real browser, Chromium without a screen: fixtures in tests/live."""

from __future__ import annotations

import base64
import os
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import pytest

from aaams_stream.live import LiveLoop
from aaams_stream.live.server import PreviewServer
from aaams_stream.params import Params
from support import clocks
from support.cameras import GatedSource
from support.live import catch_up

PARAMS = Params().updated({"stream": {"segments": 20}})
TOKEN = "0123456789abcdef"
PATIENCE = 1000 * clocks.PATIENCE  # ms
FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def launch(playwright):
    """Start Chromium; where there is none, skip, unless AAAMS_BROWSER=required says there is."""
    path = find_browser()
    if path is None:
        reason = "no Chromium found: the tests of the page in a browser did not run"
        if os.environ.get("AAAMS_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    # inside a container, as root, Chromium cannot build its sandbox; the pages are our own
    root = hasattr(os, "getuid") and os.getuid() == 0
    flags = [*FLAGS, "--no-sandbox"] if root else list(FLAGS)
    return playwright.chromium.launch(executable_path=path, args=flags)


def find_browser():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


class Site(NamedTuple):
    """A preview that asks for a token."""

    camera: GatedSource
    loop: LiveLoop
    server: PreviewServer
    folder: Path  # that it writes to


def wait_for(page, expression):
    """Wait until an expression of the page is true.

    Asked from here: the page's policy forbids the evaluation of text inside it.
    """
    deadline = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(30)


def pixels(page, canvas):
    """Return what a canvas shows, (h, w, 4)."""
    width, height, data = page.evaluate(
        """name => {
            const canvas = document.getElementById(name), pen = canvas.getContext('2d');
            const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
            let text = '';
            for (let at = 0; at < data.length; at += 0x8000)
                text += String.fromCharCode.apply(null, data.subarray(at, at + 0x8000));
            return [canvas.width, canvas.height, btoa(text)];
        }""",
        canvas,
    )
    return np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4)


def picture(page):
    """Return the picture as it is shown, (240, 320, 3): it may have come smaller."""
    return cv2.resize(pixels(page, "video")[:, :, :3], (320, 240))


def hold(page, site):
    """Hold the camera back and pause; return the frame that is held once the page shows it."""
    held = catch_up(site.loop, site.camera)
    page.click("#pause")
    wait_for(page, "document.getElementById('pause').textContent == 'Resume'")
    wait_for(page, f"document.getElementById('picture').dataset.frame == {held.number}")
    return held


def show(page, view, detail=100):
    """Choose a view, and how many groups it shows: 100 for every segment."""
    page.click(f"#views >> text={view}")
    page.locator("#detail").fill(str(detail))


def wait_for_state(page, state):
    """Wait until the page says how it is going."""
    wait_for(page, f"document.body.dataset.state == '{state}'")

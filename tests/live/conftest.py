"""A preview that tests of one file share, and a clip."""

from __future__ import annotations

import pytest
from support.cameras import GatedSource, fake_camera
from support.clips import moving_frames, write_clip
from support.live import preview
from support.pages import PARAMS, PATIENCE, TOKEN, Site, launch, wait_for
from support.viewers import Viewer

from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.server import PreviewServer


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Have clicks wait for compiled code as long as it takes, on the slowest machine."""
    monkeypatch.setattr("aaams_stream.live.loop._GETTING_READY", PATIENCE / 1000)


@pytest.fixture(scope="module")
def shared(compiled, tmp_path_factory):
    """Yield a loop and its server, which several tests look at and none changes for good."""
    with preview(tmp_path_factory.mktemp("shared")) as (loop, server):
        with Viewer(server.url) as viewer:
            viewer.see_frame()
        yield loop, server


@pytest.fixture
def clip(tmp_path):
    """Write twelve frames, twenty a second."""
    return write_clip(tmp_path / "clip.mkv", moving_frames(12), rate=20)


@pytest.fixture(scope="session")
def browser():
    """Yield Chromium; where there is none the test is skipped: see `launch`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "kept"
    camera = GatedSource(fake_camera(320, 240), released=True)
    loop = LiveLoop(camera, PARAMS, fps=0)
    with loop, PreviewServer(loop, Commands(loop, folder), token=TOKEN) as server:
        yield Site(camera, loop, server, folder)


@pytest.fixture
def page(browser, site):
    """Yield the page with frames coming in; no script may fail and nothing may be blocked."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    complaints = []
    page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(site.server.url)
    wait_for(page, "document.getElementById('curtain').hidden")
    yield page
    context.close()
    assert complaints == []

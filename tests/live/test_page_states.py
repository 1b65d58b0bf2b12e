"""How the page says how it is going: each state is reached, looks different and can be heard.

With AAAMS_SCREENSHOTS=DIR pictures of each go there: wide and as a phone, light and dark.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from support.cameras import GatedSource, Slides, fake_camera
from support.clips import moving_frames
from support.clocks import PATIENCE as SECONDS
from support.clocks import HandClock
from support.live import catch_up, newest, play, wait_for_phase
from support.pages import PARAMS, PATIENCE, TOKEN, hold, wait_for, wait_for_state

from aaams_stream.errors import SourceError
from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.server import PreviewServer
from aaams_stream.live.session import Session

pytestmark = pytest.mark.usefixtures("compiled")


def check(page, state, badge, note):
    """See that the page says so, for eyes and ears, wide and narrow, light and dark."""
    wait_for_state(page, state)
    assert badge in page.inner_text("#phase")
    assert note in page.inner_text("#state")
    folder = os.environ.get("AAAMS_SCREENSHOTS")
    wide = page.viewport_size
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for name, size in (("wide", wide), ("phone", {"width": 375, "height": 800})):
            page.set_viewport_size(size)
            found = Axe().run(page, options={"resultTypes": ["violations"]})
            told = [(one["id"], one["nodes"][0]["html"]) for one in found.response["violations"]]
            assert told == [], (state, scheme, name)
            if folder:
                Path(folder).mkdir(exist_ok=True)
                page.screenshot(path=Path(folder, f"{state}-{name}-{scheme}.png"), full_page=True)
    page.set_viewport_size(wide)
    assert document_state(page) == state


def document_state(page):
    return page.evaluate("document.body.dataset.state")


@contextmanager
def opened(browser, url):
    """Yield a page of a preview."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    try:
        yield page
    finally:
        context.close()


@contextmanager
def shown(browser, source, folder, **options):
    """Yield a loop and its page."""
    loop = LiveLoop(source, PARAMS, **options)
    server = PreviewServer(loop, Commands(loop, folder), token=TOKEN)
    with loop, server, opened(browser, server.url) as page:
        yield loop, page


def test_page_says_that_it_runs_and_that_it_is_paused(page, site):
    check(page, "running", "running", "")
    hold(page, site)
    check(page, "paused", "paused", "Paused. Resume, or step")
    page.click("#pause")
    site.camera.release()
    wait_for_state(page, "running")


def test_page_says_that_it_compiles(browser, tmp_path, monkeypatch):
    begun, ready = threading.Event(), threading.Event()
    listeners = []

    def compile_slowly(should_stop):
        begun.set()
        assert ready.wait(SECONDS)

    monkeypatch.setattr("aaams_stream.live.loop.warm_stream", compile_slowly)
    monkeypatch.setattr("aaams_stream.live.loop.tell_progress", listeners.append)
    with shown(browser, fake_camera(), tmp_path) as (_, page):
        assert begun.wait(SECONDS)
        wait_for_state(page, "starting")
        assert page.inner_text("#notice") == "Getting ready …"
        listeners[0](3, 70)
        check(page, "compiling", "compiling", "")
        assert "compiling: 3 of 70 parts are ready" in page.inner_text("#notice")
        ready.set()
        wait_for_state(page, "running")


def test_page_says_that_the_source_is_stalled_and_goes_on_with_it(browser, tmp_path):
    clock, camera = HandClock(), GatedSource(Slides(moving_frames(8, 120, 160)))
    with shown(browser, camera, tmp_path, clock=clock) as (loop, page):
        wait_for_phase(loop, "running")
        play(loop, camera, 2)
        wait_for_state(page, "running")
        clock.advance(1.4)
        assert loop.status.waiting_for == ""
        clock.advance(0.3)  # within two seconds
        assert loop.status.waiting_for == "source"
        check(page, "stalled", "no frames for 2 s", "look after the camera")
        assert loop.status.fps == 0 or clock.now() < 2
        play(loop, camera, 1)
        wait_for_state(page, "running")


def test_page_says_that_nothing_is_segmented(browser, tmp_path, monkeypatch):
    busy, done = threading.Event(), threading.Event()
    clock, camera = HandClock(), GatedSource(Slides(moving_frames(8, 120, 160)))
    with shown(browser, camera, tmp_path, clock=clock, fps=0) as (loop, page):
        wait_for_phase(loop, "running")
        play(loop, camera, 2)

        def take_for_ever():
            busy.set()
            assert done.wait(SECONDS)

        wait_for_state(page, "running")
        monkeypatch.setattr(loop.following, "step", lambda *_: take_for_ever())
        camera.send()
        assert busy.wait(SECONDS)
        for _ in range(5):
            clock.advance(1.0)
            camera.send()
        check(page, "stuck", "stuck for", "none is segmented")
        monkeypatch.undo()
        done.set()


def test_page_says_that_the_source_has_ended(browser, tmp_path, clip):
    from aaams_stream.source import open_source

    with shown(browser, open_source(clip), tmp_path, fps=0) as (loop, page):
        wait_for_phase(loop, "ended")
        check(page, "ended", "ended", "Look back with the bar below")
        page.locator("#detail").fill("0")  # detail works all the same
        assert page.inner_text("#segments").startswith("2 of")


def test_page_says_why_it_has_failed(browser, tmp_path):
    source = Slides(moving_frames(3, 120, 160), SourceError("camera:0: unplugged"))
    with shown(browser, source, tmp_path) as (_, page):
        check(page, "failed", "failed", "It has failed: camera:0: unplugged. Mend that")
        assert all(page.is_disabled(f"#{name}") for name in ("pause", "step", "record"))


def test_page_says_that_the_preview_does_not_answer(page, site, monkeypatch):
    """Nothing of the stream comes, where a heartbeat would have."""
    monkeypatch.setattr(Session, "go_on", lambda session, now: None)
    wait_for_state(page, "silent")
    page.click("#picture")  # questions are answered all the same
    page.wait_for_selector("#known", state="visible")
    check(page, "silent", "no answer for", "does not answer")
    assert page.inner_text("#fps") == page.inner_text("#latency") == "–"
    assert page.is_disabled("#pause")
    monkeypatch.undo()
    wait_for_state(page, "running")


def test_page_says_that_it_is_disconnected_and_connected_again(browser, tmp_path):
    loop = LiveLoop(fake_camera(), PARAMS)
    with loop:
        with PreviewServer(loop, Commands(loop, tmp_path), token=TOKEN) as server:
            port = int(server.url.split(":")[2].split("/")[0])
            context = opened(browser, server.url)
            page = context.__enter__()
            wait_for_state(page, "running")
        check(page, "lost", "connection lost", "Trying again")
        with PreviewServer(loop, Commands(loop, tmp_path), port=port, token=TOKEN):
            wait_for_state(page, "running")
            wait_for(page, "document.getElementById('message').textContent == 'Connected again.'")
            context.__exit__(None, None, None)


def test_page_says_that_one_looks_back(page, site):
    catch_up(site.loop, site.camera)
    wait_for(page, "!document.getElementById('scrub').disabled")
    last = newest(site.loop).number
    page.locator("#scrub").fill(str(last - 2))
    wait_for(page, f"document.getElementById('picture').dataset.frame == {last - 2}")
    check(page, "past", "looking back", "press Live")
    page.click("#live")
    wait_for(page, f"document.getElementById('picture').dataset.frame == {last}")
    assert page.inner_text("#scrub-value") == "live"

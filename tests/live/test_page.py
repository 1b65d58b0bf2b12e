"""The page in a real browser, Chromium without a screen.

Where there is none these tests are skipped, unless AAAMS_BROWSER=required says that there is one.
"""

from __future__ import annotations

import base64
import os
import shutil
import time

import cv2
import numpy as np
import pytest
from support.cameras import fake_camera
from support.viewers import Viewer

from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Desk
from aaams_stream.live.server import PreviewServer
from aaams_stream.params import Params
from aaams_stream.store import open_volume

pytestmark = pytest.mark.usefixtures("compiled")
PARAMS = Params().updated({"stream": {"segments": 20}})
TOKEN = "0123456789abcdef"
PATIENCE = 60_000  # ms
FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def find_browser():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser():
    path = find_browser()
    if path is None:
        reason = "no Chromium found: the tests of the page in a browser did not run"
        if os.environ.get("AAAMS_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    # inside a container, as root, Chromium cannot build its sandbox; the pages are our own
    root = hasattr(os, "getuid") and os.getuid() == 0
    flags = [*FLAGS, "--no-sandbox"] if root else list(FLAGS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def site(tmp_path):
    """Yield a preview of a fake camera that asks for a token, and the folder it writes to."""
    folder = tmp_path / "kept"
    loop = LiveLoop(fake_camera(320, 240), PARAMS)
    with loop, PreviewServer(loop, Desk(loop, folder), token=TOKEN) as server:
        yield loop, server, folder


@pytest.fixture
def page(browser, site):
    """Yield the page with frames coming in; no script may fail and nothing may be blocked."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    complaints = []
    page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(site[1].url)
    wait_for(page, "document.getElementById('curtain').hidden")
    yield page
    context.close()
    assert complaints == []


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


def hold(page, loop):
    """Pause; return the frame that is held once the page shows it."""
    page.click("#pause")
    wait_for(page, "document.getElementById('pause').textContent == 'Resume'")
    time.sleep(0.3)  # for the frame at hand
    held = loop.wait(0, 0)[1]
    wait_for(page, f"document.getElementById('picture').dataset.frame == {held.number}")
    return held


def test_the_page_loads_and_frames_advance(page, site):
    assert page.title() == "aaams-stream preview"
    assert page.inner_text("#source") == "fake camera"
    assert page.inner_text("#phase") == "running"
    first = pixels(page, "video")
    assert first.shape == (240, 320, 4)
    assert first[:, :, :3].std() > 20  # a picture, not a blank
    begun = site[0].wait(0, 0)[1].number
    wait_for(page, f"document.getElementById('picture').dataset.frame > {begun + 5}")
    assert float(page.inner_text("#fps")) > 0.5
    assert (pixels(page, "video") != first).any()
    assert page.inner_text("#latency").endswith(" ms")
    assert int(page.inner_text("#segments")) > 1
    assert page.inner_text("#warm").endswith(" %")
    assert int(page.inner_text("#dropped")) >= 0
    assert page.inner_text("#viewers") == "1"


def test_the_picture_and_its_overlay_are_those_of_the_loop(page, site):
    shown = hold(page, site[0])
    picture = pixels(page, "video")[:, :, :3].astype(int)
    assert np.abs(picture - shown.frame.rgb).mean() < 12
    ids = shown.segmentation.ids
    edge = np.zeros(ids.shape, bool)
    edge[:, :-1] = ids[:, :-1] != ids[:, 1:]
    edge[:-1] |= ids[:-1] != ids[1:]
    np.testing.assert_array_equal(pixels(page, "overlay")[:, :, 3] > 0, edge)


def test_views_and_opacity_change_the_overlay(page, site):
    from aaams_stream.draw.views import id_colours

    shown = hold(page, site[0])
    page.click("text=Colours")
    colours = pixels(page, "overlay")
    assert (colours[:, :, 3] == 255).all()
    assert len(np.unique(colours.reshape(-1, 4), axis=0)) <= len(shown.segmentation.segments)
    page.click("text=Ids")
    painted = pixels(page, "overlay")
    inner = np.ones(painted.shape[:2], bool)
    ids = shown.segmentation.ids
    inner[:, :-1] &= ids[:, :-1] == ids[:, 1:]
    inner[:-1] &= ids[:-1] == ids[1:]
    np.testing.assert_array_equal(painted[inner][:, :3], id_colours(ids)[inner])
    assert page.inner_text("#opacity-value") == "55 %"
    page.locator("#opacity").fill("20")
    assert page.evaluate("getComputedStyle(document.getElementById('overlay')).opacity") == "0.2"
    page.click("#views >> text=Motion")
    assert (pixels(page, "overlay")[:, :, 3] == 0).all()


def test_motion_shows_tracks(page, site):
    page.click("#views >> text=Motion")
    wait_for(
        page,
        """() => { const c = document.getElementById('tracks');
        return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v); }""",
    )


def test_pause_holds_the_picture_and_step_moves_it_on(page, site):
    held = hold(page, site[0])
    before = pixels(page, "video")
    time.sleep(0.5)
    np.testing.assert_array_equal(pixels(page, "video"), before)
    assert page.inner_text("#phase") == "paused"
    page.click("#step")
    wait_for(page, f"document.getElementById('picture').dataset.frame == {held.number + 1}")
    assert site[0].wait(0, 0)[1].number == held.number + 1
    assert (pixels(page, "video") != before).any()
    page.click("#pause")
    wait_for(page, "document.getElementById('phase').textContent == 'running'")


def test_detail_reaches_the_segmenter(page, site):
    few = int(page.inner_text("#segments"))
    page.locator("#detail").fill("60")
    page.locator("#detail").dispatch_event("change")
    wait_for(page, f"+document.getElementById('segments').textContent > {1.3 * few}")
    assert site[0].status.wanted == int(page.inner_text("#detail-value")) == 240


def test_a_click_shows_a_segment_and_follows_it(page, site):
    shown = hold(page, site[0])
    box = page.locator("#picture").bounding_box()
    at = {"x": box["width"] * 0.3, "y": box["height"] * 0.4}
    page.click("#picture", position=at)
    page.wait_for_selector("#known", state="visible")
    track = int(page.inner_text("#about-id"))
    assert track == shown.segmentation.ids[int(240 * 0.4), int(320 * 0.3)]
    row = shown.segmentation.segments[shown.segmentation.segments["id"] == track][0]
    assert page.inner_text("#about-area").startswith(f"{row['area']} px")
    assert page.inner_text("#about-age") == f"{row['age']} frames"
    assert len(page.inner_text("#about-colour").split(",")) == 3
    assert pixels(page, "history")[:, :, 3].any()
    white = (pixels(page, "overlay") == 255).all(axis=2)
    assert white.any()
    page.click("#forget")
    page.wait_for_selector("#hint", state="visible")
    assert not (pixels(page, "overlay") == 255).all(axis=2).any()


def test_a_snapshot_is_what_the_page_shows(page, site):
    _, _, folder = site
    hold(page, site[0])
    page.click("text=Colours")
    page.click("#snapshot")
    wait_for(page, "document.getElementById('message').textContent.startsWith('Saved')")
    name = page.inner_text("#message").removeprefix("Saved ")
    saved = cv2.cvtColor(cv2.imread(str(folder / name)), cv2.COLOR_BGR2RGB)
    overlay = pixels(page, "overlay")[:, :, :3]
    assert np.abs(saved.astype(int) - overlay).mean() < 12  # means of RGB, and of L*a*b*


def test_a_recording_is_a_valid_volume(page, site):
    loop, _, folder = site
    page.click("#record")
    wait_for(page, "document.getElementById('record').textContent.startsWith('Stop (')")
    name = loop.status.recording
    wait_for(page, "document.getElementById('record').textContent.match(/[0-9]+/) > 5")
    page.click("#record")
    wait_for(page, "document.getElementById('record').textContent == 'Record'")
    wait_for(page, "document.getElementById('message').textContent.startsWith('Saved')")
    volume = open_volume(folder / name)
    assert volume.complete
    assert volume.frame_count > 5
    assert (volume.width, volume.height) == (320, 240)
    assert volume.ids[:].all()
    for t in (0, volume.frame_count - 1):
        ids, areas = np.unique(volume.ids[t], return_counts=True)
        np.testing.assert_array_equal(volume.segments(t)["id"], ids)
        np.testing.assert_array_equal(volume.segments(t)["area"], areas)
    assert (np.diff(volume.times) > 0).all()


def test_a_wrong_token_is_refused(browser, site):
    url = site[1].url
    with browser.new_context() as context:
        page = context.new_page()
        for wrong in (url.replace(TOKEN, TOKEN[::-1]), url.split("?")[0]):
            response = page.goto(wrong)
            assert response.status == 401
            assert page.locator("canvas").count() == 0


def test_a_page_of_another_site_gets_nothing(browser, site, tmp_path):
    """It knows the token, even, and is turned away for its origin."""
    stranger = tmp_path / "stranger.html"
    stranger.write_text("<title>stranger</title>")
    url = site[1].url
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(stranger.as_uri())
        outcome = page.evaluate(
            """async url => {
                const socket = new WebSocket(url.replace('http', 'ws').replace('/?', '/stream?'));
                const stream = new Promise(done => {
                    socket.onmessage = () => done('frames');
                    socket.onclose = () => done('closed');
                });
                const order = fetch(url.replace('/?', '/command?'), {
                    method: 'POST', mode: 'no-cors', body: '{"do": "pause"}'});
                await order.catch(() => null);
                return await stream;
            }""",
            url,
        )
    assert outcome == "closed"
    assert not site[0].status.paused


def test_a_killed_viewer_harms_nobody(browser, page, site):
    loop, server, _ = site
    other = browser.new_context()
    second = other.new_page()
    second.goto(server.url)
    wait_for(second, "document.getElementById('curtain').hidden")
    wait_for(page, "document.getElementById('viewers').textContent == '2'")
    session = browser.new_browser_cdp_session()
    target = other.new_cdp_session(second).send("Target.getTargetInfo")["targetInfo"]["targetId"]
    session.send("Target.closeTarget", {"targetId": target})
    begun = loop.wait(0, 0)[1].number
    wait_for(page, "document.getElementById('viewers').textContent == '1'")
    wait_for(page, f"document.getElementById('picture').dataset.frame > {begun + 5}")
    assert loop.status.phase == "running"
    other.close()


def test_a_phone_has_everything_on_one_column(browser, site):
    for scheme in ("light", "dark"):
        with browser.new_context(
            viewport={"width": 375, "height": 700}, color_scheme=scheme
        ) as context:
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.goto(site[1].url)
            wait_for(page, "document.getElementById('curtain').hidden")
            assert page.evaluate("document.documentElement.scrollWidth") <= 375
            for name in ("pause", "step", "snapshot", "record", "opacity", "detail"):
                box = page.locator(f"#{name}").bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= 375
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            bright = sum(map(int, ground.removeprefix("rgb(").removesuffix(")").split(",")))
            assert (bright > 600) == (scheme == "light")


def test_the_page_comes_back_after_the_preview_was_started_again(browser, tmp_path):
    loop = LiveLoop(fake_camera(), PARAMS)
    with loop, browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        with PreviewServer(loop, Desk(loop, tmp_path)) as server:
            url = server.url
            page.goto(url)
            wait_for(page, "document.getElementById('curtain').hidden")
        wait_for(page, "document.getElementById('phase').textContent == 'disconnected'")
        port = int(url.rsplit(":", 1)[1].strip("/"))
        with PreviewServer(loop, Desk(loop, tmp_path), port=port), Viewer(url) as viewer:
            viewer.see_frame()
            wait_for(page, "document.getElementById('phase').textContent == 'running'")

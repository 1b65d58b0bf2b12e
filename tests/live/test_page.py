"""The page in a real browser: what it shows and does."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest
from support.cameras import fake_camera
from support.live import newest
from support.pages import PARAMS, PATIENCE, TOKEN, hold, picture, pixels, show, wait_for
from support.viewers import Viewer

from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.page import title_of
from aaams_stream.live.server import PreviewServer
from aaams_stream.store import open_volume

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("camera:0", "camera:0"),
        ("demo", "demo"),
        ("/home/me/private/clip.mp4", "clip.mp4"),
        ("rtsp://me:secret@192.0.2.7:554/live?key=secret", "rtsp://192.0.2.7/live"),
    ],
)
def test_page_tells_no_more_of_the_source_than_its_name(source, title):
    assert title_of(source) == title


def test_page_loads_and_frames_advance(page, site):
    assert page.title() == "aaams-stream preview"
    assert page.inner_text("#source") == "fake camera"
    assert page.inner_text("#phase") == "running"
    first = picture(page)
    assert first.std() > 20  # a picture, not a blank
    begun = newest(site.loop).number
    wait_for(page, f"document.getElementById('picture').dataset.frame > {begun + 5}")
    assert (picture(page) != first).any()
    hold(page, site)
    assert re.fullmatch(r"\d+\.\d", page.inner_text("#fps"))
    assert re.fullmatch(r"\d+ ms", page.inner_text("#latency"))
    assert int(page.inner_text("#segments").split()[0]) > 1
    assert page.inner_text("#warm").endswith(" %")
    assert int(page.inner_text("#dropped")) >= 0
    assert page.inner_text("#viewers") == "1"


def test_page_shows_the_picture_and_the_segments_of_the_loop(page, site):
    shown = hold(page, site)
    show(page, "Boundaries")
    seen = picture(page).astype(int)
    assert np.abs(seen - shown.frame.rgb).mean() < 12
    ids = shown.segmentation.ids
    edge = np.zeros(ids.shape, bool)
    edge[:, :-1] = ids[:, :-1] != ids[:, 1:]
    edge[:-1] |= ids[:-1] != ids[1:]
    opaque = pixels(page, "overlay")[:, :, 3]
    np.testing.assert_array_equal(opaque == 255, edge)
    halo = cv2.dilate(edge.astype(np.uint8), np.ones((3, 3), np.uint8)) > edge
    np.testing.assert_array_equal(opaque == 115, halo)  # lines show on bright ground, too


def test_page_changes_the_overlay_with_view_and_opacity(page, site):
    from aaams_stream.draw.views import id_colours

    shown = hold(page, site)
    show(page, "Colours")
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


def test_page_shows_tracks_in_the_view_of_motion(page, site):
    page.click("#views >> text=Motion")
    wait_for(
        page,
        """() => { const c = document.getElementById('tracks');
        return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v); }""",
    )


def test_page_holds_the_picture_in_a_pause_and_a_step_moves_it_on(page, site):
    held = hold(page, site)
    before = picture(page)
    site.camera.send(15)
    np.testing.assert_array_equal(picture(page), before)
    assert page.inner_text("#phase") == "paused"
    page.click("#step")
    wait_for(page, f"document.getElementById('picture').dataset.frame == {held.number + 1}")
    assert newest(site.loop).number == held.number + 1
    assert (picture(page) != before).any()
    page.click("#pause")
    wait_for(page, "document.getElementById('phase').textContent == 'running'")


def test_page_shows_objects_first_and_any_detail_of_a_frame_at_once(page, site):
    """In a pause too, and nothing is asked of the segmenter: the tree comes with the frame."""
    assert page.evaluate("document.querySelector('input[name=view]:checked').value") == "objects"
    assert page.inner_text("#detail-value") == "25"
    shown = hold(page, site)
    asked = site.loop.status.wanted
    for value, count in ((0, 2), (30, 10), (60, 50), (100, None)):
        show(page, "Boundaries", value)
        assert page.inner_text("#detail-value") == (str(count) if count else "all")
        ids = shown.groups(count) if count else shown.segmentation.ids
        edges = np.zeros(ids.shape, bool)
        edges[:, :-1] = ids[:, :-1] != ids[:, 1:]
        edges[:-1] |= ids[:-1] != ids[1:]
        np.testing.assert_array_equal(pixels(page, "overlay")[:, :, 3] == 255, edges)
        groups, every = len(np.unique(ids)), len(shown.segmentation.segments)
        told = f"{groups} of {every}" if groups < every else str(every)
        assert page.inner_text("#segments") == told
        show(page, "Objects", value)
        painted = pixels(page, "overlay")[~edges]
        assert (painted[:, 3] == 255).all()
        assert len(np.unique(painted, axis=0)) <= 2 * groups  # with lines between segments
    assert site.loop.status.wanted == asked


def test_page_selects_the_group_that_is_shown(page, site):
    shown = hold(page, site)
    show(page, "Boundaries", 20)
    box = page.locator("#picture").bounding_box()
    page.click("#picture", position={"x": box["width"] * 0.3, "y": box["height"] * 0.4})
    page.wait_for_selector("#known", state="visible")
    groups = shown.groups(int(page.inner_text("#detail-value")))
    mine = groups == groups[int(240 * 0.4), int(320 * 0.3)]
    count = len(np.unique(shown.segmentation.ids[mine]))
    assert page.inner_text("#about-group") == f"{count} segments, {100 * mine.mean():.1f} %"
    site.camera.send(15)
    page.click("#step")  # it goes on with what is left of it
    wait_for(page, f"document.getElementById('picture').dataset.frame == {shown.number + 1}")
    assert (pixels(page, "overlay") == 255).all(axis=2).any()


def test_page_shows_a_segment_at_a_click_and_follows_it(page, site):
    shown = hold(page, site)
    show(page, "Boundaries")
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


def test_page_saves_a_snapshot_of_what_it_shows(page, site):
    hold(page, site)
    show(page, "Colours", 60)
    page.click("#snapshot")
    wait_for(page, "document.getElementById('message').textContent.startsWith('Saved')")
    name = page.inner_text("#message").removeprefix("Saved ")
    saved = cv2.cvtColor(cv2.imread(str(site.folder / name)), cv2.COLOR_BGR2RGB)
    overlay = pixels(page, "overlay")[:, :, :3]
    assert np.abs(saved.astype(int) - overlay).mean() < 12  # means of RGB, and of L*a*b*


def test_page_records_a_valid_volume(page, site):
    loop, folder = site.loop, site.folder
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


def test_page_is_refused_to_a_wrong_token(browser, site):
    url = site.server.url
    with browser.new_context() as context:
        page = context.new_page()
        for wrong in (url.replace(TOKEN, TOKEN[::-1]), url.split("?")[0]):
            response = page.goto(wrong)
            assert response.status == 401
            assert page.locator("canvas").count() == 0


def test_page_of_another_site_gets_nothing(browser, site, tmp_path):
    """It knows the token, even, and is turned away for its origin."""
    stranger = tmp_path / "stranger.html"
    stranger.write_text("<title>stranger</title>")
    url = site.server.url
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
                socket.onopen = () => socket.send('{"do": "pause"}');
                await fetch(url, { mode: 'no-cors' }).catch(() => null);
                return await stream;
            }""",
            url,
        )
    assert outcome == "closed"
    assert not site.loop.status.paused


def test_page_that_is_killed_harms_nobody(browser, page, site):
    loop, server = site.loop, site.server
    other = browser.new_context()
    second = other.new_page()
    second.goto(server.url)
    wait_for(second, "document.getElementById('curtain').hidden")
    wait_for(page, "document.getElementById('viewers').textContent == '2'")
    session = browser.new_browser_cdp_session()
    target = other.new_cdp_session(second).send("Target.getTargetInfo")["targetInfo"]["targetId"]
    session.send("Target.closeTarget", {"targetId": target})
    begun = newest(loop).number
    wait_for(page, "document.getElementById('viewers').textContent == '1'")
    wait_for(page, f"document.getElementById('picture').dataset.frame > {begun + 5}")
    assert loop.status.phase == "running"
    other.close()


def test_page_has_everything_in_one_column_on_a_phone(browser, site):
    for scheme in ("light", "dark"):
        with browser.new_context(
            viewport={"width": 375, "height": 700}, color_scheme=scheme
        ) as context:
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.goto(site.server.url)
            wait_for(page, "document.getElementById('curtain').hidden")
            assert page.evaluate("document.documentElement.scrollWidth") <= 375
            for name in ("pause", "step", "snapshot", "record", "opacity", "detail"):
                box = page.locator(f"#{name}").bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= 375
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            bright = sum(map(int, ground.removeprefix("rgb(").removesuffix(")").split(",")))
            assert (bright > 600) == (scheme == "light")


def test_page_comes_back_after_the_preview_was_started_again(browser, tmp_path):
    loop = LiveLoop(fake_camera(), PARAMS)
    with loop, browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        with PreviewServer(loop, Commands(loop, tmp_path), token=TOKEN) as server:
            url = server.url
            page.goto(url)
            wait_for(page, "document.getElementById('curtain').hidden")
        wait_for(page, "document.body.dataset.state == 'lost'")
        port, commands = urlsplit(url).port, Commands(loop, tmp_path)
        with PreviewServer(loop, commands, port=port, token=TOKEN), Viewer(url) as viewer:
            viewer.see_frame()
            wait_for(page, "document.getElementById('phase').textContent == 'running'")

"""The page in a real browser: clicks that follow, keys, zoom, looking on, looking back."""

from __future__ import annotations

import re

import cv2
import numpy as np
import pytest
from support.live import newest, wait_for_status, wait_until, watch
from support.pages import PATIENCE, hold, picture, pixels, show, wait_for, wait_for_state

from aaams_stream.live.board import OBJECT_COLOURS
from aaams_stream.store import open_volume

pytestmark = pytest.mark.usefixtures("compiled")


def place(page, x, y):
    """Return where a pixel of the frame (320x240) is in the picture's box."""
    box = page.locator("#picture").bounding_box()
    return {"x": box["width"] * (x + 0.5) / 320, "y": box["height"] * (y + 0.5) / 240}


def wait_for_objects(page, count):
    wait_for(page, f"document.querySelectorAll('#objects li').length == {count}")


def test_page_follows_the_thing_that_is_clicked_at_the_detail_shown(page, site):
    shown = hold(page, site)
    show(page, "Boundaries", 20)
    groups = shown.groups(int(page.inner_text("#detail-value")))
    page.click("#picture", position=place(page, 100, 100))
    wait_for_objects(page, 1)
    scene = newest(site.loop).scene
    np.testing.assert_array_equal(scene.mask(1), groups == groups[100, 100])
    wait_for(page, "document.getElementById('said').textContent == 'Following object 1.'")
    marked = pixels(page, "marks")
    np.testing.assert_array_equal(marked[:, :, 3] > 0, scene.mask(1))
    outline = marked[:, :, 3] == 255
    assert outline.any()
    assert (marked[outline][:, :3] == OBJECT_COLOURS[0]).all()
    page.click("#picture", position=place(page, 100, 100))  # it is followed already
    page.click("#objects .away")
    wait_for_objects(page, 0)
    assert not pixels(page, "marks")[:, :, 3].any()


def test_page_adds_with_shift_and_takes_away_with_alt(page, site):
    shown = hold(page, site)
    show(page, "Boundaries", 100)
    ids = shown.segmentation.ids
    page.click("#picture", position=place(page, 100, 100))
    wait_for_objects(page, 1)
    y, x = np.argwhere(ids != ids[100, 100])[5000]
    page.click("#picture", position=place(page, x, y), modifiers=["Shift"])
    wait_until(lambda: newest(site.loop).scene.mask(1)[y, x])
    assert newest(site.loop).scene.mask(1)[100, 100]
    page.click("#picture", position=place(page, x, y), modifiers=["Alt"])
    wait_until(lambda: not newest(site.loop).scene.mask(1)[y, x])
    assert page.locator("#objects li").count() == 1
    page.click("#picture", position=place(page, x, y))
    wait_for_objects(page, 2)
    assert newest(site.loop).scene.mask(2)[y, x]
    page.click("#save")
    wait_for(page, "document.getElementById('message').textContent.startsWith('Saved')")
    (folder,) = site.folder.iterdir()
    assert (folder / "objects.csv").read_text().startswith("frame,time,object,state")


def test_page_follows_while_frames_come_and_says_lost_and_back(page, site):
    page.click("#picture", position=place(page, 160, 120))
    wait_for_objects(page, 1)
    number = newest(site.loop).number
    wait_for(page, f"document.getElementById('picture').dataset.frame > {number + 3}")
    for state, told in (("lost", "Object 1 is lost."), ("back", "Object 1 is back.")):
        one = {"number": 1, "state": state, "trail": [], "box": None, "area": 0, "sure": 0}
        site.loop._objects = lambda _, one=one: [one]
        wait_for(page, f"document.getElementById('said').textContent == {told!r}")
        word = {"lost": "lost", "back": "seen"}[state]
        assert page.inner_text("#objects .what") == word


def test_page_is_worked_by_keyboard(page, site):
    shown = hold(page, site)
    show(page, "Boundaries", 100)
    page.focus("#picture")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    wait_for_objects(page, 1)
    ids = shown.segmentation.ids
    np.testing.assert_array_equal(newest(site.loop).scene.mask(1), ids == ids[140, 170])
    page.keyboard.press("+")
    assert float(page.evaluate("document.getElementById('layers').dataset.zoom")) > 1


def test_page_keeps_its_keys_after_a_click_on_a_button(page, site):
    page.click("#snapshot")
    wait_for(page, "document.getElementById('message').textContent.startsWith('Saved')")
    page.keyboard.press(" ")
    wait_for_status(site.loop, lambda status: status.paused)
    assert len(list(site.folder.iterdir())) == 1
    page.locator("#detail").focus()
    page.keyboard.press("r")
    wait_for_status(site.loop, lambda status: status.recording)
    page.focus("#pause")
    page.keyboard.press(" ")  # a button that was reached by Tab is pressed
    wait_for_status(site.loop, lambda status: not status.paused)


def test_page_zooms_and_a_click_hits_what_is_seen(page, site):
    shown = hold(page, site)
    show(page, "Boundaries", 100)
    box = page.locator("#picture").bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + 10)
    for _ in range(8):
        page.mouse.wheel(0, -100)
    wait_for(page, "document.getElementById('layers').dataset.zoom > 3")
    zoom = float(page.evaluate("document.getElementById('layers').dataset.zoom"))
    page.mouse.click(box["x"] + 200, box["y"] + 150)
    wait_for_objects(page, 1)
    x = int((10 + (200 - 10) / zoom) / box["width"] * 320)
    y = int((10 + (150 - 10) / zoom) / box["height"] * 240)
    ids = shown.segmentation.ids
    np.testing.assert_array_equal(newest(site.loop).scene.mask(1), ids == ids[y, x])


def test_page_shows_the_picture_alone_beside_it(page, site):
    hold(page, site)
    page.click("#twin")
    page.wait_for_selector("#plain", state="visible")
    np.testing.assert_array_equal(pixels(page, "plain"), pixels(page, "video"))
    left, right = (page.locator(name).bounding_box() for name in ("#plain-box", "#picture"))
    assert left["x"] + left["width"] <= right["x"]
    page.click("#zoom-in")
    layers, plain = (
        page.locator(n).evaluate("e => e.style.transform") for n in ("#layers", "#plain")
    )
    assert "scale(1.5)" in layers
    assert plain == layers


def test_page_shows_the_last_minute(page, site):
    page.click("#minute-box summary")
    wait_for(page, "document.getElementById('minute-text').textContent.includes('frames/s')")
    assert pixels(page, "minute")[:, :, 3].any()


def test_page_of_a_guest_only_looks(browser, page, site):
    page.click("#share")
    wait_for(page, "!document.getElementById('link').hidden")
    link = page.input_value("#link")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32}", link)
    page.keyboard.press(" ")  # the link takes no keys
    wait_for_state(page, "paused")
    page.keyboard.press(" ")
    with browser.new_context(viewport={"width": 1200, "height": 800}) as context:
        guest = context.new_page()
        guest.set_default_timeout(PATIENCE)
        guest.goto(link)
        wait_for_state(guest, "running")
        for name in ("pause", "record", "snapshot", "share", "save"):
            assert not guest.locator(f"#{name}").is_visible()
        guest.click("#picture", position=place(guest, 160, 120))
        guest.wait_for_selector("#known", state="visible")  # asking is allowed
        assert site.loop.status.objects == []
        page.click("#picture", position=place(page, 160, 120))
        wait_for_objects(guest, 1)  # what others follow is seen
        assert guest.locator("#objects .away").count() == 0


def test_page_takes_less_of_the_line_if_told_so(page, site):
    page.click("#low")
    wait_for(page, "document.getElementById('quality').textContent.includes('Picture: low')")
    large = page.locator("#video").bounding_box()
    hold(page, site)
    assert pixels(page, "video").shape == (120, 160, 4)
    assert page.locator("#video").bounding_box() == large  # shown as large as ever


@pytest.mark.parametrize("view", ["Boundaries", "Objects", "Ids", "Colours"])
def test_page_saves_just_what_is_seen(page, site, view):
    hold(page, site)
    show(page, view, 60)
    page.click("#picture", position=place(page, 100, 100))
    wait_for_objects(page, 1)
    page.click("#forget")
    page.click("#snapshot")
    wait_for(page, "document.getElementById('message').textContent.startsWith('Saved')")
    (path,) = site.folder.iterdir()
    saved = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB).astype(float)
    seen = picture(page).astype(float)
    share = float(page.input_value("#opacity")) / 100
    for name, opacity in (("overlay", share), ("marks", 1.0)):
        layer = pixels(page, name).astype(float)
        alpha = opacity * layer[:, :, 3:] / 255
        seen = (1 - alpha) * seen + alpha * layer[:, :, :3]
    assert np.abs(saved - seen).mean() < 8  # the page's picture is a JPEG


def test_page_that_is_killed_while_it_records_leaves_a_recording_that_goes_on(browser, site):
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(site.server.url)
    wait_for_state(page, "running")
    page.click("#record")
    wait_for_status(site.loop, lambda status: status.recorded > 2)
    session = browser.new_browser_cdp_session()
    target = context.new_cdp_session(page).send("Target.getTargetInfo")["targetInfo"]["targetId"]
    session.send("Target.closeTarget", {"targetId": target})
    wait_until(lambda: site.server.viewers == 0)
    recorded = site.loop.status.recorded
    wait_for_status(site.loop, lambda status: status.recorded > recorded + 3)
    name = site.loop.status.recording
    site.loop.stop_recording()
    assert open_volume(site.folder / name).complete
    watch(site.loop, 1, after=newest(site.loop).number)
    context.close()

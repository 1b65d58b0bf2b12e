"""A region of interest on the live page, in recordings and for what is followed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.cameras import GatedSource, fake_camera
from support.followed import truth_of
from support.live import newest, play, wait_for_phase
from support.pages import PARAMS, TOKEN, Site, hold, pixels, show, wait_for
from support.viewers import unpack

import aaams_stream as aaams
from aaams_stream.core.roi import Roi
from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.server import PreviewServer
from aaams_stream.live.window import Panel
from aaams_stream.live.wire import PICTURES, Encoder, framed
from aaams_stream.source.demo import demo_frame

pytestmark = pytest.mark.usefixtures("compiled")

Y, X = np.mgrid[:240, :320]
DISC = np.hypot(Y - 110, X - 150) < 90


@pytest.fixture
def site(tmp_path):
    """Yield a preview of a disc, frames coming in."""
    folder = tmp_path / "kept"
    camera = GatedSource(fake_camera(320, 240), released=True)
    loop = LiveLoop(camera, PARAMS, fps=0, roi=Roi(DISC))
    with loop, PreviewServer(loop, Commands(loop, folder), token=TOKEN) as server:
        yield Site(camera, loop, server, folder)


@pytest.fixture
def shown():
    """Yield a loop of a disc and its second frame."""
    camera = GatedSource(fake_camera(320, 240))
    with LiveLoop(camera, PARAMS, roi=Roi(DISC)) as loop:
        wait_for_phase(loop, "running")
        yield loop, play(loop, camera, 2)


def test_frame_that_is_sent_has_no_segment_outside(shown):
    _, frame = shown
    _, sizes, data = Encoder().encode(frame, PICTURES[0])
    seen = unpack(framed(sizes) + data, outside=0)
    np.testing.assert_array_equal(seen.ids, frame.segmentation.ids)
    np.testing.assert_array_equal(seen.ids > 0, DISC)


@pytest.mark.parametrize("view", ["boundaries", "colours", "ids", "objects", "motion"])
def test_views_leave_the_picture_outside_as_it_is(shown, view):
    _, frame = shown
    drawn = frame.drawn(view)
    # lines are on the pixel left of or above the border, their halo beside
    far = np.hypot(Y - 110, X - 150) > 93
    if view == "motion":  # arrows may point out of the region
        drawn[far] = frame.frame.rgb[far]
    np.testing.assert_array_equal(drawn[far], frame.frame.rgb[far])
    assert (drawn[DISC] != frame.frame.rgb[DISC]).any() or view == "motion"


def test_window_says_that_nothing_is_there(shown, tmp_path):
    loop, _ = shown
    panel = Panel(loop, Commands(loop, tmp_path))
    panel.click(2, 2)
    assert (panel.selected, panel.message) == (None, "nothing is segmented there")
    assert loop.following.scene.sightings == ()


def test_recording_keeps_the_region(shown, tmp_path):
    loop, _ = shown
    loop.record(tmp_path / "a.zarr")
    loop.stop_recording()
    np.testing.assert_array_equal(aaams.open_volume(tmp_path / "a.zarr").roi, DISC)


def test_page_shows_no_segments_outside_and_follows_nothing_there(page, site):
    hold(page, site)
    show(page, "Colours", 100)
    painted = pixels(page, "overlay")[:, :, 3] > 0
    np.testing.assert_array_equal(painted, DISC)
    box = page.locator("#picture").bounding_box()
    page.click("#picture", position={"x": 3, "y": 3})
    wait_for(page, "document.getElementById('message').textContent.startsWith('Nothing is')")
    assert newest(site.loop).scene is None or not newest(site.loop).scene.sightings
    page.click("#picture", position={"x": box["width"] / 2, "y": box["height"] / 2})
    wait_for(page, "document.querySelectorAll('#objects li').length == 1")


def test_object_is_followed_inside_the_region_alone():
    inside = X < 130  # through the way of the balloon
    segmenter, follower = aaams.Segmenter(roi=inside), aaams.Follower()
    for t in range(12):
        rgb = demo_frame(t).rgb
        frame = dataclasses.replace(segmenter.step(rgb, t / 24), rgb=rgb)
        scene = follower.step(frame)
        if t == 0:
            balloon = follower.begin(truth_of(0))
            assert not (follower.scene.mask(balloon) & ~inside).any()
            with pytest.raises(aaams.ConfigError, match="300,100 lies where nothing is segmented"):
                follower.begin_at([(300, 100)])
            with pytest.raises(aaams.ConfigError, match="lies where nothing is segmented"):
                follower.begin(X > 200)
    mask, truth = scene.mask(balloon), truth_of(11) & inside
    assert not (mask & ~inside).any()
    assert (mask & truth).sum() / (mask | truth).sum() > 0.7

"""Objects that are clicked while a stream runs."""

from __future__ import annotations

import csv
import threading

import cv2
import numpy as np
import pytest
from support.cameras import GatedSource, Slides, fake_camera
from support.live import PARAMS, newest, play, preview, wait_for_phase, wait_until, watch
from support.viewers import Viewer, order

from aaams_stream.live import LiveLoop, following
from aaams_stream.live.commands import Commands, RefusedError
from aaams_stream.objects.follower import Follower, Scene, Sighting

pytestmark = pytest.mark.usefixtures("compiled")


def ball_at(x):
    """Draw a red ball on a green field; with None, the field alone."""
    picture = np.full((96, 128, 3), (40, 120, 60), np.uint8)
    picture[:, 64:] = (60, 100, 140)
    if x is not None:
        cv2.circle(picture, (x, 48), 14, (220, 40, 30), -1)
    return picture


@pytest.fixture
def live():
    camera = GatedSource(Slides([ball_at(x) for x in (*range(30, 90, 2), *range(90, 30, -2))]))
    with LiveLoop(camera, PARAMS, fps=0) as loop:
        wait_for_phase(loop, "running")
        play(loop, camera, 3)
        yield loop, camera


def ball_ids(shown):
    """Return the segments of the ball."""
    red = shown.frame.rgb[:, :, 0] > 150
    found = shown.segmentation.ids
    return [int(one) for one in np.unique(found) if red[found == one].mean() > 0.5]


def overlap(shown, number=1):
    """Return how well an object's mask covers the ball: intersection over union."""
    ball, mask = shown.frame.rgb[:, :, 0] > 150, shown.scene.mask(number)
    return (ball & mask).sum() / (ball | mask).sum()


def test_following_shows_the_mask_at_once_and_goes_with_the_object(live):
    loop, camera = live
    before = newest(loop)
    assert loop.follow(ball_ids(before)) == 1
    shown = newest(loop)
    assert (shown.number, shown.revision) == (before.number, before.revision + 1)
    assert overlap(shown) > 0.9
    for _ in range(12):
        shown = play(loop, camera, 1)
        assert shown.scene.state(1) != "lost"
        assert overlap(shown) > 0.7
    (one,) = loop.status.objects
    assert one["number"] == 1
    xs = [x for x, _ in one["trail"]]
    assert len(xs) == 12
    assert xs[-1] - xs[0] == pytest.approx(22, abs=5)
    loop.let_go(1)
    assert loop.status.objects == []
    assert not newest(loop).scene.labels.any()


def test_following_forgets_the_way_of_what_is_lost(live, monkeypatch):
    loop, camera = live
    loop.follow(ball_ids(newest(loop)))
    for _ in range(5):
        shown = play(loop, camera, 1)
    lost = Sighting(1, "lost", 0.0, 0, None)
    scene = Scene(0, 0.0, np.zeros_like(shown.scene.labels), (lost,))
    monkeypatch.setattr(Follower, "step", lambda *_: scene)
    left = []
    for _ in range(6):
        play(loop, camera, 1)
        left.append(len(loop.status.objects[0]["trail"]))
    assert left == [4, 3, 2, 1, 0, 0]


def test_following_works_in_a_pause(live):
    loop, _ = live
    loop.pause()
    loop.follow(ball_ids(newest(loop)))
    assert overlap(newest(loop)) > 0.9


def test_following_is_corrected_by_further_clicks(live):
    loop, _ = live
    shown = newest(loop)
    loop.follow(ball_ids(shown))
    field = int(shown.segmentation.ids[90, 120])
    loop.correct(1, [field], inside=True)
    assert newest(loop).scene.mask(1)[90, 120]
    loop.correct(1, [field], inside=False)
    assert not newest(loop).scene.mask(1)[90, 120]
    assert overlap(newest(loop)) > 0.8


def test_following_refuses_what_cannot_be(live, tmp_path, monkeypatch):
    loop, _ = live
    run = Commands(loop, tmp_path).run
    ids = ball_ids(newest(loop))
    for command, told in (
        ({"do": "follow"}, "ids must be a list"),
        ({"do": "follow", "ids": []}, "ids must be a list"),
        ({"do": "follow", "ids": [1.5]}, "ids must be a whole number"),
        ({"do": "follow", "ids": ["1"]}, "ids must be a whole number"),
        ({"do": "follow", "ids": [10**12]}, "ids must be a whole number"),
        ({"do": "follow", "ids": [4_000_000]}, "is gone, or is followed already"),
        ({"do": "correct", "number": 9, "ids": ids}, "no object has the number 9"),
        ({"do": "correct", "number": 9, "ids": ids, "inside": 1}, "true or false"),
        ({"do": "let go", "number": 9}, "no object has the number 9"),
        ({"do": "save"}, "nothing is followed"),
    ):
        with pytest.raises(RefusedError, match=told):
            run(command)
    assert run({"do": "follow", "ids": ids}) == {"object": 1}
    with pytest.raises(RefusedError, match="followed already"):
        run({"do": "follow", "ids": ids})
    monkeypatch.setattr("aaams_stream.live.following.MOST_OBJECTS", 1)
    other = int(newest(loop).segmentation.ids[90, 120])
    with pytest.raises(RefusedError, match="1 objects are followed already"):
        run({"do": "follow", "ids": [other]})


def test_following_goes_on_however_many_objects_there_have_been(live):
    loop, camera = live
    ids = ball_ids(newest(loop))
    for _ in range(300):
        number = loop.follow(ids)
        loop.let_go(number)
    assert loop.follow(ids) == 1 + 300 % following._MANY
    play(loop, camera, 1)
    assert overlap(newest(loop), 1 + 300 % following._MANY) > 0.9


def test_following_that_has_no_number_left_says_what_to_do(live, monkeypatch):
    loop, _ = live
    monkeypatch.setattr(following, "LAST_NUMBER", 1)
    monkeypatch.setattr(following, "_MANY", 1)
    ids = np.unique(newest(loop).segmentation.ids)
    assert loop.follow([int(ids[0])]) == 1
    with pytest.raises(ValueError, match="let go of all objects"):
        loop.follow([int(ids[-1])])
    loop.let_go(1)
    assert loop.follow([int(ids[-1])]) == 1


def test_following_is_for_all_viewers_to_see_and_can_be_saved(tmp_path):
    camera = GatedSource(Slides([ball_at(x) for x in range(30, 90, 2)]))
    with (
        preview(tmp_path, camera) as (loop, server),
        Viewer(server.url) as one,
        Viewer(server.url) as other,
    ):
        play(loop, camera, 3)
        ids = ball_ids(newest(loop))
        assert order(server.url, {"do": "follow", "ids": ids}) == {"object": 1}
        for viewer in (one, other):
            while not (seen := viewer.see_frame()).head["followed"]:
                pass
            assert seen.head["followed"] == [[1, "seen"]]
            np.testing.assert_array_equal(seen.objects, newest(loop).scene.labels)
        shown = [newest(loop), *(play(loop, camera, 1) for _ in range(4))]
        folder = tmp_path / order(server.url, {"do": "save"})["saved"]
    rows = list(csv.DictReader((folder / "objects.csv").read_text().splitlines()))
    assert [int(row["frame"]) for row in rows] == [one.segmentation.index for one in shown]
    for row, frame in zip(rows, shown, strict=True):
        mask = cv2.imread(str(folder / f"{int(row['frame']):06d}.png"), cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(mask, frame.scene.labels)
        assert int(row["area"]) == (mask == 1).sum()
        assert row["state"] == "seen"


def test_click_while_following_is_being_compiled_is_refused_with_a_word(monkeypatch):
    ready = threading.Event()
    monkeypatch.setattr("aaams_stream.live.loop.warm_following", ready.wait)
    monkeypatch.setattr("aaams_stream.live.loop._GETTING_READY", 0.0)
    camera = GatedSource(fake_camera())
    with LiveLoop(camera, PARAMS) as loop:
        try:
            camera.send()
            (shown,) = watch(loop, 1)
            ids = [int(shown.segmentation.ids[0, 0])]
            with pytest.raises(ValueError, match="being compiled, once; try again"):
                loop.follow(ids)
        finally:
            ready.set()
        wait_until(loop._warmed.is_set)
        assert loop.follow(ids) == 1

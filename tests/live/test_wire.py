"""Messages of the stream: what they say, and that they are made once."""

from __future__ import annotations

import dataclasses
import json
import zlib

import cv2
import hypothesis.extra.numpy as stnp
import hypothesis.strategies as st
import numpy as np
import pytest
import skimage.color
from hypothesis import given
from support.cameras import GatedSource, fake_camera
from support.live import PARAMS, watch
from support.viewers import decode_labels, unpack

from aaams_stream.live import LiveLoop
from aaams_stream.live.wire import PICTURES, Encoder, Messages, code_labels, framed
from aaams_stream.model import SEGMENT_DTYPE
from aaams_stream.objects.follower import Scene, Sighting

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def stream(compiled):
    """Yield a loop that has published one frame, and the frame."""
    camera = GatedSource(fake_camera())
    with LiveLoop(camera, PARAMS) as loop:
        camera.send()
        (shown,) = watch(loop, 1)
        yield loop, shown


def sent(shown, picture=PICTURES[0]):
    _, sizes, data = Encoder().encode(shown, picture)
    return unpack(framed(sizes) + data)


def test_frame_that_is_sent_is_what_was_segmented(stream):
    _, shown = stream
    seen = sent(shown)
    np.testing.assert_array_equal(seen.ids, shown.segmentation.ids)
    np.testing.assert_array_equal(seen.merges, shown.merges)
    assert len(shown.merges) == len(shown.segmentation.segments) - 1
    assert np.abs(seen.rgb.astype(int) - shown.frame.rgb).mean() < 12
    means = 255 * skimage.color.lab2rgb(shown.segmentation.segments["colour"])
    np.testing.assert_allclose(seen.colours, means, atol=2)


def test_frame_that_is_sent_has_the_objects_that_are_followed(stream):
    _, shown = stream
    labels = np.zeros(shown.segmentation.ids.shape, np.uint8)
    labels[20:50, 30:60], labels[60:, 100:] = 3, 7
    sightings = [Sighting(3, "seen", 1.0, 900, None), Sighting(5, "lost", 0.0, 0, None)]
    scene = Scene(0, 0.0, labels, (*sightings, Sighting(7, "back", 1.0, 99, None)))
    seen = sent(dataclasses.replace(shown, scene=scene, revision=1))
    assert seen.head["followed"] == [[3, "seen"], [5, "lost"], [7, "back"]]
    np.testing.assert_array_equal(np.array([0, 3, 5, 7])[seen.objects], labels)


@pytest.mark.parametrize("picture", PICTURES)
def test_frame_that_is_sent_keeps_within_its_room_and_loses_no_label(stream, picture):
    """Of a picture that is nothing but noise, too, once its quality is found."""
    _, shown = stream
    rgb = np.random.default_rng(0).integers(0, 255, (480, 640, 3), np.uint8)
    rgb = cv2.GaussianBlur(rgb, (5, 5), 0)
    ids = np.repeat(np.repeat(np.arange(1, 301, dtype=np.uint32).reshape(15, 20), 32, 0), 32, 1)
    found = dataclasses.replace(shown.segmentation, ids=ids, segments=rows_for(ids))
    encoder = Encoder()
    for number in range(1, 9):
        frame = dataclasses.replace(shown.frame, rgb=rgb)
        one = dataclasses.replace(shown, number=number, frame=frame, segmentation=found)
        _, sizes, data = encoder.encode(one, picture)
    assert len(data) <= picture.room * 640 * 480
    seen = unpack(framed(sizes) + data)
    np.testing.assert_array_equal(seen.ids, ids)
    assert seen.rgb.shape[0] <= 480 * picture.scale


def rows_for(ids):
    segments = np.zeros(ids.max(), SEGMENT_DTYPE)
    segments["id"] = np.arange(1, len(segments) + 1)
    return segments


@given(
    labels=stnp.arrays(np.uint32, st.tuples(st.integers(1, 9), st.integers(1, 40)),
                       elements=st.integers(0, 3)),
    times=st.integers(1, 3),
)  # fmt: skip
def test_label_map_comes_back_as_it_was(labels, times):
    labels = labels.repeat(times, axis=0).repeat(times, axis=1)
    names = np.array([0, 1, 2, 3], np.uint32)
    np.testing.assert_array_equal(decode_labels(*code_labels(labels, names), labels.shape), labels)


def test_label_map_of_the_same_lines_takes_next_to_nothing():
    labels = np.tile(np.arange(64, dtype=np.uint32).repeat(10), (480, 1))
    codes, values = code_labels(labels, np.arange(64, dtype=np.uint32))
    assert len(zlib.compress(codes + values, 1)) < 600


def test_frame_is_encoded_once_for_all(stream):
    _, shown = stream
    encoder = Encoder()
    once = encoder.encode(shown, PICTURES[0])
    assert encoder.encode(shown, PICTURES[0]) is once
    other = dataclasses.replace(shown, number=shown.number + 1)
    assert encoder.encode(other, PICTURES[0]) is not once


def test_messages_tell_how_it_is_going(stream):
    loop, shown = stream
    messages = Messages(loop, "slides")
    heads, body = messages.message(shown)
    head = json.loads(framed(*heads, '{"viewers": 2}')[4:])
    assert (head["number"], head["source"], head["viewers"]) == (shown.number, "slides", 2)
    assert body
    heads, body = messages.message(None)  # for who has seen the frame
    head = json.loads(framed(*heads)[4:])
    assert body == b""
    assert "number" not in head
    assert head["phase"] == "running"

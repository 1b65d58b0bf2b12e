"""Messages of the stream: what they say, and that they are made once."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import skimage.color
from support.cameras import GatedSource, fake_camera
from support.live import PARAMS, watch
from support.viewers import unpack

from aaams_stream.live import LiveLoop
from aaams_stream.live.wire import Encoder, Messages, encode_frame, with_latency

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def stream(compiled):
    """Yield a loop that has published one frame, and the frame."""
    camera = GatedSource(fake_camera())
    with LiveLoop(camera, PARAMS) as loop:
        camera.send()
        (shown,) = watch(loop, 1)
        yield loop, shown


def test_frame_that_is_sent_is_what_was_segmented(stream):
    _, shown = stream
    sizes, data = encode_frame(shown)
    head = json.dumps(sizes | {"number": 1}).encode()
    seen = unpack(with_latency(head, 0.5) + data)
    assert seen.head["glass"] == 0.5
    np.testing.assert_array_equal(seen.ids, shown.segmentation.ids)
    np.testing.assert_allclose(seen.centroids, shown.segmentation.segments["centroid"])
    np.testing.assert_array_equal(seen.merges, shown.merges)
    assert len(shown.merges) == len(shown.segmentation.segments) - 1
    assert np.abs(seen.rgb.astype(int) - shown.frame.rgb).mean() < 12
    means = 255 * skimage.color.lab2rgb(shown.segmentation.segments["colour"])
    np.testing.assert_allclose(seen.colours[:, :3], means, atol=2)
    assert (seen.colours[:, 3] == 255).all()


def test_frame_is_encoded_once_for_all(stream):
    _, shown = stream
    encoder = Encoder()
    first = encoder.encode(shown)
    assert encoder.encode(shown) is first
    assert encoder.encode(dataclasses.replace(shown, number=shown.number + 1)) is not first


def test_messages_are_the_same_bytes_for_all_viewers(stream):
    loop, shown = stream
    messages = Messages(loop, "slides")
    version = loop.wait(0, 0)[0]
    text, picture = messages.frame_message(version, shown, viewers=2)
    again = messages.frame_message(version, shown, viewers=2)
    assert again.head is text
    assert again.picture is picture
    head = json.loads(text)
    assert (head["number"], head["source"], head["viewers"]) == (shown.number, "slides", 2)
    alone, nothing = messages.frame_message(version, None, viewers=2)  # for who has seen the frame
    assert nothing == b""
    assert "number" not in json.loads(alone)

"""The generated clip."""

from __future__ import annotations

import numpy as np
import pytest
from support.clips import read_source

from aaams_stream import Segmenter, segment_image
from aaams_stream.source import demo


def test_demo_is_the_same_every_time():
    frames, opened = read_source("demo", every=40)
    assert (opened.width, opened.height) == (demo.WIDTH, demo.HEIGHT)
    assert opened.frame_estimate == len(frames) == 3
    np.testing.assert_array_equal(frames[1].rgb, demo.demo_frame(40).rgb)
    shown = set().union(*(np.unique(demo.demo_frame(n).truth) for n in range(0, 96, 8)))
    assert shown == set(range(len(demo.SURFACES)))


def test_demo_shows_every_surface_on_its_poster():
    seen = np.bincount(demo.demo_frame(demo.POSTER).truth.ravel(), minlength=len(demo.SURFACES))
    assert seen.min() > 500


def test_demo_poster_falls_into_its_things():
    poster = demo.demo_frame(demo.POSTER)
    labels = segment_image(poster.rgb).labels
    found = [
        np.bincount(labels[poster.truth == surface]).argmax()
        for surface in range(len(demo.SURFACES))
    ]
    assert len(set(found)) == len(found)


@pytest.fixture(scope="module")
def segmented():
    segmenter = Segmenter()
    return [segmenter.step(demo.demo_frame(index).rgb).ids for index in range(demo.FRAME_COUNT)]


def test_demo_things_keep_one_id_while_they_are_seen_and_when_they_return(segmented):
    kept = demo.kept_things(enumerate(segmented))
    assert kept == dict.fromkeys(demo.SURFACES, True)


def test_demo_sun_stays_in_one_piece_and_the_sky_is_not_cut_up(segmented):
    for name, least in (("sun", 0.85), ("sky", 0.5), ("house", 0.75)):
        for index, ids in enumerate(segmented):
            thing = ids[demo.demo_frame(index).truth == demo.SURFACES.index(name)]
            assert np.bincount(thing).max() >= least * thing.size, (name, index)


def test_kept_things_notices_ids_that_change_hands():
    truths = [demo.demo_frame(index).truth.astype(np.uint32) + 1 for index in range(60, 66)]
    frames = list(enumerate(truths, start=60))
    assert all(demo.kept_things(frames).values())
    sun, sky = demo.SURFACES.index("sun") + 1, demo.SURFACES.index("sky") + 1
    frames[3][1][frames[3][1] == sun] = sky
    kept = demo.kept_things(frames)
    assert [name for name, same in kept.items() if not same] == ["sun"]
    assert not demo.kept_things([])


def test_kept_things_takes_frames_of_another_size_and_leaves_out_what_is_not_seen():
    small = [(index, demo.demo_frame(index).truth[::2, ::2] + 1) for index in range(3)]
    kept = demo.kept_things(small)
    assert "boat" not in kept
    assert all(kept.values())

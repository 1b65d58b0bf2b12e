"""The generated clip."""

from __future__ import annotations

import numpy as np
from support.clips import read_source

from aaams_stream import segment_image
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

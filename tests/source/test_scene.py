"""The scene that `demo` stands for."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream import segment_image
from aaams_stream.source.scene import draw_scene


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (24, 36), (50, 31)])
def test_a_scene_of_any_size_can_be_drawn(shape):
    rgb = draw_scene(*shape)
    assert rgb.shape == (*shape, 3)
    assert rgb.dtype == np.uint8


def test_the_same_seed_draws_the_same_scene():
    np.testing.assert_array_equal(draw_scene(20, 30), draw_scene(20, 30))
    assert (draw_scene(20, 30, seed=1) != draw_scene(20, 30)).any()


def test_the_scene_has_sun_tree_house_and_lake_apart():
    labels = segment_image(draw_scene(160, 240)).labels
    places = {"sun": (43, 172), "tree": (80, 197), "wall": (115, 56), "lake": (100, 110)}
    assert len({int(labels[place]) for place in places.values()}) == len(places)

"""Segments over their picture."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream.cli import video
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.draw.views import (
    LIVE_VIEWS,
    VIEWS,
    boundaries,
    draw_boundaries,
    draw_view,
    group_colours,
    id_colours,
    mean_colours,
)
from aaams_stream.source.demo import demo_frame


@pytest.fixture
def scene():
    """Two segments, left and right, and a noisy picture."""
    ids = np.full((10, 16), 7, dtype=np.uint32)
    ids[:, 9:] = 12
    rgb = np.random.default_rng(0).integers(0, 256, (10, 16, 3), dtype=np.uint8)
    return rgb, ids


@pytest.fixture(scope="module")
def moving():
    """Segment two frames in which things move; return the second picture and its segments."""
    segmenter = Segmenter(segments=12)
    for index in (40, 42):
        rgb = demo_frame(index).rgb[::2, ::2].copy()
        segmentation = segmenter.step(rgb)
    return rgb, segmentation


def test_boundaries_lie_between_segments(scene):
    rgb, ids = scene
    edge = boundaries(ids)
    assert edge[:, 8].all()
    assert edge.sum() == 10
    drawn = draw_view(rgb, ids, "boundaries")
    np.testing.assert_array_equal(drawn[~edge], rgb[~edge])
    assert (drawn[edge] != rgb[edge]).any(axis=1).all()


def test_boundaries_are_one_pixel_wide_and_the_rest_is_untouched(scene):
    rgb, ids = scene
    drawn = draw_boundaries(rgb, ids)
    changed = (drawn != rgb).any(axis=2)
    assert changed[:, 8].all()
    assert changed.sum() == 10
    deep = draw_boundaries(rgb.astype(np.uint16) * 257, ids)
    np.testing.assert_array_equal(deep, drawn)


def test_boundaries_have_one_colour_in_images_films_and_snapshots(scene):
    rgb, ids = scene
    drawn = draw_boundaries(rgb, ids)
    assert len(np.unique(drawn[boundaries(ids)], axis=0)) == 1
    np.testing.assert_array_equal(draw_view(rgb, ids), drawn)
    np.testing.assert_array_equal(draw_view(rgb, ids, opacity=1.0), drawn)


def test_mean_colours_are_those_of_the_segments(scene):
    rgb, ids = scene
    drawn = draw_view(rgb, ids, "colours")
    for segment in (7, 12):
        mean = np.rint(rgb[ids == segment].mean(axis=0))
        assert (drawn[ids == segment] == mean).all()
    far = np.where(ids == 7, np.uint32(1), np.uint32(2**32 - 1))
    np.testing.assert_array_equal(mean_colours(rgb, far), drawn)


def test_id_colours_stay_with_their_ids(scene):
    _, ids = scene
    colours = id_colours(ids)
    np.testing.assert_array_equal(colours[0, 0], id_colours(ids[:, ::-1])[0, -1])
    many = id_colours(np.arange(1, 2000, dtype=np.uint32)[None])[0]
    assert len(np.unique(many, axis=0)) == 1999


def test_draw_view_leaves_its_input_alone(scene):
    rgb, ids = scene
    before = rgb.copy()
    for view in VIEWS:
        assert draw_view(rgb, ids, view).shape == rgb.shape
    np.testing.assert_array_equal(rgb, before)
    with pytest.raises(ValueError, match="boundaries, colours, ids"):
        draw_view(rgb, ids, "edges")


@pytest.mark.parametrize("view", LIVE_VIEWS)
def test_draw_view_lays_a_view_over_the_picture(moving, view):
    rgb, seen = moving

    def drawn(opacity):
        return draw_view(rgb, seen.ids, view, opacity=opacity, segments=seen.segments)

    np.testing.assert_array_equal(drawn(0.0), rgb)
    full, half = drawn(1.0).astype(int), drawn(0.5).astype(int)
    assert (full != rgb).any()
    assert np.abs(half - (full + rgb) / 2).max() <= 1


def test_objects_are_tinted_with_faint_lines_between_their_parts():
    rgb = np.full((10, 16, 3), 90, np.uint8)
    fine = np.repeat([[7] * 5 + [8] * 4 + [12] * 7], 10, axis=0).astype(np.uint32)
    groups = np.where(fine == 8, 7, fine).astype(np.uint32)
    drawn = draw_view(rgb, groups, "objects", fine=fine).astype(int)
    assert (drawn[:, 8] == 255).all()  # between groups
    inside = drawn[:, 3]
    assert (drawn[:, :4] == inside[0]).all()
    assert (drawn[:, 5:8] == inside[0]).all()  # another part of the same group
    faint = drawn[0, 4] - inside[0]
    assert (faint > 0).all()
    assert (drawn[0, 4] < 255).all()
    assert (drawn[0, 12] != inside[0]).any()
    plain = draw_view(rgb, groups, "objects")
    assert (plain[:, 4] == inside).all()


def test_colours_of_groups_are_neither_dark_nor_grey():
    colours = group_colours(np.arange(1, 500, dtype=np.uint32)[None])[0].astype(int)
    assert (colours.max(axis=1) >= 180).all()
    assert (np.ptp(colours, axis=1) >= 80).all()
    assert len(np.unique(colours, axis=0)) > 200


def test_views_are_those_the_command_offers():
    assert video.VIEWS == VIEWS

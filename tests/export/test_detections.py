"""Frames as detections, asked through supervision itself."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import supervision
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from supervision.detection.compact_mask import CompactMask

from aaams_stream import Segmenter
from aaams_stream.export import as_detections
from aaams_stream.export.detections import _runs
from aaams_stream.source.demo import demo_frame


def ids_of(detections):
    """Paint the masks of detections, each with its id."""
    masks = np.asarray(detections.mask)
    assert (masks.sum(axis=0) <= 1).all()
    return np.tensordot(detections.tracker_id, masks, axes=1)


@pytest.mark.parametrize("t", [0, 5, -1])
def test_detections_of_a_volume_have_its_masks_boxes_and_columns(volume, t):
    detections = as_detections(volume, t)
    rows = volume.segments(t)
    assert isinstance(detections.mask, CompactMask)
    np.testing.assert_array_equal(ids_of(detections), volume.ids[t])
    np.testing.assert_array_equal(detections.area, rows["area"])  # counted from the masks
    boxes = supervision.mask_to_xyxy(np.asarray(detections.mask))
    np.testing.assert_array_equal(detections.xyxy, boxes)
    for name in ("area", "centroid", "motion"):
        np.testing.assert_array_equal(detections.data[name], rows[name])
    assert set(detections.data["class_name"]) == {"supervoxel"}
    assert detections.metadata["frame"] == t % volume.frame_count
    assert detections.metadata["time"] == volume.times[t]


def test_detections_of_a_view_leave_out_what_it_does_not_show(volume):
    only = volume.only(volume.objects(2))
    detections = as_detections(only, 3)
    np.testing.assert_array_equal(ids_of(detections), only.ids[3])
    assert set(detections.data["class_name"]) == {"object"}


def test_detections_of_a_frame_as_it_comes():
    frame = Segmenter(segments=30).step(demo_frame(0).rgb[::4, ::4].copy(), 1.5)
    detections = as_detections(frame)
    np.testing.assert_array_equal(ids_of(detections), frame.ids)
    assert detections.metadata == {"frame": 0, "time": 1.5}
    with pytest.raises(ValueError, match="a frame is one by itself"):
        as_detections(frame, 0)


def test_detections_can_be_filtered_merged_and_drawn(volume):
    detections = as_detections(volume, 2)
    large = detections[detections.area > 200]
    assert 0 < len(large) < len(detections)
    assert set(np.unique(ids_of(large))) - {0} == set(large.tracker_id)
    again = supervision.Detections.merge([large, detections[detections.area <= 200]])
    np.testing.assert_array_equal(ids_of(again), volume.ids[2])
    picture = volume.video[2]
    annotator = supervision.MaskAnnotator(color_lookup=supervision.ColorLookup.TRACK)
    drawn = annotator.annotate(picture.copy(), large)
    changed = (drawn != picture).any(axis=-1)
    assert changed.any()
    assert not changed[ids_of(large) == 0].any()


def test_detections_of_a_frame_without_segments_are_none(volume):
    nothing = dataclasses.replace(
        Segmenter().step(demo_frame(0).rgb[::8, ::8].copy()),
        ids=np.zeros((6, 8), np.uint32),
        segments=volume.segments(0)[:0],
    )
    assert len(as_detections(nothing)) == 0


def test_detections_of_a_volume_need_a_frame(volume):
    with pytest.raises(ValueError, match=r"as_detections\(volume, t\)"):
        as_detections(volume)


@given(
    hnp.arrays(
        np.int32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=40), elements=st.integers(0, 2)
    )
)
def test_runs_are_those_of_supervision(labels):
    present = [label for label in range(3) if (labels == label).any()]
    dense = np.searchsorted(present, labels).astype(np.int32)
    masks = np.stack([dense == row for row in range(len(present))])
    boxes = supervision.mask_to_xyxy(masks).astype(np.int32)
    theirs = CompactMask.from_dense(masks, boxes.astype(np.float32), image_shape=labels.shape)
    ours = _runs(dense, boxes + np.array([0, 0, 1, 1], np.int32))
    for mine, expected in zip(ours, theirs._rles, strict=True):
        np.testing.assert_array_equal(mine, expected)

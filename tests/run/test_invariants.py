"""Whole runs on drawn clips, against a second opinion that computes from pixels alone."""

from __future__ import annotations

import shutil

import cv2
import numpy as np
import pytest
import zarr
from support.clips import moving_frames, write_clip
from support.invariants import violations

from aaams_stream import segment_video
from aaams_stream.source.demo import demo_frame


@pytest.fixture(autouse=True)
def _tiny_segmenter():
    """In these tests the real one runs."""


def drawn(kind):
    if kind == "demo":
        return [demo_frame(2 * t).rgb[::2, ::2] for t in range(20)]
    if kind == "moving":
        return moving_frames(19)
    first = [demo_frame(t).rgb[::3, ::3] for t in range(9)]
    rng = np.random.default_rng(5)
    tiles = rng.integers(0, 256, (5, 4, 3), np.uint8)
    h, w = first[0].shape[:2]
    other = cv2.resize(tiles, (w, h), interpolation=cv2.INTER_NEAREST)
    return [*first, *(np.roll(other, 2 * t, axis=1) for t in range(10))]


def region(kind, h, w):
    y, x = np.mgrid[:h, :w]
    if kind == "islands":
        return (np.hypot(y - 0.3 * h, x - 0.2 * w) < 0.25 * h) | (x > 0.6 * w + 0.2 * y)
    return np.random.default_rng(1).random((h, w)) < 0.4


@pytest.fixture(scope="module")
def volumes(tmp_path_factory):
    """Return a maker of volumes of drawn clips; each is made once."""
    folder = tmp_path_factory.mktemp("drawn")

    def make(kind, scale, roi=None):
        path = folder / f"{kind}-{scale}-{roi}.zarr"
        if not path.exists():
            frames = drawn(kind)
            clip = write_clip(folder / f"{kind}.mkv", frames)
            settings = folder / f"{scale}.toml"
            settings.write_text(f"[stream]\nscale = {scale}\nsegments = 40\n")
            mask = None if roi is None else region(roi, *frames[0].shape[:2])
            segment_video(clip, path, settings, with_video=True, roi=mask)
        return path

    return make


@pytest.mark.parametrize("scale", [0.5, 0.75, 1.0])
@pytest.mark.parametrize("kind", ["demo", "moving", "cut"])
def test_a_volume_says_what_its_pixels_show(volumes, kind, scale):
    assert violations(volumes(kind, scale)) == []


@pytest.mark.parametrize("scale", [0.5, 1.0])
@pytest.mark.parametrize("kind", ["demo", "cut"])
@pytest.mark.parametrize("roi", ["islands", "grains"])
def test_a_volume_of_a_region_says_what_its_pixels_show(volumes, kind, scale, roi):
    assert violations(volumes(kind, scale, roi)) == []


CHANGES = [
    ("segments/area", "segments"),
    ("segments/bbox", "bbox"),
    ("segments/centroid", "centroid"),
    ("segments/colour", "colour"),
    ("segments/perimeter", "perimeter"),
    ("segments/frame", "segments: frames"),
    ("segments/offsets", "segments"),
    ("adjacency/length", "adjacency"),
    ("adjacency/contrast", "adjacency"),
    ("events/kind", "events"),
    ("tracks/volume", "tracks"),
    ("tracks/path", "tracks"),
    ("hierarchy/absorbed", "hierarchy"),
    ("labels/ids/0", "segments"),
    ("time", "times"),
]


@pytest.mark.parametrize(("node", "named"), CHANGES)
def test_the_second_opinion_notices_a_change(volumes, tmp_path, node, named):
    path = shutil.copytree(volumes("moving", 1.0), tmp_path / "a.zarr")
    array = zarr.open_array(str(path / node), mode="r+")
    values = array[:]
    values[2 % len(values)] += 5
    array[:] = values
    assert any(named in wrong for wrong in violations(path))
